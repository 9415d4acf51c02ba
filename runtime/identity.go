package runtime

import (
	"strings"

	"millrace/schema/config"
	"millrace/schema/config/signin"
)

// isIdentity reports whether a client setting names a cluster or an identity.
func isIdentity(name string) bool {
	return name == bootstrapServers.Name || name == securityProtocol.Name || strings.HasPrefix(name, "sasl.") || strings.HasPrefix(name, "ssl.")
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
