package debezium

import (
	"fmt"
	"slices"
	"strings"

	"millrace/schema"
	"millrace/schema/config"
	"millrace/schema/plugin"
	"millrace/transforms"
)

// How ExtractNewRecordState treats deletes and tombstones.
const (
	modeDrop                 = "drop"
	modeTombstone            = "tombstone"
	modeRewrite              = "rewrite"
	modeRewriteWithTombstone = "rewrite-with-tombstone"
	modeDeleteToTombstone    = "delete-to-tombstone"
)

var (
	handlingMode = config.Key[string]{
		Name: "delete.tombstone.handling.mode", Default: modeTombstone, Width: config.MediumW, Order: 1, Display: "Handle delete and tombstone records",
		Check: config.OneOf(modeDrop, modeTombstone, modeRewriteWithTombstone, modeRewrite, modeDeleteToTombstone),
		Doc: "What becomes of deletes and of the tombstones behind them. drop: both go. tombstone: a delete becomes a null under the row's schema, the tombstone goes. " +
			"delete-to-tombstone: a delete becomes a plain null, the tombstone goes. rewrite: a delete becomes the row as it was, and each row says in __deleted whether it is deleted; the tombstone goes. " +
			"rewrite-with-tombstone: the same, and the tombstone stays.",
	}
	routeByField = config.Key[string]{Name: "route.by.field", EmptyDefault: true, Importance: config.Low, Width: config.Long, Order: 1, Display: "Route by field name",
		Doc: "Column whose text becomes the topic; a null leaves the topic as it is."}
	addFields = config.Key[[]string]{Name: "add.fields", EmptyDefault: true, Importance: config.Low, Width: config.Long, Order: 1,
		Display: "Adds the specified field(s) to the message if they exist.",
		Doc:     "Fields of the envelope to add to the row: op, ts_ms, source.lsn, transaction.id, before.x. A plain name is looked for in the envelope, then in its source; name:NEW renames."}
	addFieldsPrefix = config.Key[string]{Name: "add.fields.prefix", Default: "__", Importance: config.Low, Width: config.Short, Order: 1,
		Display: "Field prefix to be added to each field.", Doc: "What the names of added fields begin with."}
	addHeaders = config.Key[[]string]{Name: "add.headers", EmptyDefault: true, Importance: config.Low, Width: config.Long, Order: 1,
		Display: "Adds the specified fields to the header if they exist.", Doc: "As add.fields, but as headers."}
	addHeadersPrefix = config.Key[string]{Name: "add.headers.prefix", Default: "__", Importance: config.Low, Width: config.Short, Order: 1,
		Display: "Header prefix to be added to each header.", Doc: "What the keys of added headers begin with."}
	dropHeader = config.Key[string]{Name: "drop.fields.header.name", Importance: config.Low, Width: config.Short, Order: 1,
		Display: "Specifies a header that contains a list of field names to be removed", Doc: "Header that holds a list of the fields to leave out of this record."}
	dropFromKey = config.Key[bool]{Name: "drop.fields.from.key", Importance: config.Low, Width: config.Short, Order: 1,
		Display: "Specifies whether the fields to be dropped should also be omitted from the key", Doc: "Leave those fields out of the key as well."}
	dropCompatible = config.Key[bool]{Name: "drop.fields.keep.schema.compatible", Default: true, Importance: config.Low, Width: config.Short, Order: 1,
		Display: "Specifies if fields are dropped, will the event's schemas be compatible", Doc: "Leave out optional fields only, so that schemas stay compatible."}
	replaceNull = config.Key[bool]{Name: "replace.null.with.default", Default: true, Importance: config.Low, Order: 1,
		Doc: "Read a null column that has a default as that default; false keeps null."}
)

// ExtractNewRecordState makes plain rows of change events.
var ExtractNewRecordState = transforms.Plugin{
	Info: plugin.Info{
		Name: "unwrap", Class: "io.debezium.transforms.ExtractNewRecordState", Version: schema.DebeziumVersion,
		Doc: "Replaces a change event by the row as it is now. Truncates are dropped; what is no change event passes unchanged.",
		Config: config.Define(handlingMode, routeByField, addFieldsPrefix, addFields, addHeadersPrefix, addHeaders, dropHeader, dropFromKey, dropCompatible, replaceNull).Ignoring(map[string]string{
			"drop.tombstones":      "replaced by delete.tombstone.handling.mode in Debezium 2.5 and gone since 3.0",
			"delete.handling.mode": "replaced by delete.tombstone.handling.mode in Debezium 2.5 and gone since 3.0",
		}),
	},
	New: newUnwrap,
}

// reference is a field of the envelope to add.
type reference struct {
	text string
	path []string // as the user wrote it
	name string   // of the field or header
}

type unwrap struct {
	mode            string
	route           string
	fields, headers []reference
	dropHeader      string
	dropKey         bool
	dropAll         bool // required fields, too
	defaults        bool

	plans schema.Cache[*plan]
	keys  schema.Cache[map[string]*shape]
}

func newUnwrap(v config.Values) (transforms.Transform, error) {
	return &unwrap{
		mode: strings.ToLower(handlingMode.Get(v)), route: routeByField.Get(v),
		fields:     references(addFields.Get(v), addFieldsPrefix.Get(v)),
		headers:    references(addHeaders.Get(v), addHeadersPrefix.Get(v)),
		dropHeader: dropHeader.Get(v), dropKey: dropFromKey.Get(v), dropAll: !dropCompatible.Get(v), defaults: replaceNull.Get(v),
	}, nil
}

func references(list []string, prefix string) []reference {
	var out []reference
	for _, text := range list {
		field, name, _ := strings.Cut(text, ":")
		field, name = strings.TrimSpace(field), strings.TrimSpace(name)
		if field == "" {
			continue
		}
		if name == "" {
			name = strings.ReplaceAll(field, ".", "_")
		}
		out = append(out, reference{field, strings.Split(field, "."), prefix + name})
	}
	return out
}

func (t *unwrap) rewrites() bool { return t.mode == modeRewrite || t.mode == modeRewriteWithTombstone }

func (t *unwrap) Apply(r schema.Record) (schema.Record, bool, error) {
	if r.Value.IsNull() {
		return t.tombstone(r)
	}
	if r.ValueSchema == nil {
		return t.schemaless(r)
	}
	p, err := t.plans.Get(r.ValueSchema, t.plan)
	if err != nil || p == nil || r.Value.Kind() != schema.Struct {
		return r, err == nil, err
	}
	before, after := schema.Value{}, r.Value.Fields()[p.after]
	if p.before >= 0 {
		before = r.Value.Fields()[p.before]
	}
	if before.IsNull() && after.IsNull() {
		return r, false, nil // a truncate
	}
	dropped, err := t.dropList(&r)
	if err != nil {
		return r, false, err
	}
	envelope := r.Value
	if len(p.headers) > 0 {
		add := make([]schema.Header, len(p.headers))
		for i, a := range p.headers {
			add[i] = schema.Header{Key: a.name, Schema: a.s, Value: a.of(envelope)}
		}
		r.WithHeaders(add...)
	}
	row, deleted := after, after.IsNull()
	if deleted {
		row = before
	}
	if err := t.address(&r, row, dropped); err != nil {
		return r, false, err
	}
	if deleted && !t.rewrites() {
		switch t.mode {
		case modeDrop:
			return r, false, nil
		case modeDeleteToTombstone:
			r.ValueSchema, r.Value = nil, schema.Value{}
		default:
			r.ValueSchema, r.Value = p.row, schema.Value{}
		}
		return r, true, nil
	}
	rows := &p.rows
	if deleted {
		rows = &p.deletedRows
	}
	sh, err := t.shapeOf(rows, row.Schema(), dropped, p.fields, t.rewrites())
	if err != nil {
		return r, false, err
	}
	fields := sh.take(row, t.defaults, len(p.fields)+1)
	if t.rewrites() {
		fields = append(fields, deletedText(deleted))
	}
	for _, a := range p.fields {
		fields = append(fields, a.of(envelope))
	}
	r.ValueSchema, r.Value = sh.s, schema.StructValue(sh.s, fields)
	return r, true, nil
}

// address sets the topic that the row names and leaves the dropped fields out of the key.
func (t *unwrap) address(r *schema.Record, row schema.Value, dropped []string) error {
	if t.route != "" {
		topic, err := routed(row, t.route)
		if err != nil {
			return err
		}
		if topic != "" {
			r.Topic = topic
		}
	}
	if t.dropKey && len(dropped) > 0 {
		return t.dropFromKeyOf(r, dropped)
	}
	return nil
}

const deletedField = "__deleted"

func deletedText(yes bool) schema.Value {
	if yes {
		return schema.StringValue("true")
	}
	return schema.StringValue("false")
}

// tombstone handles a record whose value is null. Of the headers asked for a
// tombstone only knows that the operation was a delete.
func (t *unwrap) tombstone(r schema.Record) (schema.Record, bool, error) {
	if t.mode != modeRewriteWithTombstone {
		return r, false, nil
	}
	for _, h := range t.headers {
		if h.text == "op" {
			r.WithHeaders(schema.Header{Key: h.name, Schema: schema.StringSchema, Value: schema.StringValue("d")})
		}
	}
	return r, true, nil
}

// routed is the text of the row's field that names the topic, "" for null.
func routed(row schema.Value, field string) (string, error) {
	var v schema.Value
	if row.Kind() == schema.Map {
		var ok bool
		if v, ok = row.Lookup(field); !ok {
			return "", &schema.DataError{Reason: fmt.Sprintf("%s is not a valid field name", field)}
		}
	} else {
		f := row.Schema().Field(field)
		if f == nil {
			return "", &schema.DataError{Reason: fmt.Sprintf("%s is not a valid field name", field)}
		}
		if f.Kind() != schema.String {
			return "", &schema.DataError{Reason: fmt.Sprintf("Field '%s' is not of type STRING", field)}
		}
		v = row.Get(field)
	}
	if !v.IsNull() && v.Kind() != schema.String {
		return "", &schema.DataError{Reason: fmt.Sprintf("Field '%s' is not of type STRING", field)}
	}
	return v.Str(), nil
}

// dropList are the names in the header that lists fields to leave out.
func (t *unwrap) dropList(r *schema.Record) ([]string, error) {
	if t.dropHeader == "" {
		return nil, nil
	}
	h, ok := r.Header(t.dropHeader)
	if !ok || h.Value.IsNull() {
		return nil, nil
	}
	bad := func(k schema.Kind) error {
		return &schema.DataError{Reason: fmt.Sprintf("the header %q should hold a list of field names, but holds %v", t.dropHeader, k)}
	}
	if h.Value.Kind() != schema.Array {
		return nil, bad(h.Value.Kind())
	}
	var out []string
	for _, e := range h.Value.Elems() {
		if e.Kind() != schema.String {
			return nil, bad(e.Kind())
		}
		out = append(out, e.Str())
	}
	return out, nil
}

func (t *unwrap) dropFromKeyOf(r *schema.Record, dropped []string) error {
	if r.Key.Kind() == schema.Map && r.KeySchema == nil {
		r.Key = without(r.Key, dropped)
		return nil
	}
	if r.Key.Kind() != schema.Struct {
		return nil
	}
	shapes, err := t.keys.Get(r.KeySchema, func(*schema.Schema) (map[string]*shape, error) { return map[string]*shape{}, nil })
	if err != nil {
		return err
	}
	sh, err := t.shapeOf(&shapes, r.KeySchema, dropped, nil, false)
	if err != nil {
		return err
	}
	r.KeySchema, r.Key = sh.s, schema.StructValue(sh.s, sh.take(r.Key, t.defaults, 0))
	return nil
}

// without is a schemaless map less the named entries.
func without(m schema.Value, names []string) schema.Value {
	out := make([]schema.Entry, 0, len(m.Entries()))
	for _, e := range m.Entries() {
		if !slices.Contains(names, e.Key.Str()) {
			out = append(out, e)
		}
	}
	return schema.MapValue(out)
}
