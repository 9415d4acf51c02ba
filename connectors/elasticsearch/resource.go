package elasticsearch

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/elastic/go-elasticsearch/v8/esapi"

	"millrace/schema/config"
)

// topicPlace stands for the topic in data.stream.namespace.
const topicPlace = "${topic}"

// maxNamespace is what of a data stream's namespace is kept, in bytes.
const maxNamespace = 100

// resources say where the documents of a topic go: an index or a data stream by the topic's name, or what was made
// elsewhere.
type resources struct {
	stream    bool // documents are created in a data stream
	external  bool
	kind      string // with external: what external.resource.usage says, in lower case
	byTopic   map[string]string
	typ       string // with stream, unless external
	dataset   string
	namespace string
}

func newResources(v config.Values) resources {
	r := resources{kind: strings.ToLower(resourceUsage.Get(v))}
	if r.external = r.kind != "disabled"; r.external {
		r.stream = strings.HasSuffix(r.kind, "datastream")
		r.byTopic, _ = resourcePairs(resourceMap.Get(v))
		return r
	}
	r.typ = strings.ToLower(streamType.Get(v))
	if r.stream = r.typ != "none"; r.stream {
		r.dataset, r.namespace = streamDataset.Get(v), streamNamespace.Get(v)
	}
	return r
}

// name is where the documents of a topic go.
func (r resources) name(topic string) (string, error) {
	switch {
	case r.external:
		if name, ok := r.byTopic[topic]; ok {
			return name, nil
		}
		return "", fmt.Errorf("topic %q has no resource in %s; add %s:RESOURCE to it", topic, resourceMap.Name, topic)
	case r.stream:
		return r.streamName(topic)
	}
	return indexName(topic)
}

// streamName is type-dataset-namespace in lower case, the namespace cut to 100 bytes.
func (r resources) streamName(topic string) (string, error) {
	space := cut(strings.ToLower(strings.ReplaceAll(r.namespace, topicPlace, topic)), maxNamespace)
	if space == "" {
		return "", fmt.Errorf("topic %q makes an empty namespace of a data stream; correct %s", topic, streamNamespace.Name)
	}
	if err := streamPart(space); err != nil {
		return "", fmt.Errorf("topic %q makes no name of a data stream: %w; set %s, or name another topic with RegexRouter", topic, err, streamNamespace.Name)
	}
	return strings.ToLower(r.typ + "-" + r.dataset + "-" + space), nil
}

// cut is text without what stands beyond n bytes, at the end of a character.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}

// streamPart is a Check: what stands in a part of a data stream's name.
func streamPart(s string) error {
	if len(s) > maxNamespace {
		return fmt.Errorf("it has %d bytes, and a part of a data stream's name has at most %d", len(s), maxNamespace)
	}
	if at := strings.IndexAny(s, "\\/*?\"<>| ,#:-"); at >= 0 {
		return fmt.Errorf("%q holds %q; a part of a data stream's name holds none of \\ / * ? \" < > | , # : - and no space", s, s[at:at+1])
	}
	return nil
}

// resourcePairs reads topic:resource pairs.
func resourcePairs(pairs []string) (map[string]string, error) {
	out := map[string]string{}
	for _, p := range pairs {
		topic, resource, ok := strings.Cut(strings.TrimSpace(p), ":")
		topic, resource = strings.TrimSpace(topic), strings.TrimSpace(resource)
		if !ok || topic == "" || resource == "" || strings.Contains(resource, ":") {
			return nil, fmt.Errorf("%q is no pair; write topic:resource", p)
		}
		if other, twice := out[topic]; twice {
			return nil, fmt.Errorf("topic %q goes to %q and to %q; leave one", topic, other, resource)
		}
		out[topic] = resource
	}
	return out, nil
}

// resourceRules are the rules that bind the settings of data streams and external resources.
func resourceRules(v config.Values) (errs []*config.Error) {
	r := newResources(v)
	wrong := func(e *config.Error) { errs = append(errs, e) }
	typed := !strings.EqualFold(streamType.Get(v), "none")
	switch set := streamDataset.Get(v) != ""; {
	case r.external && (typed || set):
		wrong(resourceUsage.Errorf(v, "%s and %s name data streams that the sink makes; remove them or set disabled", streamType.Name, streamDataset.Name))
	case typed && !set:
		wrong(streamDataset.Errorf(v, "%s is set and this is not; set both, or none for the type", streamType.Name))
	case set && !typed:
		wrong(streamType.Errorf(v, "%s is set and this is not; set logs, metrics or a type of your own", streamDataset.Name))
	}
	if r.external != (len(resourceMap.Get(v)) > 0) {
		wrong(resourceMap.Errorf(v, "it belongs to %s=%s; set both, or neither", resourceUsage.Name, resourceUsage.Get(v)))
	}
	if n := len(r.byTopic); n > int(resourceMax.Get(v)) {
		wrong(resourceMap.Errorf(v, "it has %d pairs, and %s is %d", n, resourceMax.Name, resourceMax.Get(v)))
	}
	if r.external {
		for _, topic := range strings.Split(v.Raw["topics"], ",") {
			if topic = strings.TrimSpace(topic); topic != "" && len(r.byTopic) > 0 && r.byTopic[topic] == "" && v.Raw["transforms"] == "" {
				wrong(resourceMap.Errorf(v, "topic %q has no resource; add %s:RESOURCE", topic, topic))
			}
		}
	}
	if r.stream && isUpsert(v) {
		wrong(writeMethod.Errorf(v, "a data stream takes new documents and no changes; set insert"))
	}
	if r.stream && chosen(onNull.Get(v)) == remove {
		wrong(onNull.Errorf(v, "a data stream takes no deletes; set ignore or fail"))
	}
	if !r.stream && len(streamTimestamp.Get(v)) > 0 {
		wrong(streamTimestamp.Errorf(v, "it has a meaning for data streams alone; set %s and %s, or remove it", streamType.Name, streamDataset.Name))
	}
	return errs
}

// check looks for the resources that were made elsewhere.
func (r resources) check(ctx context.Context, cl *client, v config.Values) *config.Error {
	if !r.external {
		return nil
	}
	names := make([]string, 0, len(r.byTopic))
	for _, name := range r.byTopic {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		escaped := url.PathEscape(name)
		var ask esapi.Request = esapi.IndicesGetMappingRequest{Index: []string{escaped}}
		what := "index"
		switch {
		case strings.HasPrefix(r.kind, "alias_"):
			ask, what = esapi.IndicesGetAliasRequest{Name: []string{escaped}}, "alias"
		case r.stream:
			what = "data stream"
		}
		a, err := cl.do(ctx, ask)
		switch {
		case err != nil:
			return resourceMap.Errorf(v, "cannot look at %s %q at %s: %v", what, name, cl.nodes, err)
		case a.status == http.StatusNotFound:
			return resourceMap.Errorf(v, "%s has no %s %q; create it, or correct the name", cl.nodes, what, name)
		}
	}
	return nil
}
