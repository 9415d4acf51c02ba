package javatext

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestJSONTexts(t *testing.T) {
	for _, c := range []struct{ in, text, small, utf8 string }{
		{"", `""`, `""`, `""`},
		{"plain, ä 日本", `"plain, ä 日本"`, `"plain, ä 日本"`, `"plain, ä 日本"`},
		{"a\"b\\c/", `"a\"b\\c/"`, `"a\"b\\c/"`, `"a\"b\\c/"`},
		{"\b\t\n\f\r", `"\b\t\n\f\r"`, `"\b\t\n\f\r"`, `"\b\t\n\f\r"`},
		{"\x00\x0b\x1f\x7f", "\"\\u0000\\u000B\\u001F\x7f\"", "\"\\u0000\\u000b\\u001f\x7f\"", "\"\\u0000\\u000B\\u001F\x7f\""},
		{"😀<&>\u2028", "\"😀<&>\u2028\"", "\"😀<&>\u2028\"", "\"\\uD83D\\uDE00<&>\u2028\""},
		{"\xff\xc3", "\"\xff\xc3\"", "\"\xff\xc3\"", "\"\uFFFD\uFFFD\""},
	} {
		for what, got := range map[string][2]string{
			"AppendJSON": {string(AppendJSON([]byte("x"), c.in)), c.text}, "AppendJSON of bytes": {string(AppendJSON([]byte("x"), []byte(c.in))), c.text},
			"AppendJSONSmall": {string(AppendJSONSmall([]byte("x"), c.in)), c.small}, "AppendJSONUTF8": {string(AppendJSONUTF8([]byte("x"), []byte(c.in))), c.utf8},
		} {
			if got[0] != "x"+got[1] {
				t.Errorf("%s of %q: %s, want x%s", what, c.in, got[0], got[1])
			}
		}
	}
}

func FuzzJSONTexts(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 50 {
		b := make([]byte, r.IntN(40))
		for i := range b {
			b[i] = byte(r.IntN(256)) >> r.IntN(3)
		}
		f.Add(string(b))
	}
	f.Add("😀\"\\\x1f ä")
	f.Fuzz(func(t *testing.T, s string) {
		if n := PlainJSON([]byte(s)); strings.IndexFunc(s, func(r rune) bool { return r < 0x20 || r == '"' || r == '\\' || r >= utf8.RuneSelf }) != n && n != len(s) {
			t.Errorf("of %q %d bytes are plain", s, n)
		}
		want := strings.ToValidUTF8(s, "\uFFFD")
		for what, got := range map[string][]byte{"AppendJSON": AppendJSON(nil, s), "AppendJSONSmall": AppendJSONSmall(nil, s), "AppendJSONUTF8": AppendJSONUTF8(nil, []byte(s))} {
			var back string
			if err := json.Unmarshal(got, &back); err != nil || utf8.ValidString(s) && back != s || !utf8.ValidString(s) && what == "AppendJSONUTF8" && strings.ReplaceAll(back, "\uFFFD", "") != strings.ReplaceAll(want, "\uFFFD", "") {
				t.Errorf("%s of %q: %s is %q, %v", what, s, got, back, err)
			}
		}
	})
}
