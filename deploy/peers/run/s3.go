package run

import (
	"context"
	"io"
	"os/exec"
	"strconv"
)

// What the S3 server takes.
const (
	S3AccessKey = "test"
	S3SecretKey = "testtesttest"
	S3Region    = "us-east-1"
	S3Bucket    = "test"
)

// S3 starts an S3 server with its data in dir.
func S3(ctx context.Context, dir string) (*Server, error) {
	if _, err := Install(ctx, "s3", io.Discard); err != nil {
		return nil, err
	}
	return newServer(ctx, "s3", dir, 1, func(s *Server) error {
		s.command = func() (*exec.Cmd, error) {
			return script(context.Background(), "s3.sh", s.Dir, strconv.Itoa(s.Port))
		}
		s.probe = func(ctx context.Context) error { return get(ctx, "http://"+s.Addr+"/health") }
		return nil
	})
}
