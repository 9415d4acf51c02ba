package transforms_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"millrace/schema"
	"millrace/schema/schematest"
	"millrace/transforms"
)

// fieldNames are what random structs have for fields, and random transforms look for; most have what the names say.
var (
	fieldNames = []string{"int", "text", "at", "in", "more", "b", "g.h"}
	usual      = map[string]*schema.Schema{
		"int": schema.New(schema.Int32).Optional().Default(schema.Int32Value(5)).Build(), "text": schema.New(schema.String).Optional().Default(schema.StringValue("12")).Build(),
		"at": schema.TimestampOf().Build(), "more": schema.Int64Schema, "b": schema.OptionalBool, "g.h": schema.OptionalInt64,
	}
)

func anyOf[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

// randomStruct is a schema of a struct whose fields have such names; those of nested structs as well.
func randomStruct(r *rand.Rand, depth int) *schema.Schema {
	b := schema.NewStruct(anyOf(r, "", "s", "t")).SetOptional(r.IntN(3) == 0)
	for _, i := range r.Perm(len(fieldNames))[:len(fieldNames)-r.IntN(4)] {
		s := usual[fieldNames[i]]
		switch {
		case s == nil && r.IntN(8) == 0:
			s = b.Self(true)
		case depth > 0 && (s == nil || r.IntN(12) == 0):
			s = randomStruct(r, depth-1)
		case s == nil || r.IntN(8) == 0:
			s = schematest.Schema(r, 1)
		}
		b.Field(fieldNames[i], s)
	}
	return b.Build()
}

// randomTransform are the settings of a transform, and its class.
func randomTransform(r *rand.Rand) string {
	half := anyOf(r, "$Key", "$Value", "$Value", "$Value")
	name := func() string { return anyOf(r, fieldNames...) }
	path := name()
	syntax := ""
	if r.IntN(2) == 0 {
		path, syntax = anyOf(r, "`g.h`", "in."+name(), name()+"."+name()), "\nfield.syntax.version=V2"
	}
	var text string
	switch r.IntN(17) {
	case 0:
		text = "Cast" + half + "\nspec=" + anyOf(r, "int", "more", "text", name()) + ":" + anyOf(r, "string", "int64", "float64", "boolean") + anyOf(r, "", "", ",b:string")
		if r.IntN(6) == 0 {
			text = "Cast" + half + "\nspec=" + anyOf(r, "string", "int32")
		}
	case 1:
		text = "ExtractField" + half + "\nfield=" + path + syntax
	case 2:
		text = "Flatten" + half + "\ndelimiter=" + anyOf(r, ".", "_")
	case 3:
		text = "HoistField" + half + "\nfield=" + name()
	case 4, 5:
		what := anyOf(r, "topic", "partition", "offset", "timestamp")
		text = "InsertField" + half + "\n" + what + ".field=new" + fmt.Sprint(r.IntN(100)) + anyOf(r, "", "!") + anyOf(r, "", "\nstatic.field="+name()+"2\nstatic.value=v")
	case 6, 7:
		text = "MaskField" + half + "\nfields=" + name() + "," + name() + anyOf(r, "", "", "\nreplacement=7")
	case 8:
		text = "ReplaceField" + half + "\n" + anyOf(r, "exclude", "include") + "=" + name() + "," + name() + "\nrenames=" + name() + ":" + name()
	case 9:
		text = "ReplaceField" + half + "\nrenames=" + name() + ":r" + name()
	case 10:
		text = "SetSchemaMetadata" + half + "\n" + anyOf(r, "schema.name=n", "schema.version=3")
	case 11:
		text = "TimestampConverter" + half + "\nfield=" + anyOf(r, "at", "at", "at", name(), "") + "\ntarget.type=" + anyOf(r, "unix", "Date", "Time", "Timestamp", "string\nformat=yyyy-MM-dd")
	case 12:
		text = "ValueToKey\nfields=" + path + syntax
		if r.IntN(2) == 0 {
			text = "ValueToKey\nfields=" + name()
		}
	case 13:
		return "RegexRouter\nregex=" + anyOf(r, "(.*)", "t(.*)", "no(thing)") + "\nreplacement=" + anyOf(r, "x-$1", "u")
	case 14:
		return "TimestampRouter"
	case 15:
		return anyOf(r, "InsertHeader\nheader=h\nvalue.literal=1", "DropHeaders\nheaders=h,k")
	default:
		text = "HeaderFrom" + half + "\nfields=" + name() + "\nheaders=k\noperation=" + anyOf(r, "move", "copy")
	}
	return text + anyOf(r, "", "", "\nreplace.null.with.default=false")
}

// randomChain are the settings of a chain of transforms, some of them under predicates.
func randomChain(r *rand.Rand) map[string]string {
	var b strings.Builder
	var names []string
	for i := range 2 + r.IntN(5) {
		name := fmt.Sprint("t", i)
		names = append(names, name)
		for j, line := range strings.Split(randomTransform(r), "\n") {
			if j == 0 {
				line = "type=" + smt + line
			}
			b.WriteString("transforms." + name + "." + line + "\n")
		}
		if r.IntN(6) == 0 {
			b.WriteString("transforms." + name + ".predicate=" + anyOf(r, "p", "q") + "\ntransforms." + name + ".negate=" + anyOf(r, "true", "false") + "\n")
		}
	}
	b.WriteString("transforms=" + strings.Join(names, ",") + "\npredicates=p,q\npredicates.p.type=" + pred + "TopicNameMatches\npredicates.p.pattern=t.*\npredicates.q.type=" + pred + "RecordIsTombstone\n")
	return settings(b.String())
}

// randomHalf is a key's or value's schema, and what makes values of it.
func randomHalf(r *rand.Rand) (*schema.Schema, func() schema.Value) {
	switch n := r.IntN(12); {
	case n == 0:
		return nil, func() schema.Value { return schematest.Schemaless(r, 2) }
	case n == 1:
		s := schematest.Schema(r, 2)
		return s, func() schema.Value { return schematest.Value(r, s) }
	default:
		s := randomStruct(r, 2)
		return s, func() schema.Value {
			if r.IntN(12) == 0 {
				return schema.Value{}
			}
			if r.IntN(20) == 0 {
				other := randomStruct(r, 1) // what the schema does not say
				return schematest.Value(r, other)
			}
			for { // a struct with a default is null more often than is of use
				if v := schematest.Value(r, s); !v.IsNull() {
					return v
				}
			}
		}
	}
}

// differ says in what two records differ, "" where they are the same.
func differ(a, b *schema.Record) string {
	switch {
	case a.Topic != b.Topic, a.Partition != b.Partition, a.Timestamp != b.Timestamp, a.Origin != b.Origin:
		return fmt.Sprintf("%q-%d at %d, and %q-%d at %d", a.Topic, a.Partition, a.Timestamp, b.Topic, b.Partition, b.Timestamp)
	case !schema.Equal(a.KeySchema, b.KeySchema):
		return fmt.Sprintf("the key's schema: %v, and %v", a.KeySchema, b.KeySchema)
	case !schema.EqualValues(a.Key, b.Key):
		return "the key"
	case !schema.Equal(a.ValueSchema, b.ValueSchema):
		return fmt.Sprintf("the value's schema: %v, and %v", a.ValueSchema, b.ValueSchema)
	case !schema.EqualValues(a.Value, b.Value):
		return "the value"
	case len(a.Headers) != len(b.Headers):
		return "the number of headers"
	}
	for i, h := range a.Headers {
		if o := b.Headers[i]; h.Key != o.Key || !schema.Equal(h.Schema, o.Schema) || !schema.EqualValues(h.Value, o.Value) {
			return "header " + h.Key
		}
	}
	return ""
}

// TestAChainDoesWhatItsTransformsDoOneByOne is the property that allows transforms to be compiled together: whatever the
// chain, the schemas and the records, what comes out, which records are dropped, which transform fails and what it says are
// the same as when each transform is applied by itself; and the record that went in, which others share, is as it was.
func TestAChainDoesWhatItsTransformsDoOneByOne(t *testing.T) {
	ts, ps := tables(t)
	records, whole, failed := 0, 0, 0
	schematest.Rounds(t, 400, func(t *testing.T, r *rand.Rand) {
		raw := randomChain(r)
		together, errs := transforms.NewChain(raw, ts, ps)
		apart, errs2 := transforms.NewChain(raw, ts, ps)
		if errs != nil || errs2 != nil {
			t.Fatal(errs, errs2, raw)
		}
		type shape struct {
			key, value         *schema.Schema
			makeKey, makeValue func() schema.Value
		}
		var shapes []shape
		for range 1 + r.IntN(3) {
			var s shape
			s.key, s.makeKey = randomHalf(r)
			s.value, s.makeValue = randomHalf(r)
			shapes = append(shapes, s)
		}
		for range 8 {
			s := anyOf(r, shapes...)
			in := schema.Record{Topic: anyOf(r, "t", "other"), Partition: anyOf(r, schema.NoPartition, 3), Timestamp: anyOf(r, schema.NoTimestamp, 1709210096789, 1709210096790, 0), KeySchema: s.key, Key: s.makeKey(),
				ValueSchema: s.value, Value: s.makeValue()}
			if r.IntN(3) == 0 {
				in.KeySchema = schematest.Copy(s.key) // equal, and another pointer
			}
			if r.IntN(8) > 0 {
				in.Origin = &schema.Origin{Offset: 4711}
			}
			if r.IntN(3) == 0 {
				// With room behind them, which is not the chain's.
				in.Headers = append(make([]schema.Header, 0, 4), schema.Header{Key: "h", Value: schema.Int64Value(1)})
			}
			before := schema.Record{Topic: in.Topic, Partition: in.Partition, Timestamp: in.Timestamp, KeySchema: in.KeySchema, Key: deepCopy(in.Key), ValueSchema: in.ValueSchema,
				Value: deepCopy(in.Value), Headers: append([]schema.Header(nil), in.Headers...), Origin: in.Origin}
			got, keep, err := together.Apply(in)
			if why := differ(&in, &before); why != "" {
				t.Fatalf("the chain %v changed the record that it was given: %s", raw, why)
			}
			if len(in.Headers) > 0 && in.Headers[:2][1].Key != "" {
				t.Fatalf("the chain %v wrote behind the headers that it was given", raw)
			}
			trace := apart.Trace(in)
			last := trace[len(trace)-1]
			records++
			if last.Err != nil || err != nil {
				failed++
				var of *transforms.StepError
				if !errors.As(err, &of) || last.Err == nil || of.Alias != last.Alias || of.Class != last.Class || of.Err.Error() != last.Err.Error() {
					t.Fatalf("the chain %v: %v; one by one %s: %v", raw, err, last.Alias, last.Err)
				}
				continue
			}
			if len(trace) == together.Len() {
				whole++
			}
			if keep == last.Dropped {
				t.Fatalf("the chain %v: kept %v, one by one %v", raw, keep, !last.Dropped)
			}
			if why := differ(&got, &last.Out); keep && why != "" {
				t.Fatalf("the chain %v: it and its transforms one by one differ in %s", raw, why)
			}
		}
	})
	t.Logf("%d records: %d came through, %d failed", records, whole, failed)
	if whole*5 < records || failed*20 < records {
		t.Errorf("of %d records %d came through and %d failed: that tries little", records, whole, failed)
	}
}

// deepCopy shares nothing that a transform might change with v.
func deepCopy(v schema.Value) schema.Value {
	all := func(in []schema.Value) []schema.Value {
		out := make([]schema.Value, len(in))
		for i, x := range in {
			out[i] = deepCopy(x)
		}
		return out
	}
	switch v.Kind() {
	case schema.Struct:
		return schema.StructValue(v.Schema(), all(v.Fields()))
	case schema.Array:
		return schema.ArrayValue(all(v.Elems()))
	case schema.Map:
		entries := make([]schema.Entry, len(v.Entries()))
		for i, e := range v.Entries() {
			entries[i] = schema.Entry{Key: deepCopy(e.Key), Value: deepCopy(e.Value)}
		}
		return schema.MapValue(entries)
	case schema.Bytes:
		return schema.BytesValue(append([]byte(nil), v.Bytes()...))
	}
	return v
}
