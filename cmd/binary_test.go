package cmd_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"millrace/deploy/peers/run"
)

// built is where the binary was built; "" where no test has wanted one.
var built string

// binary is the path of a millrace built from this tree, once for all tests.
var binary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "millrace-binary-")
	if err != nil {
		return "", err
	}
	built = dir
	path := filepath.Join(dir, "millrace")
	cmd := exec.Command("go", "build", "-o", path, "./millrace")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	return path, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if built != "" {
		os.RemoveAll(built)
	}
	os.Exit(code)
}

// A process is a running millrace.
type process struct {
	t         testing.TB
	cmd       *exec.Cmd
	api       string // http://127.0.0.1:PORT
	kafka     string // 127.0.0.1:PORT
	log       *lockedBuffer
	exited    chan struct{}
	exitError error
}

// lockedBuffer keeps what the process writes, up to a bound, for failed tests.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.b.Len() < 4<<20 {
		l.b.WriteString(line + "\n")
	}
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// runs is a standalone worker with its data in one folder, started as often as a test
// likes.
type runs struct {
	dir  string // working directory
	args []string
	env  []string
}

// newRuns prepares a worker in a folder of its own, on ports of its own.
func newRuns(t testing.TB, args ...string) *runs {
	t.Helper()
	dir := t.TempDir()
	return &runs{dir: dir, args: append([]string{"standalone", "--data", filepath.Join(dir, "data"), "--rest", freeAddr(t), "--kafka", freeAddr(t), "--registry", "127.0.0.1:0"}, args...)}
}

// freeAddr is an address of this machine whose port is the test's, between the runs of a worker, too: the system gives it to no connection.
func freeAddr(t testing.TB) string {
	t.Helper()
	p, err := run.TakePort()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Release(); err != nil {
			t.Error(err)
		}
	})
	return p.Addr()
}

var readyLine = regexp.MustCompile(`msg=ready .*rest=(http://\S+) kafka=(\S+)`)

// start runs the worker and waits until it is ready.
func (r *runs) start(t testing.TB) *process {
	t.Helper()
	p := r.spawn(t)
	select {
	case <-p.ready():
	case <-p.exited:
		t.Fatalf("millrace ended before it was ready: %v\n%s", p.exitError, p.log)
	case <-time.After(60 * time.Second):
		t.Fatalf("millrace is not ready after a minute\n%s", p.log)
	}
	m := readyLine.FindStringSubmatch(p.log.String())
	p.api, p.kafka = m[1], strings.Trim(m[2], `"`)
	return p
}

func (p *process) ready() <-chan struct{} {
	c := make(chan struct{})
	go func() {
		for {
			select {
			case <-p.exited:
				return
			default:
			}
			if readyLine.MatchString(p.log.String()) {
				close(c)
				return
			}
			time.Sleep(2 * time.Millisecond)
		}
	}()
	return c
}

func (r *runs) spawn(t testing.TB) *process {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, r.args...)
	cmd.Dir = r.dir
	cmd.Env = append(os.Environ(), r.env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	pr, pw, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = pw, pw
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pw.Close()
	p := &process{t: t, cmd: cmd, log: &lockedBuffer{}, exited: make(chan struct{})}
	read := make(chan struct{})
	go func() {
		defer close(read)
		defer pr.Close()
		s := bufio.NewScanner(pr)
		s.Buffer(nil, 1<<20)
		for s.Scan() {
			p.log.add(s.Text())
		}
		io.Copy(io.Discard, pr)
	}()
	go func() {
		p.exitError = cmd.Wait()
		<-read
		close(p.exited)
	}()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			text := p.log.String()
			t.Logf("millrace said:\n%s", text[max(0, len(text)-8<<10):])
		}
	})
	return p
}

// kill ends the process at once, as the kernel would when memory is short.
func (p *process) kill() {
	p.cmd.Process.Signal(syscall.SIGKILL) // fails only where it has ended already
	<-p.exited
}

// stop asks the process to end and returns its exit status.
func (p *process) stop() int {
	p.t.Helper()
	p.cmd.Process.Signal(syscall.SIGINT)
	select {
	case <-p.exited:
	case <-time.After(60 * time.Second):
		p.t.Fatalf("millrace did not stop within a minute\n%s", p.log)
	}
	return p.cmd.ProcessState.ExitCode()
}

// peakMiB is the largest memory the process has had in RAM.
func (p *process) peakMiB() int {
	p.t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		p.t.Fatal(err)
	}
	m := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(status)
	kb, err := strconv.Atoi(string(m[1]))
	if err != nil {
		p.t.Fatal(err)
	}
	return kb / 1024
}

// call sends a request to the worker's API and reads the answer.
func (p *process) call(method, path string, body any) (int, []byte, error) {
	var r io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return 0, nil, err
		}
		r = bytes.NewReader(data)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, p.api+path, r)
	if err != nil {
		return 0, nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	return res.StatusCode, data, err
}

// create makes a connector, which must be accepted, once the group has settled.
func (p *process) create(name string, config map[string]string) {
	p.t.Helper()
	var status int
	var body []byte
	var err error
	for until := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		status, body, err = p.call("POST", "/connectors", map[string]any{"name": name, "config": config})
		if status != http.StatusConflict || time.Now().After(until) {
			break
		}
	}
	if err != nil || status != http.StatusCreated {
		p.t.Fatalf("create %s: %d %s %v\n%s", name, status, body, err, p.log)
	}
}

// A status is the states of a connector.
type status struct {
	Connector part
	Tasks     []part
}

type part struct {
	State, Trace string
	Worker       string `json:"worker_id"`
	Reason       *struct{ Code, Summary, Remedy string }
	Restarts     int
	Reading      *struct {
		Snapshot *struct {
			State string
			Rows  int
		}
	}
}

func (p *process) status(name string) (status, error) {
	code, body, err := p.call("GET", "/connectors/"+name+"/status?detail=full", nil)
	if err != nil {
		return status{}, err
	}
	if code != http.StatusOK {
		return status{}, fmt.Errorf("status %d: %s", code, body)
	}
	var s status
	return s, json.Unmarshal(body, &s)
}

// running waits until a connector and all of its tasks run.
func (p *process) running(name string, tasks int) {
	p.t.Helper()
	p.until(name+" is running", 60*time.Second, func() (bool, string) {
		s, err := p.status(name)
		if err != nil {
			return false, err.Error()
		}
		ok := s.Connector.State == "RUNNING" && len(s.Tasks) == tasks
		for _, t := range s.Tasks {
			ok = ok && t.State == "RUNNING"
		}
		return ok, fmt.Sprintf("%+v", s)
	})
}

// until waits for something about the worker; where it does not come, the worker's log is told.
func (p *process) until(what string, limit time.Duration, ok func() (bool, string)) {
	p.t.Helper()
	eventually(p.t, what, limit, ok, p)
}

// String is the worker's log, and whether it has ended.
func (p *process) String() string {
	select {
	case <-p.exited:
		return fmt.Sprintf("%s\nthe worker has ended: %v", p.log, p.exitError)
	default:
		return p.log.String()
	}
}

// eventually waits until ok; the text is what it saw. Where it does not come true, the test ends and tells more.
func eventually(t testing.TB, what string, limit time.Duration, ok func() (bool, string), more ...any) {
	t.Helper()
	for deadline := time.Now().Add(limit); ; {
		is, saw := ok()
		if is {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not so after %v: %s; last seen: %s\n%s", limit, what, saw, fmt.Sprint(more...))
		}
		time.Sleep(30 * time.Millisecond)
	}
}
