package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
)

// The calls of a schema registry, Millrace's or Confluent's.

// Reference is a schema that another needs.
type Reference struct {
	Name    string `json:"name"`
	Subject string `json:"subject"`
	Version int    `json:"version"`
}

// Schema is a version of a subject.
type Schema struct {
	Subject    string          `json:"subject,omitempty"`
	Version    int             `json:"version,omitempty"`
	ID         int             `json:"id,omitempty"`
	GUID       string          `json:"guid,omitempty"`
	Type       string          `json:"schemaType,omitempty"`
	References []Reference     `json:"references,omitempty"`
	Metadata   json.RawMessage `json:"metadata,omitempty"`
	RuleSet    json.RawMessage `json:"ruleSet,omitempty"`
	Schema     string          `json:"schema"`
	Deleted    bool            `json:"deleted,omitempty"`
}

// NewSchema is a schema to register or to check.
type NewSchema struct {
	Schema     string          `json:"schema"`
	Type       string          `json:"schemaType,omitempty"`
	References []Reference     `json:"references,omitempty"`
	Metadata   json.RawMessage `json:"metadata,omitempty"`
	RuleSet    json.RawMessage `json:"ruleSet,omitempty"`
}

// Compatibility is whether a schema fits, and why not.
type Compatibility struct {
	Compatible bool     `json:"is_compatible"`
	Messages   []string `json:"messages"`
}

// query is a path with those of the flags that are set.
func query(path string, flags map[string]bool) string {
	q := url.Values{}
	for name, on := range flags {
		if on {
			q.Set(name, "true")
		}
	}
	if len(q) > 0 {
		return path + "?" + q.Encode()
	}
	return path
}

// Subjects are the names of the subjects with a prefix, of all contexts.
func (c *Client) Subjects(ctx context.Context, prefix string, deleted bool) (names []string, err error) {
	path := query("/subjects", map[string]bool{"deleted": deleted})
	if prefix != "" {
		sep := "?"
		if strings.Contains(path, "?") {
			sep = "&"
		}
		path += sep + "subjectPrefix=" + url.QueryEscape(prefix)
	}
	err = c.call(ctx, http.MethodGet, path, nil, &names)
	return names, err
}

// Versions are the numbers of a subject's versions.
func (c *Client) Versions(ctx context.Context, subject string, deleted bool) (numbers []int, err error) {
	err = c.call(ctx, http.MethodGet, query(path("subjects", subject, "versions"), map[string]bool{"deleted": deleted}), nil, &numbers)
	return numbers, err
}

// SchemaVersion is a version of a subject: a number or latest.
func (c *Client) SchemaVersion(ctx context.Context, subject, version string, deleted bool) (s Schema, err error) {
	err = c.call(ctx, http.MethodGet, query(path("subjects", subject, "versions", version), map[string]bool{"deleted": deleted}), nil, &s)
	return s, err
}

// SchemaOfID is the schema of an id.
func (c *Client) SchemaOfID(ctx context.Context, id string) (s Schema, err error) {
	err = c.call(ctx, http.MethodGet, path("schemas", "ids", id), nil, &s)
	return s, err
}

// Register makes a schema a version of a subject, if it is none yet.
func (c *Client) Register(ctx context.Context, subject string, s NewSchema, normalize bool) (out Schema, err error) {
	err = c.call(ctx, http.MethodPost, query(path("subjects", subject, "versions"), map[string]bool{"normalize": normalize}), s, &out)
	return out, err
}

// LookUp is the version of a subject that a schema is.
func (c *Client) LookUp(ctx context.Context, subject string, s NewSchema) (out Schema, err error) {
	err = c.call(ctx, http.MethodPost, path("subjects", subject), s, &out)
	return out, err
}

// Compatible judges a schema against a version of a subject, or, where version is empty, as a registration does.
func (c *Client) Compatible(ctx context.Context, subject, version string, s NewSchema) (out Compatibility, err error) {
	at := path("compatibility", "subjects", subject, "versions")
	if version != "" {
		at += path(version)
	}
	err = c.call(ctx, http.MethodPost, at+"?verbose=true", s, &out)
	return out, err
}

// DeleteSubject deletes a subject, for good where permanent says so, and tells its versions.
func (c *Client) DeleteSubject(ctx context.Context, subject string, permanent bool) (numbers []int, err error) {
	err = c.call(ctx, http.MethodDelete, query(path("subjects", subject), map[string]bool{"permanent": permanent}), nil, &numbers)
	return numbers, err
}

// DeleteVersion deletes a version, for good where permanent says so, and tells its number.
func (c *Client) DeleteVersion(ctx context.Context, subject, version string, permanent bool) (number int, err error) {
	err = c.call(ctx, http.MethodDelete, query(path("subjects", subject, "versions", version), map[string]bool{"permanent": permanent}), nil, &number)
	return number, err
}

// setting is the path of config or mode, of a subject or, where it is empty, of the registry.
func setting(what, subject string) string {
	if subject == "" {
		return path(what)
	}
	return path(what, subject)
}

// SchemaConfig is the level of compatibility and the other settings of a subject, or of the registry. Where a subject has none, those that it inherits.
func (c *Client) SchemaConfig(ctx context.Context, subject string) (out map[string]any, err error) {
	err = c.call(ctx, http.MethodGet, query(setting("config", subject), map[string]bool{"defaultToGlobal": subject != ""}), nil, &out)
	return out, err
}

// SetLevel sets the level of compatibility.
func (c *Client) SetLevel(ctx context.Context, subject, level string) error {
	return c.call(ctx, http.MethodPut, setting("config", subject), map[string]string{"compatibility": level}, nil)
}

// Mode is what may be done with a subject, or with the registry.
func (c *Client) Mode(ctx context.Context, subject string) (string, error) {
	var out struct {
		Mode string `json:"mode"`
	}
	err := c.call(ctx, http.MethodGet, query(setting("mode", subject), map[string]bool{"defaultToGlobal": subject != ""}), nil, &out)
	return out.Mode, err
}

// SetMode sets it.
func (c *Client) SetMode(ctx context.Context, subject, mode string, force bool) error {
	return c.call(ctx, http.MethodPut, query(setting("mode", subject), map[string]bool{"force": force}), map[string]string{"mode": mode}, nil)
}
