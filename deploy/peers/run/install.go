package run

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

//go:embed scripts
var scripts embed.FS

// unpacked is a folder with the scripts, kept in the cache under a name that changes with their text.
var unpacked = sync.OnceValues(func() (string, error) {
	entries, err := scripts.ReadDir("scripts")
	if err != nil {
		return "", err
	}
	cache, err := CacheDir()
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	text := map[string][]byte{}
	for _, e := range entries {
		b, err := scripts.ReadFile("scripts/" + e.Name())
		if err != nil {
			return "", err
		}
		text[e.Name()] = b
		fmt.Fprintf(sum, "%s %d\n%s", e.Name(), len(b), b)
	}
	dir := filepath.Join(cache, fmt.Sprintf("scripts-%x", sum.Sum(nil)[:6]))
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	part, err := os.MkdirTemp(cache, "scripts.part")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(part)
	for name, b := range text {
		if err := os.WriteFile(filepath.Join(part, name), b, 0o700); err != nil {
			return "", err
		}
	}
	// Whoever comes second finds the name taken by the same files.
	if err := os.Rename(part, dir); err != nil && !errors.Is(err, os.ErrExist) && !errors.Is(err, syscall.ENOTEMPTY) {
		return "", err
	}
	return dir, nil
})

// CacheDir is the folder in which peers are kept from run to run: millrace/peers in the user's cache folder.
func CacheDir() (string, error) {
	if dir := os.Getenv("MILLRACE_PEERS_CACHE"); dir != "" {
		return dir, nil
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no cache folder for the peers: %w; set HOME or MILLRACE_PEERS_CACHE", err)
	}
	return filepath.Join(dir, "millrace", "peers"), nil
}

// Kinds are the peers of every run, in the order in which they are best installed. Install also knows those of SearchVersions.
func Kinds() []string {
	return []string{"postgres", "postgres18", "mysql", "mariadb", "kcat", "python", "avro", "kafka", "connect", "opensearch", "elasticsearch", "s3", "hdfs"}
}

// Install makes sure that the named peer can be started, fetching what is missing (as root, or with sudo where it asks
// for no password). What it prints on the way goes to progress. It returns the peer's folder, where it has one.
func Install(ctx context.Context, kind string, progress io.Writer) (string, error) {
	args := []string{kind + ".sh", "install"}
	switch {
	case SearchVersions[kind] != "":
		args = searchArgs(kind, "install")
	case kind == "postgres18":
		args = []string{"postgres.sh", "install", "18"}
	}
	cmd, err := script(ctx, args...)
	if err != nil {
		return "", err
	}
	var out bytes.Buffer
	var said tailWriter
	cmd.Stdout, cmd.Stderr = &out, io.MultiWriter(progress, &said)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("install %s: %w\n%s", kind, err, said.String())
	}
	return strings.TrimSpace(out.String()), nil
}

func script(ctx context.Context, args ...string) (*exec.Cmd, error) {
	dir, err := unpacked()
	if err != nil {
		return nil, err
	}
	cache, err := CacheDir()
	if err != nil {
		return nil, err
	}
	args[0] = filepath.Join(dir, args[0])
	cmd := exec.CommandContext(ctx, "bash", args...)
	cmd.Env = append(os.Environ(), "CACHE="+cache)
	return cmd, nil
}

// tailWriter keeps the last of what is written to it.
type tailWriter struct{ b []byte }

func (w *tailWriter) Write(p []byte) (int, error) {
	w.b = append(w.b, p...)
	if len(w.b) > 8000 {
		w.b = append([]byte(nil), w.b[len(w.b)-4000:]...)
	}
	return len(p), nil
}

func (w *tailWriter) String() string { return strings.TrimSpace(string(w.b)) }

// lookUser finds the numbers of a user by the file that Debian keeps them in.
func lookUser(name string) (uid, gid uint32, err error) {
	b, err := os.ReadFile("/etc/passwd")
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(b)) {
		f := strings.Split(strings.TrimSpace(line), ":")
		if len(f) < 4 || f[0] != name {
			continue
		}
		u, err1 := strconv.ParseUint(f[2], 10, 32)
		g, err2 := strconv.ParseUint(f[3], 10, 32)
		if err1 != nil || err2 != nil {
			return 0, 0, fmt.Errorf("/etc/passwd: user %s has no numbers", name)
		}
		return uint32(u), uint32(g), nil
	}
	return 0, 0, fmt.Errorf("there is no user %s in /etc/passwd", name)
}
