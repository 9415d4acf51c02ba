package run

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strconv"
	"time"
)

// HDFSOptions say how many NameNodes there are, of which the first is active, 1 where it is 0; and whether there is Kerberos:
// "authentication", "integrity" or "privacy" says how what is sent is protected. Then krb5.conf and the keytab of alice@PEER.TEST are in the
// folder "secure" of the server's.
type HDFSOptions struct {
	NameNodes int
	Kerberos  string
}

// HDFS starts Apache Hadoop's HDFS with one DataNode. The server's address is that of its control: see HDFSControl.
func HDFS(ctx context.Context, dir string, o HDFSOptions) (*Server, error) {
	nameNodes := max(1, o.NameNodes)
	if _, err := Install(ctx, "hdfs", io.Discard); err != nil {
		return nil, err
	}
	return newServer(ctx, "hdfs", dir, 1+nameNodes, func(s *Server) error {
		args := []string{"hdfs.sh", s.Dir, strconv.Itoa(s.Port)}
		for _, p := range s.ports[1:] {
			args = append(args, strconv.Itoa(p.Number))
		}
		s.command = func() (*exec.Cmd, error) {
			cmd, err := script(context.Background(), args...)
			if err == nil && o.Kerberos != "" {
				cmd.Env = append(cmd.Env, "KERBEROS="+o.Kerberos)
			}
			return cmd, err
		}
		s.probe = func(ctx context.Context) error { return get(ctx, "http://"+s.Addr+"/") }
		return nil
	})
}

// HDFSControl asks a running HDFS to do something, and returns its answer. What there is stands in HdfsPeer.java: namenodes,
// webhdfs/N, namenode/N/stop|start|active|standby, datanode/stop|start, quota/BYTES?PATH.
func HDFSControl(ctx context.Context, addr, what string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/"+what, nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return "", err
	}
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("hdfs: %s: %s", what, body)
	}
	return string(body), nil
}
