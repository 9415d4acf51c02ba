package provider

import "strings"

// A variable is a ${provider:path:key} or ${provider:key} in a text.
type variable struct {
	at, end             int // its bytes in the text
	provider, path, key string
}

// variables are the variables of a text, in order. The form is that of Kafka's pattern
// \$\{([^}]*?):(([^}]*?):)?([^}]*?)\} : up to the first brace, and split at the first two colons.
func variables(text string) []variable {
	var out []variable
	for at := 0; ; {
		i := strings.Index(text[at:], "${")
		if i < 0 {
			return out
		}
		i += at
		end := strings.IndexByte(text[i+2:], '}')
		if end < 0 {
			return out
		}
		inner := text[i+2 : i+2+end]
		name, rest, ok := strings.Cut(inner, ":")
		if !ok {
			at = i + 2 // another may begin inside
			continue
		}
		v := variable{at: i, end: i + 2 + end + 1, provider: name, key: rest}
		if path, key, two := strings.Cut(rest, ":"); two {
			v.path, v.key = path, key
		}
		out = append(out, v)
		at = v.end
	}
}

// HasVariables reports whether a text holds anything of a variable's form.
func HasVariables(text string) bool { return len(variables(text)) > 0 }

// OnlyVariables reports whether a text is variables and nothing else.
func OnlyVariables(text string) bool {
	end := 0
	for _, v := range variables(text) {
		if strings.TrimSpace(text[end:v.at]) != "" {
			return false
		}
		end = v.end
	}
	return end > 0 && strings.TrimSpace(text[end:]) == ""
}
