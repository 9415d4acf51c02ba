package log

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// openCluster reaches a cluster and learns its id, so that a wrong address or wrong credentials are
// found out at the start and named.
func openCluster(ctx context.Context, cfg Config) (*Log, error) {
	l := &Log{cfg: cfg, lg: cfg.logger()}
	l.opts = append(slices.Clone(cfg.ClientOpts), kgo.SeedBrokers(cfg.Seeds...))
	if err := kgo.ValidateOpts(l.opts...); err != nil {
		return nil, fmt.Errorf("client settings of cluster %s: %w", strings.Join(cfg.Seeds, ","), err)
	}
	m, err := l.Admin().BrokerMetadata(ctx)
	if err != nil {
		l.Close(ctx)
		return nil, fmt.Errorf("reach cluster %s (bootstrap.servers): %w%s", strings.Join(cfg.Seeds, ","), err, hint(err))
	}
	l.clusterID = m.Cluster
	return l, nil
}

// As is the log of the same cluster for clients of another identity, which clientOpts make instead of the log's own. Closing it closes nothing
// of the log's. An embedded log knows no identities.
func (l *Log) As(ctx context.Context, clientOpts []kgo.Opt) (*Log, error) {
	cfg := l.cfg
	cfg.ClientOpts = clientOpts
	return openCluster(ctx, cfg)
}

// hint is what to look at, for the errors that people meet first.
func hint(err error) string {
	text := err.Error()
	says := func(part string) bool { return strings.Contains(text, part) }
	var closed *kgo.ErrFirstReadEOF
	switch {
	case errors.Is(err, kerr.SaslAuthenticationFailed) && says("invalid_token"):
		return ": the broker does not take the token of sasl.jaas.config or sasl.oauthbearer.token.endpoint.url: check its issuer, audience, scope and time"
	case errors.Is(err, kerr.SaslAuthenticationFailed):
		return ": check sasl.mechanism and sasl.jaas.config"
	case errors.Is(err, kerr.UnsupportedSaslMechanism):
		return ": that listener wants another sasl.mechanism"
	case errors.Is(err, kerr.IllegalSaslState):
		return ": that listener asks nobody to sign in; check security.protocol and the port"
	case says(" for a token: "):
		return "" // which says itself what to look at
	case errors.Is(err, context.DeadlineExceeded):
		return ": no broker answered in time; check the addresses, and security.protocol if they are right"
	case says("refused"):
		return ": nobody listens there; check the addresses and whether the cluster runs"
	case says("failed to verify certificate"):
		return ": check ssl.truststore.location, and that the certificate is for the address in bootstrap.servers"
	case says("tls alert record"):
		return ": that listener speaks TLS; check security.protocol (SSL or SASL_SSL) and the port"
	case says("remote error: tls"):
		return ": the broker refuses our TLS; check ssl.keystore.location"
	case says("requires TLS"):
		return ": check security.protocol"
	case errors.As(err, &closed) || says("EOF"):
		return ": the broker closed the connection; check security.protocol (TLS or none, SASL or none) and the port"
	}
	return ""
}

// clientLog hands on what a client of the log's own has to say.
func (l *Log) clientLog() kgo.Logger { return ClientLog(l.lg) }

// ClientLog hands on what a Kafka client has to say when it is a warning or worse, under the
// logger org.apache.kafka.clients. Where that has the level debug or lower, it hands on what the
// client does, too.
func ClientLog(lg *slog.Logger) kgo.Logger {
	return clientLog{lg.With("logger", "org.apache.kafka.clients")}
}

type clientLog struct{ lg *slog.Logger }

// trace is a level below debug: each request.
const trace = slog.LevelDebug - 4

// Level implements kgo.Logger. The client asks each time. What it tells at its level of
// information is of interest to whoever looks for a fault.
func (c clientLog) Level() kgo.LogLevel {
	switch ctx := context.Background(); {
	case c.lg.Enabled(ctx, trace):
		return kgo.LogLevelDebug
	case c.lg.Enabled(ctx, slog.LevelDebug):
		return kgo.LogLevelInfo
	}
	return kgo.LogLevelWarn
}

func (c clientLog) Log(level kgo.LogLevel, msg string, kv ...any) {
	to := slog.LevelWarn
	switch level {
	case kgo.LogLevelError:
		to = slog.LevelError
	case kgo.LogLevelInfo:
		to = slog.LevelDebug
	case kgo.LogLevelDebug:
		to = trace
	}
	c.lg.Log(context.Background(), to, "kafka client: "+msg, kv...)
}
