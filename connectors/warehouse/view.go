package warehouse

import (
	"fmt"

	"millrace/schema"
	"millrace/schema/config"
	"millrace/schema/converters"
)

// Options are what a store's own settings say of files.
type Options struct {
	Gzip int // level by which JSON and bytes are compressed as a whole; 0: not at all

	// Keys and Headers are the format classes of the files beside, which hold keys and headers; empty: there are none.
	Keys, Headers config.Class
	// Tombstones is the folder of the keys of null values, which then need Keys; empty: null values are ignored or fail.
	Tombstones string
	// SchemaFolder is PREFIX or SUFFIX where the name of a value's schema is a folder before or behind the partitioner's.
	SchemaFolder string

	// Output takes the place of format, partitioner and names; nil: they are as the settings say.
	Output *Output
}

// A view is a part of records that has files of its own: their values, their keys or their headers.
type view struct {
	part   string // of a record, for messages
	suffix string // of names, before the format's
	format format
	of     func(r *schema.Record) (*schema.Schema, schema.Value, error)
}

func (v *view) ext() string { return v.suffix + v.format.ext() }

// newViews makes the views of the settings; that of values is the first one.
func newViews(v config.Values, o Options) ([]*view, *config.Error) {
	if o.Output != nil {
		all, err := o.Output.view(v)
		return []*view{all}, err
	}
	f, err := newFormat(v, formatClass.Get(v), o.Gzip)
	if err != nil {
		return nil, err
	}
	views := []*view{{part: "value", format: f, of: func(r *schema.Record) (*schema.Schema, schema.Value, error) { return schemaOf(r), r.Value, nil }}}
	if o.Keys != "" {
		f, err := besideFormat(v, o.Keys, o.Gzip)
		if err != nil {
			return nil, err
		}
		k := &keyView{wrap: isParquet(f)}
		views = append(views, &view{part: "key", suffix: ".keys", format: f, of: k.of})
	}
	if o.Headers != "" {
		f, err := besideFormat(v, o.Headers, o.Gzip)
		if err != nil {
			return nil, err
		}
		views = append(views, &view{part: "headers", suffix: ".headers", format: f, of: headersView{isParquet(f)}.of})
	}
	return views, nil
}

// besideFormat makes the format of keys or headers, which is compressed as a whole only where it can be.
func besideFormat(v config.Values, class config.Class, gzip int) (format, *config.Error) {
	if kind, err := formatKind(string(class)); err == nil && (kind == "Avro" || kind == "Parquet") {
		gzip = 0
	}
	return newFormat(v, class, gzip)
}

func isParquet(f format) bool {
	_, yes := f.(*parquetFiles)
	return yes
}

// keyView takes records' keys. wrap puts them into a struct, as Confluent's sink does for Parquet.
type keyView struct {
	wrap  bool
	wraps schema.Cache[*schema.Schema]
}

func (k *keyView) of(r *schema.Record) (*schema.Schema, schema.Value, error) {
	if r.Key.IsNull() {
		return nil, schema.Value{}, &schema.DataError{Reason: "the record has no key, and store.kafka.keys is set"}
	}
	s := r.KeySchema
	if r.Key.Kind() == schema.Struct {
		s = r.Key.Schema()
	}
	if !k.wrap || s == nil {
		return s, r.Key, nil
	}
	outer, err := k.wraps.Get(s, func(s *schema.Schema) (*schema.Schema, error) {
		return schema.NewStruct("RecordKey").Field("key", s).TryBuild()
	})
	if err != nil {
		return nil, schema.Value{}, err
	}
	return outer, schema.StructValue(outer, []schema.Value{r.Key}), nil
}

var (
	headerSchema     = schema.New(schema.Struct).Field("key", schema.StringSchema).Field("value", schema.StringSchema).Build()
	headersSchema    = schema.ArrayOf(headerSchema).Build()
	headersOfParquet = schema.NewStruct("RecordHeaders").Field("headers", headersSchema).Build()
)

// headersView takes records' headers, their values as text.
type headersView struct{ wrap bool }

func (h headersView) of(r *schema.Record) (*schema.Schema, schema.Value, error) {
	all := make([]schema.Value, 0, len(r.Headers))
	for _, header := range r.Headers {
		if header.Value.IsNull() {
			return nil, schema.Value{}, &schema.DataError{Reason: fmt.Sprintf("the header %q is null, and store.kafka.headers writes texts", header.Key)}
		}
		text := converters.AppendText(nil, header.Value)
		all = append(all, schema.StructValue(headerSchema, []schema.Value{schema.StringValue(header.Key), schema.StringOfBytes(text)}))
	}
	v := schema.ArrayValue(all)
	if h.wrap {
		return headersOfParquet, schema.StructValue(headersOfParquet, []schema.Value{v}), nil
	}
	return headersSchema, v, nil
}

// encoded is a record's part for one view, encoded.
type encoded struct {
	schema   *schema.Schema // of the part
	from, to int            // in the task's buffer
}
