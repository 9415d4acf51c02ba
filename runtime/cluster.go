package runtime

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"millrace/connectors"
	"millrace/schema/config"
	"millrace/schema/config/javatls"
	"millrace/schema/config/signin"
)

// The worker's own identity at the cluster of bootstrap.servers. All clients of this process use it but those that have one of their own (identity.go).
var (
	clusterTLS = javatls.Below("ssl.")
	clusterDef = config.Define(securityProtocol, saslMechanism, saslJaas, oauthURL, oauthClient, oauthSecret, oauthScope, loginHandler, clientHandler, loginClass, tokenSource).
			Merge(clusterTLS.Client()).Ignoring(unusedIdentity())
)

// unusedIdentity are Java's identity settings without a meaning here, with the reasons. Those of TLS come with TLS.
func unusedIdentity() map[string]string {
	out := map[string]string{}
	for _, s := range identityUnused {
		if !strings.HasPrefix(s.name, "ssl.") {
			out[s.name] = s.reason
		}
	}
	return out
}

// ClusterConfig is how the worker reaches its cluster. It is immutable.
type ClusterConfig struct {
	v   config.Values
	raw map[string]string

	// Of an identity that is not the worker's:
	prefixOf func(name string) string // where a setting was given
	theirs   map[string]string        // settings of a connector, which may open what connectors may
}

func parseCluster(v config.Values, raw map[string]string) ClusterConfig {
	return ClusterConfig{v: v, raw: raw}
}

// open opens a file that a setting names. One that a connector names must be open to connectors.
func (c ClusterConfig) open(files connectors.Files) javatls.Open {
	return func(path string) (*os.File, error) {
		for _, value := range c.theirs {
			if value = strings.TrimSpace(value); value == path || strings.TrimPrefix(value, fileURL) == path {
				return javatls.Checked(files.Check)(path)
			}
		}
		return os.Open(path)
	}
}

// fileURL begins the address of a file that holds a token.
const fileURL = "file://"

// Unused are the settings of an identity that mean nothing without a cluster.
func (c ClusterConfig) Unused() (keys []string) {
	for key := range c.raw {
		if key == securityProtocol.Name || strings.HasPrefix(key, "sasl.") {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

const dialTimeout = 10 * time.Second

// Options are what a franz-go client needs beyond addresses: TLS and a sign-in, as the settings say. files are those that connectors may
// open; without settings of a connector it may be nil. Errors name the setting and hold no secret. Files are looked at again for every
// connection.
func (c ClusterConfig) Options(files connectors.Files, lg *slog.Logger) ([]kgo.Opt, []*config.Error) {
	opts, errs := c.options(files, lg)
	return opts, c.named(errs)
}

func (c ClusterConfig) options(files connectors.Files, lg *slog.Logger) ([]kgo.Opt, []*config.Error) {
	protocol := strings.ToUpper(securityProtocol.Get(c.v))
	var opts []kgo.Opt
	var material *javatls.Material
	if strings.HasSuffix(protocol, "SSL") {
		m, errs := clusterTLS.ReadClient(c.raw, c.open(files), lg)
		if len(errs) > 0 {
			return nil, errs
		}
		material = m
		m.Expired()
		opts = append(opts, kgo.Dialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
			d := tls.Dialer{NetDialer: &net.Dialer{Timeout: dialTimeout}, Config: m.ClientTLS()}
			return d.DialContext(ctx, network, addr)
		}))
	}
	if !strings.HasPrefix(protocol, "SASL") {
		return opts, nil
	}
	mechanism, err := c.signIn(material, files, lg)
	if err != nil {
		return nil, []*config.Error{err}
	}
	return append(opts, kgo.SASL(mechanism)), nil
}

// signIn makes the mechanism that the settings name.
func (c ClusterConfig) signIn(material *javatls.Material, files connectors.Files, lg *slog.Logger) (sasl.Mechanism, *config.Error) {
	wants := map[string]string{"PLAIN": "PlainLoginModule", "SCRAM-SHA-256": "ScramLoginModule", "SCRAM-SHA-512": "ScramLoginModule", "OAUTHBEARER": "OAuthBearerLoginModule"}
	name := saslMechanism.Get(c.v)
	module := wants[name]
	if module == "" {
		return nil, saslMechanism.Errorf(c.v, "%s", noKerberos)
	}
	login := signin.Jaas{Module: module}
	if text := saslJaas.Get(c.v).Reveal(); text != "" {
		var err error
		if login, err = signin.ParseJaas(text); err != nil {
			return nil, saslJaas.Errorf(c.v, "%v", err)
		}
		if login.Module != module {
			return nil, saslJaas.Errorf(c.v, "%s needs %s, and it names %s", name, module, login.Module)
		}
	}
	if name == "OAUTHBEARER" {
		return c.tokens(login, material, files)
	}
	user, password := login.Options["username"], login.Options["password"]
	if user == "" || password == "" {
		return nil, saslJaas.Errorf(c.v, `%s needs a user: org.apache.kafka.common.security.…%s required username="…" password="…";`, name, module)
	}
	switch name {
	case "PLAIN":
		if material == nil {
			lg.Warn("the password is sent without TLS: whoever is on the way can read it; use security.protocol=SASL_SSL or a SCRAM mechanism", "sasl.mechanism", name)
		}
		return plain.Auth{User: user, Pass: password}.AsMechanism(), nil
	case "SCRAM-SHA-256":
		return scram.Auth{User: user, Pass: password, IsToken: login.Options["tokenauth"] == "true"}.AsSha256Mechanism(), nil
	default:
		return scram.Auth{User: user, Pass: password, IsToken: login.Options["tokenauth"] == "true"}.AsSha512Mechanism(), nil
	}
}

// tokens makes OAUTHBEARER: tokens for a client's credentials (RFC 6749, 4.4), one that a file holds, or, where no endpoint is named,
// unsigned ones, which only brokers made for tests take.
func (c ClusterConfig) tokens(login signin.Jaas, material *javatls.Material, files connectors.Files) (sasl.Mechanism, *config.Error) {
	extensions := map[string]string{}
	for k, v := range login.Options {
		if name, ok := strings.CutPrefix(k, "extension_"); ok {
			extensions[name] = v
		} else if name, ok := strings.CutPrefix(k, "unsecuredLoginExtension_"); ok {
			extensions[name] = v
		}
	}
	first := func(values ...string) string {
		for _, v := range values {
			if v != "" {
				return v
			}
		}
		return ""
	}
	endpoint := oauthURL.Get(c.v)
	if endpoint == "" {
		subject := login.Options["unsecuredLoginStringClaim_sub"]
		if subject == "" {
			return nil, oauthURL.Errorf(c.v, "OAUTHBEARER needs the address that gives tokens")
		}
		return oauth.Oauth(func(context.Context) (oauth.Auth, error) {
			return oauth.Auth{Token: unsigned(subject, time.Now()), Extensions: extensions}, nil
		}), nil
	}
	if path, ok := strings.CutPrefix(endpoint, fileURL); ok {
		read := func() (string, error) { return signin.ReadToken(c.open(files), path) }
		if _, err := read(); err != nil {
			return nil, oauthURL.Errorf(c.v, "%v", err)
		}
		return oauth.Oauth(func(context.Context) (oauth.Auth, error) {
			token, err := read()
			return oauth.Auth{Token: token, Extensions: extensions}, err
		}), nil
	}
	if err := signin.CheckEndpoint(endpoint); err != nil {
		return nil, oauthURL.Errorf(c.v, "%v", err)
	}
	id := first(oauthClient.Get(c.v), login.Options["clientId"])
	secret := first(oauthSecret.Get(c.v).Reveal(), login.Options["clientSecret"])
	if id == "" || secret == "" {
		return nil, oauthClient.Errorf(c.v, "tokens are asked for with an id and a secret: set %s and %s", oauthClient.Name, oauthSecret.Name)
	}
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: dialTimeout}).DialContext, DisableKeepAlives: true}
	if strings.HasPrefix(strings.ToLower(endpoint), "https:") && clusterTLS.Given(c.raw) {
		if material == nil {
			m, errs := clusterTLS.ReadClient(c.raw, c.open(files), nil)
			if len(errs) > 0 {
				return nil, errs[0]
			}
			material = m
		}
		transport.DialTLSContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
			d := tls.Dialer{NetDialer: &net.Dialer{Timeout: dialTimeout}, Config: material.ClientTLS()}
			return d.DialContext(ctx, network, addr)
		}
	}
	tokens := signin.NewTokens(signin.Client{Endpoint: endpoint, ID: id, Secret: secret, Scope: first(oauthScope.Get(c.v), login.Options["scope"])}, transport, early)
	return oauth.Oauth(func(ctx context.Context) (oauth.Auth, error) {
		token, err := tokens.Token(ctx)
		if err != nil {
			err = fmt.Errorf("%w: check %s, %s and %s", err, oauthURL.Name, oauthClient.Name, oauthSecret.Name)
		}
		return oauth.Auth{Token: token, Extensions: extensions}, err
	}), nil
}

// early is how long before its end a token is not used any more.
const early = 30 * time.Second

// unsigned is a token that nobody has signed, valid for an hour.
func unsigned(subject string, now time.Time) string {
	part := func(v any) string {
		b, err := json.Marshal(v)
		if err != nil {
			panic(err) // texts and numbers
		}
		return base64.RawURLEncoding.EncodeToString(b)
	}
	return part(map[string]string{"alg": "none"}) + "." + part(map[string]any{"sub": subject, "iat": now.Unix(), "exp": now.Add(time.Hour).Unix()}) + "."
}
