package client

import (
	"fmt"
	"net/http"
	"strings"
)

// print writes a request as a command for a POSIX shell. Secrets stand there as
// variables, which whoever runs it sets.
func (c *Client) print(method, path string, in any) error {
	var b strings.Builder
	b.WriteString("curl -sS")
	if method != http.MethodGet {
		b.WriteString(" -X " + method)
	}
	if c.opt.User != "" {
		b.WriteString(" -u " + quoted(c.opt.User+":") + `"$MILLRACE_PASSWORD"`)
	}
	if c.opt.CA != "" {
		b.WriteString(" --cacert " + quoted(c.opt.CA))
	}
	if in != nil {
		vars := map[string]string{} // variable by stand-in
		body, err := marshal(withVariables(in, vars))
		if err != nil {
			return err
		}
		text := quoted(string(body))
		for mark, name := range vars {
			text = strings.ReplaceAll(text, mark, `'"$`+name+`"'`)
		}
		b.WriteString(" -H 'Content-Type: application/json' --data-binary " + text)
	}
	b.WriteString(" " + quoted(c.base+path))
	_, err := fmt.Fprintln(c.opt.Curl, b.String())
	return err
}

// quoted is a text as one word of a POSIX shell.
func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// withVariables is a request with stand-ins for the secrets of its configuration.
func withVariables(in any, vars map[string]string) any {
	switch v := in.(type) {
	case map[string]string:
		return configWithVariables(v, vars)
	case createBody:
		v.Config = configWithVariables(v.Config, vars)
		return v
	case PreviewRequest:
		v.Config = configWithVariables(v.Config, vars)
		return v
	case map[string]*string:
		out := make(map[string]*string, len(v))
		for k, s := range v {
			if s != nil && Secret(k) && !reference(*s) {
				mark := standIn(k, vars)
				s = &mark
			}
			out[k] = s
		}
		return out
	}
	return in
}

func configWithVariables(conf map[string]string, vars map[string]string) map[string]string {
	out := make(map[string]string, len(conf))
	for k, v := range conf {
		if Secret(k) && !reference(v) {
			v = standIn(k, vars)
		}
		out[k] = v
	}
	return out
}

// standIn notes the variable of a key and returns the text that stands for it until
// the body is quoted.
func standIn(key string, vars map[string]string) string {
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z':
			return r - 'a' + 'A'
		case r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
			return r
		}
		return '_'
	}, key)
	mark := "@secret:" + name + "@"
	vars[mark] = name
	return mark
}
