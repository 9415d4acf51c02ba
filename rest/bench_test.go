package rest_test

import (
	"fmt"
	"io"
	"net/http"
	"testing"
)

// BenchmarkStatus asks a live worker for the state of a connector with its task, over
// connections that stay, as tools do that watch: requests per second, one after the
// other and at once.
func BenchmarkStatus(b *testing.B) {
	w := startWorker(b)
	w.write(b, "in.txt", "0\n")
	w.want(b, 201, "", "POST", "/connectors", map[string]any{"name": "src", "config": source(w, "in.txt", "t")})
	for _, path := range []string{"/connectors/src/status", "/connectors/src/status?detail=full", "/connectors?expand=status&expand=info"} {
		ask := func(b *testing.B) {
			res, err := http.Get(w.url + path)
			if err != nil {
				b.Fatal(err)
			}
			defer res.Body.Close()
			if _, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != 200 {
				b.Fatal(res.StatusCode, err)
			}
		}
		b.Run(fmt.Sprintf("one client %s", path), func(b *testing.B) {
			for b.Loop() {
				ask(b)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "req/s")
		})
		b.Run(fmt.Sprintf("many clients %s", path), func(b *testing.B) {
			http.DefaultTransport.(*http.Transport).MaxIdleConnsPerHost = 64
			b.SetParallelism(8)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					ask(b)
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "req/s")
		})
	}
}
