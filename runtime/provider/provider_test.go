package provider

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/connectors"
	"millrace/schema/config"
	"millrace/schema/plugin"
)

// fake answers every key that does not begin with "no" with its path and itself.
type fake struct {
	ttl  time.Duration
	fail error
	data map[string]string
}

func (f fake) Get(_ context.Context, path string, keys []string) (Data, error) {
	d := Data{Values: map[string]string{}, TTL: f.ttl}
	for _, k := range keys {
		switch {
		case f.data != nil:
			if v, ok := f.data[k]; ok {
				d.Values[k] = v
			}
		case !strings.HasPrefix(k, "no"):
			d.Values[k] = "<" + path + "|" + k + ">"
		}
	}
	return d, f.fail
}

func set(byName map[string]Provider) *Set { return &Set{byName, slog.New(slog.DiscardHandler)} }

func rows(t *testing.T, file string) [][2]string {
	t.Helper()
	f, err := os.Open("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	unescape := strings.NewReplacer(`\\`, `\`, `\n`, "\n", `\t`, "\t", `\r`, "\r").Replace
	var out [][2]string
	for s := bufio.NewScanner(f); s.Scan(); {
		a, b, _ := strings.Cut(s.Text(), "\t")
		out = append(out, [2]string{unescape(a), unescape(b)})
	}
	return out
}

// TestVariablesAreKafkas compares with what Kafka 4.4.0's ConfigTransformer made of the same texts.
func TestVariablesAreKafkas(t *testing.T) {
	s := set(map[string]Provider{"p": fake{}})
	compared := 0
	for _, row := range rows(t, "variables.tsv") {
		r, errs := s.Resolve(t.Context(), map[string]string{"x": row[0]})
		if len(errs) > 0 || r.Values["x"] != row[1] {
			t.Errorf("%q becomes %q, want %q (%v)", row[0], r.Values["x"], row[1], errs)
		}
		compared++
	}
	if compared < 1500 {
		t.Errorf("only %d texts compared", compared)
	}
}

// TestPropertiesAreJavas compares with what java.util.Properties read.
func TestPropertiesAreJavas(t *testing.T) {
	b, err := os.ReadFile("testdata/java.properties")
	if err != nil {
		t.Fatal(err)
	}
	got, err := ParseProperties(b)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for _, row := range rows(t, "properties.tsv") {
		want[row[0]] = row[1]
	}
	if !maps.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
}

func TestPropertiesThatAreNone(t *testing.T) {
	for _, text := range []string{`a=\u12`, `a=\uzzzz`, `\u=1`, "a=\xff"} {
		if got, err := ParseProperties([]byte(text)); err == nil {
			t.Errorf("%q: %q, want an error", text, got)
		}
	}
	if got, err := ParseProperties([]byte("a=\\ud83d\\ude00\r\nb=\\\r\n  c\rd")); err != nil || !maps.Equal(got, map[string]string{"a": "😀", "b": "c", "d": ""}) {
		t.Errorf("%q %v", got, err)
	}
}

func FuzzProperties(f *testing.F) {
	f.Add([]byte("a=1\\\n b\nc:\\u00e9"))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := ParseProperties(b)
		if err != nil {
			return
		}
		// Written back with every byte that could mean something escaped, they are the same.
		escape := strings.NewReplacer(`\`, `\\`, "\n", `\n`, "\r", `\r`, "\t", `\t`, "\f", `\f`, "=", `\=`, ":", `\:`, " ", `\ `, "#", `\#`, "!", `\!`, "\uFEFF", `\uFEFF`)
		var out strings.Builder
		for k, v := range got {
			out.WriteString(escape.Replace(k) + "=" + escape.Replace(v) + "\n")
		}
		again, err := ParseProperties([]byte(out.String()))
		if err != nil || !maps.Equal(again, got) {
			t.Errorf("%q → %q → %q → %q, %v", b, got, out.String(), again, err)
		}
	})
}

func FuzzVariables(f *testing.F) {
	f.Add("${p:a:b}${p:${p:k}}")
	f.Fuzz(func(t *testing.T, text string) {
		end := 0
		for _, v := range variables(text) {
			whole := text[v.at:v.end]
			again := "${" + v.provider + ":" + v.key + "}"
			if strings.Count(whole, ":") > 1 && whole != again {
				again = "${" + v.provider + ":" + v.path + ":" + v.key + "}"
			}
			if v.at < end || whole != again {
				t.Errorf("%q: %+v", text, v)
			}
			end = v.end
		}
		s := set(map[string]Provider{"p": fake{data: map[string]string{"k": "${p:k}"}}})
		if r, errs := s.Resolve(t.Context(), map[string]string{"x": text}); len(errs) > 0 || len(r.given) == 0 && r.Values["x"] != text {
			t.Errorf("%q becomes %q, %v", text, r.Values["x"], errs)
		}
	})
}

func TestValuesAreNotLookedAtAgain(t *testing.T) {
	s := set(map[string]Provider{"p": fake{data: map[string]string{"a": "${p:b}", "b": "secret", "c": "${p", "d": ":b}"}}})
	r, errs := s.Resolve(t.Context(), map[string]string{"x": "${p:a}", "y": "${p:c}${p:d}"})
	if len(errs) > 0 || r.Values["x"] != "${p:b}" || r.Values["y"] != "${p:b}" {
		t.Errorf("%q %v", r.Values, errs)
	}
}

func TestAProviderThatFailsIsAnErrorOnEveryKeyThatAsksIt(t *testing.T) {
	s := set(map[string]Provider{"p": fake{fail: errors.New("it is sealed")}, "ok": fake{}})
	_, errs := s.Resolve(t.Context(), map[string]string{"b": "${p:k}", "a": "x ${p:j}", "c": "${ok:k}", "d": "plain"})
	if len(errs) != 2 || errs[0].Key != "a" || errs[1].Key != "b" || !strings.Contains(errs[0].Error(), `config provider "p": it is sealed`) || errs[0].Value != "x ${p:j}" {
		t.Errorf("%v", errs)
	}
}

func TestTheShortestTimeCounts(t *testing.T) {
	s := set(map[string]Provider{"a": fake{ttl: time.Hour}, "b": fake{ttl: time.Minute}, "c": fake{}})
	for text, want := range map[string]time.Duration{"${a:x}": time.Hour, "${a:x}${b:x}": time.Minute, "${c:x}": 0, "x": 0} {
		if r, _ := s.Resolve(t.Context(), map[string]string{"k": text}); r.TTL != want {
			t.Errorf("%s: %v, want %v", text, r.TTL, want)
		}
	}
}

// TestWhatIsStoredResolvesToWhatWasPlanned: a task's configuration is stored with variables, and none of
// their values, and stands for the same when it is read again.
func TestWhatIsStoredResolvesToWhatWasPlanned(t *testing.T) {
	s := set(map[string]Provider{"p": fake{data: map[string]string{"password": "hunter2-hunter2", "hosts": "a,b", "port": "1", "odd": "x ${p:port}"}}})
	raw := map[string]string{"password": "${p:password}", "url": "http://u:${p:password}@h:${p:port}", "hosts": "${p:hosts}", "tasks.max": "1", "left": "${p:none}"}
	r, errs := s.Resolve(t.Context(), raw)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	planned := maps.Clone(r.Values)
	planned["hosts"] = "b"                         // one task's share of a list
	planned["login"] = "u:hunter2-hunter2;x"       // a setting that the connector made
	planned["task.class"] = "org.example.FileTask" // as every one has
	stored, err := r.Stored(planned)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"password": "${p:password}", "url": raw["url"], "hosts": "b", "tasks.max": "1", "left": "${p:none}", "login": "u:${p:password};x", "task.class": "org.example.FileTask"}
	if !maps.Equal(stored, want) {
		t.Errorf("stored %q\nwant %q", stored, want)
	}
	if again, errs := s.Resolve(t.Context(), stored); len(errs) > 0 || !maps.Equal(again.Values, planned) {
		t.Errorf("read again %q (%v)\nwant %q", again.Values, errs, planned)
	}
	for _, conf := range []map[string]string{{"k": "${p:odd}"}, {"k": "plain"}} { // a table's name, say, that looks like a variable
		r, errs := s.Resolve(t.Context(), conf)
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		if _, err := r.Stored(map[string]string{"table": "${p:password}"}); err == nil || !strings.Contains(err.Error(), "setting table") {
			t.Errorf("%v: a task's own text would be taken for a variable, error %v", conf, err)
		}
	}
	if out, err := (Resolved{}).Stored(map[string]string{"table": "${p:password}"}); err != nil || out["table"] != "${p:password}" {
		t.Errorf("without providers nothing is a variable: %v %v", out, err)
	}
}

func table(t *testing.T) plugin.Table[Plugin] {
	t.Helper()
	table, err := plugin.NewTable(All()...)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func TestProvidersOfAWorker(t *testing.T) {
	const class = "org.apache.kafka.common.config.provider."
	for _, row := range []struct {
		name       string
		properties map[string]string
		wrong      string // the key
		notice     string
	}{
		{"none by themselves", map[string]string{}, "", ""},
		{"all three by class", map[string]string{"config.providers": "f, d,e", "config.providers.f.class": class + "FileConfigProvider", "config.providers.d.class": class + "DirectoryConfigProvider", "config.providers.e.class": class + "EnvVarConfigProvider"}, "", ""},
		{"by short names", map[string]string{"config.providers": "f,d,e", "config.providers.f.class": "file", "config.providers.d.class": "directory", "config.providers.e.class": "EnvVarConfigProvider"}, "", ""},
		{"without a class", map[string]string{"config.providers": "f"}, "config.providers.f.class", ""},
		{"of a class that is not here", map[string]string{"config.providers": "v", "config.providers.v.class": "com.example.VaultConfigProvider"}, "config.providers.v.class", ""},
		{"twice", map[string]string{"config.providers": "f,f", "config.providers.f.class": "file"}, "config.providers", ""},
		{"with a colon in its name", map[string]string{"config.providers": "a:b", "config.providers.a:b.class": "file"}, "config.providers", ""},
		{"a path that is not absolute", map[string]string{"config.providers": "f", "config.providers.f.class": "file", "config.providers.f.param.allowed.paths": "etc"}, "config.providers.f.param.allowed.paths", ""},
		{"a path that is not there", map[string]string{"config.providers": "f", "config.providers.f.class": "file", "config.providers.f.param.allowed.paths": "/no/such/folder"}, "config.providers.f.param.allowed.paths", ""},
		{"a pattern that is none", map[string]string{"config.providers": "e", "config.providers.e.class": "env", "config.providers.e.param.allowlist.pattern": "["}, "config.providers.e.param.allowlist.pattern", ""},
		{"a parameter that it has not", map[string]string{"config.providers": "e", "config.providers.e.class": "env", "config.providers.e.param.allowed.paths": "/x"}, "", "config.providers.e.param.allowed.paths"},
		{"one that is not listed", map[string]string{"config.providers.e.class": "env"}, "", "config.providers.e.class"},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, notices, errs := Open(table(t), row.properties, Context{})
			if (row.wrong == "") != (len(errs) == 0) || row.wrong != "" && errs[0].Key != row.wrong {
				t.Errorf("errors %v, want one on %q", errs, row.wrong)
			}
			if row.wrong == "" && (row.notice == "") != (len(notices) == 0) || row.notice != "" && !strings.HasPrefix(notices[0], row.notice+" ") {
				t.Errorf("notices %q, want one on %q", notices, row.notice)
			}
		})
	}
}

func TestEnvironmentVariables(t *testing.T) {
	t.Setenv("MILLRACE_TEST_OPEN", "open")
	t.Setenv("MILLRACE_TEST_SHUT", "shut")
	s, _, errs := Open(table(t), map[string]string{"config.providers": "env,all", "config.providers.env.class": "env", "config.providers.env.param.allowlist.pattern": "_OPEN$|_NONE$", "config.providers.all.class": "env"}, Context{})
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	for _, row := range []struct{ name, text, want, wrong string }{
		{"one that may be read", "${env:MILLRACE_TEST_OPEN}", "open", ""},
		{"with an empty path", "${env::MILLRACE_TEST_OPEN}", "open", ""},
		{"one that is not set stays", "${env:MILLRACE_TEST_NONE}", "${env:MILLRACE_TEST_NONE}", ""},
		{"with a path", "${env:x:MILLRACE_TEST_OPEN}", "", "Path is not supported"},
		{"one in another", "${env:${env:MILLRACE_TEST_OPEN}}", "", "Path is not supported"},
		{"without a pattern any", "${all:MILLRACE_TEST_SHUT}", "shut", ""},
	} {
		r, errs := s.Resolve(t.Context(), map[string]string{"k": row.text})
		if row.wrong == "" && (len(errs) > 0 || r.Values["k"] != row.want) || row.wrong != "" && (len(errs) != 1 || !strings.Contains(errs[0].Error(), row.wrong)) {
			t.Errorf("%s: %q, %v", row.name, r.Values["k"], errs)
		}
	}
	// Outside of the pattern nothing tells whether a variable is set.
	var texts []string
	for _, name := range []string{"MILLRACE_TEST_SHUT", "MILLRACE_TEST_NOSUCH", "PATH"} {
		_, errs := s.Resolve(t.Context(), map[string]string{"k": "${env:" + name + "}"})
		if len(errs) != 1 {
			t.Fatalf("%s: %v", name, errs)
		}
		texts = append(texts, strings.ReplaceAll(errs[0].Error(), name, "NAME"))
	}
	if len(slices.Compact(texts)) != 1 {
		t.Errorf("%q", texts)
	}
}

func TestSecretsAreTakenOut(t *testing.T) {
	s := NewSecrets("hunter2!x", "  spaced secret \n", "abc", "a b&c\"d/é", "first-part,second-part", "-----BEGIN-----\nMIIEvQIBADANBg\n-----END-----")
	for _, row := range []struct{ text, want string }{
		{"login with hunter2!x failed", "login with [hidden] failed"},
		{"xhunter2!xy", "x[hidden]y"},
		{"spaced secret", "[hidden]"},
		{"abc", "[hidden]"},
		{"the abc of abcdef and xabc", "the [hidden] of abcdef and xabc"},
		{`"a b&c\"d/é"`, `"[hidden]"`},
		{"u:a+b%26c%22d%2F%C3%A9@h", "u:[hidden]@h"},
		{"a%20b%26c%22d%2F%C3%A9", "[hidden]"},
		{`{"p":"a b\u0026c\"d/é"}`, `{"p":"[hidden]"}`},
		{"no such host second-part", "no such host [hidden]"},
		{"key MIIEvQIBADANBg is wrong", "key [hidden] is wrong"},
		{"nothing here", "nothing here"},
		{"", ""},
	} {
		if got := s.Text(row.text); got != row.want {
			t.Errorf("%q becomes %q, want %q", row.text, got, row.want)
		}
	}
	if NewSecrets("", " ") != nil && NewSecrets("").Text("x") != "x" {
		t.Error("nothing is hidden where there is nothing")
	}
	var none *Secrets
	if none.Text("x") != "x" || none.Error(nil) != nil || none.And(s) != s || s.And(none) != s {
		t.Error("no secrets")
	}
	if got := NewSecrets("one-secret").And(NewSecrets("two-secret")).Text("one-secret two-secret"); got != "[hidden] [hidden]" {
		t.Errorf("both: %q", got)
	}
}

func TestErrorsKeepTheirQualitiesAndLoseTheirSecrets(t *testing.T) {
	s := NewSecrets("hunter2")
	reason := &connectors.Reason{Code: "x.login", Remedy: "change it", Retry: connectors.RetryHelps}
	cause := errors.New("driver: password hunter2 is wrong")
	err := s.Error(fmt.Errorf("open: %w", connectors.Failed(reason, cause, `the login "hunter2" is refused`, "use another than hunter2")))
	f := connectors.FailureOf(err)
	if f == nil || f.Reason != reason {
		t.Fatalf("%v has no failure", err)
	}
	for _, text := range []string{err.Error(), f.Cause, f.Do(), f.Error(), f.Err.Error(), fmt.Sprintf("%v %+v", err, f)} {
		if strings.Contains(text, "hunter2") {
			t.Errorf("%q", text)
		}
	}
	if !errors.Is(err, cause) || connectors.RetryOf(err) != connectors.RetryHelps {
		t.Error("it is another error")
	}
	if connectors.RetryOf(s.Error(connectors.BadConfig(cause))) != connectors.RetryNever {
		t.Error("a mark is lost")
	}
	clean := errors.New("clean")
	if s.Error(clean) != clean {
		t.Error("an error without secrets changed")
	}
	if e := s.ConfigErrors([]*config.Error{{Key: "k", Value: "hunter2", Reason: "hunter2 is no number"}}); strings.Contains(e[0].Error(), "hunter2") || e[0].Key != "k" {
		t.Errorf("%v", e)
	}
}

func TestLogsLoseTheirSecrets(t *testing.T) {
	var out strings.Builder
	lg := NewSecrets("hunter2").Logger(slog.New(slog.NewTextHandler(&out, nil)))
	lg.With("url", "http://u:hunter2@h").WithGroup("g").Info("login hunter2", "err", errors.New("hunter2"), "n", 1, slog.Group("x", "y", "hunter2"),
		"map", map[string]string{"p": "hunter2"}, "bytes", fmt.Stringer(stringer{}), "kept", "kept")
	if text := out.String(); strings.Contains(text, "hunter2") || !strings.Contains(text, "g.kept=kept") || !strings.Contains(text, "g.n=1") || strings.Count(text, "[hidden]") != 6 {
		t.Errorf("%s", text)
	}
}

type stringer struct{}

func (stringer) String() string { return "a hunter2 b" }
