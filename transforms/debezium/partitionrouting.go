package debezium

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"strings"
	"unicode/utf16"

	"millrace/schema"
	"millrace/schema/config"
	"millrace/schema/envelope"
	"millrace/schema/javatext"
	"millrace/schema/plugin"
	"millrace/transforms"
)

var (
	routingFields = config.Key[[]string]{Name: "partition.payload.fields", Required: true, Importance: config.High, Width: config.Long, Order: 1, Display: "List of payload fields to use for compute partition.",
		Check: required[[]string]("partition.payload.fields", func(l []string) bool { return len(l) == 0 }),
		Doc:   "Fields of the change event whose values decide the partition, with dots between names: change.id is the row's id, after it or for a delete before it; source.table, op."}
	routingCount = config.Key[int32]{Name: "partition.topic.num", Required: true, Importance: config.High, Width: config.MediumW, Order: 1, Display: "Number of partition configured for topic",
		Check: func(n int32) error {
			if n > 0 {
				return nil
			}
			return fmt.Errorf("The 'partition.topic.num' value is invalid: A positive, non-zero integer value is expected")
		},
		Doc: "How many partitions of the topic are used."}
	routingHash = config.Key[string]{Name: "partition.hash.function", Default: "java", Importance: config.Low, Width: config.MediumW, Order: 1, Display: "Partition hash function",
		Check: config.OneOf("java", "murmur"),
		Doc:   "java adds the hash codes that Java gives the values; murmur those of MurmurHash3, which spread better."}
)

// required makes a check of Debezium's: an empty value is none.
func required[T any](key string, empty func(T) bool) func(T) error {
	return func(v T) error {
		if empty(v) {
			return fmt.Errorf("The '%s' value is invalid: A value is required", key)
		}
		return nil
	}
}

// PartitionRouting chooses the partition by columns.
var PartitionRouting = transforms.Plugin{
	Info: plugin.Info{
		Name: "partition-routing", Class: "io.debezium.transforms.partitions.PartitionRouting", Version: schema.DebeziumVersion,
		Doc:    "Chooses the partition of change events by the values of columns. A column that an event does not have is passed over; an event with none of them keeps its partition.",
		Config: config.Define(routingFields, routingCount, routingHash),
	},
	New: newPartitionRouting,
}

type partitionRouting struct {
	paths  [][]string
	count  int32
	murmur bool
	events envelope.Reader
}

func newPartitionRouting(v config.Values) (transforms.Transform, error) {
	t := &partitionRouting{count: routingCount.Get(v), murmur: routingHash.Get(v) == "murmur"}
	for _, f := range routingFields.Get(v) {
		t.paths = append(t.paths, strings.Split(f, "."))
	}
	return t, nil
}

func (t *partitionRouting) Apply(r schema.Record) (schema.Record, bool, error) {
	event, ok := t.events.Read(r.ValueSchema, r.Value)
	if !ok {
		return r, true, nil
	}
	switch event.Op {
	case "c", "u", "r", "d":
	default:
		return r, true, nil
	}
	sum, found := int32(0), false
	for _, path := range t.paths {
		v, err := t.value(r.Value, event, path)
		if err != nil {
			return r, false, err
		}
		if v.IsNull() {
			continue
		}
		h, err := t.hash(v)
		if err != nil {
			return r, false, err
		}
		sum, found = sum+h, true
	}
	if !found {
		return r, true, nil
	}
	if sum &= math.MaxInt32; sum == math.MaxInt32 {
		sum = 0
	}
	r.Partition = sum % t.count
	return r, true, nil
}

// value is what a path leads to: null where it leads nowhere.
func (t *partitionRouting) value(v schema.Value, event envelope.View, path []string) (schema.Value, error) {
	for i, name := range path {
		if i == 0 && name == "change" {
			if v = event.After; event.Op == "d" {
				v = event.Before
			}
			continue
		}
		switch v.Kind() {
		case schema.Struct:
			if v.Schema().Index(name) < 0 {
				return schema.Value{}, nil
			}
			v = v.Get(name)
		case schema.Map:
			v, _ = v.Lookup(name)
		default:
			return schema.Value{}, nil
		}
	}
	return v, nil
}

func (t *partitionRouting) hash(v schema.Value) (int32, error) {
	if !t.murmur {
		return javaHash(v)
	}
	switch v.Kind() {
	case schema.String:
		return murmurHash(v.StrBytes()), nil
	case schema.Bytes:
		return murmurHash(v.Bytes()), nil
	}
	h, err := javaHash(v)
	return murmurOfInt(h), err
}

// javaHash is what hashCode gives for the object that Java has in v's place.
func javaHash(v schema.Value) (int32, error) {
	switch v.Kind() {
	case schema.Bool:
		if v.Bool() {
			return 1231, nil
		}
		return 1237, nil
	case schema.Int8, schema.Int16, schema.Int32:
		return int32(v.Int()), nil
	case schema.Int64, schema.Date, schema.Time, schema.Timestamp:
		n := v.Int()
		if v.Kind() == schema.Date {
			n *= javatext.MillisPerDay
		}
		return fold(uint64(n)), nil
	case schema.Float32:
		return int32(math.Float32bits(float32(v.Float()))), nil
	case schema.Float64:
		return fold(math.Float64bits(v.Float())), nil
	case schema.String:
		h := int32(0)
		for _, c := range v.Str() {
			if c < 0x10000 {
				h = 31*h + c
				continue
			}
			a, b := utf16.EncodeRune(c)
			h = 31*(31*h+a) + b
		}
		return h, nil
	case schema.Bytes: // Debezium's are ByteBuffers
		h := int32(1)
		for _, c := range slices.Backward(v.Bytes()) {
			h = 31*h + int32(int8(c))
		}
		return h, nil
	case schema.Decimal:
		return 31*bigHash(v.Unscaled()) + v.Scale(), nil
	case schema.Array:
		h := int32(1)
		for _, e := range v.Elems() {
			eh := int32(0)
			if !e.IsNull() {
				var err error
				if eh, err = javaHash(e); err != nil {
					return 0, err
				}
			}
			h = 31*h + eh
		}
		return h, nil
	}
	return 0, noHash(v)
}

// bigHash is BigInteger's hash.
func bigHash(n *big.Int) int32 {
	mag := new(big.Int).Abs(n).Bytes()
	h := int32(0)
	for len(mag) > 0 {
		take := len(mag) % 4
		if take == 0 {
			take = 4
		}
		word := uint32(0)
		for _, c := range mag[:take] {
			word = word<<8 | uint32(c)
		}
		h, mag = 31*h+int32(word), mag[take:]
	}
	return h * int32(n.Sign())
}

func fold(n uint64) int32 { return int32(n ^ n>>32) }

// noHash refuses what hashes by identity or by contents that nobody would route by.
func noHash(v schema.Value) error {
	return &schema.DataError{Reason: fmt.Sprintf("partition.payload.fields: a %v cannot choose a partition; name a column of numbers or text", v.Kind())}
}
