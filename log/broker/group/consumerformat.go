package group

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kbin"
)

// Records of groups of the newer consumer protocol (KIP-848) in __consumer_offsets, in the schemas of Kafka 4.4. Keys are an i16
// version, the group as an i16 length and bytes, and what follows in the same form. Values are an i16 version 0 and a flexible
// body: lengths are varints of one more, and tags end each struct. A null value is a tombstone. All of it is fixed for ever.
//
//	3  key  group            i32 group epoch · tag 0: i64 hash of the topics that the members read (0: none)
//	4  key  group            the topics themselves, written by Kafka before 4.1: not read, and removed with the group
//	5  key  group · member   nullable instance · nullable rack · client id · host · topic names · nullable regex ·
//	                         i32 rebalance timeout (ms, −1 none) · nullable assignor ·
//	                         tag 0, of members that speak the classic protocol: a byte 1 · i32 session timeout (ms) ·
//	                         protocols: name · metadata
//	6  key  group            i32 epoch of the target assignment · tag 0: i64 when it was made (ms)
//	7  key  group · member   the member's target: topics: id (16) · i32 partitions
//	8  key  group · member   i32 member epoch · i32 previous one · i8 state · what it owns · what it must give up: topics: id ·
//	                         i32 partitions · tag 0: i32 epochs at which each was given
//	16 key  group · regex    topics that match · i64 version of the metadata · i64 when it was resolved (ms)
const (
	epochKey         = 3
	oldMetadataKey   = 4
	memberKey        = 5
	targetEpochKey   = 6
	targetKey        = 7
	currentKey       = 8
	regexKey         = 16
	consumerValue    = 0
	classicMemberTag = 0
)

// consumerRecord is one record of a consumer group, of any of the kinds above.
type consumerRecord struct {
	kind   int16
	group  string
	second string // a member's id or a regex, if the kind has one

	epoch    int32 // 3, 6
	hash     int64 // 3
	time     int64 // 6, 16: ms
	member   consumer
	target   []tp
	topics   []string // 16
	metadata int64    // 16: version
}

func appendKeyString(b []byte, s string) []byte {
	b = binary.BigEndian.AppendUint16(b, uint16(len(s)))
	return append(b, s...)
}

func consumerRecordKey(kind int16, group, second string) []byte {
	b := binary.BigEndian.AppendUint16(nil, uint16(kind))
	b = appendKeyString(b, group)
	if hasSecond(kind) {
		b = appendKeyString(b, second)
	}
	return b
}

func hasSecond(kind int16) bool {
	return kind == memberKey || kind == targetKey || kind == currentKey || kind == regexKey
}

// key is r's key; record is all of it.
func (r *consumerRecord) key() []byte { return consumerRecordKey(r.kind, r.group, r.second) }

func (r *consumerRecord) record() record {
	b := []byte{0, consumerValue}
	switch r.kind {
	case epochKey:
		b = kbin.AppendInt32(b, r.epoch)
		if r.hash == 0 {
			return record{r.key(), append(b, 0)}
		}
		b = append(b, 1, 0, 8)
		b = kbin.AppendInt64(b, r.hash)
	case memberKey:
		b = r.member.appendMetadata(b)
	case targetEpochKey:
		b = kbin.AppendInt32(b, r.epoch)
		b = append(b, 1, 0, 8)
		b = kbin.AppendInt64(b, r.time)
	case targetKey:
		b = appendTopics(b, held(r.target), false)
		b = append(b, 0)
	case currentKey:
		m := &r.member
		b = kbin.AppendInt32(b, m.epoch)
		b = kbin.AppendInt32(b, m.previous)
		b = append(b, byte(m.state))
		b = appendTopics(b, m.assigned, true)
		b = appendTopics(b, m.revoking, true)
		b = append(b, 0)
	case regexKey:
		b = appendNames(b, r.topics)
		b = kbin.AppendInt64(b, r.metadata)
		b = kbin.AppendInt64(b, r.time)
		b = append(b, 0)
	}
	return record{r.key(), b}
}

func appendNames(b []byte, names []string) []byte {
	b = kbin.AppendCompactArrayLen(b, len(names))
	for _, n := range names {
		b = kbin.AppendCompactString(b, n)
	}
	return b
}

func appendNullable(b []byte, s string) []byte {
	if s == "" {
		return append(b, 0)
	}
	return kbin.AppendCompactString(b, s)
}

func (m *consumer) appendMetadata(b []byte) []byte {
	b = appendNullable(b, m.instance)
	b = appendNullable(b, m.rack)
	b = kbin.AppendCompactString(b, m.client.ID)
	b = kbin.AppendCompactString(b, m.client.Host)
	b = appendNames(b, m.names)
	b = appendNullable(b, m.regex)
	b = kbin.AppendInt32(b, millis(m.rebalance))
	b = appendNullable(b, m.assignor)
	if m.classic == nil {
		return append(b, 0)
	}
	c := []byte{1} // a struct that may be null, and is not
	c = kbin.AppendInt32(c, int32(m.classic.session.Milliseconds()))
	c = kbin.AppendCompactArrayLen(c, len(m.classic.protocols))
	for _, p := range m.classic.protocols {
		c = kbin.AppendCompactString(c, p.name)
		c = kbin.AppendCompactBytes(c, p.metadata)
		c = append(c, 0)
	}
	c = append(c, 0)
	b = append(b, 1, classicMemberTag)
	b = kbin.AppendUvarint(b, uint32(len(c)))
	return append(b, c...)
}

// millis is a duration as a record has it; a negative one says that there is none.
func millis(d time.Duration) int32 {
	if d < 0 {
		return -1
	}
	return int32(min(d.Milliseconds(), math.MaxInt32))
}

// appendTopics writes partitions, which are in order, by topic.
func appendTopics(b []byte, ps []owned, epochs bool) []byte {
	topics := 0
	for i := range ps {
		if i == 0 || ps[i].topic != ps[i-1].topic {
			topics++
		}
	}
	b = kbin.AppendCompactArrayLen(b, topics)
	for i := 0; i < len(ps); {
		n := i
		for n < len(ps) && ps[n].topic == ps[i].topic {
			n++
		}
		b = append(b, ps[i].topic[:]...)
		b = kbin.AppendCompactArrayLen(b, n-i)
		for _, p := range ps[i:n] {
			b = kbin.AppendInt32(b, p.partition)
		}
		if !epochs {
			b = append(b, 0)
			i = n
			continue
		}
		e := kbin.AppendCompactArrayLen(nil, n-i)
		for _, p := range ps[i:n] {
			e = kbin.AppendInt32(e, p.since)
		}
		b = append(b, 1, 0)
		b = kbin.AppendUvarint(b, uint32(len(e)))
		b = append(b, e...)
		i = n
	}
	return b
}

// isConsumerKey reports whether a key belongs to a record of a consumer group.
func isConsumerKey(b []byte) bool {
	if len(b) < 2 {
		return false
	}
	v := int16(binary.BigEndian.Uint16(b))
	return v >= epochKey && v <= currentKey || v == regexKey
}

// parseConsumerRecord reads a record for which isConsumerKey holds. Without a value only the key is read.
func parseConsumerRecord(key, value []byte) (consumerRecord, error) {
	k := kbin.Reader{Src: key}
	r := consumerRecord{kind: k.Int16()}
	r.group = k.String()
	if hasSecond(r.kind) {
		r.second = k.String()
	}
	if err := k.Complete(); err != nil {
		return r, fmt.Errorf("consumer group key %d: %w", r.kind, err)
	}
	if value == nil || r.kind == oldMetadataKey {
		return r, nil
	}
	v := kbin.Reader{Src: value}
	if version := v.Int16(); version != consumerValue {
		return r, fmt.Errorf("consumer group value %d: version %d is not known", r.kind, version)
	}
	switch r.kind {
	case epochKey:
		r.epoch = v.Int32()
		tags(&v, func(tag uint32, v *kbin.Reader) {
			if tag == 0 {
				r.hash = v.Int64()
			}
		})
	case memberKey:
		r.member.id = r.second
		r.member.readMetadata(&v)
	case targetEpochKey:
		r.epoch = v.Int32()
		tags(&v, func(tag uint32, v *kbin.Reader) {
			if tag == 0 {
				r.time = v.Int64()
			}
		})
	case targetKey:
		r.target = bare(readTopics(&v, 0))
		tags(&v, nil)
	case currentKey:
		m := &r.member
		m.id, m.epoch, m.previous, m.state = r.second, v.Int32(), v.Int32(), reconciling(v.Int8())
		m.assigned = readTopics(&v, m.epoch)
		m.revoking = readTopics(&v, m.epoch)
		tags(&v, nil)
	case regexKey:
		r.topics = readNames(&v)
		r.metadata, r.time = v.Int64(), v.Int64()
		tags(&v, nil)
	}
	if err := v.Complete(); err != nil {
		return r, fmt.Errorf("consumer group value %d: %w", r.kind, err)
	}
	return r, nil
}

// tags reads the tags that end a struct; those that f does not know are passed over, as is all of them without f.
func tags(v *kbin.Reader, f func(tag uint32, v *kbin.Reader)) {
	for n := v.Uvarint(); n > 0 && v.Ok(); n-- {
		tag, size := v.Uvarint(), v.Uvarint()
		if uint64(size) > math.MaxInt32 {
			v.Span(math.MaxInt32)
			return
		}
		inner := kbin.Reader{Src: v.Span(int(size))}
		if f == nil || !v.Ok() {
			continue
		}
		if f(tag, &inner); !inner.Ok() {
			v.Span(math.MaxInt32) // makes v incomplete, too
		}
	}
}

func readNames(v *kbin.Reader) []string {
	var names []string
	for n := v.CompactArrayLen(); n > 0 && v.Ok(); n-- {
		names = append(names, v.CompactString())
	}
	return names
}

func readNullable(v *kbin.Reader) string {
	if s := v.CompactNullableString(); s != nil {
		return *s
	}
	return ""
}

func (m *consumer) readMetadata(v *kbin.Reader) {
	m.instance, m.rack = readNullable(v), readNullable(v)
	m.client = Client{ID: v.CompactString(), Host: v.CompactString()}
	m.names = sortedNames(readNames(v))
	m.regex = readNullable(v)
	m.rebalance = -1
	if ms := v.Int32(); ms >= 0 {
		m.rebalance = time.Duration(ms) * time.Millisecond
	}
	m.assignor = readNullable(v)
	tags(v, func(tag uint32, v *kbin.Reader) {
		if tag != classicMemberTag || v.Int8() < 0 {
			return
		}
		m.classic = &classicSide{session: time.Duration(v.Int32()) * time.Millisecond}
		for n := v.CompactArrayLen(); n > 0 && v.Ok(); n-- {
			m.classic.protocols = append(m.classic.protocols, protocol{v.CompactString(), slices.Clone(v.CompactBytes())})
			tags(v, nil)
		}
		tags(v, nil)
	})
}

// readTopics reads partitions; those that say no epoch were given at that one.
func readTopics(v *kbin.Reader, epoch int32) []owned {
	var ps []owned
	for n := v.CompactArrayLen(); n > 0 && v.Ok(); n-- {
		id := v.Uuid()
		first := len(ps)
		for p := v.CompactArrayLen(); p > 0 && v.Ok(); p-- {
			ps = append(ps, owned{tp{id, v.Int32()}, epoch})
		}
		tags(v, func(tag uint32, v *kbin.Reader) {
			if tag != 0 {
				return
			}
			for e, i := v.CompactArrayLen(), first; e > 0 && v.Ok(); e, i = e-1, i+1 {
				if since := v.Int32(); i < len(ps) {
					ps[i].since = since
				}
			}
		})
	}
	return sortedOwned(ps)
}
