package runtime

import (
	"maps"
	"strings"

	"millrace/connectors"
	"millrace/schema/config"
	"millrace/schema/config/signin"
)

// isIdentity reports whether a client setting names a cluster or an identity.
func isIdentity(name string) bool {
	return name == bootstrapServers.Name || name == securityProtocol.Name || strings.HasPrefix(name, "sasl.") || strings.HasPrefix(name, "ssl.")
}

// An identity of its own that a client has is the worker's with what its settings change: those behind "producer.", and over them those of a
// connector behind "producer.override.". A store that is given in one form takes the place of one in another.

// forms are the settings that give the same thing in two ways.
var forms = [][2][]string{
	{{sslTrust.Name, sslTrustPass.Name}, {sslTrusted.Name}},
	{{sslKeystore.Name, sslKeystorePass.Name}, {sslKey.Name, sslChain.Name}},
}

// overlay puts the settings of an identity over others.
func overlay(under, over map[string]string) {
	for _, pair := range forms {
		for i, names := range pair {
			if _, given := over[names[0]]; given {
				for _, other := range pair[1-i] {
					delete(under, other)
				}
			}
		}
	}
	maps.Copy(under, over)
}

// identityOf are those of a client's settings that say who it is.
func identityOf(settings map[string]string) map[string]string {
	out := maps.Clone(settings)
	maps.DeleteFunc(out, func(name, _ string) bool { return !isIdentity(name) || name == bootstrapServers.Name })
	return out
}

// identity is who a client is whose own settings, or whose connector's, say so; nil where it is who the worker is. prefixOf tells where a
// setting was given.
func (c WorkerConfig) identity(own, theirs map[string]string, prefixOf func(name string) string) (*ClusterConfig, []*config.Error) {
	worker := identityOf(c.Properties)
	merged := maps.Clone(worker)
	overlay(merged, identityOf(own))
	if e := keepCredentials(merged, theirs); e != nil {
		return nil, []*config.Error{{Key: prefixOf(e.Key) + e.Key, Value: e.Value, Reason: e.Reason}}
	}
	overlay(merged, identityOf(theirs))
	if maps.EqualFunc(merged, worker, func(a, b string) bool { return strings.TrimSpace(a) == strings.TrimSpace(b) }) {
		return nil, nil
	}
	v, wrong := clusterDef.Parse(merged)
	id := &ClusterConfig{v: v, raw: merged, prefixOf: prefixOf, theirs: identityOf(theirs)}
	return id, id.named(wrong)
}

// keepCredentials takes the worker's credentials away where a connector names another server of tokens: that one would be told them. The
// connector has to give its own.
func keepCredentials(worker, theirs map[string]string) *config.Error {
	server, given := theirs[oauthURL.Name]
	if server = strings.TrimSpace(server); !given || server == strings.TrimSpace(worker[oauthURL.Name]) {
		return nil
	}
	for _, name := range []string{oauthClient.Name, oauthSecret.Name, saslJaas.Name} {
		delete(worker, name)
	}
	login, _ := signin.ParseJaas(theirs[saslJaas.Name]) // what is wrong with it is told where it is used
	id := theirs[oauthClient.Name] != "" || login.Options["clientId"] != ""
	secret := theirs[oauthSecret.Name] != "" || login.Options["clientSecret"] != ""
	if id && secret || server == "" || strings.HasPrefix(server, fileURL) {
		return nil
	}
	return &config.Error{Key: oauthURL.Name, Value: server,
		Reason: "the worker's credentials are not for another server of tokens: set " + oauthClient.Name + " and " + oauthSecret.Name + " beside it"}
}

// ClientElsewhere reads the settings of a client that a connector has at a cluster of its own. Nothing of the worker's is under them.
func ClientElsewhere(kind ClientKind, c connectors.ClientSettings) (ClientConfig, []*config.Error) {
	out := ClientConfig{}
	if errs := out.read(kind, map[string]string{}, c.Settings, c.Prefix, c.Prefix); len(errs) > 0 {
		return out, errs
	}
	settings := identityOf(c.Settings)
	v, wrong := clusterDef.Parse(settings)
	out.Identity = &ClusterConfig{v: v, raw: settings, prefixOf: func(string) string { return c.Prefix }, theirs: settings}
	return out, out.Identity.named(wrong)
}

// HasIdentity reports whether settings of a client say who it is.
func HasIdentity(settings map[string]string) bool { return len(identityOf(settings)) > 0 }

// named gives the keys of errors the names under which the settings were given.
func (c ClusterConfig) named(errs []*config.Error) []*config.Error {
	if c.prefixOf == nil {
		return errs
	}
	out := make([]*config.Error, len(errs))
	for i, e := range errs {
		out[i] = &config.Error{Key: c.prefixOf(e.Key) + e.Key, Value: e.Value, Reason: e.Reason, Missing: e.Missing}
	}
	return out
}

// CheckJaas refuses every login module that is not allowed, whichever setting of a connector names it
// and whoever would use it: "producer.override.sasl.jaas.config", but also one of a connector's own
// clients ("schema.history.internal.consumer.sasl.jaas.config"), in any case.
func CheckJaas(conf map[string]string) []*config.Error {
	var errs []*config.Error
	for key, value := range conf {
		if name := strings.ToLower(strings.TrimSpace(key)); !strings.HasSuffix(name, saslJaas.Name) {
			continue
		}
		if _, err := signin.ParseJaas(value); err != nil {
			errs = append(errs, &config.Error{Key: key, Value: config.Hidden, Reason: err.Error()})
		}
	}
	return errs
}
