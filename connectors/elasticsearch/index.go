package elasticsearch

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"github.com/elastic/go-elasticsearch/v8/esapi"

	"millrace/connectors"
	"millrace/schema"
)

// An index is what the task knows of one, or of a data stream: it is there, it has a mapping, the task made it.
type index struct{ there, mapped, made bool }

// ensure creates the record's index if it is not there, with a mapping of the record's
// schema, unless that is left to the server. It asks once for each index.
func (t *task) ensure(ctx context.Context, ts topicSet, r *schema.Record) error {
	ix := t.indices[ts.index]
	if ix == nil {
		if len(t.indices) >= 10_000 { // a transform that names topics by their data
			clear(t.indices)
		}
		ix = &index{}
		t.indices[ts.index] = ix
	}
	s := r.ValueSchema
	if ts.schemaIgnore || r.Value.Kind() != schema.Struct {
		s = nil
	}
	if ix.there && (ix.mapped || s == nil) {
		return nil
	}
	return t.retry(ctx, func() (again bool, a answer, err error) { return t.ensureOnce(ctx, ts.index, ix, s) })
}

// retry tries what reaches the server as often as max.retries says.
func (t *task) retry(ctx context.Context, try func() (again bool, a answer, err error)) error {
	for failed := 1; ; failed++ {
		again, a, err := try()
		if err == nil || ctx.Err() != nil {
			return err
		}
		if !again || failed > t.set.maxRetries {
			return err
		}
		if err := t.wait(ctx, max(a.wait, t.backoff(failed))); err != nil {
			return err
		}
	}
}

func (t *task) ensureOnce(ctx context.Context, name string, ix *index, s *schema.Schema) (again bool, a answer, err error) {
	escaped := url.PathEscape(name) // esapi takes it as it is
	doing := fmt.Sprintf("look at index %q", name)
	a, err = t.client.do(ctx, esapi.IndicesGetMappingRequest{Index: []string{escaped}})
	switch {
	case err != nil:
		return true, a, t.client.silent(doing, err)
	case a.status == http.StatusOK:
		ix.there, ix.mapped = true, hasFields(a.body, t.set.resources.stream)
	case a.status == http.StatusForbidden && !a.said().blocks(): // it may write and not look
		t.lg.Debug("the index cannot be looked at; taken as there and mapped", "index", name)
		ix.there, ix.mapped = true, true
	case ix.made: // a moment ago, and not seen yet
		ix.there, ix.mapped = true, true
	case a.status != http.StatusNotFound:
		err = t.client.failure(doing, a)
		return connectors.IsRetriable(err), a, err
	}
	if ix.there && (ix.mapped || s == nil) {
		return false, a, nil
	}
	if !ix.there && t.set.resources.external {
		return false, a, connectors.Failed(&noResource, nil, fmt.Sprintf("%s has no %q", t.client.nodes, name), "")
	}
	if !ix.there && t.set.resources.stream {
		return t.createStream(ctx, name, ix, s)
	}
	var change esapi.Request
	if !ix.there {
		doing = fmt.Sprintf("create index %q", name)
		body := []byte("{}")
		if s != nil {
			body = append(appendMapping([]byte(`{"mappings":`), s, t.set.compact), '}')
		}
		change = esapi.IndicesCreateRequest{Index: escaped, Body: bytes.NewReader(body)}
	} else {
		doing = fmt.Sprintf("give index %q its mapping", name)
		change = esapi.IndicesPutMappingRequest{Index: []string{escaped}, Body: bytes.NewReader(appendMapping(nil, s, t.set.compact))}
	}
	a, err = t.client.do(ctx, change)
	switch {
	case err != nil:
		return true, a, t.client.silent(doing, err)
	case a.status == http.StatusOK:
		ix.there, ix.mapped = true, ix.mapped || s != nil
		t.lg.Info("index prepared", "index", name, "mapping", s != nil)
		return false, a, nil
	case a.status == http.StatusBadRequest && a.said().Type == "resource_already_exists_exception":
		return t.ensureOnce(ctx, name, ix, s) // another task was quicker
	case a.status == http.StatusBadRequest:
		return false, a, connectors.Failed(&badMapping, nil, fmt.Sprintf("%s: %s answers %d: %s", doing, t.client.nodes, a.status, a.said()), "")
	}
	err = t.client.failure(doing, a)
	return connectors.IsRetriable(err), a, err
}

// createStream creates a data stream, whose template may say what its fields are.
func (t *task) createStream(ctx context.Context, name string, ix *index, s *schema.Schema) (again bool, a answer, err error) {
	doing := fmt.Sprintf("create data stream %q", name)
	a, err = t.client.do(ctx, esapi.IndicesCreateDataStreamRequest{Name: url.PathEscape(name)})
	switch {
	case err != nil:
		return true, a, t.client.silent(doing, err)
	case a.status == http.StatusOK:
		t.lg.Info("data stream prepared", "stream", name)
	case a.status == http.StatusBadRequest && a.said().Type == "resource_already_exists_exception": // another task was quicker
	case a.status == http.StatusForbidden && !a.said().blocks() || a.status == http.StatusMethodNotAllowed || bytes.Contains(a.body, []byte("no handler found")):
		// The user may only write, or the server has no such endpoint: the first document creates the stream.
		t.lg.Debug("the data stream is left to the first document to create", "stream", name, "server", a.said())
	case a.status == http.StatusBadRequest:
		return false, a, connectors.Failed(&noTemplate, nil, fmt.Sprintf("%s: %s answers %d: %s", doing, t.client.nodes, a.status, a.said()), "")
	default:
		err = t.client.failure(doing, a)
		return connectors.IsRetriable(err), a, err
	}
	ix.made = true
	return t.ensureOnce(ctx, name, ix, s)
}

// hasFields reports whether a mapping, of an index or of those behind an alias, has
// any field; the timestamp that each data stream has is none.
func hasFields(body []byte, stream bool) bool {
	var indices map[string]struct {
		Mappings struct {
			Properties map[string]json.RawMessage `json:"properties"`
		} `json:"mappings"`
	}
	if json.Unmarshal(body, &indices) != nil {
		return true
	}
	for _, ix := range indices {
		if stream {
			delete(ix.Mappings.Properties, stampField)
		}
		if len(ix.Mappings.Properties) > 0 {
			return true
		}
	}
	return false
}
