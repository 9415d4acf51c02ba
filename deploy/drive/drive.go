// Package drive starts the built binary and drives it as any user does: over REST and the Kafka protocol. The benchmark
// and the demonstration share it. It imports none of Millrace's packages, so that what they show is what a stranger sees.
package drive

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"millrace/deploy/peers/run"
)

// Millrace is a running `millrace standalone`.
type Millrace struct {
	*run.Server
	REST     string // http://127.0.0.1:PORT
	Kafka    string // 127.0.0.1:PORT
	Registry string // http://127.0.0.1:PORT
	Args     []string
	// Took is the time from its start to the first answer of REST.
	Took time.Duration
}

// Options say how Millrace is started.
type Options struct {
	Bin string // the binary
	Dir string // its folder: data, files, and what it prints in millrace.log; Close removes it
	// RESTPort, KafkaPort and RegistryPort are taken when they are free; zero means any.
	RESTPort, KafkaPort, RegistryPort int
	Args                              []string // more of its command line
}

// Start starts Millrace and waits until REST answers.
func Start(ctx context.Context, o Options) (*Millrace, error) {
	bin, err := filepath.Abs(o.Bin)
	if err != nil {
		return nil, err
	}
	var ports []*run.Port
	for _, preferred := range []int{o.RESTPort, o.KafkaPort, o.RegistryPort} {
		var want []int
		if preferred != 0 {
			want = append(want, preferred)
		}
		p, err := run.TakePort(want...)
		if err != nil {
			return nil, err
		}
		ports = append(ports, p)
	}
	m := &Millrace{REST: "http://" + ports[0].Addr(), Kafka: ports[1].Addr(), Registry: "http://" + ports[2].Addr()}
	m.Args = append([]string{"standalone", "--data", filepath.Join(o.Dir, "data"), "--rest", ports[0].Addr(), "--kafka", ports[1].Addr(), "--registry", ports[2].Addr()}, o.Args...)
	var began time.Time
	command := func() *exec.Cmd {
		cmd := exec.Command(bin, m.Args...)
		cmd.Dir = o.Dir
		began = time.Now()
		return cmd
	}
	// A connection of its own for each question: what is measured is the listener, not our pool.
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	probe := func(ctx context.Context) error {
		var err error
		for range 500 { // the caller asks every 20 ms, which is too coarse for a start of that order
			var req *http.Request
			if req, err = http.NewRequestWithContext(ctx, http.MethodGet, m.REST+"/", nil); err != nil {
				return err
			}
			var resp *http.Response
			if resp, err = client.Do(req); err == nil {
				resp.Body.Close()
				if resp.StatusCode == http.StatusOK {
					m.Took = time.Since(began)
					return nil
				}
				err = fmt.Errorf("GET /: %s", resp.Status)
			}
			time.Sleep(time.Millisecond)
		}
		return err
	}
	if m.Server, err = run.Program(ctx, "millrace", o.Dir, ports, command, probe); err != nil {
		return nil, err
	}
	return m, nil
}

// Call makes a REST request. A status of 300 or more is an *APIError. Answers that the group is settling (409, 503) are
// asked again for a while, as Connect's documentation tells its clients to.
func (m *Millrace) Call(ctx context.Context, method, path string, body any) ([]byte, error) {
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return nil, err
		}
	}
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		answer, err := m.once(ctx, method, path, text)
		var refused *APIError
		settling := errors.As(err, &refused) && (refused.Status == http.StatusServiceUnavailable ||
			refused.Status == http.StatusConflict && strings.Contains(refused.Body, "rebalance"))
		if !settling || time.Now().After(deadline) {
			return answer, err
		}
	}
}

func (m *Millrace) once(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, m.REST+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode >= 300 {
		return nil, &APIError{Method: method, Path: path, Status: resp.StatusCode, Body: string(answer)}
	}
	return answer, nil
}

// An APIError is an answer that refuses.
type APIError struct {
	Method, Path string
	Status       int
	Body         string
}

func (e *APIError) Error() string {
	return fmt.Sprintf("%s %s: status %d: %s", e.Method, e.Path, e.Status, strings.TrimSpace(e.Body))
}

// Status is what GET /connectors/NAME/status answers.
type Status struct {
	Connector struct{ State, Trace string }
	Tasks     []struct {
		ID           int
		State, Trace string
	}
}

// Await waits until the connector is in state, and if it is RUNNING, with at least one task, all of them RUNNING. A failed
// one is an error with its trace.
func (m *Millrace) Await(ctx context.Context, name, state string) error {
	var last string
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		answer, err := m.Call(ctx, http.MethodGet, "/connectors/"+name+"/status", nil)
		var refused *APIError
		switch {
		case errors.As(err, &refused) && refused.Status == http.StatusNotFound:
			last = refused.Body // its status is written a moment after it
		case err != nil:
			return err
		default:
			last = string(answer)
			var s Status
			if err := json.Unmarshal(answer, &s); err != nil {
				return fmt.Errorf("status of %s: %w: %s", name, err, answer)
			}
			if s.Connector.State == "FAILED" {
				return fmt.Errorf("connector %s FAILED: %s", name, s.Connector.Trace)
			}
			there := s.Connector.State == state && (state != "RUNNING" || len(s.Tasks) > 0)
			for _, t := range s.Tasks {
				if t.State == "FAILED" {
					return fmt.Errorf("task %d of connector %s FAILED: %s", t.ID, name, t.Trace)
				}
				there = there && t.State == state
			}
			if there {
				return nil
			}
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("connector %s is not %s after two minutes: %s", name, state, last)
		}
	}
}
