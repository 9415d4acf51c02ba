package signin

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Jaas is what a value of sasl.jaas.config says.
type Jaas struct {
	Module  string // its simple name: PlainLoginModule, ScramLoginModule, OAuthBearerLoginModule
	Options map[string]string
}

// jaasModules are the login modules that a client may name, by their classes. Any other could load a
// class or reach a naming server in a Java worker, and means nothing here.
var jaasModules = map[string]string{
	"org.apache.kafka.common.security.plain.PlainLoginModule":             "PlainLoginModule",
	"org.apache.kafka.common.security.scram.ScramLoginModule":             "ScramLoginModule",
	"org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule": "OAuthBearerLoginModule",
}

var errJaasForm = errors.New(`it is not of the form CLASS required NAME="VALUE" …; (one login module, ended by a semicolon)`)

// ParseJaas reads a login module in JAAS form. Errors tell nothing of its options.
func ParseJaas(text string) (Jaas, error) {
	if !utf8.ValidString(text) {
		return Jaas{}, errJaasForm
	}
	t := &jaasText{rest: text}
	class, ok := t.word()
	if !ok {
		return Jaas{}, errJaasForm
	}
	flag, ok := t.word()
	if !ok || !isJaasFlag(flag) {
		return Jaas{}, errJaasForm
	}
	module, known := jaasModules[class]
	if !known {
		return Jaas{}, fmt.Errorf("login module %.120q is not allowed; PlainLoginModule, ScramLoginModule and OAuthBearerLoginModule of org.apache.kafka.common.security are", class)
	}
	login := Jaas{Module: module, Options: map[string]string{}}
	for !t.next(';') {
		name, ok := t.word()
		if !ok || !t.next('=') {
			return Jaas{}, errJaasForm
		}
		value, ok := t.word()
		if !ok {
			return Jaas{}, errJaasForm
		}
		login.Options[name] = value
	}
	t.space()
	if t.rest != "" {
		return Jaas{}, fmt.Errorf("it names more than one login module: %w", errJaasForm)
	}
	return login, nil
}

func isJaasFlag(s string) bool {
	for _, f := range []string{"required", "requisite", "sufficient", "optional"} {
		if strings.EqualFold(f, s) {
			return true
		}
	}
	return false
}

// jaasText is a JAAS text that is read token by token.
type jaasText struct{ rest string }

// space passes over white space and comments.
func (t *jaasText) space() {
	for {
		t.rest = strings.TrimLeft(t.rest, " \t\r\n\f\v")
		switch {
		case strings.HasPrefix(t.rest, "//"):
			_, t.rest, _ = strings.Cut(t.rest, "\n")
		case strings.HasPrefix(t.rest, "/*"):
			_, after, closed := strings.Cut(t.rest[2:], "*/")
			if !closed {
				after = ""
			}
			t.rest = after
		default:
			return
		}
	}
}

func (t *jaasText) next(c byte) bool {
	t.space()
	if t.rest == "" || t.rest[0] != c {
		return false
	}
	t.rest = t.rest[1:]
	return true
}

// word is a bare word, or a text in quotes of either kind with Java's escapes.
func (t *jaasText) word() (string, bool) {
	t.space()
	if t.rest == "" {
		return "", false
	}
	if quote := t.rest[0]; quote == '"' || quote == '\'' {
		return t.quoted(quote)
	}
	end := strings.IndexFunc(t.rest, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-$", r) || r >= 0xA0)
	})
	if end < 0 {
		end = len(t.rest)
	}
	w := t.rest[:end]
	t.rest = t.rest[end:]
	return w, w != ""
}

func (t *jaasText) quoted(quote byte) (string, bool) {
	var b strings.Builder
	for i := 1; i < len(t.rest); i++ {
		switch c := t.rest[i]; {
		case c == quote:
			t.rest = t.rest[i+1:]
			return b.String(), true
		case c == '\n' || c == '\r':
			return "", false // Java's tokenizer ends a text at the line's end
		case c == '\\' && i+1 < len(t.rest):
			i++
			switch e := t.rest[i]; {
			case e >= '0' && e <= '7': // up to three octal digits, the first at most 3
				n, digits, most := 0, 0, 2
				if e <= '3' {
					most = 3
				}
				for ; digits < most && i < len(t.rest) && t.rest[i] >= '0' && t.rest[i] <= '7'; digits++ {
					n = n*8 + int(t.rest[i]-'0')
					i++
				}
				i--
				b.WriteRune(rune(n))
			case strings.IndexByte("abfnrtv", e) >= 0:
				b.WriteByte("\a\b\f\n\r\t\v"[strings.IndexByte("abfnrtv", e)])
			default:
				b.WriteByte(e)
			}
		default:
			b.WriteByte(c)
		}
	}
	return "", false
}
