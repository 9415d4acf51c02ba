package run

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
)

// SearchVersions are the search servers that there are, by the names of their peers. The names without a number are those that every run has.
var SearchVersions = map[string]string{
	"elasticsearch7": "7.17.29", "elasticsearch": "8.18.4", "elasticsearch9": "9.0.4",
	"opensearch1": "1.3.20", "opensearch": "2.19.6", "opensearch3": "3.9.0",
}

// searchArgs are the script's arguments for a peer of SearchVersions.
func searchArgs(name string, more ...string) []string {
	return append([]string{"search.sh", strings.TrimRight(name, "0123456789"), SearchVersions[name]}, more...)
}

// Search starts a node of the search server of that name in SearchVersions, with its data in dir. settings are further lines of its configuration.
func Search(ctx context.Context, name, dir, settings string) (*Server, error) {
	if SearchVersions[name] == "" {
		return nil, fmt.Errorf("there is no search server %q", name)
	}
	if _, err := Install(ctx, name, io.Discard); err != nil {
		return nil, err
	}
	return newServer(ctx, name, dir, 2, func(s *Server) error {
		s.command = func() (*exec.Cmd, error) {
			cmd, err := script(context.Background(), searchArgs(name, s.Dir, strconv.Itoa(s.Port), strconv.Itoa(s.ports[1].Number))...)
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
