package runtime

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/schema/config"
)

// ClientKind is which of a connector's clients a setting is for.
type ClientKind string

// The kinds of clients, as the beginnings of their settings' names.
const (
	Producer ClientKind = "producer"
	Consumer ClientKind = "consumer"
	Admin    ClientKind = "admin"
)

// A ClientConfig is what Java client settings say, in our client's terms.
type ClientConfig struct {
	Options []kgo.Opt
	// AutoOffsetReset, Group, ClientID and TransactionTimeout are settings that the client's
	// owner needs to know; "" and 0 where not given.
	AutoOffsetReset, Group, ClientID string
	TransactionTimeout               time.Duration
	// Identity is who the client is at the cluster, where that is not who the worker is.
	Identity *ClusterConfig
	Notices  []string // settings that are ignored, with reasons

	prefix             string // of the setting that is being applied, for notices
	session, heartbeat time.Duration
	backoff            struct{ first, most time.Duration }
	compression        compression
}

func (c *ClientConfig) add(o kgo.Opt) { c.Options = append(c.Options, o) }

func (c *ClientConfig) notice(text string) { c.Notices = append(c.Notices, c.prefix+text) }

// within is d, or the nearest that our client takes, with a notice.
func (c *ClientConfig) within(name string, d, low, high time.Duration) time.Duration {
	if got := min(max(d, low), high); got != d {
		c.notice(fmt.Sprintf("%s=%d is taken for %d, the nearest that the client can do", name, d.Milliseconds(), got.Milliseconds()))
		return got
	}
	return d
}

func bounded(c *ClientConfig, name string, n, low, high int32) int32 {
	if got := min(max(n, low), high); got != n {
		c.notice(fmt.Sprintf("%s=%d is taken for %d, the nearest that the worker's memory is sized for", name, n, got))
		return got
	}
	return n
}

// compression is a codec with the levels that were given for any.
type compression struct {
	codec  string
	levels map[string]int32
}

func (k *compression) level(codec string, n int32) {
	if k.levels == nil {
		k.levels = map[string]int32{}
	}
	k.levels[codec] = n
}

func (k *compression) option() (kgo.Opt, bool) {
	if k.codec == "" {
		return nil, false
	}
	codec := map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}[k.codec]
	n, given := k.levels[k.codec]
	switch {
	case !given || n == -1 && k.codec == "gzip":
	case k.codec == "lz4": // Java's levels are those of the high compression mode, our client's are powers of two
		codec = codec.WithLevel(1 << min(8+max(n, 1), 17))
	case k.codec == "zstd": // four levels stand for all
		level := 1
		for _, from := range []int32{3, 6, 10} {
			if n >= from {
				level++
			}
		}
		codec = codec.WithLevel(level)
	default:
		codec = codec.WithLevel(int(n))
	}
	return kgo.ProducerBatchCompression(codec), true
}

// finish adds the options that follow from several settings together.
func (c *ClientConfig) finish() {
	if o, ok := c.compression.option(); ok {
		c.add(o)
	}
	if b := c.backoff; b.first != 0 || b.most != 0 {
		first := cmp.Or(b.first, firstBackoff)
		most := max(first, cmp.Or(b.most, mostBackoff))
		c.add(kgo.RetryBackoffFn(func(n int) time.Duration {
			d := most
			if n < 30 && first<<max(n-1, 0) < most {
				d = first << max(n-1, 0)
			}
			return d - time.Duration(rand.Int64N(int64(d)/5+1))
		}))
	}
}

var allClientSettings = slices.Concat(clientSettings, identityUnused)

// clientDefs are the settings of each kind of client, as listings show them.
var clientDefs = sync.OnceValue(func() map[ClientKind]config.Def {
	fields := map[ClientKind][]config.Field{}
	for _, s := range allClientSettings {
		for _, k := range s.kinds {
			fields[k] = append(fields[k], s.field)
		}
	}
	out := map[ClientKind]config.Def{}
	for k, list := range fields {
		out[k] = config.Define(append(list, identityFields...)...)
	}
	return out
})

// ClientSettings are the settings of a kind of client: what a connector writes behind
// "producer.override." and a worker behind "producer.".
func ClientSettings(kind ClientKind) config.Def { return clientDefs()[kind] }

// ClientOverrides reads a connector's overrides for its clients of a kind over the
// worker's own settings for them ("producer.linger.ms"), and reports every wrong one.
func (c WorkerConfig) ClientOverrides(kind ClientKind, connector map[string]string) (ClientConfig, []*config.Error) {
	own := map[string]string{}
	for key, value := range c.Properties {
		if name, ok := strings.CutPrefix(key, string(kind)+"."); ok && !strings.HasPrefix(name, "override.") {
			own[name] = value
		}
	}
	prefix := string(kind) + ".override."
	theirs := map[string]string{}
	for key, value := range connector {
		if name, ok := strings.CutPrefix(key, prefix); ok {
			theirs[name] = value
		}
	}
	var errs []*config.Error
	pol := c.policy()
	for _, name := range slices.Sorted(maps.Keys(theirs)) {
		if pol.refuses(name) {
			errs = append(errs, &config.Error{Key: prefix + name, Value: ShownClientValue(kind, name, theirs[name]),
				Reason: fmt.Sprintf("The '%s' policy does not allow '%s' to be overridden in the connector configuration.", pol.name, name)})
			delete(theirs, name)
		}
	}
	out := ClientConfig{}
	errs = append(errs, out.read(kind, own, theirs, string(kind)+".", prefix)...)
	prefixOf := func(name string) string {
		if _, ok := theirs[name]; ok {
			return prefix
		}
		if _, ok := own[name]; ok {
			return string(kind) + "."
		}
		return ""
	}
	if c.onCluster() && len(errs) == 0 {
		out.Identity, errs = c.identity(own, theirs, prefixOf)
	}
	if len(errs) == 0 {
		errs = c.otherCluster(kind, own, theirs, prefixOf)
	}
	if connector != nil { // of its own the worker has told already
		out.Notices = slices.DeleteFunc(out.Notices, func(n string) bool { return !strings.HasPrefix(n, prefix) })
	}
	slices.SortStableFunc(errs, func(a, b *config.Error) int { return strings.Compare(a.Key, b.Key) })
	return out, errs
}

// onCluster reports whether the worker's log is a cluster's.
func (c WorkerConfig) onCluster() bool {
	return strings.TrimSpace(c.Properties[bootstrapServers.Name]) != ""
}

// otherCluster refuses settings that lead a client to another cluster than the worker's, and an identity where there is no cluster to show it to.
func (c WorkerConfig) otherCluster(kind ClientKind, own, theirs map[string]string, prefixOf func(name string) string) (errs []*config.Error) {
	for _, name := range slices.Sorted(maps.Keys(theirs)) {
		if isIdentity(name) && !c.onCluster() {
			errs = append(errs, &config.Error{Key: prefixOf(name) + name, Value: ShownClientValue(kind, name, theirs[name]),
				Reason: "this worker keeps its log itself, and no client signs in there: remove it, or run the connector on a worker of a cluster (bootstrap.servers)"})
		}
	}
	for _, settings := range []map[string]string{own, theirs} {
		value, given := settings[bootstrapServers.Name]
		if given && c.onCluster() && strings.TrimSpace(value) != strings.TrimSpace(c.Properties[bootstrapServers.Name]) {
			key := prefixOf(bootstrapServers.Name) + bootstrapServers.Name
			errs = append(errs, &config.Error{Key: key, Value: value, Reason: "a client cannot have a cluster of its own: its records and their offsets are kept in the worker's; remove it, or run the connector on a worker of that cluster"})
			break
		}
	}
	return errs
}

// read applies a client's settings: the worker's own, and over them the connector's.
func (c *ClientConfig) read(kind ClientKind, own, theirs map[string]string, ownPrefix, theirPrefix string) (errs []*config.Error) {
	def := clientDefs()[kind]
	merged := maps.Clone(own)
	maps.Copy(merged, theirs)
	prefixOf := func(name string) string {
		if _, ok := theirs[name]; ok {
			return theirPrefix
		}
		return ownPrefix
	}
	v, wrong := def.Parse(merged)
	bad := map[string]bool{}
	for _, e := range wrong {
		bad[e.Key] = true
		errs = append(errs, &config.Error{Key: prefixOf(e.Key) + e.Key, Value: e.Value, Reason: e.Reason, Missing: e.Missing})
	}
	for _, s := range allClientSettings {
		if !slices.Contains(s.kinds, kind) || !v.Given(s.name) || bad[s.name] {
			continue
		}
		c.prefix = prefixOf(s.name)
		if s.apply == nil {
			c.notice(s.name + " is ignored: " + s.reason)
			continue
		}
		s.apply(c, v)
	}
	for _, name := range v.Undeclared() {
		c.prefix = prefixOf(name)
		c.notice(name + " is ignored: " + c.unknown(kind, name))
	}
	session, beat := c.session, c.heartbeat
	if session == 0 {
		session = 45 * time.Second
	}
	if beat == 0 {
		beat = 3 * time.Second
	}
	if beat >= session {
		key := "heartbeat.interval.ms"
		if c.heartbeat == 0 {
			key = "session.timeout.ms"
		}
		errs = append(errs, &config.Error{Key: prefixOf(key) + key, Value: merged[key],
			Reason: fmt.Sprintf("heartbeats (every %d ms) must come more often than session.timeout.ms (%d); a third of it is usual", beat.Milliseconds(), session.Milliseconds())})
	}
	c.finish()
	return errs
}

// unknown is why a setting has no effect that is none of this kind of client.
func (c *ClientConfig) unknown(kind ClientKind, name string) string {
	for _, s := range clientSettings {
		if s.name == name {
			return "it is no setting of a " + string(kind)
		}
	}
	return "our client has no such setting"
}

// ShownClientValue is the text of a client setting's value as messages may show it.
func ShownClientValue(kind ClientKind, name, value string) string {
	if SecretName(name) {
		return config.Hidden
	}
	if i, ok := clientDefs()[kind].Info(name); ok && i.Type == config.PasswordType {
		return config.Hidden
	}
	return value
}

// SecretName reports whether a setting that nobody declares may hold a secret, by its name.
func SecretName(name string) bool {
	name = strings.ToLower(name)
	for _, part := range []string{"password", "passphrase", "jaas", "secret", "token", "credential", ".key", "apikey", "api_key"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}
