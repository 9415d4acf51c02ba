package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"
)

// The registry's figures: so many subjects while requests are counted, and so many schemas when a start is timed.
const (
	registrySubjects = 10_000
	registrySchemas  = 50_000
	registryClients  = 16
)

// registrySchema is a schema of a table of 8 columns, another for each n.
func registrySchema(n int) string {
	return fmt.Sprintf(`{"type":"record","name":"Value","namespace":"shop.t%d","fields":[{"name":"id","type":"long"},{"name":"customer","type":"long"},`+
		`{"name":"status","type":["null","string"],"default":null},{"name":"total","type":{"type":"bytes","logicalType":"decimal","precision":12,"scale":2}},`+
		`{"name":"created","type":{"type":"long","logicalType":"timestamp-micros"}},{"name":"note","type":["null","string"],"default":null},`+
		`{"name":"paid","type":"boolean"},{"name":"weight","type":"double"}]}`, n)
}

// registry measures requests a second with 10,000 subjects, then a start with 50,000 schemas, and what they take in memory.
func (b *bench) registry(ctx context.Context) (err error) {
	m, err := b.millrace(ctx, filepath.Join(b.dir, "registry"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	api := newREST("Millrace", m.Registry)
	api.client.Transport = &http.Transport{MaxIdleConnsPerHost: registryClients}
	many := func(from, to int, one func(n int) (status int, err error)) (perSecond float64, err error) {
		var next atomic.Int64
		next.Store(int64(from))
		var running sync.WaitGroup
		failed := make(chan error, registryClients)
		began := time.Now()
		for range registryClients {
			running.Go(func() {
				for {
					n := int(next.Add(1) - 1)
					if n >= to || ctx.Err() != nil {
						return
					}
					if status, err := one(n); err != nil || status != http.StatusOK {
						failed <- fmt.Errorf("request %d: status %d: %w", n, status, err)
						return
					}
				}
			})
		}
		running.Wait()
		select {
		case err := <-failed:
			return 0, err
		default:
			return float64(to-from) / time.Since(began).Seconds(), ctx.Err()
		}
	}
	type body struct {
		Schema string `json:"schema"`
	}
	post := func(path string) func(n int) (int, error) {
		return func(n int) (int, error) {
			_, status, err := api.call(ctx, http.MethodPost, fmt.Sprintf("/subjects/shop.t%d-value%s", n, path), body{registrySchema(n)})
			return status, err
		}
	}
	base, _, err := memory(m.Pid())
	if err != nil {
		return err
	}
	registered, err := many(0, registrySubjects, post("/versions"))
	if err != nil {
		return fmt.Errorf("register: %w", err)
	}
	known, err := many(0, registrySubjects, post("/versions"))
	if err != nil {
		return fmt.Errorf("register again: %w", err)
	}
	lookedUp, err := many(0, registrySubjects, post(""))
	if err != nil {
		return fmt.Errorf("look up: %w", err)
	}
	byID, err := many(0, registrySubjects, func(n int) (int, error) {
		_, status, err := api.call(ctx, http.MethodGet, fmt.Sprintf("/schemas/ids/%d", n+1), nil)
		return status, err
	})
	if err != nil {
		return fmt.Errorf("by id: %w", err)
	}
	b.print("registry, %d subjects, %d connections: %.0f registrations/s, %.0f/s of what is there already, %.0f look-ups by schema/s, %.0f by id/s",
		registrySubjects, registryClients, registered, known, lookedUp, byID)
	if _, err := many(registrySubjects, registrySchemas, post("/versions")); err != nil {
		return fmt.Errorf("register: %w", err)
	}
	if err := m.Stop(); err != nil {
		return err
	}
	if err := m.Start(ctx); err != nil {
		return err
	}
	used, err := cpu(m.Pid())
	if err != nil {
		return err
	}
	// The last one is there once the topic was read.
	_, status, err := api.call(ctx, http.MethodGet, fmt.Sprintf("/subjects/shop.t%d-value/versions/latest", registrySchemas-1), nil)
	if err != nil || status != http.StatusOK {
		return fmt.Errorf("after the restart: status %d: %w", status, err)
	}
	b.print("registry, start with %d schemas of %d B: %s to the first answer, %s of the processor's time", registrySchemas, len(registrySchema(registrySchemas)), ms(m.Took), ms(used))
	b.promise(m.Took < 2*time.Second, "a start with %d schemas takes %s, promised are under 2 s", registrySchemas, ms(m.Took))
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(10 * time.Second): // what reading left behind is given back
	}
	now, _, err := memory(m.Pid())
	if err != nil {
		return err
	}
	b.print("registry, memory: %.2f MiB per 1,000 schemas (%.1f MiB resident with %d, %.1f without any)", (now-base)/(registrySchemas/1000), now, registrySchemas, base)
	return nil
}
