package run

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-mysql-org/go-mysql/client"
)

// MySQLOptions say how a MySQL or MariaDB server differs from the usual one, which has a binary log of whole rows (MySQL:
// and GTIDs) and lets root in without a password.
type MySQLOptions struct {
	// Settings are server options, e.g. "gtid-mode": "OFF"; they win over the usual ones.
	Settings map[string]string
	// Durable keeps the syncs on, as measuring needs it.
	Durable bool
}

func (o MySQLOptions) args(usual map[string]string) []string {
	all := map[string]string{
		"bind-address": "127.0.0.1", "server-id": "1", "log-bin": "binlog", "binlog-format": "ROW", "binlog-row-image": "FULL",
		"max-connections": "300", "innodb-buffer-pool-size": "64M",
	}
	if !o.Durable { // what was committed survives a kill all the same: it was written, not synced
		all["innodb-flush-log-at-trx-commit"], all["sync-binlog"] = "2", "0"
	}
	maps.Copy(all, usual)
	maps.Copy(all, o.Settings)
	var out []string
	for _, k := range slices.Sorted(maps.Keys(all)) {
		out = append(out, "--"+k+"="+all[k])
	}
	return out
}

// MySQL starts a MySQL (the one that Debian sid has) with its data in dir, which is made anew.
func MySQL(ctx context.Context, dir string, o MySQLOptions) (*Server, error) {
	home, err := Install(ctx, "mysql", io.Discard)
	if err != nil {
		return nil, err
	}
	return newServer(ctx, "mysql", dir, 1, func(s *Server) error {
		data := filepath.Join(s.Dir, "data")
		if out, err := exec.CommandContext(ctx, "cp", "-r", "--reflink=auto", filepath.Join(home, "data"), data).CombinedOutput(); err != nil {
			return fmt.Errorf("copy the data directory: %w\n%s", err, out)
		}
		temporary, err := temporaryDir(s)
		if err != nil {
			return err
		}
		usr := filepath.Join(home, "root", "usr")
		args := append([]string{"--library-path", usr + "/lib/x86_64-linux-gnu:" + usr + "/lib/mysql/private", usr + "/sbin/mysqld", "--no-defaults",
			"--basedir=" + usr, "--datadir=" + data, "--lc-messages-dir=" + usr + "/share/mysql", "--character-sets-dir=" + usr + "/share/mysql/charsets",
			"--user=" + userName(), fmt.Sprintf("--port=%d", s.Port), "--socket=" + filepath.Join(s.Dir, "s"), "--mysqlx=OFF",
			"--pid-file=" + filepath.Join(s.Dir, "pid"), "--secure-file-priv=NULL", "--tmpdir=" + temporary},
			o.args(map[string]string{"gtid-mode": "ON", "enforce-gtid-consistency": "ON", "innodb-redo-log-capacity": "64M"})...)
		s.command = func() (*exec.Cmd, error) { return exec.Command(usr+"/lib64/ld-linux-x86-64.so.2", args...), nil }
		s.probe, s.limit = mysqlAnswers(s), time.Minute
		return nil
	})
}

// MariaDB starts a MariaDB (Debian's) with its data in dir, which is made anew.
func MariaDB(ctx context.Context, dir string, o MySQLOptions) (*Server, error) {
	if _, err := Install(ctx, "mariadb", io.Discard); err != nil {
		return nil, err
	}
	return newServer(ctx, "mariadb", dir, 1, func(s *Server) error {
		data := filepath.Join(s.Dir, "data")
		temporary, err := temporaryDir(s)
		if err != nil {
			return err
		}
		cmd, err := script(ctx, "mariadb.sh", "data", data)
		if err != nil {
			return err
		}
		cmd.Env = append(cmd.Env, "TMPDIR="+temporary)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("make the data directory: %w\n%s", err, out)
		}
		args := append([]string{"--no-defaults", "--datadir=" + data, "--tmpdir=" + temporary, "--user=" + userName(), fmt.Sprintf("--port=%d", s.Port),
			"--socket=" + filepath.Join(s.Dir, "s"), "--pid-file=" + filepath.Join(s.Dir, "pid")},
			o.args(map[string]string{"binlog-row-metadata": "FULL"})...)
		s.command = func() (*exec.Cmd, error) { return exec.Command("/usr/sbin/mariadbd", args...), nil }
		s.probe, s.limit = mysqlAnswers(s), time.Minute
		return nil
	})
}

// temporaryDir is a server's own: one that starts removes all temporary tables that lie in its folder, those of another that is running
// among them.
func temporaryDir(s *Server) (string, error) {
	dir := filepath.Join(s.Dir, "tmp")
	return dir, os.MkdirAll(dir, 0o700)
}

func mysqlAnswers(s *Server) func(context.Context) error {
	return func(ctx context.Context) error {
		c, err := client.ConnectWithContext(ctx, s.Addr, "root", "", "", 5*time.Second)
		if err != nil {
			return err
		}
		return c.Close()
	}
}

// userName is the name of whoever we are: a server that root starts must be told that it may run so.
func userName() string {
	b, err := os.ReadFile("/etc/passwd")
	if err == nil {
		for line := range strings.Lines(string(b)) {
			if f := strings.Split(line, ":"); len(f) > 3 && f[2] == fmt.Sprint(os.Getuid()) {
				return f[0]
			}
		}
	}
	return fmt.Sprint(os.Getuid())
}
