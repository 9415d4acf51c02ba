package run

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// PostgresOptions say how a server differs from the usual one, in which logical decoding is on and the superuser
// postgres logs in from this machine without a password.
type PostgresOptions struct {
	// Version is "" for Debian's own, which is 15 in Debian 12 and has PostGIS, or "18" for the one of Debian's unstable,
	// which has pgvector.
	Version string
	// Settings are server options, e.g. "wal_level": "replica"; they win over the usual ones.
	Settings map[string]string
	// HBA are the lines of pg_hba.conf, in place of one that trusts everybody from 127.0.0.1. The superuser needs a
	// way in as well, or the start is taken for failed.
	HBA []string
	// Password is the superuser's, set when the cluster is made. With it passwords are stored as scram-sha-256.
	Password string
	// Durable keeps fsync on, as measuring needs it. Tests do without: they never cut this server's power.
	Durable bool
}

// Postgres starts a PostgreSQL with its data in dir, which is made anew.
func Postgres(ctx context.Context, dir string, o PostgresOptions) (*Server, error) {
	if _, err := Install(ctx, "postgres"+o.Version, io.Discard); err != nil {
		return nil, err
	}
	bin, err := PostgresBin(ctx, o.Version)
	if err != nil {
		return nil, err
	}
	return newServer(ctx, "postgres", dir, 1, func(s *Server) error { return o.setup(ctx, s, bin) })
}

// PostgresBin is the folder of the programs of an installed PostgreSQL of that version (see PostgresOptions): initdb,
// psql, pg_recvlogical.
func PostgresBin(ctx context.Context, version string) (string, error) {
	cmd, err := script(ctx, "postgres.sh", "bin", version)
	if err != nil {
		return "", err
	}
	b, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("look for PostgreSQL's programs: %w", err)
	}
	dir := strings.TrimSpace(string(b))
	if dir == "" {
		return "", fmt.Errorf("PostgreSQL is not installed; run: apt-get install postgresql")
	}
	return dir, nil
}

func (o PostgresOptions) setup(ctx context.Context, s *Server, bin string) error {
	data := filepath.Join(s.Dir, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		return err
	}
	attr, err := dropRoot(s.Dir, data)
	if err != nil {
		return err
	}
	args := []string{"-D", data, "-U", "postgres", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync", "-A", "trust"}
	if o.Password != "" {
		file := filepath.Join(data, "..", "superuser")
		if err := os.WriteFile(file, []byte(o.Password+"\n"), 0o644); err != nil {
			return err
		}
		defer os.Remove(file)
		args = append(args, "--pwfile="+file)
	}
	initdb := exec.CommandContext(ctx, filepath.Join(bin, "initdb"), args...)
	initdb.Dir, initdb.SysProcAttr = data, attr()
	if out, err := initdb.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb in %s: %w\n%s", data, err, out)
	}
	hba := o.HBA
	if hba == nil {
		hba = []string{"host all all 127.0.0.1/32 trust", "host replication all 127.0.0.1/32 trust"}
	}
	if err := os.WriteFile(filepath.Join(data, "pg_hba.conf"), []byte(strings.Join(hba, "\n")+"\n"), 0o600); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(data, "postgresql.auto.conf"), o.conf(s.Port), 0o600); err != nil {
		return err
	}
	if c := attr().Credential; c != nil {
		for _, f := range []string{"pg_hba.conf", "postgresql.auto.conf"} {
			if err := os.Chown(filepath.Join(data, f), int(c.Uid), int(c.Gid)); err != nil {
				return err
			}
		}
	}
	// SIGINT is PostgreSQL's fast shutdown; SIGQUIT ends it at once but, unlike SIGKILL, leaves no shared memory behind.
	s.stop, s.dying, s.limit = syscall.SIGINT, syscall.SIGQUIT, time.Minute
	s.command = func() (*exec.Cmd, error) {
		cmd := exec.Command(filepath.Join(bin, "postgres"), "-D", data)
		cmd.Dir, cmd.SysProcAttr = data, attr()
		return cmd, nil
	}
	s.probe = func(ctx context.Context) error {
		c, err := pgx.Connect(ctx, PostgresDSN(s.Addr, "postgres", o.Password, "postgres"))
		if err != nil {
			return err
		}
		return c.Close(ctx)
	}
	return nil
}

// PostgresDSN is the address of a database.
func PostgresDSN(addr, user, password, db string) string {
	who := url.User(user)
	if password != "" {
		who = url.UserPassword(user, password)
	}
	return (&url.URL{Scheme: "postgres", User: who, Host: addr, Path: "/" + db, RawQuery: "sslmode=disable"}).String()
}

func (o PostgresOptions) conf(port int) []byte {
	settings := map[string]string{
		"listen_addresses":        "127.0.0.1",
		"port":                    fmt.Sprint(port),
		"unix_socket_directories": "",
		"wal_level":               "logical",
		"max_wal_senders":         "100",
		"max_replication_slots":   "100",
		"max_connections":         "300",
		"shared_buffers":          "64MB",
		"max_wal_size":            "512MB",
		"logging_collector":       "off",
		"log_min_messages":        "warning",
		"timezone":                "UTC",
	}
	if !o.Durable {
		settings["fsync"], settings["synchronous_commit"], settings["full_page_writes"] = "off", "off", "off"
	}
	for k, v := range o.Settings {
		settings[k] = v
	}
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(settings)) {
		fmt.Fprintf(&b, "%s = '%s'\n", k, strings.ReplaceAll(settings[k], "'", "''"))
	}
	return []byte(b.String())
}

// dropRoot returns what a command needs to run as the user postgres when we are root, since PostgreSQL refuses to run
// as root; that user gets the data folder and must be able to walk down to it.
func dropRoot(dir, data string) (func() *syscall.SysProcAttr, error) {
	if os.Getuid() != 0 {
		return func() *syscall.SysProcAttr { return new(syscall.SysProcAttr) }, nil
	}
	uid, gid, err := lookUser("postgres")
	if err != nil {
		return nil, fmt.Errorf("PostgreSQL refuses to run as root: %w; install Debian's package postgresql, which makes it", err)
	}
	if err := Passable(dir); err != nil {
		return nil, err
	}
	if err := os.Chown(data, int(uid), int(gid)); err != nil {
		return nil, err
	}
	return func() *syscall.SysProcAttr {
		return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: gid}}
	}, nil
}

// Passable tells why PostgreSQL could not have its data in dir: run as root, it becomes another user, who must be able to
// walk there.
func Passable(dir string) error {
	if os.Getuid() != 0 {
		return nil
	}
	for at := dir; at != "/"; at = filepath.Dir(at) {
		info, err := os.Stat(at)
		if err != nil {
			return err
		}
		if info.Mode().Perm()&0o001 == 0 {
			return fmt.Errorf("PostgreSQL refuses to run as root, and the user postgres cannot enter %s (mode %v) on the way to its data; choose another TMPDIR", at, info.Mode().Perm())
		}
	}
	return nil
}
