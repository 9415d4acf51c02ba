package plugin

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// Satisfies reports whether the plugin's version is one that a specification in Maven's
// form asks for: "1.2" or "[1.2]" for that one, "[1.2,2.0)" and "(,2.0]" for ranges,
// several of them separated by commas, and "latest" or "" for any. What is none of
// these is an error.
func (i Info) Satisfies(spec string) (bool, error) {
	spec = strings.TrimSpace(spec)
	if spec == "" || spec == "latest" {
		return true, nil
	}
	bad := func() (bool, error) {
		return false, fmt.Errorf("%q is no version and no range of versions: want 1.2, [1.2], [1.2,2.0) or (,2.0]", spec)
	}
	if !strings.ContainsAny(spec, "[(])") {
		if strings.ContainsAny(spec, ", ") {
			return bad()
		}
		return compareVersions(i.Version, spec) == 0, nil
	}
	in := false
	for rest := spec; ; {
		if rest == "" || rest[0] != '[' && rest[0] != '(' {
			return bad()
		}
		end := strings.IndexAny(rest[1:], "[(])") + 1
		if end < 1 || rest[end] != ']' && rest[end] != ')' {
			return bad()
		}
		low, high, two := strings.Cut(rest[1:end], ",")
		low, high = strings.TrimSpace(low), strings.TrimSpace(high)
		closedLow, closedHigh := rest[0] == '[', rest[end] == ']'
		switch {
		case strings.Contains(high, ","), !two && (low == "" || !closedLow || !closedHigh), low != "" && high != "" && compareVersions(low, high) > 0:
			return bad()
		case !two:
			in = in || compareVersions(i.Version, low) == 0
		default:
			above, below := compareVersions(i.Version, low), compareVersions(i.Version, high)
			in = in || (low == "" || above > 0 || above == 0 && closedLow) && (high == "" || below < 0 || below == 0 && closedHigh)
		}
		if rest = strings.TrimSpace(rest[end+1:]); rest == "" {
			return in, nil
		}
		if rest[0] != ',' {
			return bad()
		}
		rest = strings.TrimSpace(rest[1:])
	}
}

// compareVersions compares versions part by part: numbers as numbers, a missing part as
// 0, a qualifier (1.0-beta, 3.6.1.Alpha) before the version without it, Final and GA
// as none.
func compareVersions(a, b string) int {
	x, y := versionParts(a), versionParts(b)
	for i := range max(len(x), len(y)) {
		var p, q versionPart
		if i < len(x) {
			p = x[i]
		}
		if i < len(y) {
			q = y[i]
		}
		switch {
		case p.word == "" && q.word != "":
			return 1
		case p.word != "" && q.word == "":
			return -1
		}
		if c := cmp.Or(cmp.Compare(p.word, q.word), cmp.Compare(p.n, q.n)); c != 0 {
			return c
		}
	}
	return 0
}

// A versionPart is a number, or a qualifier.
type versionPart struct {
	n    uint64
	word string
}

func versionParts(v string) []versionPart {
	var out []versionPart
	for _, p := range strings.FieldsFunc(strings.ToLower(v), func(r rune) bool { return r == '.' || r == '-' || r == '_' }) {
		if n, err := strconv.ParseUint(p, 10, 64); err == nil {
			out = append(out, versionPart{n: n})
		} else if p != "final" && p != "ga" {
			out = append(out, versionPart{word: p})
		}
	}
	return out
}
