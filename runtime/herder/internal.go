package herder

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"hash"
	"net/url"
	"strings"

	"millrace/runtime"
)

// signatures are the algorithms that are taken from other workers.
var signatures = map[string]func() hash.Hash{"HmacSHA256": sha256.New}

// Sign proves to the other workers of the group that what is sent comes from one of them. Under the protocols before sessioned there is
// nothing to prove it with, and nobody asks.
func (h *Herder) Sign(body []byte) (runtime.Signature, error) {
	if h.cfg.Worker.Protocol != protoSessioned {
		return runtime.Signature{}, nil
	}
	const algorithm = "HmacSHA256"
	secret, err := h.sessionKey()
	if err != nil {
		return runtime.Signature{}, err
	}
	mac := hmac.New(signatures[algorithm], secret)
	mac.Write(body)
	return runtime.Signature{Algorithm: algorithm, MAC: mac.Sum(nil)}, nil
}

// sessionKey is what requests between workers are signed with now.
func (h *Herder) sessionKey() ([]byte, error) {
	k := h.configs.Now().SessionKey
	if k == nil {
		return nil, &runtime.UnavailableError{Msg: "This worker is still starting up and has not been able to read a session key from the config topic yet"}
	}
	secret, err := base64.StdEncoding.DecodeString(k.Key)
	if err != nil {
		return nil, &runtime.UnavailableError{Msg: "The session key in the config topic cannot be read; the leader makes a new one after inter.worker.key.ttl.ms"}
	}
	return secret, nil
}

// VerifyWorker is Verify for what nobody but a worker of the group may know: without a key nobody is one.
func (h *Herder) VerifyWorker(body []byte, s runtime.Signature) error {
	if h.cfg.Worker.Protocol != protoSessioned {
		return &runtime.ForbiddenError{Msg: "Workers cannot prove who they are with connect.protocol=" + h.cfg.Worker.Protocol + ": set it to sessioned"}
	}
	return h.Verify(body, s)
}

// WorkerURL is the address of the API of another worker, as statuses call it: all of a group speak HTTPS, or none.
func (h *Herder) WorkerURL(workerID string) (string, error) {
	scheme, _, _ := strings.Cut(h.url, "://")
	u := &url.URL{Scheme: scheme, Host: workerID, Path: "/"}
	if again, err := url.Parse(u.String()); err != nil || again.Host != workerID || again.User != nil || workerID == "" {
		return "", fmt.Errorf("%.100q is no worker's address", workerID)
	}
	return u.String(), nil
}

// Verify refuses a request between workers that no worker of the group has signed.
// Under the protocols before sessioned there is no key, and nothing is asked.
func (h *Herder) Verify(body []byte, s runtime.Signature) error {
	if h.cfg.Worker.Protocol != protoSessioned {
		return nil
	}
	if len(s.MAC) == 0 || s.Algorithm == "" {
		return runtime.BadRequest("Internal request missing required signature")
	}
	algorithm, ok := signatures[s.Algorithm]
	if !ok {
		return runtime.BadRequest("This worker does not support the '%s' key signing algorithm used by other workers; it takes HmacSHA256: set inter.worker.key.generation.algorithm and inter.worker.signature.algorithm to it on every worker", s.Algorithm)
	}
	secret, err := h.sessionKey()
	if err != nil {
		return err
	}
	mac := hmac.New(algorithm, secret)
	mac.Write(body)
	if !hmac.Equal(mac.Sum(nil), s.MAC) {
		return &runtime.ForbiddenError{Msg: "Internal request contained invalid signature."}
	}
	return nil
}

// Fence answers a worker that asks for a round of zombie fencing before it starts a
// connector's tasks.
func (h *Herder) Fence(ctx context.Context, name string, body []byte, s runtime.Signature) error {
	if err := h.Verify(body, s); err != nil {
		return err
	}
	if err := h.mustLead(ctx); err != nil {
		return err
	}
	if _, err := h.connector(name); err != nil {
		return err
	}
	if !h.cfg.Worker.ExactlyOnceSources() {
		return runtime.BadRequest("exactly-once delivery is not enabled on this worker, which leads the group: set exactly.once.source.support alike on all workers")
	}
	return h.fenceNow(ctx, name)
}
