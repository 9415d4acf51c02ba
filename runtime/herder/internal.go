package herder

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"hash"

	"millrace/runtime"
)

// signatures are the algorithms that are taken from other workers.
var signatures = map[string]func() hash.Hash{"HmacSHA256": sha256.New}

// verify refuses a request between workers that no worker of the group has signed.
// Under the protocols before sessioned there is no key, and nothing is asked.
func (h *Herder) verify(body []byte, s runtime.Signature) error {
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
	k := h.configs.Now().SessionKey
	if k == nil {
		return &runtime.UnavailableError{Msg: "This worker is still starting up and has not been able to read a session key from the config topic yet"}
	}
	secret, err := base64.StdEncoding.DecodeString(k.Key)
	if err != nil {
		return &runtime.UnavailableError{Msg: "The session key in the config topic cannot be read; the leader makes a new one within the hour"}
	}
	mac := hmac.New(algorithm, secret)
	mac.Write(body)
	if !hmac.Equal(mac.Sum(nil), s.MAC) {
		return &runtime.ForbiddenError{Msg: "Internal request contained invalid signature."}
	}
	return nil
}

// PutTasks stores the task configurations that another worker, which runs the
// connector, has planned. body is the request's, which the signature is of.
func (h *Herder) PutTasks(ctx context.Context, name string, tasks []map[string]string, body []byte, s runtime.Signature) error {
	if err := h.verify(body, s); err != nil {
		return err
	}
	if err := h.mustLead(ctx); err != nil {
		return err
	}
	release, err := h.lockConfigs(ctx)
	if err != nil {
		return err
	}
	defer release()
	c, err := h.connector(name)
	if err != nil {
		return err
	}
	if c.Target == runtime.StoppedTarget {
		return runtime.Conflict("connector %s was stopped meanwhile", name)
	}
	return h.configs.PutTasks(ctx, name, tasks)
}

// Fence answers a worker that asks for a round of zombie fencing before it starts a
// connector's tasks.
func (h *Herder) Fence(ctx context.Context, name string, body []byte, s runtime.Signature) error {
	if err := h.verify(body, s); err != nil {
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
