package log

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/log/internal/catalog"
	"millrace/log/internal/store"
	"millrace/log/internal/vfs"
)

// Config says where the log is. With Seeds it is that cluster, and what concerns the embedded broker
// is ignored; otherwise it is the embedded broker on DataDir.
type Config struct {
	DataDir string // directory of the embedded log, created if missing
	// Listeners are TCP addresses of the embedded broker, "127.0.0.1:9092" or "SASL_SSL://0.0.0.0:9093" (see
	// ParseListener); none for in-memory only. Who may listen where is the caller's to decide.
	Listeners  []string
	Advertised []string    // what clients are told instead, one for each of Listeners in the same order, or none
	TLS        *tls.Config // of listeners with SSL
	// Mechanisms are those that listeners with SASL offer; all but PLAIN when there are none.
	Mechanisms      []string
	PlainWithoutTLS bool              // PLAIN over SASL_PLAINTEXT beyond this machine
	Passwords       map[string]string // users that are made or get these passwords at the start
	SuperUsers      []string          // principals that may see and change users, "User:admin"
	Reauth          time.Duration     // after which clients with SASL must sign in again; 0 for never
	// Fsync says when acks=all is answered: "group" (default, after the sync), "interval:<duration>"
	// or "never" (after the write).
	Fsync      string
	Limits     Limits
	Defaults   map[string]string // topic configurations of topics that do not set them
	Partitions int32             // of topics that do not say; 1
	// NoAutoCreate keeps topics from being made because a client asked for them.
	NoAutoCreate bool
	// OnOffline is called once, on its own goroutine, when an I/O error takes the data directory
	// offline. Nothing can be written from then on; the process should end.
	OnOffline func(error)

	Seeds      []string  // addresses of a cluster's brokers
	ClientOpts []kgo.Opt // what its clients need beyond addresses: TLS, SASL
	ClientID   string    // of the clients that this package itself makes; "millrace"
	Logger     *slog.Logger

	FS vfs.FS // of the data directory; nil is the operating system's. Package logtest sets it
}

// Limits of the embedded broker. Zero values get their defaults.
type Limits struct {
	MaxRequest    int32         // bytes of one request, 100 MiB
	RequestMemory int64         // bytes of requests being received, over TCP and in memory each, 64 MiB
	AnswerMemory  int64         // bytes of answers that slow clients have not taken yet, over TCP and in memory each, 64 MiB
	Connections   int           // over TCP, 1024
	PerIP         int           // connections over TCP from one address; 0 for no limit of its own
	IdleTime      time.Duration // after which a connection over TCP without requests is closed, 10 min; negative: never
	Partitions    int           // 10000
	OpenFiles     int           // segment files kept open, 512
	MinFree       int64         // bytes of disk below which client topics are refused; min(1 GiB, 5 %), negative: none
	Ballast       int64         // bytes set aside for commits and deletions on a full disk, 64 MiB, negative: none
	// ScrubRate is how many bytes a second are read in the background to verify what lies on the disk, a pass a day; 0: none.
	ScrubRate int64
}

func (c Config) logger() *slog.Logger {
	if c.Logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return c.Logger
}

func (c Config) clientID() string {
	if c.ClientID == "" {
		return "millrace"
	}
	return c.ClientID
}

// CheckFsync reports what is wrong with a value of Config.Fsync.
func CheckFsync(s string) error {
	_, _, err := parseFsync(s)
	return err
}

// CheckTopicConfig reports what is wrong with a topic configuration: Config.Defaults holds such ones.
func CheckTopicConfig(name, value string) error { return catalog.CheckConfig(name, value) }

// CheckUser reports why nobody can have that name.
func CheckUser(name string) error { return catalog.CheckUser(name) }

// parseFsync reads Config.Fsync.
func parseFsync(s string) (mode store.Fsync, every time.Duration, err error) {
	kind, rest, timed := strings.Cut(s, ":")
	switch {
	case s == "" || s == "group":
		return store.FsyncGroup, 0, nil
	case s == "never":
		return store.FsyncNever, 0, nil
	case kind == "interval" && timed:
		if every, err = time.ParseDuration(rest); err == nil && every > 0 {
			return store.FsyncInterval, every, nil
		}
	}
	return 0, 0, fmt.Errorf("log.fsync is %q, must be group, never, or interval:<duration> as in interval:100ms", s)
}
