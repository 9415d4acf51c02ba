package peers

import (
	"context"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"millrace/deploy/peers/run"
)

// Env is the variable that says whether peers are wanted: required, try, or nothing.
const Env = "MILLRACE_PEERS"

// wanted skips the test unless peers are asked for.
func wanted(t testing.TB, what string) {
	t.Helper()
	switch v := os.Getenv(Env); v {
	case "required", "try":
	case "":
		t.Skipf("needs a real %s: run it with %s=required (it is then installed and started), or by make test", what, Env)
	default:
		t.Fatalf("%s=%s: it is required, try, or not set", Env, v)
	}
}

// missing ends a test whose peer could not be had.
func missing(t testing.TB, what string, err error) {
	t.Helper()
	if os.Getenv(Env) == "try" {
		t.Skipf("no %s: %v", what, err)
	}
	t.Fatalf("no %s: %v", what, err)
}

var share struct {
	sync.Mutex
	joined *run.Share       // guarded by the mutex; open until the process ends
	failed map[string]error // what could not be had is not tried again by every test
}

// shared is the address of the run's server of that kind.
func shared(t testing.TB, kind string) string {
	t.Helper()
	wanted(t, kind)
	addr, err := ask(kind)
	if err != nil {
		missing(t, kind, err)
	}
	return addr
}

func ask(kind string) (string, error) {
	share.Lock()
	defer share.Unlock()
	if err := share.failed[kind]; err != nil {
		return "", err
	}
	addr, err := func() (string, error) {
		if share.joined == nil {
			s, err := run.Join()
			if err != nil {
				return "", err
			}
			share.joined = s
		}
		return share.joined.Server(kind)
	}()
	if err != nil {
		if share.failed == nil {
			share.failed = map[string]error{}
		}
		share.failed[kind] = err
	}
	return addr, err
}

var (
	ownOnce sync.Once
	ownDir  *run.Dir
	ownErr  error
	ownNext atomic.Int64
)

// own starts a server that belongs to this test and is gone after it.
func own(t testing.TB, kind string, start func(ctx context.Context, dir string) (*run.Server, error)) *Control {
	t.Helper()
	wanted(t, kind)
	ownOnce.Do(func() { ownDir, ownErr = run.NewDir() })
	if ownErr != nil {
		t.Fatal(ownErr)
	}
	s, err := start(context.Background(), filepath.Join(ownDir.Path, kind+strconv.FormatInt(ownNext.Add(1), 10)))
	if err != nil {
		missing(t, kind, err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("end %s: %v", kind, err)
		}
	})
	return &Control{server: s}
}

// Control is what a test may do to a server of its own. On a shared server every method fails the test.
type Control struct{ server *run.Server }

func (c *Control) must(t testing.TB, f func(*run.Server) error) {
	t.Helper()
	if c == nil {
		t.Fatal("a shared server belongs to other tests as well; take one of your own (PostgresOwn, KafkaOwn …)")
	}
	if err := f(c.server); err != nil {
		t.Fatal(err)
	}
}

// Stop ends the server in order (PostgreSQL: fast shutdown) and waits until it is gone.
func (c *Control) Stop(t testing.TB) { t.Helper(); c.must(t, (*run.Server).Stop) }

// Kill ends all the server's processes with SIGKILL and waits until they are gone.
func (c *Control) Kill(t testing.TB) { t.Helper(); c.must(t, (*run.Server).Kill) }

// Start starts the stopped or killed server on its old port and data and waits until it answers.
func (c *Control) Start(t testing.TB) {
	t.Helper()
	c.must(t, func(s *run.Server) error { return s.Start(context.Background()) })
}

// Restart is Stop and Start.
func (c *Control) Restart(t testing.TB) { t.Helper(); c.Stop(t); c.Start(t) }

// Halt freezes the whole server, connections included: packets are taken by the kernel and nobody answers.
func (c *Control) Halt(t testing.TB) { t.Helper(); c.must(t, (*run.Server).Halt) }

// Resume lets a halted server go on.
func (c *Control) Resume(t testing.TB) { t.Helper(); c.must(t, (*run.Server).Resume) }

// Log is the name of the file with what the server says.
func (c *Control) Log(t testing.TB) string {
	t.Helper()
	c.must(t, func(*run.Server) error { return nil })
	return c.server.Log()
}

// Unique is a name for something on a shared server that no other test has: it starts with prefix and the test's name,
// in lower-case letters, digits and underscores, at most 50 long.
func Unique(t testing.TB, prefix string) string {
	var b strings.Builder
	b.WriteString(prefix)
	b.WriteByte('_')
	for _, r := range strings.ToLower(t.Name()) {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			b.WriteRune(r)
		} else {
			b.WriteByte('_')
		}
	}
	name := b.String()
	if len(name) > 38 {
		name = name[:38]
	}
	// Always as long: names stand in answers, with their length.
	const six = 36 * 36 * 36 * 36 * 36 * 36
	return name + "_" + strconv.FormatInt(six+rand.Int64N(six), 36)[1:]
}

// Kcat is the path of kcat, a Kafka client that shares no code with ours.
func Kcat(t testing.TB) string {
	t.Helper()
	wanted(t, "kcat")
	if _, err := run.Install(context.Background(), "kcat", io.Discard); err != nil {
		missing(t, "kcat", err)
	}
	path, err := exec.LookPath("kcat")
	if err != nil {
		missing(t, "kcat", err)
	}
	return path
}

// A Python is an interpreter with confluent-kafka, which is librdkafka's client, and with pyarrow, fastavro and DuckDB.
type Python struct{ path string }

// PythonClients is such a Python 3 in an environment of its own.
func PythonClients(t testing.TB) Python {
	t.Helper()
	wanted(t, "Python with confluent-kafka and pyarrow")
	path, err := run.Install(context.Background(), "python", io.Discard)
	if err != nil {
		missing(t, "Python with confluent-kafka and pyarrow", err)
	}
	return Python{path}
}

// Command is a program with its arguments (sys.argv[1:]); what it prints is not buffered. It ends with ctx.
func (p Python) Command(ctx context.Context, program string, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, p.path, append([]string{"-u", "-c", program}, args...)...)
}

// Run runs a program to its end and returns what it printed. One that fails, which an exception does, fails the test
// with its traceback.
func (p Python) Run(ctx context.Context, t testing.TB, program string, args ...string) string {
	t.Helper()
	cmd := p.Command(ctx, program, args...)
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("python %s: %v\n%s%s", strings.Join(args, " "), err, out, said.String())
	}
	return string(out)
}

// JavaTools are Kafka's own clients and command line tools: Command(ctx, class, args…) runs one of them.
type JavaTools = run.JavaTools

// KafkaTools are Kafka 4.4's tools, e.g. org.apache.kafka.tools.ConsoleProducer, ConsoleConsumer, ProducerPerformance,
// consumer.group.ConsumerGroupCommand, and kafka.tools.DumpLogSegments. What they log goes to standard error.
func KafkaTools(t testing.TB) JavaTools {
	t.Helper()
	wanted(t, "Kafka's tools")
	j, err := run.KafkaTools(context.Background())
	if err != nil {
		missing(t, "Kafka's tools", err)
	}
	return j
}

// AvroLibrary is Avro's Java library behind the program AvroPeer, which answers a line of JSON with a line of JSON: which schema reads
// what another wrote, and what data hold.
func AvroLibrary(t testing.TB) JavaTools {
	t.Helper()
	wanted(t, "Avro's Java library")
	j, err := run.AvroLibrary(context.Background())
	if err != nil {
		missing(t, "Avro's Java library", err)
	}
	return j
}

// Eventually waits until ok reports true and fails the test when it has not within limit.
func Eventually(t testing.TB, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(limit); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("after %s still not: %s", limit, what)
		}
	}
}
