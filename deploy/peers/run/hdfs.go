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

// HDFS starts Apache Hadoop's HDFS with that many NameNodes, of which the first is active, and one DataNode. The server's
// address is that of its control: see HDFSControl.
func HDFS(ctx context.Context, dir string, nameNodes int) (*Server, error) {
	if _, err := Install(ctx, "hdfs", io.Discard); err != nil {
		return nil, err
	}
	return newServer(ctx, "hdfs", dir, 1+nameNodes, func(s *Server) error {
		args := []string{"hdfs.sh", s.Dir, strconv.Itoa(s.Port)}
		for _, p := range s.ports[1:] {
			args = append(args, strconv.Itoa(p.Number))
		}
		s.command = func() (*exec.Cmd, error) { return script(context.Background(), args...) }
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
