package converters

import (
	"errors"

	"millrace/schema"
	"millrace/schema/config"
	"millrace/schema/plugin"
)

// A Message is what a converter may know of the record whose key or value it
// converts. A converter that keeps something in the record's headers (a schema's
// id) appends to Headers when it encodes and reads them when it decodes.
type Message struct {
	Topic   string
	Headers []schema.RawHeader
}

// A Converter turns keys or values into bytes, and back.
type Converter interface {
	// Encode appends the bytes of v to dst. null says that the record's half is null
	// (nothing is appended). With an error nothing is appended, either. Errors are data errors: they concern this record alone
	// and name the field; those that may pass (a registry that cannot be reached) have a
	// method MayPass() bool that says so.
	Encode(dst []byte, m *Message, s *schema.Schema, v schema.Value) (out []byte, null bool, err error)

	// Decode makes data of bytes; nil bytes are null. The value may share data, which
	// must not change any more.
	Decode(m *Message, data []byte) (*schema.Schema, schema.Value, error)
}

// A HeaderConverter turns the values of headers into bytes, and back.
type HeaderConverter interface {
	// EncodeHeader is Encode for the header called key.
	EncodeHeader(dst []byte, topic, key string, s *schema.Schema, v schema.Value) (out []byte, null bool, err error)
	// DecodeHeader is Decode for the header called key.
	DecodeHeader(topic, key string, data []byte) (*schema.Schema, schema.Value, error)
}

// An Env is what a converter finds around it. The zero Env is that of a test.
type Env struct {
	// Check says whether a file that a setting names may be opened: it returns the path to open, or why not. Nil: any may.
	Check func(path string) (string, error)
	// Registry is the address of this process's own schema registry; empty where it has none.
	Registry string
}

// A Plugin is a converter as a binary lists it. New (or NewIn, of those that look around) and NewHeader are nil where it
// cannot convert that half.
type Plugin struct {
	plugin.Info
	New       func(v config.Values, isKey bool) (Converter, error)
	NewIn     func(v config.Values, isKey bool, env Env) (Converter, error)
	NewHeader func(v config.Values) (HeaderConverter, error)
}

// Make parses the settings of a converter, whose prefix is taken off, and makes it
// for keys or values. Like Connect's worker it sets converter.type itself.
func (p Plugin) Make(raw map[string]string, isKey bool) (Converter, []*config.Error) {
	return p.MakeIn(Env{}, raw, isKey)
}

// MakeIn is Make for a converter that may look around.
func (p Plugin) MakeIn(env Env, raw map[string]string, isKey bool) (Converter, []*config.Error) {
	kind := "value"
	if isKey {
		kind = "key"
	}
	if p.New == nil && p.NewIn == nil {
		return nil, []*config.Error{{Key: "converter.type", Value: kind, Reason: p.Info.Class + " converts headers alone"}}
	}
	v, errs := p.parse(raw, kind)
	if len(errs) > 0 {
		return nil, errs
	}
	if p.NewIn != nil {
		c, err := p.NewIn(v, isKey, env)
		return c, asConfigErrors(err)
	}
	c, err := p.New(v, isKey)
	return c, asConfigErrors(err)
}

// MakeHeader is Make for headers.
func (p Plugin) MakeHeader(raw map[string]string) (HeaderConverter, []*config.Error) {
	if p.NewHeader == nil {
		return nil, []*config.Error{{Key: "converter.type", Value: "header", Reason: p.Info.Class + " converts no headers"}}
	}
	v, errs := p.parse(raw, "header")
	if len(errs) > 0 {
		return nil, errs
	}
	c, err := p.NewHeader(v)
	return c, asConfigErrors(err)
}

func (p Plugin) parse(raw map[string]string, kind string) (config.Values, []*config.Error) {
	all := map[string]string{converterType.Name: kind}
	for k, v := range raw {
		if k != converterType.Name {
			all[k] = v
		}
	}
	return p.Info.Config.Parse(all)
}

func asConfigErrors(err error) []*config.Error {
	if err == nil {
		return nil
	}
	var e *config.Error
	if errors.As(err, &e) {
		return []*config.Error{e}
	}
	return []*config.Error{{Key: converterType.Name, Text: err.Error()}}
}
