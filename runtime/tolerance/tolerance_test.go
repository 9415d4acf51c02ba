package tolerance

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"millrace/connectors"
	"millrace/schema"
)

var (
	errData = errors.New("field id is no number")
	errGone = connectors.Retriable(errors.New("the registry cannot be reached"))
)

func operator(cfg Config) (*Operator, *bytes.Buffer) {
	var out bytes.Buffer
	return New(cfg, "c-0", slog.New(slog.NewTextHandler(&out, nil)), nil), &out
}

func failure(err error) Failure {
	return Failure{Stage: ValueConverter, Class: "Json", Where: "topic t, partition 0, offset 7", Err: err}
}

func TestWhatBecomesOfARecordThatFails(t *testing.T) {
	for _, c := range []struct {
		name  string
		cfg   Config
		err   error
		again []error // what further tries give; the last one for ever
		skip  bool
		fails bool
		tries int
		took  time.Duration // at most; at least four fifths of it
	}{
		{"a data error fails the task", Config{}, errData, nil, false, true, 0, 0},
		{"or is skipped", Config{TolerateAll: true}, errData, nil, true, false, 0, 0},
		{"it is not tried again, whatever the time", Config{RetryTimeout: time.Hour, RetryDelayMax: time.Minute, TolerateAll: true}, errData, []error{nil}, true, false, 0, 0},
		{"what may pass fails at once without a time for it", Config{}, errGone, []error{nil}, false, true, 0, 0},
		{"it is tried again in time", Config{RetryTimeout: time.Minute, RetryDelayMax: time.Minute}, errGone, []error{errGone, errGone, nil}, false, false, 3, 300*time.Millisecond + 600*time.Millisecond + 1200*time.Millisecond},
		{"it fails when the time is over, and is never dropped", Config{RetryTimeout: 2 * time.Second, RetryDelayMax: time.Second}, errGone, []error{errGone}, false, true, -1, 2 * time.Second},
		{"then it is skipped where that is wanted", Config{RetryTimeout: 2 * time.Second, RetryDelayMax: time.Second, TolerateAll: true}, errGone, []error{errGone}, true, false, -1, 2 * time.Second},
		{"a further try may show that it is the data", Config{RetryTimeout: time.Minute, RetryDelayMax: time.Second}, errGone, []error{errData}, false, true, 1, 300 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o, _ := operator(c.cfg)
				tries := 0
				var again func() error
				if c.again != nil {
					again = func() error {
						tries++
						return c.again[min(tries, len(c.again))-1]
					}
				}
				begun := time.Now()
				skip, err := o.Handle(t.Context(), failure(c.err), again)
				took := time.Since(begun)
				if skip != c.skip || (err != nil) != c.fails {
					t.Errorf("skip %v, error %v", skip, err)
				}
				if c.tries >= 0 && tries != c.tries {
					t.Errorf("%d tries, want %d", tries, c.tries)
				}
				if took > c.took || took < c.took/2 {
					t.Errorf("it took %v, want about %v", took, c.took)
				}
				if c.fails {
					var re *RecordError
					if !errors.As(err, &re) || !strings.Contains(err.Error(), "offset 7") || !strings.Contains(err.Error(), "VALUE_CONVERTER") {
						t.Errorf("error %v", err)
					}
					last := c.err
					if tries > 0 {
						last = c.again[min(tries, len(c.again))-1]
					}
					if connectors.IsRetriable(err) != connectors.IsRetriable(last) {
						t.Errorf("the mark of the cause is lost: %v", err)
					}
				}
			})
		})
	}
}

func TestRetriesWithoutEndHeedTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, _ := operator(Config{RetryTimeout: -1, RetryDelayMax: time.Minute})
		ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
		defer cancel()
		skip, err := o.Handle(ctx, failure(errGone), func() error { return errGone })
		if skip || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("skip %v, %v", skip, err)
		}
		if n := o.Retries.Load(); n < 24*60 || n > 24*60*2 {
			t.Errorf("%d tries in a day, want about one a minute", n)
		}
	})
}

func TestFailuresAreLoggedAsAsked(t *testing.T) {
	for _, c := range []struct {
		cfg           Config
		logged, where bool
	}{
		{Config{TolerateAll: true}, false, false},
		{Config{TolerateAll: true, Log: true}, true, false},
		{Config{TolerateAll: true, Log: true, LogMessages: true}, true, true},
	} {
		o, out := operator(c.cfg)
		f := failure(errData)
		f.Origin = &schema.Origin{Topic: "t", Offset: 7, Timestamp: 5, Value: []byte("a secret")}
		if skip, err := o.Report(t.Context(), f); !skip || err != nil {
			t.Fatal(skip, err)
		}
		text := out.String()
		line := "Error encountered in task c-0. Executing stage 'VALUE_CONVERTER' with class 'Json'"
		if c.where {
			line += ", where consumed record is {topic='t', partition=0, offset=7, timestamp=5, timestampType=CreateTime}"
		}
		if strings.Contains(text, `"`+line+`."`) != c.logged || strings.Contains(text, "a secret") {
			t.Errorf("%+v: %s", c.cfg, text)
		}
	}
	o, out := operator(Config{TolerateAll: true, Log: true, LogMessages: true})
	f := failure(errData)
	f.Where = "LSN 0/1"
	if skip, err := o.Report(t.Context(), f); !skip || err != nil || !strings.Contains(out.String(), "with class 'Json', where source record is = LSN 0/1.") {
		t.Errorf("a source's record: %v %v %s", skip, err, out)
	}
}
