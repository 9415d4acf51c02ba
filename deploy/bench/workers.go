package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"millrace/deploy/drive"
	"millrace/deploy/peers/run"
)

// workerParts measure what the worker itself costs, whatever its connectors do.
func (b *bench) workerParts() []part {
	return []part{{"post", b.post}, {"many", b.many}}
}

// rest is a worker's API, ours or Connect's.
type rest struct {
	name, url string
	client    *http.Client
}

func newREST(name, url string) *rest {
	return &rest{name, url, &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}, Timeout: time.Minute}}
}

func (r *rest) call(ctx context.Context, method, path string, body any) ([]byte, int, error) {
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return nil, 0, err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, r.url+path, bytes.NewReader(text))
	if err != nil {
		return nil, 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := r.client.Do(req)
	if err != nil {
		return nil, 0, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	return answer, resp.StatusCode, err
}

// create makes a connector, again while the group settles.
func (r *rest) create(ctx context.Context, name string, conf map[string]string) error {
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		answer, status, err := r.call(ctx, http.MethodPost, "/connectors", map[string]any{"name": name, "config": conf})
		switch {
		case err != nil:
			return err
		case status == http.StatusCreated:
			return nil
		case status == http.StatusConflict && time.Now().Before(deadline):
			continue
		}
		return fmt.Errorf("%s: create %s: status %d: %s", r.name, name, status, answer)
	}
}

// running reports whether the connector and its one task are RUNNING.
func (r *rest) running(ctx context.Context, name string) (bool, error) {
	answer, status, err := r.call(ctx, http.MethodGet, "/connectors/"+name+"/status", nil)
	if err != nil || status != http.StatusOK {
		return false, err
	}
	var s drive.Status
	if err := json.Unmarshal(answer, &s); err != nil {
		return false, err
	}
	for _, t := range s.Tasks {
		if t.State == "FAILED" {
			return false, fmt.Errorf("%s: task of %s failed: %s", r.name, name, t.Trace)
		}
	}
	return s.Connector.State == "RUNNING" && len(s.Tasks) == 1 && s.Tasks[0].State == "RUNNING", nil
}

func (r *rest) awaitRunning(ctx context.Context, name string) error {
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(2 * time.Millisecond) {
		ok, err := r.running(ctx, name)
		switch {
		case err != nil:
			return err
		case ok:
			return nil
		case time.Now().After(deadline):
			return fmt.Errorf("%s: %s is not RUNNING after a minute", r.name, name)
		}
	}
}

func fileSource(file, topic string) map[string]string {
	return map[string]string{"connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector", "tasks.max": "1", "file": file, "topic": topic}
}

// post measures from POST to a running task, and how many statuses a second the API answers, beside Connect on Kafka.
func (b *bench) post(ctx context.Context) (err error) {
	kafka, err := run.Kafka(ctx, filepath.Join(b.dir, "kafka"), "")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, kafka.Close()) }()
	connect, err := run.Connect(ctx, filepath.Join(b.dir, "connect"), kafka.Addr, run.ConnectOptions{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, connect.Close()) }()
	dir := filepath.Join(b.dir, "post")
	m, err := drive.Start(ctx, drive.Options{Bin: b.bin, Dir: dir, Args: []string{"--file-root", b.dir}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	file := filepath.Join(b.dir, "lines.txt")
	if err := os.WriteFile(file, []byte("a\nb\n"), 0o644); err != nil {
		return err
	}
	sides := []*rest{newREST("Millrace", m.REST), newREST("Connect", "http://"+connect.Addr)}
	took := map[*rest][]time.Duration{}
	for i := range b.pairs + 1 { // the first pair warms both up
		for k := range sides {
			r := sides[(i+k)%2]
			name := fmt.Sprintf("post-%d", i)
			begun := time.Now()
			if err := r.create(ctx, name, fileSource(file, "post")); err != nil {
				return err
			}
			if err := r.awaitRunning(ctx, name); err != nil {
				return err
			}
			if i > 0 {
				took[r] = append(took[r], time.Since(begun))
			}
		}
	}
	b.print("POST of a file source to its task RUNNING, medians of %d: Millrace %s, Connect on Kafka %s", b.pairs, ms(median(took[sides[0]])), ms(median(took[sides[1]])))
	rates := map[string][]float64{}
	paths := []string{"/connectors/post-0/status", "/connectors/post-0/status?detail=full"}
	for i := range b.pairs {
		for k := range sides {
			r := sides[(i+k)%2]
			for n, path := range paths {
				if n == 1 && r == sides[1] {
					continue // Connect has no such thing
				}
				rate, err := r.rate(ctx, path, 8, 2*time.Second)
				if err != nil {
					return err
				}
				rates[r.name+path] = append(rates[r.name+path], rate)
			}
		}
	}
	b.print("GET status over 8 connections, medians of %d: Millrace %.0f/s (detail=full %.0f/s), Connect %.0f/s", b.pairs,
		median(rates["Millrace"+paths[0]]), median(rates["Millrace"+paths[1]]), median(rates["Connect"+paths[0]]))
	return nil
}

// rate is how many answers a second a path gives to so many clients at once.
func (r *rest) rate(ctx context.Context, path string, clients int, span time.Duration) (float64, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var n atomic.Int64
	errs := make(chan error, clients)
	var all sync.WaitGroup
	begun := time.Now()
	for range clients {
		all.Go(func() {
			for time.Since(begun) < span {
				_, status, err := r.call(ctx, http.MethodGet, path, nil)
				if err == nil && status != http.StatusOK {
					err = fmt.Errorf("GET %s: status %d", path, status)
				}
				if err != nil {
					errs <- err
					return
				}
				n.Add(1)
			}
		})
	}
	all.Wait()
	select {
	case err := <-errs:
		return 0, err
	default:
		return float64(n.Load()) / time.Since(begun).Seconds(), nil
	}
}

// many runs many connectors, each with a task that follows a file: what they cost at rest, and how long they take to run
// again after a kill.
func (b *bench) many(ctx context.Context) (err error) {
	dir := filepath.Join(b.dir, "many")
	files := filepath.Join(b.dir, "many-files")
	if err := os.MkdirAll(files, 0o755); err != nil {
		return err
	}
	m, err := drive.Start(ctx, drive.Options{Bin: b.bin, Dir: dir, Args: []string{"--file-root", files}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	r := newREST("Millrace", m.REST)
	name := func(i int) string { return fmt.Sprintf("file-%03d", i) }
	begun := time.Now()
	for i := range b.connectors {
		path := filepath.Join(files, name(i))
		if err := os.WriteFile(path, []byte("a line\n"), 0o644); err != nil {
			return err
		}
		if err := r.create(ctx, name(i), fileSource(path, "lines")); err != nil {
			return err
		}
	}
	posted := time.Since(begun)
	if err := r.allRunning(ctx, b.connectors); err != nil {
		return err
	}
	up := time.Since(begun)
	select { // offsets are stored, unused connections closed, garbage is collected and given back
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(80 * time.Second):
	}
	const rest = 10 * time.Second
	before, err := cpu(m.Pid())
	if err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(rest):
	}
	after, err := cpu(m.Pid())
	if err != nil {
		return err
	}
	rss, peak, err := memory(m.Pid())
	if err != nil {
		return err
	}
	b.print("%d connectors with a file task each: POSTed one by one in %s, all RUNNING %s after the first; at rest %.1f MiB resident (%.1f MiB at its highest), %.1f %% of a core",
		b.connectors, ms(posted), ms(up), rss, peak, 100*(after-before).Seconds()/rest.Seconds())
	scrape := time.Now()
	text, status, err := r.call(ctx, http.MethodGet, "/metrics", nil)
	if err != nil || status != http.StatusOK {
		return fmt.Errorf("GET /metrics: status %d, %w", status, err)
	}
	b.print("a scrape of them: %s, %.1f MiB", ms(time.Since(scrape)), float64(len(text))/(1<<20))
	var again []time.Duration
	for range b.pairs {
		if err := m.Kill(); err != nil {
			return err
		}
		began := time.Now()
		if err := m.Start(ctx); err != nil {
			return err
		}
		if err := r.allRunning(ctx, b.connectors); err != nil {
			return err
		}
		again = append(again, time.Since(began))
	}
	b.print("SIGKILL, start, all %d RUNNING again, median of %d: %s", b.connectors, b.pairs, ms(median(again)))
	return nil
}

// allRunning waits until all connectors' tasks run. A state from before a kill says RUNNING as well, so that the metric of
// tasks that have begun in this process decides.
func (r *rest) allRunning(ctx context.Context, n int) error {
	want := fmt.Sprintf("\nkafka_connect_worker_task_startup_success_total %d\n", n)
	for deadline := time.Now().Add(3 * time.Minute); ; time.Sleep(10 * time.Millisecond) {
		text, status, err := r.call(ctx, http.MethodGet, "/metrics", nil)
		if err == nil && status == http.StatusOK && bytes.Contains(text, []byte(want)) {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d tasks do not run after three minutes: %w", n, err)
		}
	}
}
