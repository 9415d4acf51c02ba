package run

import (
	"context"
	"io"
	"os/exec"
	"strconv"
)

// ApicurioPath is where Apicurio has the API of Confluent's registry.
const ApicurioPath = "/apis/ccompat/v7"

// Apicurio starts an empty Apicurio Registry, which keeps everything in memory.
func Apicurio(ctx context.Context, dir string) (*Server, error) {
	if _, err := Install(ctx, "apicurio", io.Discard); err != nil {
		return nil, err
	}
	return newServer(ctx, "apicurio", dir, 2, func(s *Server) error {
		s.command = func() (*exec.Cmd, error) {
			return script(context.Background(), "apicurio.sh", s.Dir, strconv.Itoa(s.Port), strconv.Itoa(s.ports[1].Number))
		}
		s.probe = func(ctx context.Context) error { return get(ctx, "http://"+s.Addr+ApicurioPath+"/subjects") }
		return nil
	})
}
