package cmd_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

const avroClass = "io.confluent.connect.avro.AvroConverter"

func with(conf map[string]string, pairs ...string) map[string]string {
	for i := 0; i < len(pairs); i += 2 {
		conf[pairs[i]] = pairs[i+1]
	}
	return conf
}

// A converter that names no registry asks the worker's own, which answers others as well.
func TestAvroGoesThroughTheWorkersOwnRegistry(t *testing.T) {
	r := newRuns(t)
	in, out := filepath.Join(r.dir, "in.txt"), filepath.Join(r.dir, "out.txt")
	appendTo(t, in, "one\ntwo\nthree\n")
	p := r.start(t)
	p.create("src", with(fileSource("in.txt", "lines"), "value.converter", avroClass))
	p.create("sink", with(fileSink("out.txt", "lines"), "value.converter", avroClass))
	p.until("the lines are in the other file", 60*time.Second, func() (bool, string) {
		got := strings.Join(lines(out), ",")
		return got == "one,two,three", got
	})
	m := regexp.MustCompile(`registry=(http://\S+)`).FindStringSubmatch(p.log.String())
	if m == nil {
		t.Fatal("the worker does not say where its registry is")
	}
	resp, err := http.Get(m[1] + "/subjects/lines-value/versions/1")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, _ := io.ReadAll(resp.Body); !strings.Contains(string(body), `"schema":"\"string\""`) {
		t.Errorf("the registry has %s", body)
	}
}

// cases/worker-log/2: while the registry cannot be reached, nothing is skipped where nothing may be.
func TestNoRecordIsLostWhileTheRegistryIsDown(t *testing.T) {
	var down atomic.Bool
	registry := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case down.Load():
			http.Error(w, `{"error_code":50003,"message":"down for the test"}`, http.StatusServiceUnavailable)
		case r.Method == http.MethodPost:
			fmt.Fprint(w, `{"id":1}`)
		case strings.HasSuffix(r.URL.Path, "/versions"):
			fmt.Fprint(w, `[]`)
		default:
			fmt.Fprint(w, `{"schema":"\"string\""}`)
		}
	}))
	defer registry.Close()
	r := newRuns(t)
	var text, want strings.Builder
	for i := range 10 {
		fmt.Fprintf(&text, "line %d\n", i)
		fmt.Fprintf(&want, "line %d,", i)
	}
	appendTo(t, filepath.Join(r.dir, "in.txt"), text.String())
	p := r.start(t)
	avro := []string{"value.converter", avroClass, "value.converter.schema.registry.url", registry.URL, "value.converter.max.retries", "0"}
	failed := func(name string) {
		t.Helper()
		p.until(name+" has failed", 60*time.Second, func() (bool, string) {
			_, body, err := p.call("GET", "/connectors/"+name+"/status", nil)
			if err != nil {
				return false, err.Error()
			}
			return strings.Contains(string(body), `"FAILED"`) && strings.Contains(string(body), "the schema registry at "+registry.URL), string(body)
		})
	}
	arrived := func(file string) {
		t.Helper()
		p.until("all lines are in "+file, 60*time.Second, func() (bool, string) {
			got := strings.Join(append(lines(filepath.Join(r.dir, file)), ""), ",")
			return got == want.String(), got
		})
	}

	// A source, with retries that are not enough.
	down.Store(true)
	p.create("src", with(with(fileSource("in.txt", "lines"), avro...), "errors.retry.timeout", "500"))
	failed("src")
	down.Store(false)
	p.create("first", with(fileSink("first.txt", "lines"), avro...))
	arrived("first.txt") // the source was started again by itself

	// A sink without retries.
	down.Store(true)
	p.create("second", with(fileSink("second.txt", "lines"), avro...))
	failed("second")
	if got := lines(filepath.Join(r.dir, "second.txt")); len(got) > 0 {
		t.Errorf("while the registry is down the sink wrote %q", got)
	}
	down.Store(false)
	arrived("second.txt")

	// A sink that tolerates all: each record is a dead letter.
	down.Store(true)
	p.create("third", with(with(fileSink("third.txt", "lines"), avro...), "errors.tolerance", "all", "errors.deadletterqueue.topic.name", "dead"))
	p.create("letters", fileSink("letters.txt", "dead"))
	p.until("ten dead letters", 60*time.Second, func() (bool, string) {
		got := lines(filepath.Join(r.dir, "letters.txt"))
		return len(got) == 10, fmt.Sprintf("%q", got)
	})
	down.Store(false)
	p.running("third", 1)
	if got := lines(filepath.Join(r.dir, "third.txt")); len(got) > 0 {
		t.Errorf("dead letters were written as well: %q", got)
	}
}
