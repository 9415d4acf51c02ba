package runtime

import (
	"fmt"
	"slices"
	"strings"

	"millrace/schema/config"
)

var (
	overridePolicy    = config.Key[string]{Name: "connector.client.config.override.policy", Doc: "Which client settings a connector may override: All, None, Principal (security.protocol, sasl.jaas.config and sasl.mechanism), or Allowlist (those of connector.client.config.override.allowlist).", Default: "All", Check: knownPolicy}
	overrideAllowlist = config.Key[[]string]{Name: "connector.client.config.override.allowlist", Doc: "Client settings that a connector may override under the policy Allowlist, without producer.override., consumer.override. or admin.override.", EmptyDefault: true}
)

// policies are the override policies.
var policies = []string{"All", "None", "Principal", "Allowlist"}

// policyName is the policy that a setting names by its alias or by its Java class.
func policyName(text string) (string, bool) {
	for _, p := range policies {
		simple := p + "ConnectorClientConfigOverridePolicy"
		if strings.EqualFold(text, p) || slices.Contains([]string{simple, "org.apache.kafka.connect.connector.policy." + simple}, text) {
			return p, true
		}
	}
	return "", false
}

func knownPolicy(text string) error {
	if _, ok := policyName(text); !ok {
		return fmt.Errorf("Value must be one of %s, or the class of one of them", strings.Join(policies, ", "))
	}
	return nil
}

// A policy says whether a connector may override a setting of its clients.
type policy struct {
	name    string
	allowed []string // nil: everything
}

func (p policy) refuses(name string) bool {
	return p.allowed != nil && !slices.Contains(p.allowed, name)
}

// principalKeys are what the policy Principal lets through.
var principalKeys = []string{securityProtocol.Name, saslJaas.Name, saslMechanism.Name}

// policy is the worker's.
func (c WorkerConfig) policy() policy {
	switch name, _ := policyName(c.OverridePolicy); name {
	case "None":
		return policy{name, []string{}}
	case "Principal":
		return policy{name, principalKeys}
	case "Allowlist":
		return policy{name, append([]string{}, c.OverrideAllowlist...)}
	}
	return policy{"All", nil}
}
