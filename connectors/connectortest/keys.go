package connectortest

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

var (
	declaredKey = regexp.MustCompile(`(?m)^\t([kK]ey\w+) += config\.Key\[.+?\]\{Name: "([^"]+)"(.*)`)
	sharedKey   = regexp.MustCompile(`\bcdc\.(Key\w+)`)
	refusal     = regexp.MustCompile(`Check: (?:cdc\.)?(?i:notGiven|noList|onlySource|notTrue|oneThread|zeroOnly|supported)\b`)
)

// Keys reads the code of the database source in the working directory: each of its
// settings, want in number, is read by the code, or is ignored with a reason, or refuses
// what it cannot do, so that none misleads in silence. A setting that sources share is
// declared as a Key of connectors/cdc.
func Keys(t *testing.T, want int, ignored map[string]string) {
	t.Helper()
	type decl struct{ variable, name, rest string }
	declared := func(text string) (out []decl) {
		for _, m := range declaredKey.FindAllStringSubmatch(text, -1) {
			out = append(out, decl{m[1], m[2], m[3]})
		}
		return out
	}
	code, shared := sources(t, "."), map[string]decl{}
	for _, d := range declared(sources(t, "../cdc")) {
		shared[d.variable] = d
	}
	keys := declared(code)
	for _, m := range sharedKey.FindAllStringSubmatch(code, -1) {
		if d, ok := shared[m[1]]; ok {
			keys = append(keys, decl{m[0], d.name, d.rest})
			delete(shared, m[1]) // each once
		}
	}
	read, skipped, refused := 0, 0, 0
	for _, k := range keys {
		// Only the lines that name it: an expression over all of the code takes its time.
		var lines strings.Builder
		for line := range strings.Lines(code) {
			if strings.Contains(line, k.variable) {
				lines.WriteString(line)
			}
		}
		uses := regexp.MustCompile(`\b` + k.variable + `\.Get\(|\(` + k.variable + `\)|\b` + k.variable + `, v\)|patterns\(` + k.variable + `\.Name\)`)
		switch {
		case uses.MatchString(lines.String()):
			read++
			if ignored[k.name] != "" {
				t.Errorf("%s is read by the code and yet called ignored: %s", k.name, ignored[k.name])
			}
		case ignored[k.name] != "":
			skipped++
		case refusal.MatchString(k.rest):
			refused++
		case strings.HasPrefix(k.name, "column.mask.") || strings.HasPrefix(k.name, "column.truncate."):
			read++ // families of keys, read as such
		default:
			t.Errorf("%s has no effect, and nothing says so", k.name)
		}
	}
	if len(keys) != want {
		t.Errorf("%d keys found in the code, %d are declared", len(keys), want)
	}
	t.Logf("%d keys are read, %d ignored with a reason, %d refuse what they cannot do", read, skipped, refused)
}

// sources is the text of a folder's code without its tests.
func sources(t *testing.T, dir string) string {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var code strings.Builder
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".go") || strings.HasSuffix(f.Name(), "_test.go") {
			continue
		}
		text, err := os.ReadFile(dir + "/" + f.Name())
		if err != nil {
			t.Fatal(err)
		}
		code.Write(text)
	}
	return code.String()
}
