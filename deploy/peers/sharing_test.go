package peers

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/deploy/peers/run"
)

// helperEnv makes TestHelper act as another test process: it does what the variable says, prints one line, and stays until its standard
// input ends or it is killed.
const helperEnv = "MILLRACE_PEERS_HELPER"

func TestHelper(t *testing.T) {
	switch what := os.Getenv(helperEnv); what {
	case "":
		t.Skip("the body of another process")
	case "shared":
		fmt.Println("helper:", net.JoinHostPort("127.0.0.1", fmt.Sprint(Postgres(t).Port)))
	case "own":
		fmt.Println("helper:", net.JoinHostPort("127.0.0.1", fmt.Sprint(PostgresOwn(t, PostgresOptions{}).Port)))
	default:
		o, err := run.Own(what)
		if err != nil {
			t.Fatal(err)
		}
		defer o.Close()
		fmt.Println("helper: owns")
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
}

type helper struct {
	cmd  *exec.Cmd
	said string
}

func startHelper(t *testing.T, what string, env ...string) *helper {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestHelper$", "-test.v")
	cmd.Env = append(os.Environ(), append(env, helperEnv+"="+what)...)
	cmd.Env = slices.DeleteFunc(cmd.Env, func(kv string) bool { return what == "shared" && strings.HasPrefix(kv, run.RunEnv+"=") })
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	h := &helper{cmd: cmd}
	t.Cleanup(func() { h.kill() })
	var all strings.Builder
	for lines := bufio.NewScanner(out); lines.Scan(); {
		all.WriteString(lines.Text() + "\n")
		if said, ok := strings.CutPrefix(lines.Text(), "helper: "); ok {
			h.said = said
			return h
		}
	}
	t.Fatalf("the other process said:\n%s", all.String())
	return nil
}

// kill is SIGKILL: nothing in that process gets a chance to clean up.
func (h *helper) kill() {
	_ = h.cmd.Process.Kill()
	_ = h.cmd.Wait()
}

func listens(addr string) bool {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return false
	}
	_ = c.Close()
	return true
}

// privateTemp is a temporary folder that holds nobody else's owner; as root, the user postgres must be able to enter it.
func privateTemp(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "millrace-sharing-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func TestTwoProcessesShareOneServerThatGoesWithTheLastOfThem(t *testing.T) {
	wanted(t, "postgres")
	tmp := privateTemp(t)
	// Without RunEnv the processes start an owner by themselves, as after a bare `go test`.
	env := []string{"TMPDIR=" + tmp, "MILLRACE_PEERS_LINGER=200ms"}
	first := startHelper(t, "shared", env...)
	second := startHelper(t, "shared", env...)
	if first.said != second.said {
		t.Fatalf("one process got %s, the other %s", first.said, second.said)
	}
	first.kill()
	time.Sleep(time.Second) // several times the linger: the second process still holds the server
	if !listens(first.said) {
		t.Fatal("the server went with the first process")
	}
	second.kill()
	Eventually(t, time.Minute, "the server ends with its last user", func() bool { return !listens(first.said) })
	Eventually(t, time.Minute, "the owner removes its folders", func() bool {
		left, err := filepath.Glob(filepath.Join(tmp, "millrace-peers-*", "run-*"))
		return err == nil && len(left) == 0
	})
}

func TestServersDieWithAKilledOwner(t *testing.T) {
	wanted(t, "postgres")
	tmp := privateTemp(t)
	t.Setenv("TMPDIR", tmp)
	t.Setenv(run.RunEnv, "killed-owner")
	owner := startHelper(t, "killed-owner")
	share, err := run.Join()
	if err != nil {
		t.Fatal(err)
	}
	defer share.Close()
	addr, err := share.Server("postgres")
	if err != nil {
		t.Fatal(err)
	}
	owner.kill()
	Eventually(t, time.Minute, "the server ends", func() bool { return !listens(addr) })
	if _, err := share.Server("postgres"); err == nil || !strings.Contains(err.Error(), "owner of the peers") {
		t.Errorf("asking a dead owner: %v", err)
	}
	if _, err := run.Join(); err == nil || !strings.Contains(err.Error(), "does not answer") {
		t.Errorf("joining a dead owner: %v", err)
	}
	// What the killed one left behind goes with the next folder that is made.
	d, err := run.NewDir()
	if err != nil {
		t.Fatal(err)
	}
	defer d.Remove()
	left, err := filepath.Glob(filepath.Join(tmp, "millrace-peers-*", "run-*[0-9]"))
	if err != nil || len(left) != 1 || left[0] != d.Path {
		t.Errorf("folders left: %v (%v), want only %s", left, err, d.Path)
	}
}

func TestAnOwnServerDiesWithItsKilledTest(t *testing.T) {
	wanted(t, "postgres")
	h := startHelper(t, "own", "TMPDIR="+privateTemp(t))
	if !listens(h.said) {
		t.Fatal("the server does not listen")
	}
	h.kill()
	Eventually(t, time.Minute, "the server ends", func() bool { return !listens(h.said) })
}

func TestPortsAreTakenOnce(t *testing.T) {
	seen := map[int]bool{}
	for range 50 {
		p, err := run.TakePort()
		if err != nil {
			t.Fatal(err)
		}
		defer p.Release()
		if seen[p.Number] {
			t.Fatalf("port %d was given twice", p.Number)
		}
		seen[p.Number] = true
	}
}

func TestPostgresSaysWhichFolderItCannotEnter(t *testing.T) {
	wanted(t, "postgres")
	// As root, PostgreSQL runs as another user, who cannot enter this folder.
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	dir := filepath.Join(privateTemp(t), "closed")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	_, err := run.Postgres(context.Background(), filepath.Join(dir, "pg"), PostgresOptions{})
	if err == nil || !strings.Contains(err.Error(), "cannot enter "+dir) {
		t.Errorf("got %v", err)
	}
}
