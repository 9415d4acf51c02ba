package s3

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"millrace/connectors"
	"millrace/connectors/connectortest"
	"millrace/deploy/peers"
	"millrace/schema"
)

// answer is a fault that answers so, and does nothing.
func answer(status int, body string) func(f *fault, w http.ResponseWriter, r *http.Request) {
	return func(_ *fault, w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func errorBody(code string) string {
	return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>" + code + "</Code><Message>said so</Message></Error>"
}

// half answers half of what the server says, which has done it; then silence, or the end of the connection.
func half(silent bool) func(f *fault, w http.ResponseWriter, r *http.Request) {
	return func(f *fault, w http.ResponseWriter, r *http.Request) {
		whole := httptest.NewRecorder()
		f.proxy.ServeHTTP(whole, r)
		body := whole.Body.Bytes()
		w.Header().Set("Content-Length", fmt.Sprint(len(body)+100))
		w.WriteHeader(whole.Code)
		_, _ = w.Write(body[:len(body)/2])
		if silent {
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done() // the client gives up
		}
		panic(http.ErrAbortHandler)
	}
}

// Whatever a server answers, or half of it: nothing is committed that is not visible, the task says why it waits, goes on by itself when the fault is over, and
// leaves one whole object and no upload.
func TestFaultsOfTheServer(t *testing.T) {
	isBegin := func(r *http.Request) bool { return r.Method == http.MethodPost && r.URL.Query().Has("uploads") }
	type fails = func(f *fault, w http.ResponseWriter, r *http.Request)
	s := peers.S3(t)
	for _, c := range []struct {
		name  string
		at    func(r *http.Request) bool
		fails fails
		want  *connectors.Reason
		still time.Duration // instead of standstill
	}{
		{"it is too busy for an object", isPut, answer(503, errorBody("SlowDown")), &unavailable, 0},
		{"it is too busy for a part", isPart, answer(503, errorBody("SlowDown")), &unavailable, 0},
		{"it is full", isPut, answer(507, errorBody("XMinioStorageFull")), &full, 0},
		{"it is full amid an upload", isPart, answer(507, ""), &full, 0},
		{"a quota is used up", isPut, answer(403, errorBody("QuotaExceeded")), &full, 0},
		{"an upload is not completed, and the answer is 200", isComplete, answer(200, errorBody("InternalError")), &unavailable, 0},
		{"an upload is not completed, and the answer is 200 without a word", isComplete, answer(200, ""), &unreachable, 0},
		{"a proxy answers that all is well", isPut, answer(200, "<html>please log in"), &unreachable, 0},
		{"a proxy answers that all is well with a part", isPart, answer(200, "<html>please log in"), &unreachable, 0},
		{"a proxy answers in its stead", isBegin, answer(200, "<html>please log in"), &unreachable, 0},
		{"a proxy answers without a word", isBegin, answer(200, ""), &unreachable, 0},
		{"the answer to a completed upload breaks off", isComplete, half(false), &unreachable, 0},
		{"the answer to a completed upload stands still", isComplete, half(true), &unreachable, 2 * time.Second},
		{"the answer to a begun upload breaks off", isBegin, half(false), &unreachable, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.still > 0 {
				defer func(was time.Duration) { standstill = was }(standstill)
				standstill = c.still
			}
			f := front(t, s)
			folder := peers.Unique(t, "faults")
			f.set(func() {
				f.before = func(w http.ResponseWriter, r *http.Request) bool {
					if !c.at(r) {
						return false
					}
					c.fails(f, w, r)
					return true
				}
			})
			size := 1000
			if !c.at(httptest.NewRequest(http.MethodPut, "/", nil)) { // in parts
				size = 700_000
			}
			text := schema.Record{ValueSchema: schema.BytesSchema, Value: schema.BytesValue(bytes.Repeat([]byte("x"), size))}
			var batch []schema.Record
			for o := range int64(10) {
				batch = append(batch, connectortest.At(text, topic, o))
			}
			run := connectortest.NewSinkRun(t, Sink, nil, conf(&f.S3Server, folder, "s3.part.size", "5242880", "s3.part.retries", "1", "format.class", "ByteArrayFormat"), true, topic)
			var err error
			for end := time.Now().Add(time.Minute); err == nil; {
				var taken int
				taken, err = run.TryPut(batch)
				batch = batch[taken:]
				if err == nil {
					err = run.TryFlush()
				}
				if err == nil && time.Now().After(end) {
					t.Fatal("no error")
				}
			}
			if why := connectors.FailureOf(err); why == nil || why.Reason != c.want {
				t.Errorf("it fails with %v", err)
			}
			if run.Committed[topic] != 0 {
				t.Errorf("committed %d", run.Committed[topic])
			}
			f.set(func() { f.before = nil })
			run.Put(batch)
			run.FlushTo(topic, 10)
			run.Close(false, topic)
			got := objects(t, s, folder)
			if want := slices.Repeat(append(bytes.Repeat([]byte("x"), size), '\n'), 10); len(got) != 1 || !bytes.Equal(got["t/partition=0/t+0+0000000000.bin"], want) {
				t.Errorf("%d objects, that of the records has %d bytes, want %d", len(got), len(got["t/partition=0/t+0+0000000000.bin"]), len(want))
			}
			uploads(t, s, folder, 0)
		})
	}
}
