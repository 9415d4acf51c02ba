package plugin

import "testing"

func TestVersionsSatisfySpecifications(t *testing.T) {
	for _, c := range []struct {
		version, spec string
		want          bool
	}{
		{"4.3.1", "", true}, {"4.3.1", "latest", true}, {"4.3.1", "4.3.1", true}, {"4.3.1", "9.9.9", false}, {"4.3.1", "[4.3.1]", true}, {"4.3.1", "[4.3.0]", false},
		{"4.3.1", "[4.3.1,)", true}, {"4.3.1", "(4.3.1,)", false}, {"4.3.1", "[4.0,5.0)", true}, {"5.0", "[4.0,5.0)", false}, {"4.3.1", "(,4.3.1]", true}, {"4.3.1", "(,4.3.1)", false},
		{"4.10", "[4.9,)", true}, {"4.3", "[4.3.0]", true}, {"4.3.1", "(,1.0],[4.3,4.4)", true}, {"4.3.1", "(,1.0], [5,)", false}, {"4.3.1", "(,)", true},
		{"3.6.1.Final", "3.6.1.Final", true}, {"3.6.1.Final", "[3.6,3.7)", true}, {"3.6.1.Alpha1", "[3.6.1,)", false}, {"3.6.1.Alpha1", "[3.6.0,)", true},
	} {
		if got, err := (Info{Version: c.version}).Satisfies(c.spec); got != c.want || err != nil {
			t.Errorf("%s satisfies %q: %v (%v), want %v", c.version, c.spec, got, err, c.want)
		}
	}
	for _, spec := range []string{"[", "]", "[1", "1]", "[1,2", "(1)", "[]", "[2,1]", "[1,2,3]", "[1] [2]", "[1],", ",", "1,2", "1 2", "[[1]]", "(,1]x", "[1,(2]"} {
		if ok, err := (Info{Version: "1"}).Satisfies(spec); err == nil {
			t.Errorf("%q is taken for a specification (%v)", spec, ok)
		}
	}
}

func FuzzSatisfies(f *testing.F) {
	for _, s := range []string{"1.2", "[1.2]", "[1,2)", "(,2]", "(,1],[2,)", "latest", "[1.0.Final,)"} {
		f.Add("1.5.Final", s)
	}
	f.Fuzz(func(t *testing.T, version, spec string) {
		i := Info{Version: version}
		if _, err := i.Satisfies(spec); err != nil && spec == "" {
			t.Error(err)
		}
		if a, b := compareVersions(version, spec), compareVersions(spec, version); a != -b {
			t.Errorf("%q against %q is %d, the other way %d", version, spec, a, b)
		}
		if c := compareVersions(version, version); c != 0 {
			t.Errorf("%q against itself is %d", version, c)
		}
	})
}
