package runtime

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// A FlatConfig is a connector's configuration as JSON holds it: an object of texts.
// Numbers and booleans are taken as their text, as Connect does; an object or an
// array as a value is an error. It is read from files and from requests.
type FlatConfig struct {
	Values map[string]string // nil where there was no object
	Nulls  []string          // keys whose value is null, sorted; only a PATCH has a use for them
}

// UnmarshalJSON implements json.Unmarshaler. A null is an absent configuration.
func (c *FlatConfig) UnmarshalJSON(b []byte) error {
	b = bytes.TrimSpace(b)
	if string(b) == "null" {
		return nil
	}
	if len(b) > 0 && b[0] != '{' {
		return errors.New("a configuration is an object of texts")
	}
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(b, &raw); err != nil {
		return fmt.Errorf("a configuration is an object of texts: %w", err)
	}
	c.Values, c.Nulls = make(map[string]string, len(raw)), nil
	for k, v := range raw {
		switch v[0] {
		case '"':
			var text string
			if err := json.Unmarshal(v, &text); err != nil {
				return err
			}
			c.Values[k] = text
		case 'n':
			c.Nulls = append(c.Nulls, k)
		case '{', '[':
			return fmt.Errorf("configuration %q: want a text, have an object or array", k)
		default: // a number, true or false
			c.Values[k] = string(v)
		}
	}
	slices.Sort(c.Nulls)
	return nil
}
