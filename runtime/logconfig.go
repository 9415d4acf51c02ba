package runtime

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"millrace/log"
	"millrace/schema/config"
	"millrace/schema/config/javatls"
)

// The settings of the embedded log. Where Kafka's brokers have the same, they have Kafka's name behind "log.".
var (
	logListeners  = config.Key[[]string]{Name: "log.listeners", Doc: "Addresses at which the embedded log speaks the Kafka protocol, as PROTOCOL://HOST:PORT with PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL; none for no port. One that others can reach needs SASL or a client's certificate, or insecure=true.", Default: []string{"PLAINTEXT://127.0.0.1:9092"}, Importance: config.High, Check: logListenerList}
	logAdvertised = config.Key[[]string]{Name: "log.advertised.listeners", Doc: "What clients are told to connect to, one address for each of log.listeners in the same order. Default: the host by which a client came.", Importance: config.Medium, Check: logListenerList}
	logMechanisms = config.Key[[]string]{Name: "log.listener.sasl.enabled.mechanisms", Doc: "Ways to sign in at listeners with SASL: SCRAM-SHA-512, SCRAM-SHA-256, PLAIN.", Default: []string{"SCRAM-SHA-512", "SCRAM-SHA-256"}, Importance: config.Medium, Check: mechanismList}
	logPlainClear = config.Key[bool]{Name: "log.listener.sasl.plain.without.tls", Doc: "Whether PLAIN is offered without TLS to other machines: whoever is on the way reads the passwords.", Importance: config.Low}
	logUsersFile  = config.Key[string]{Name: "log.sasl.users.file", Doc: "File with a line NAME=PASSWORD for each user that must exist. Read at the start; the log keeps what it derives of a password and not the password.", Importance: config.Medium}
	logSupers     = config.Key[string]{Name: "log.super.users", Doc: "Principals that may see and change users, separated by semicolons: User:admin;User:CN=ops.", Importance: config.Low, Check: superUsers}
	logReauth     = config.Key[time.Duration]{Name: "log.connections.max.reauth.ms", Doc: "Time after which clients with SASL must sign in again; 0 for never.", Default: 0, Importance: config.Low, Check: config.AtLeast(time.Duration(0))}

	logFsync       = config.Key[string]{Name: "log.fsync", Doc: "When acks=all is answered: group (after a sync that others share), interval:DURATION or never (before it; a power failure then loses what was acknowledged).", Default: "group", Importance: config.High, Check: log.CheckFsync}
	logOnIOError   = config.Key[string]{Name: "log.on.io.error", Doc: "What happens when the disk fails: exit ends the process, offline keeps it and refuses what needs the disk.", Default: "exit", Importance: config.Low, Check: config.OneOf("exit", "offline")}
	logPartitions  = config.Key[int32]{Name: "log.num.partitions", Doc: "Partitions of topics that do not say.", Default: 1, Importance: config.Medium, Check: config.Between[int32](1, 10_000)}
	logAutoCreate  = config.Key[bool]{Name: "log.auto.create.topics.enable", Doc: "Whether a topic is made when a client asks for one that does not exist.", Default: true, Importance: config.Medium}
	logConnections = config.Key[int32]{Name: "log.max.connections", Doc: "Connections over TCP that are open at once.", Default: 1024, Importance: config.Low, Check: config.AtLeast[int32](1)}
	logPerIP       = config.Key[int32]{Name: "log.max.connections.per.ip", Doc: "Connections over TCP from one address.", Default: 2147483647, Importance: config.Low, Check: config.AtLeast[int32](1)}
	logIdle        = config.Key[time.Duration]{Name: "log.connections.max.idle.ms", Doc: "Time after which a connection over TCP on which nothing happens is closed; -1 for never.", Default: 10 * time.Minute, Importance: config.Low, Check: notZero}
	logMaxRequest  = config.Key[int32]{Name: "log.socket.request.max.bytes", Doc: "Bytes of one request.", Default: 100 << 20, Importance: config.Low, Check: config.AtLeast[int32](1 << 20)}
	logRequests    = config.Key[int64]{Name: "log.queued.max.request.bytes", Doc: "Bytes of requests that are being received, over TCP and within the process each.", Default: 64 << 20, Importance: config.Low, Check: config.AtLeast[int64](1 << 20)}
	logAnswers     = config.Key[int64]{Name: "log.queued.max.response.bytes", Doc: "Bytes of answers that slow clients have not taken yet, over TCP and within the process each.", Default: 64 << 20, Importance: config.Low, Check: config.AtLeast[int64](1 << 20)}
	logMaxParts    = config.Key[int32]{Name: "log.max.partitions", Doc: "Partitions of all topics together.", Default: 10_000, Importance: config.Low, Check: config.AtLeast[int32](10)}
	logMinFree     = config.Key[int64]{Name: "log.min.free.bytes", Doc: "Free bytes of the disk below which clients' writes are refused; -1 for no limit. Default: 5 % of the disk, and at most 1 GiB.", NullDefault: true, Importance: config.Low, Check: config.AtLeast[int64](-1)}
	logBallast     = config.Key[int64]{Name: "log.ballast.bytes", Doc: "Bytes set aside for commits and deletions on a full disk; -1 for none.", Default: 64 << 20, Importance: config.Low, Check: config.AtLeast[int64](-1)}
	logScrub       = config.Key[int64]{Name: "log.scrub.bytes.per.second", Doc: "Bytes a second that are read in the background to verify the checksums of what lies on the disk, one pass a day at most; 0 for no such passes.", Default: 0, Importance: config.Low, Check: config.AtLeast[int64](0)}

	logTLS = javatls.Below("log.listener.ssl.")
	logDef = config.Define(logListeners, logAdvertised, logMechanisms, logPlainClear, logUsersFile, logSupers, logReauth,
		logFsync, logOnIOError, logPartitions, logAutoCreate, logConnections, logPerIP, logIdle, logMaxRequest, logRequests, logAnswers,
		logMaxParts, logMinFree, logBallast, logScrub).Merge(logTLS.Listener())
)

// topicDefaults is what stands before the name of a topic's setting.
const topicDefaults = "log.topic."

// LogConfig is what a worker's settings say of the embedded log.
type LogConfig struct {
	Listeners, Advertised []log.Listener
	StayOffline           bool // when the disk fails
	embedded              log.Config
	usersFile             string
	raw                   map[string]string
	insecure              bool
	clientAuth            string
}

func parseLog(v config.Values, raw map[string]string) (LogConfig, []*config.Error) {
	c := LogConfig{
		StayOffline: strings.EqualFold(logOnIOError.Get(v), "offline"),
		usersFile:   logUsersFile.Get(v), raw: raw, insecure: insecure.Get(v),
		embedded: log.Config{
			Mechanisms: logMechanisms.Get(v), PlainWithoutTLS: logPlainClear.Get(v), Reauth: logReauth.Get(v),
			Fsync: logFsync.Get(v), Partitions: logPartitions.Get(v), NoAutoCreate: !logAutoCreate.Get(v), Defaults: map[string]string{},
			Limits: log.Limits{
				Connections: int(logConnections.Get(v)), PerIP: int(logPerIP.Get(v)), IdleTime: logIdle.Get(v), MaxRequest: logMaxRequest.Get(v),
				RequestMemory: logRequests.Get(v), AnswerMemory: logAnswers.Get(v), Partitions: int(logMaxParts.Get(v)), MinFree: logMinFree.Get(v), Ballast: logBallast.Get(v),
				ScrubRate: logScrub.Get(v),
			},
		},
	}
	for s := range strings.SplitSeq(logSupers.Get(v), ";") {
		if s = strings.TrimSpace(s); s != "" {
			c.embedded.SuperUsers = append(c.embedded.SuperUsers, s)
		}
	}
	c.Listeners, c.Advertised = logListenersOf(logListeners.Get(v)), logListenersOf(logAdvertised.Get(v))
	c.clientAuth = strings.ToLower(strings.TrimSpace(raw["log.listener.ssl.client.auth"]))
	var errs []*config.Error
	for _, key := range slices.Sorted(maps.Keys(raw)) {
		if name, ok := strings.CutPrefix(key, topicDefaults); ok {
			c.embedded.Defaults[name] = strings.TrimSpace(raw[key])
			if err := log.CheckTopicConfig(name, c.embedded.Defaults[name]); err != nil {
				errs = append(errs, &config.Error{Key: key, Value: raw[key], Reason: err.Error()})
			}
		}
	}
	return c, errs
}

// Embedded is the embedded log's configuration: it reads the files that the settings name. Errors name the setting. A
// listener that others can reach and where nobody signs in is one, unless insecure=true.
func (c LogConfig) Embedded(lg *slog.Logger) (log.Config, error) {
	out := c.embedded
	tls := false
	for _, l := range c.Listeners {
		tls = tls || l.TLS()
		out.Listeners = append(out.Listeners, l.String())
		signsIn := l.SASL() || l.TLS() && c.clientAuth == "required"
		switch {
		case l.Loopback() || signsIn && l.TLS():
		case signsIn:
			lg.Warn("what clients write and read at this listener can be read on the way: use SASL_SSL", "listener", l.String())
		case !c.insecure:
			return out, fmt.Errorf("log.listeners (--kafka): others can reach %s and nobody would have to sign in; use a loopback address or SASL_SSL%s, or allow it with insecure=true in the worker's properties (--config insecure=true)", l, certificateHint(l))
		default:
			lg.Warn("whoever reaches this listener may read, write and delete everything (insecure=true)", "listener", l.String())
		}
	}
	for _, l := range c.Advertised {
		out.Advertised = append(out.Advertised, l.String())
	}
	if tls {
		m, errs := logTLS.ReadListener(c.raw, nil, lg)
		if len(errs) > 0 {
			return out, wrongKeys(errs)
		}
		m.Expired()
		out.TLS = m.ListenerTLS()
	}
	if c.usersFile != "" {
		var err error
		if out.Passwords, err = readUsers(c.usersFile); err != nil {
			return out, fmt.Errorf("log.sasl.users.file: %w", err)
		}
	}
	return out, nil
}

// SecretFiles are files that hold secrets, which no connector may open.
func (c LogConfig) SecretFiles() (files []string) {
	for _, f := range []string{c.usersFile, strings.TrimSpace(c.raw["log.listener.ssl.keystore.location"])} {
		if f != "" {
			files = append(files, f)
		}
	}
	return files
}

func certificateHint(l log.Listener) string {
	if l.TLS() {
		return ", ask for certificates with log.listener.ssl.client.auth=required"
	}
	return ""
}

func wrongKeys(errs []*config.Error) error {
	all := make([]error, len(errs))
	for i, e := range errs {
		all[i] = e
	}
	return errors.Join(all...)
}

const maxUsersFile = 1 << 20

// readUsers reads lines NAME=PASSWORD. No error shows a password.
func readUsers(path string) (map[string]string, error) {
	fi, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	switch {
	case !fi.Mode().IsRegular(): // opening a pipe would wait for a writer
		return nil, fmt.Errorf("%s is no regular file", path)
	case fi.Mode().Perm()&0o077 != 0:
		return nil, fmt.Errorf("others can read %s, which holds passwords: chmod 600 %s", path, path)
	case fi.Size() > maxUsersFile:
		return nil, fmt.Errorf("%s is larger than 1 MiB", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	users := map[string]string{}
	lines := bufio.NewScanner(io.LimitReader(f, maxUsersFile))
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		name, password, ok := strings.Cut(line, "=")
		name = strings.TrimSpace(name)
		fail := func(why string) (map[string]string, error) {
			return nil, fmt.Errorf("%s, line %s: %s", path, strconv.Itoa(n), why)
		}
		_, twice := users[name]
		switch {
		case !ok || password == "":
			return fail("want NAME=PASSWORD")
		case twice:
			return fail("the user stands there twice")
		}
		if err := log.CheckUser(name); err != nil {
			return fail(err.Error())
		}
		users[name] = password
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return users, nil
}

func logListenersOf(list []string) (out []log.Listener) {
	for _, s := range list {
		if l, err := log.ParseListener(s); err == nil && s != "none" {
			out = append(out, l)
		}
	}
	return out
}

// logListenerList is a Check.
func logListenerList(list []string) error {
	for _, s := range list {
		if s == "none" && len(list) == 1 {
			continue
		}
		if _, err := log.ParseListener(s); err != nil {
			return err
		}
	}
	return nil
}

func mechanismList(list []string) error {
	if len(list) == 0 {
		return errors.New("name at least one of " + strings.Join(log.Mechanisms(), ", "))
	}
	for _, m := range list {
		if !slices.Contains(log.Mechanisms(), m) {
			return fmt.Errorf("%s is not offered here; these are: %s", m, strings.Join(log.Mechanisms(), ", "))
		}
	}
	return nil
}

func superUsers(text string) error {
	for s := range strings.SplitSeq(text, ";") {
		if s = strings.TrimSpace(s); s != "" && !strings.HasPrefix(s, "User:") {
			return fmt.Errorf("%s is no principal; want User:NAME", s)
		}
	}
	return nil
}

func notZero(d time.Duration) error {
	if d == 0 {
		return errors.New("want a number of milliseconds, or -1 for never")
	}
	return nil
}
