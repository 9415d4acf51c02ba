package cmd_test

import (
	"debug/elf"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// containerFile are the instructions of the image's last stage, by their names.
func containerFile(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile("../deploy/container/Containerfile")
	if err != nil {
		t.Fatal(err)
	}
	_, last, found := strings.Cut(string(text), "\nFROM scratch\n")
	if !found {
		t.Fatal("the image holds more than what is copied")
	}
	out := map[string][]string{}
	for line := range strings.Lines(last) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			name, rest, _ := strings.Cut(line, " ")
			out[name] = append(out[name], strings.TrimSpace(rest))
		}
	}
	return out
}

func list(t *testing.T, text string) (args []string) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &args); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return args
}

// What the container file promises, as far as it can be seen without a container: in a root of its own, with what the file copies and no more, and as
// the file's user, the worker starts, is well by the file's own check, keeps its data in the volume, and stops when it is asked.
func TestTheContainerFile(t *testing.T) {
	file := containerFile(t)
	one := func(name string) string {
		t.Helper()
		if len(file[name]) != 1 {
			t.Fatalf("%s stands there %d times", name, len(file[name]))
		}
		return file[name][0]
	}
	if got := one("EXPOSE"); got != "8083 8081 9092" {
		t.Errorf("ports %s, want those that a worker has by default", got)
	}
	volume, user, dir := one("VOLUME"), one("USER"), one("WORKDIR")
	uid, err := strconv.Atoi(strings.Split(user, ":")[0])
	if err != nil || uid == 0 || user != strconv.Itoa(uid)+":"+strconv.Itoa(uid) {
		t.Fatalf("user %s: want a number that is not root's, which needs no file of users", user)
	}
	if !slices.ContainsFunc(file["COPY"], func(s string) bool { return strings.HasSuffix(s, "--chown="+user+" /out/data "+volume) }) {
		t.Errorf("nobody gives %s to the user: %q", volume, file["COPY"])
	}
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	program, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	if libraries, err := program.ImportedLibraries(); err != nil || len(libraries) > 0 || slices.ContainsFunc(program.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
		t.Fatalf("the program needs libraries: %v, %v", libraries, err)
	}
	if os.Geteuid() != 0 {
		t.Skip("only root may give a process a root of its own")
	}

	root := t.TempDir()
	for _, name := range []string{volume, dir} {
		at := filepath.Join(root, name)
		if err := os.MkdirAll(at, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(at, uid, uid); err != nil {
			t.Fatal(err)
		}
	}
	copyFile(t, path, filepath.Join(root, "millrace"))
	within := func(args []string) *exec.Cmd {
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Dir, cmd.Env = dir, []string{}
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}, Pdeathsig: syscall.SIGKILL}
		return cmd
	}
	// The ports alone are not the file's: others run on this machine.
	api := freeAddr(t)
	start := append(slices.Concat(list(t, one("ENTRYPOINT")), list(t, one("CMD"))), "--rest", api, "--kafka", "127.0.0.1:0", "--registry", "127.0.0.1:0")
	_, check, found := strings.Cut(one("HEALTHCHECK"), " CMD ")
	if !found {
		t.Fatal("the health check is no command")
	}
	asks := append(list(t, check), "--url", "http://"+api)
	worker := within(start)
	said := &lockedBuffer{}
	worker.Stdout, worker.Stderr = lineWriter{said}, lineWriter{said}
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	exited := make(chan error, 1)
	go func() { exited <- worker.Wait() }()
	eventually(t, "the worker is well by the file's own check", time.Minute, func() (bool, string) {
		out, err := within(asks).CombinedOutput()
		return err == nil && strings.Contains(string(out), "healthy"), string(out) + said.String()
	})
	if err := worker.Process.Signal(syscall.SIGTERM); err != nil || one("STOPSIGNAL") != "SIGTERM" {
		t.Fatal(err)
	}
	select {
	case err := <-exited:
		if err != nil {
			t.Errorf("%v\n%s", err, said)
		}
	case <-time.After(time.Minute):
		worker.Process.Kill()
		t.Fatalf("it did not stop\n%s", said)
	}
	if out, err := within(asks).CombinedOutput(); err == nil || !strings.Contains(string(out), "no answer") {
		t.Errorf("the check of a worker that is gone: %v %s", err, out)
	}
	if made, err := os.ReadDir(filepath.Join(root, volume, "log")); err != nil || len(made) == 0 {
		t.Errorf("the log is not in the volume: %v", err)
	}
}

// lineWriter keeps what is written in a buffer.
type lineWriter struct{ to *lockedBuffer }

func (w lineWriter) Write(b []byte) (int, error) {
	w.to.add(string(b))
	return len(b), nil
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(out, in)
	if e := out.Close(); err != nil || e != nil {
		t.Fatal(err, e)
	}
}
