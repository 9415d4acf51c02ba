package config

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

func TestAPasswordShowsNowhere(t *testing.T) {
	type settings struct {
		name     string
		password Password
	}
	type outer struct {
		Password Password
		inner    *settings
		Map      map[string]Password
	}
	p := NewPassword("hunter2")
	s := settings{"x", p}
	o := outer{Password: p, inner: &s, Map: map[string]Password{"a": p}}
	var logged strings.Builder
	lg := slog.New(slog.NewTextHandler(&logged, nil))
	lg.Info("m", "password", p, "settings", s, "outer", o)
	lg = slog.New(slog.NewJSONHandler(&logged, nil))
	lg.Info("m", "password", p, "settings", s, "outer", o)
	text := logged.String()
	for _, v := range []any{p, &p, s, &s, o, &o, []Password{p}, error(&Error{Key: "k", Value: fmt.Sprint(p)})} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x"} {
			text += fmt.Sprintf(verb, v)
		}
	}
	j, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	text += string(j)
	if strings.Contains(text, "hunter2") || strings.Contains(text, "68756e74657232") {
		t.Errorf("the password shows: %s", text)
	}
	if p.Reveal() != "hunter2" || (Password{}).Reveal() != "" {
		t.Error("Reveal gives another text")
	}
}
