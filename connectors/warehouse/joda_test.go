package warehouse

import (
	"bufio"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"millrace/schema/javatext"
)

// testdata/joda.tsv is what Joda-Time 2.12.7 made of patterns, times and zones, and how Confluent's time partitioner rounds
// times down in them.
func TestPathFormatsAreJodas(t *testing.T) {
	f, err := os.Open("testdata/joda.tsv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	formats, floors := 0, 0
	for sc := bufio.NewScanner(f); sc.Scan(); {
		c := strings.Split(sc.Text(), "\t")
		if c[0] == "FLOOR" {
			step, _ := strconv.ParseInt(c[1], 10, 64)
			zone, err := time.LoadLocation(c[2])
			if err != nil {
				t.Fatal(err)
			}
			ms, _ := strconv.ParseInt(c[3], 10, 64)
			if ms < javatext.MillisPerDay { // Java's division rounds up before 1970, which makes two folders one
				continue
			}
			want, _ := strconv.ParseInt(c[4], 10, 64)
			// Of two hours that clocks show in the same way either will do.
			clock := func(ms int64) string { return time.UnixMilli(ms).In(zone).Format("2006-01-02 15:04:05.000") }
			if got := floorTime(ms, step, zone); clock(got) != clock(want) {
				t.Errorf("%s rounded down to %s in %s is %d, want %d", c[3], c[1], c[2], got, want)
			}
			floors++
			continue
		}
		p, err := parsePathFormat(c[0])
		if err != nil {
			t.Errorf("%s: %v", c[0], err)
			continue
		}
		ms, _ := strconv.ParseInt(c[1], 10, 64)
		zone, err := time.LoadLocation(c[2])
		if err != nil {
			t.Fatal(err)
		}
		if got := string(p.append(nil, time.UnixMilli(ms).In(zone))); got != c[3] {
			t.Errorf("%q of %s in %s is %q, want %q", c[0], c[1], c[2], got, c[3])
		}
		formats++
	}
	if formats < 1000 || floors < 250 {
		t.Errorf("only %d formats and %d floors", formats, floors)
	}
}

func TestPatternsThatAreNone(t *testing.T) {
	for pattern, want := range map[string]string{"YYYY/b": "the letter b", "z": "ZZZ", "YYYYYYYYYY": "at most 9", "year": "the letter r"} {
		if _, err := parsePathFormat(pattern); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", pattern, err)
		}
	}
}

func FuzzPathFormat(f *testing.F) {
	f.Add("'year'=YYYY/'month'=MM", int64(1_700_000_000_000))
	f.Add("'it''s' ''", int64(-1))
	f.Fuzz(func(t *testing.T, pattern string, ms int64) {
		p, err := parsePathFormat(pattern)
		if err != nil {
			return
		}
		if got := p.append(nil, time.UnixMilli(ms).UTC()); len(got) > 64*len(pattern)+64 {
			t.Errorf("%d bytes of %d", len(got), len(pattern))
		}
	})
}
