//go:build synctests

package log_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"millrace/log"
	"millrace/log/logtest"
)

// A table in fake time: reads that wait for hours cost nothing, and everything ends.
func TestSimTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := logtest.New(t)
		var s state
		tb, err := l.OpenTable(t.Context(), log.TableOptions{Topic: "table", Apply: s.apply})
		if err != nil {
			t.Fatal(err)
		}
		defer tb.Close()
		for i := range 3 {
			time.Sleep(10 * time.Hour)
			if err := tb.Put(t.Context(), rec("k", fmt.Sprint(i))); err != nil {
				t.Fatal(err)
			}
			begin := time.Now()
			if err := tb.ReadToEnd(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got, want := s.text(), fmt.Sprintf("map[k:%d]", i); got != want {
				t.Errorf("%s, want %s", got, want)
			}
			if d := time.Since(begin); d > time.Second {
				t.Errorf("reading to the end took %v of fake time", d)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if h := l.Health(ctx); h.State != log.Green {
			t.Errorf("health %+v", h)
		}
	})
}
