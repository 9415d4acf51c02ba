package javatext

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"
)

// regexDifferences are expressions that are treated otherwise than by Java 17, on
// purpose.
var regexDifferences = map[string]string{
	`\ba\b`:   "since Java 19 only ASCII letters are word characters for \\b",
	`\Ba`:     "the same",
	"[a&&]":   "an intersection with nothing: Java takes it for [a]; here it is an error",
	"a{1}{2}": "Java takes the second repetition for something else than it says; here it is an error",
}

func TestRegexpAsTheJVM(t *testing.T) {
	f, err := os.Open("testdata/regex.jsonl.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	compiled := map[string]*Regexp{}
	compared, differ, fast := 0, map[string]bool{}, map[string]bool{}
	for sc := bufio.NewScanner(z); sc.Scan(); {
		var v struct {
			Pattern, Text, All, Error string
			Matches, Find             bool
			Replaced                  map[string]*string
		}
		if err := json.Unmarshal(sc.Bytes(), &v); err != nil {
			t.Fatal(err)
		}
		if regexDifferences[v.Pattern] != "" {
			differ[v.Pattern] = true
			continue
		}
		re := compiled[v.Pattern]
		if re == nil {
			re, err = Compile(v.Pattern)
			if (err != nil) != (v.Error != "") {
				t.Errorf("%q: compiling gives %v, Java gives %q", v.Pattern, err, v.Error)
				regexDifferences[v.Pattern] = "reported"
				continue
			}
			compared++
			if err != nil {
				if err.Error() != v.Error {
					t.Errorf("%q: the error is\n%v\nJava's is\n%s", v.Pattern, err, v.Error)
				}
				continue
			}
			compiled[v.Pattern] = re
			fast[v.Pattern] = re.fast != nil
		}
		check := func(r *Regexp, engine string) {
			matches, err1 := r.MatchWhole(v.Text)
			find, err2 := r.Find(v.Text)
			if err1 != nil || err2 != nil || matches != v.Matches || find != v.Find {
				t.Errorf("%q on %q (%s): matches %v, find %v, %v, %v; Java has %v, %v", v.Pattern, v.Text, engine, matches, find, err1, err2, v.Matches, v.Find)
			}
			// Java replaces what is empty between the halves of a surrogate pair, and so
			// breaks the character.
			if all, err := r.ReplaceAll(v.Text, "<$0>"); !strings.Contains(v.All, "\uFFFD") && (err != nil || all != v.All) {
				t.Errorf("%q on %q, all replaced (%s): %q, %v; Java has %q", v.Pattern, v.Text, engine, all, err, v.All)
			}
			for text, want := range v.Replaced {
				with, err := r.Replacement(text)
				if err != nil {
					// Java notices at the first match only.
					if want != nil && v.Find {
						t.Errorf("%q with %q: %v; Java has %q", v.Pattern, text, err, *want)
					}
					continue
				}
				got, err := with.First(v.Text)
				if err != nil || want == nil || got != *want {
					t.Errorf("%q on %q with %q (%s): %q, %v; Java has %v", v.Pattern, v.Text, text, engine, got, err, str(want))
				}
				compared++
			}
		}
		check(re, "either")
		if re.fast != nil {
			slow := *re
			slow.fast, slow.whole = nil, nil
			check(&slow, "backtracking")
		}
	}
	n := 0
	for _, is := range fast {
		if is {
			n++
		}
	}
	t.Logf("%d compared, %d expressions differ on purpose, %d of %d expressions run on RE2", compared, len(differ), n, len(compiled))
	if compared < 5000 || n < 50 {
		t.Error("too few")
	}
}

func str(s *string) string {
	if s == nil {
		return "an error"
	}
	return strconv.Quote(*s)
}

func TestFloatsAsTheJVM(t *testing.T) {
	f, err := os.Open("testdata/floats.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	same, longer := 0, 0
	for sc := bufio.NewScanner(f); sc.Scan(); {
		p := strings.Fields(sc.Text())
		size := map[string]int{"d": 64, "f": 32}[p[0]]
		bits, err := strconv.ParseUint(p[1], 16, size)
		if err != nil {
			t.Fatal(err)
		}
		got := Double(math.Float64frombits(bits))
		if size == 32 {
			got = Float(math.Float32frombits(uint32(bits)))
		}
		switch {
		case got == p[2]:
			same++
		case len(p[2]) > len(got) || bits < 1<<10:
			// Before Java 19 some numbers were printed with more digits than needed, and
			// some of the smallest not as the nearest number of two digits.
			longer++
			x, err1 := strconv.ParseFloat(got, size)
			y, err2 := strconv.ParseFloat(p[2], size)
			if err1 != nil || err2 != nil || x != y {
				t.Errorf("%s %s: %s is another number than Java's %s", p[0], p[1], got, p[2])
			}
		default:
			t.Errorf("%s %s: %s, Java prints %s", p[0], p[1], got, p[2])
		}
	}
	t.Logf("%d the same, %d longer in Java 17", same, longer)
	if same < 1000 || longer > same/10 {
		t.Error("too many are longer")
	}
}

func TestRegexpTakesNoLongerThanItsLimit(t *testing.T) {
	re, err := Compile(`(?:(?=a)a+)+b`)
	if err != nil {
		t.Fatal(err)
	}
	if ok, err := re.MatchWhole(strings.Repeat("a", 60)); err == nil {
		t.Errorf("an endless match said %v", ok)
	}
	linear, err := Compile(`(a+)+b`)
	if err != nil {
		t.Fatal(err)
	}
	if ok, err := linear.MatchWhole(strings.Repeat("a", 10_000)); ok || err != nil {
		t.Errorf("%v, %v; want no match and no error", ok, err)
	}
}

func TestReplacementNamesTheMissingGroup(t *testing.T) {
	re, err := Compile("ord(.*)")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := re.Replacement("x-$2"); err == nil || !strings.Contains(err.Error(), "No group 2") {
		t.Errorf("$2 of an expression with one group: %v", err)
	}
}

func FuzzCompile(f *testing.F) {
	for _, s := range []string{"ord(.*)", "[a-z&&[^o]]", `\Qa\E+`, "(?<x>a)\\k<x>", "(?x) a # b", "a{2,3}+"} {
		f.Add(s, "orders")
	}
	f.Fuzz(func(t *testing.T, pattern, text string) {
		if len(pattern) > 200 || len(text) > 50 {
			return
		}
		re, err := Compile(pattern)
		if err != nil {
			return
		}
		if _, err := re.MatchWhole(text); err != nil {
			return
		}
		if _, err := re.ReplaceAll(text, "<$0>"); err != nil && !strings.Contains(err.Error(), "longer") {
			t.Fatal(err)
		}
	})
}

func BenchmarkRegexpMatches(b *testing.B) {
	re, err := Compile("ord(.*)")
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if ok, _ := re.MatchWhole("orders.eu.2026"); !ok {
			b.Fatal("no match")
		}
	}
}

func ExampleDouble() {
	fmt.Println(Double(1e7), Double(123.0), Double(1e-5), Double(math.SmallestNonzeroFloat64))
	// Output: 1.0E7 123.0 1.0E-5 4.9E-324
}
