package signin

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func FuzzParseJaas(f *testing.F) {
	f.Add(`org.apache.kafka.common.security.plain.PlainLoginModule required username="a\101" password='b';`)
	f.Add(`/* x */ a.b required c=d;`)
	f.Fuzz(func(t *testing.T, text string) {
		login, err := ParseJaas(text)
		if err != nil {
			return
		}
		if !slices.Contains([]string{"PlainLoginModule", "ScramLoginModule", "OAuthBearerLoginModule"}, login.Module) {
			t.Errorf("%q names %q", text, login.Module)
		}
		// What is written back with every byte escaped means the same.
		var b strings.Builder
		for class, module := range jaasModules {
			if module == login.Module {
				b.WriteString(class)
			}
		}
		b.WriteString(" required")
		escape := func(v string) {
			for i := range len(v) {
				if c := v[i]; c < 0x80 {
					fmt.Fprintf(&b, `\%03o`, c)
				} else {
					b.WriteByte(c)
				}
			}
		}
		for k, v := range login.Options {
			b.WriteString(` "`)
			escape(k)
			b.WriteString(`"="`)
			escape(v)
			b.WriteString(`"`)
		}
		b.WriteString(";")
		again, err := ParseJaas(b.String())
		if err != nil || fmt.Sprint(again) != fmt.Sprint(login) {
			t.Errorf("%q → %+v → %q → %+v, %v", text, login, b.String(), again, err)
		}
	})
}
