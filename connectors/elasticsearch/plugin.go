package elasticsearch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/elastic/go-elasticsearch/v8/esapi"

	"millrace/connectors"
	"millrace/schema/config"
	"millrace/schema/plugin"
)

// Sink is the Elasticsearch sink connector.
var Sink = connectors.SinkPlugin{
	Info: plugin.Info{
		Name:    "elasticsearch",
		Class:   "io.confluent.connect.elasticsearch.ElasticsearchSinkConnector",
		Aliases: []string{"opensearch"},
		Version: "15.0.0",
		Doc:     "Indexes records as documents in Elasticsearch and OpenSearch.",
		Config:  settings,
	},
	TaskClass: "io.confluent.connect.elasticsearch.ElasticsearchSinkTask",
	Reasons:   reasons,
	New:       func(cc connectors.Context, v config.Values) (connectors.Sink, error) { return &sink{cc, v}, nil },
	NewTask:   newTask,
}

type sink struct {
	cc connectors.Context
	v  config.Values
}

var (
	_ connectors.Validator         = (*sink)(nil)
	_ connectors.SinkOffsetAlterer = (*sink)(nil)
	_ connectors.Checker           = (*sink)(nil)
)

// Check implements connectors.Checker.
func (s *sink) Check() []*config.Error { return crossRules(s.v) }

// AlterOffsets implements connectors.SinkOffsetAlterer: the group's offsets are all
// there are. Documents that are indexed again keep the newest version.
func (s *sink) AlterOffsets(context.Context, map[connectors.TopicPartition]*int64) (bool, error) {
	return true, nil
}

// Tasks plans max copies: partitions are shared out among them.
func (s *sink) Tasks(_ context.Context, max int) ([]map[string]string, error) {
	return connectors.Copies(s.v, max), nil
}

// Validate implements connectors.Validator: do the keys fit together, does a server
// answer, is it one that the sink knows, does it take the login?
func (s *sink) Validate(ctx context.Context) []*config.Error {
	if errs := crossRules(s.v); len(errs) > 0 {
		return errs
	}
	urls := connectionURL.Get(s.v)
	wrong := func(format string, args ...any) *config.Error {
		return &config.Error{Key: connectionURL.Name, Value: redactList(strings.Join(urls, ",")), Reason: fmt.Sprintf(format, args...)}
	}
	var silent []string
	for _, u := range urls { // each by itself: a node that is down is no error while another answers
		cl, err := newClient(s.cc.Files, s.v, []string{u})
		var key *config.Error
		switch {
		case errors.As(err, &key):
			return []*config.Error{key}
		case err != nil:
			return []*config.Error{wrong("%v", err)}
		}
		defer cl.close()
		a, err := cl.do(ctx, esapi.InfoRequest{})
		switch {
		case err != nil:
			silent = append(silent, fmt.Sprintf("cannot reach %s: %v", cl.nodes, err))
			continue
		case a.status == http.StatusUnauthorized && apiKey.Get(s.v) != (config.Password{}):
			return []*config.Error{apiKey.Errorf(s.v, "%s refuses the key: %s; correct it", cl.nodes, a.said())}
		case a.status == http.StatusUnauthorized && username.Get(s.v) == "":
			return []*config.Error{username.Errorf(s.v, "%s wants a login; set %s and %s, or %s", cl.nodes, username.Name, password.Name, apiKey.Name)}
		case a.status == http.StatusUnauthorized:
			return []*config.Error{password.Errorf(s.v, "%s refuses the login of %q: %s; correct %s and %s", cl.nodes, username.Get(s.v), a.said(), username.Name, password.Name)}
		case a.status == http.StatusForbidden: // it may not see the version, and may well write
			return nil
		case a.status != http.StatusOK:
			return []*config.Error{wrong("%s answers %d: %s", cl.nodes, a.status, a.said())}
		}
		if err := known(a.body); err != nil {
			return []*config.Error{wrong("%s: %v", cl.nodes, err)}
		}
		if err := newResources(s.v).check(ctx, cl, s.v); err != nil {
			return []*config.Error{err}
		}
		return nil
	}
	return []*config.Error{wrong("%s; start the server or correct the address", strings.Join(silent, "; "))}
}

// known checks a server's word of itself.
func known(body []byte) error {
	var root struct {
		Version struct {
			Number       string `json:"number"`
			Distribution string `json:"distribution"`
		} `json:"version"`
	}
	if json.Unmarshal(body, &root) != nil || root.Version.Number == "" {
		return errors.New("what answers there is no Elasticsearch and no OpenSearch; correct the address")
	}
	major, _, _ := strings.Cut(root.Version.Number, ".")
	if n, err := strconv.Atoi(major); err == nil && n < 7 && root.Version.Distribution == "" {
		return fmt.Errorf("it is Elasticsearch %s; 7 and later are supported", root.Version.Number)
	}
	return nil
}

type choice uint8

const (
	fail choice = iota
	ignore
	warn
	remove
)

func chosen(text string) choice {
	switch strings.ToLower(text) {
	case "ignore":
		return ignore
	case "warn":
		return warn
	case "delete":
		return remove
	}
	return fail
}

// set are the settings as a task uses them.
type set struct {
	batchSize, maxInFlight, maxBuffered, maxRetries int
	bulkBytes                                       int
	linger, flushTimeout, backoff                   time.Duration
	flushSync                                       bool

	keyIgnore, schemaIgnore           bool
	topicKeyIgnore, topicSchemaIgnore map[string]bool
	compact, dropInvalid              bool
	onNull, onMalformed               choice
	versionHeader                     string
	versions, upsert, autoIDs         bool
	resources                         resources
	tolerant                          bool // errors.tolerance=all: what is left out is reported, too
}

func newSet(v config.Values) set {
	topics := func(k config.Key[[]string]) map[string]bool {
		m := map[string]bool{}
		for _, t := range k.Get(v) {
			m[t] = true
		}
		return m
	}
	s := set{
		batchSize: int(batchSize.Get(v)), maxInFlight: int(maxInFlight.Get(v)), maxBuffered: int(maxBuffered.Get(v)), maxRetries: int(maxRetries.Get(v)),
		bulkBytes: int(min(bulkBytes.Get(v), maxUnderWay)), linger: linger.Get(v), flushTimeout: flushTimeout.Get(v), backoff: retryBackoff.Get(v),
		flushSync: flushSync.Get(v), keyIgnore: keyIgnore.Get(v), schemaIgnore: schemaIgnore.Get(v),
		topicKeyIgnore: topics(topicKeyIgnore), topicSchemaIgnore: topics(topicSchemaIgnore),
		compact: compactMaps.Get(v), dropInvalid: dropInvalid.Get(v), onNull: chosen(onNull.Get(v)), onMalformed: chosen(onMalformed.Get(v)),
		versionHeader: versionHeader.Get(v), versions: strings.EqualFold(documentVersions.Get(v), "offset"), upsert: isUpsert(v), autoIDs: autoIDs.Get(v),
		resources: newResources(v),
		tolerant:  strings.EqualFold(strings.TrimSpace(v.Raw["errors.tolerance"]), "all"),
	}
	if s.bulkBytes < 0 {
		s.bulkBytes = maxUnderWay
	}
	return s
}
