package run

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// A KafkaListener is one more listener of a Kafka, beside the plain one.
type KafkaListener struct {
	Name     string // as in listener.name.NAME.*, in upper case
	Protocol string // SSL, SASL_SSL or SASL_PLAINTEXT
}

// Kafka starts one node of Apache Kafka with its data in dir. settings are further lines of its server's properties. The address of each
// listener is in the server's Listeners.
func Kafka(ctx context.Context, dir, settings string, listeners ...KafkaListener) (*Server, error) {
	if _, err := Install(ctx, "kafka", io.Discard); err != nil {
		return nil, err
	}
	return newServer(ctx, "kafka", dir, 2+len(listeners), func(s *Server) error {
		s.Listeners = map[string]string{}
		addresses, protocols := "", ""
		for i, l := range listeners {
			s.Listeners[l.Name] = s.ports[2+i].Addr()
			addresses += "," + l.Name + "://" + s.ports[2+i].Addr()
			protocols += "," + l.Name + ":" + l.Protocol
		}
		s.command = func() (*exec.Cmd, error) {
			cmd, err := script(context.Background(), "kafka.sh", s.Dir, strconv.Itoa(s.Port), strconv.Itoa(s.ports[1].Number))
			if err != nil {
				return nil, err
			}
			cmd.Env = append(cmd.Env, "SETTINGS="+settings, "LISTENERS="+addresses, "PROTOCOLS="+protocols)
			return cmd, nil
		}
		s.probe = func(ctx context.Context) error {
			c, err := kgo.NewClient(kgo.SeedBrokers(s.Addr))
			if err != nil {
				return err
			}
			defer c.Close()
			adm := kadm.NewClient(c)
			if _, err := adm.ListTopics(ctx); err != nil {
				return err
			}
			// Groups are served a moment later than topics. These five names fall into the five partitions of the offsets
			// topic, which comes into being with this question.
			groups, err := adm.DescribeGroups(ctx, "0", "1", "2", "3", "4")
			for _, g := range groups {
				if !errors.Is(g.Err, kerr.GroupIDNotFound) { // that there is none is what a coordinator answers
					err = errors.Join(err, g.Err)
				}
			}
			return err
		}
		return nil
	})
}

// JavaTools are Kafka's own command line tools, as classes.
type JavaTools struct {
	// Java is the program; Classpath what its -cp takes.
	Java, Classpath string
}

// KafkaTools installs Kafka's clients and tools.
func KafkaTools(ctx context.Context) (JavaTools, error) {
	lib, err := Install(ctx, "kafka", io.Discard)
	if err != nil {
		return JavaTools{}, err
	}
	java, err := exec.LookPath("java")
	if err != nil {
		return JavaTools{}, err
	}
	cache, err := CacheDir()
	if err != nil {
		return JavaTools{}, err
	}
	// The tools write their log to standard output unless told otherwise; only what they print is wanted there.
	conf := filepath.Join(cache, "tools-log")
	if err := os.MkdirAll(conf, 0o755); err != nil {
		return JavaTools{}, err
	}
	const quiet = "appender.err.type = Console\nappender.err.name = err\nappender.err.target = SYSTEM_ERR\nappender.err.layout.type = PatternLayout\n" +
		"appender.err.layout.pattern = [%d] %p %m (%c{1})%n\nrootLogger.level = warn\nrootLogger.appenderRef.err.ref = err\n"
	part, err := os.CreateTemp(conf, "part")
	if err != nil {
		return JavaTools{}, err
	}
	if _, err := part.WriteString(quiet); err != nil {
		return JavaTools{}, err
	}
	if err := part.Close(); err != nil {
		return JavaTools{}, err
	}
	if err := os.Rename(part.Name(), filepath.Join(conf, "log4j2.properties")); err != nil {
		return JavaTools{}, err
	}
	return JavaTools{Java: java, Classpath: conf + ":" + lib + "/*"}, nil
}

// Command is class, e.g. org.apache.kafka.tools.ProducerPerformance, with its arguments. It ends with ctx.
func (j JavaTools) Command(ctx context.Context, class string, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, j.Java, append([]string{"-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", j.Classpath, class}, args...)...)
}

// AvroLibrary installs Avro's Java library and the program AvroPeer, which answers questions about schemas and data: see its source.
func AvroLibrary(ctx context.Context) (JavaTools, error) {
	lib, err := Install(ctx, "avro", io.Discard)
	if err != nil {
		return JavaTools{}, err
	}
	java, err := exec.LookPath("java")
	if err != nil {
		return JavaTools{}, err
	}
	return JavaTools{Java: java, Classpath: lib + ":" + lib + "/*"}, nil
}
