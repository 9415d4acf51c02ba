package run

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strconv"
)

// ConnectOptions say how a worker differs: Settings are further lines of its properties; Debezium is "postgres" or
// "mysql" for that connector of Debezium beside the file connectors.
type ConnectOptions struct{ Settings, Debezium string }

// Connect starts a distributed worker of Apache Kafka Connect with its file connectors, against the brokers.
func Connect(ctx context.Context, dir, bootstrap string, o ConnectOptions) (*Server, error) {
	if _, err := Install(ctx, "connect", io.Discard); err != nil {
		return nil, err
	}
	return newServer(ctx, "connect", dir, 1, func(s *Server) error {
		s.command = func() (*exec.Cmd, error) {
			cmd, err := script(context.Background(), "connect.sh", s.Dir, strconv.Itoa(s.Port), bootstrap)
			if err != nil {
				return nil, err
			}
			cmd.Env = append(cmd.Env, "SETTINGS="+o.Settings, "DEBEZIUM="+o.Debezium)
			return cmd, nil
		}
		s.probe = func(ctx context.Context) error { // a worker that has not joined its group answers nothing but this
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.Addr+"/health", nil)
			if err != nil {
				return err
			}
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				return fmt.Errorf("GET /health: %s", resp.Status)
			}
			return nil
		}
		return nil
	})
}
