package client

import (
	"regexp"
	"strings"
)

// Hidden stands for a secret that is not shown.
const Hidden = "[hidden]"

var (
	secretWords = regexp.MustCompile(`(?i)(password|passwd|secret|credential|token|jaas\.config|api\.?key|access\.?key|private\.?key|ssl\.keystore\.key|passphrase)`)
	// What has such a word in its name and is none: it says where, how or how long.
	notSecret = regexp.MustCompile(`(?i)(\.(path|location|class|type|url|uri|endpoint|file|expiry|ttl|ms|enabled?|id)$|access\.?key\.id$)`)
)

// Secret reports whether a key's name says that its value is a secret. What a plugin
// declares as one is known to the server; see ConfigKeys.
func Secret(key string) bool { return secretWords.MatchString(key) && !notSecret.MatchString(key) }

// reference reports whether a value only says where the secret is: "${file:…}".
func reference(value string) bool {
	return strings.HasPrefix(value, "${") && strings.HasSuffix(value, "}") && strings.Count(value, "${") == 1
}

// Hide is a configuration without its secrets: those that declared says are ones, and
// those that sound like ones. References to secrets stay.
func Hide(conf map[string]string, declared map[string]bool) map[string]string {
	out := make(map[string]string, len(conf))
	for k, v := range conf {
		if (declared[k] || Secret(k)) && v != "" && !reference(v) {
			v = Hidden
		}
		out[k] = v
	}
	return out
}
