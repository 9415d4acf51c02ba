package run

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strconv"
)

// OpenSearch starts a node of OpenSearch with its data in dir. settings are further lines of its configuration.
func OpenSearch(ctx context.Context, dir, settings string) (*Server, error) {
	return search(ctx, "opensearch", dir, settings)
}

// Elasticsearch starts a node of Elasticsearch with its data in dir. settings are further lines of its configuration.
func Elasticsearch(ctx context.Context, dir, settings string) (*Server, error) {
	return search(ctx, "elasticsearch", dir, settings)
}

func search(ctx context.Context, kind, dir, settings string) (*Server, error) {
	if _, err := Install(ctx, kind, io.Discard); err != nil {
		return nil, err
	}
	return newServer(ctx, kind, dir, 2, func(s *Server) error {
		s.command = func() (*exec.Cmd, error) {
			cmd, err := script(context.Background(), "search.sh", kind, s.Dir, strconv.Itoa(s.Port), strconv.Itoa(s.ports[1].Number))
			if err != nil {
				return nil, err
			}
			cmd.Env = append(cmd.Env, "SETTINGS="+settings)
			return cmd, nil
		}
		// GET / answers before an index that is older than this start can be used.
		s.probe = func(ctx context.Context) error {
			if err := get(ctx, "http://"+s.Addr+"/"); err != nil {
				return err
			}
			return get(ctx, "http://"+s.Addr+"/_cluster/health?wait_for_status=yellow&timeout=4s")
		}
		return nil
	})
}

func get(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s", url, resp.Status)
	}
	return nil
}
