package mysql

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A gtidSet is a set of transactions by their global ids: MySQL's, uuid[:tag]:intervals,
// or MariaDB's, where a domain stands for all its transactions up to a number. The text
// is kept until the set changes. The zero value is MySQL's empty set.
type gtidSet struct {
	mariadb bool
	sources map[gtidSource][]interval
	domains map[uint32]mariaGTID
	text    string
	fresh   bool // text is of the set as it is
}

// A gtidSource is who numbers transactions: a server's UUID, with a tag where there is one.
type gtidSource struct {
	uuid [16]byte
	tag  string
}

func (s gtidSource) String() string {
	t := formatUUID(s.uuid)
	if s.tag != "" {
		t += ":" + s.tag
	}
	return t
}

// An interval holds the numbers from first up to but not including end.
type interval struct{ first, end int64 }

// A mariaGTID is domain-server-sequence.
type mariaGTID struct {
	domain, server uint32
	seq            uint64
}

func (g mariaGTID) String() string { return fmt.Sprintf("%d-%d-%d", g.domain, g.server, g.seq) }

// origin is who numbered the transaction, as gtid.source.includes and excludes name it.
func (g mariaGTID) origin() string { return fmt.Sprintf("%d-%d", g.domain, g.server) }

func formatUUID(u [16]byte) string {
	var b [36]byte
	hex.Encode(b[:8], u[:4])
	hex.Encode(b[9:13], u[4:6])
	hex.Encode(b[14:18], u[6:8])
	hex.Encode(b[19:23], u[8:10])
	hex.Encode(b[24:], u[10:])
	b[8], b[13], b[18], b[23] = '-', '-', '-', '-'
	return string(b[:])
}

func parseUUID(s string) (u [16]byte, ok bool) {
	h := strings.ReplaceAll(s, "-", "")
	if len(h) != 32 {
		return u, false
	}
	_, err := hex.Decode(u[:], []byte(h))
	return u, err == nil
}

var tagPattern = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,31}$`)

// parseGTIDs reads a set as servers and offsets spell it.
func parseGTIDs(text string, mariadb bool) (*gtidSet, error) {
	s := &gtidSet{mariadb: mariadb, sources: map[gtidSource][]interval{}, domains: map[uint32]mariaGTID{}}
	for _, part := range strings.Split(text, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		if mariadb {
			g, err := parseMariaGTID(part)
			if err != nil {
				return nil, err
			}
			s.domains[g.domain] = g
			continue
		}
		pieces := strings.Split(part, ":")
		u, ok := parseUUID(strings.TrimSpace(pieces[0]))
		if !ok || len(pieces) < 2 {
			return nil, fmt.Errorf("%q is no set of global transaction ids", part)
		}
		src := gtidSource{uuid: u}
		for _, p := range pieces[1:] {
			p = strings.ToLower(strings.TrimSpace(p))
			if tagPattern.MatchString(p) {
				src.tag = p
				continue
			}
			from, to, ranged := strings.Cut(p, "-")
			first, err := strconv.ParseInt(from, 10, 64)
			last := first
			if ranged && err == nil {
				last, err = strconv.ParseInt(to, 10, 64)
			}
			if err != nil || first < 1 || last < first || last == 1<<63-1 {
				return nil, fmt.Errorf("%q is no interval of transaction numbers", p)
			}
			s.add(src, interval{first, last + 1})
		}
	}
	return s, nil
}

func parseMariaGTID(text string) (mariaGTID, error) {
	f := strings.Split(text, "-")
	if len(f) == 3 {
		d, err1 := strconv.ParseUint(f[0], 10, 32)
		sv, err2 := strconv.ParseUint(f[1], 10, 32)
		n, err3 := strconv.ParseUint(f[2], 10, 64)
		if err1 == nil && err2 == nil && err3 == nil {
			return mariaGTID{uint32(d), uint32(sv), n}, nil
		}
	}
	return mariaGTID{}, fmt.Errorf("%q is no global transaction id of MariaDB (domain-server-sequence)", text)
}

// add puts an interval in.
func (s *gtidSet) add(src gtidSource, iv interval) {
	s.fresh = false
	if s.sources == nil {
		s.sources = map[gtidSource][]interval{}
	}
	list := s.sources[src]
	if n := len(list); n > 0 && list[n-1].end == iv.first { // the usual case
		list[n-1].end = iv.end
		return
	}
	list = append(list, iv)
	slices.SortFunc(list, func(a, b interval) int { return cmp.Compare(a.first, b.first) })
	out := list[:1]
	for _, x := range list[1:] {
		if last := &out[len(out)-1]; x.first <= last.end {
			last.end = max(last.end, x.end)
		} else {
			out = append(out, x)
		}
	}
	s.sources[src] = out
}

// advance puts MariaDB's next transaction in.
func (s *gtidSet) advance(g mariaGTID) {
	s.fresh = false
	if s.domains == nil {
		s.domains = map[uint32]mariaGTID{}
	}
	s.domains[g.domain] = g
}

// empty reports whether nothing is in the set.
func (s *gtidSet) empty() bool { return len(s.sources) == 0 && len(s.domains) == 0 }

// contains reports whether all of other is in the set.
func (s *gtidSet) contains(other *gtidSet) bool { return other.minus(s).empty() }

// minus is what is in s and not in other. Of MariaDB's domains those that have come
// further in s.
func (s *gtidSet) minus(other *gtidSet) *gtidSet {
	out := &gtidSet{mariadb: s.mariadb, sources: map[gtidSource][]interval{}, domains: map[uint32]mariaGTID{}}
	for d, g := range s.domains {
		if o, ok := other.domains[d]; !ok || o.seq < g.seq {
			out.domains[d] = g
		}
	}
	for src, list := range s.sources {
		for _, iv := range list {
			for _, o := range other.sources[src] {
				if o.end <= iv.first {
					continue
				}
				if o.first >= iv.end {
					break
				}
				if o.first > iv.first {
					out.add(src, interval{iv.first, o.first})
				}
				iv.first = min(iv.end, o.end)
			}
			if iv.first < iv.end {
				out.add(src, iv)
			}
		}
	}
	return out
}

// sorted are the sources in the order in which they are spelled.
func (s *gtidSet) sorted() []gtidSource {
	return slices.SortedFunc(maps.Keys(s.sources), func(a, b gtidSource) int {
		return cmp.Or(bytes.Compare(a.uuid[:], b.uuid[:]), cmp.Compare(a.tag, b.tag))
	})
}

// String spells the set as servers and Debezium do, without blanks.
func (s *gtidSet) String() string {
	if s == nil {
		return ""
	}
	if s.fresh {
		return s.text
	}
	var b strings.Builder
	for _, d := range slices.Sorted(maps.Keys(s.domains)) {
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(s.domains[d].String())
	}
	var last gtidSource
	for i, src := range s.sorted() {
		switch {
		case i > 0 && src.uuid == last.uuid:
			b.WriteString(":" + src.tag)
		default:
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(src.String())
		}
		last = src
		for _, iv := range s.sources[src] {
			b.WriteString(":" + strconv.FormatInt(iv.first, 10))
			if iv.end > iv.first+1 {
				b.WriteString("-" + strconv.FormatInt(iv.end-1, 10))
			}
		}
	}
	s.text, s.fresh = b.String(), true
	return s.text
}

// encode is MySQL's set as COM_BINLOG_DUMP_GTID takes it (Gtid_set::encode): the number
// of sources, then of each its UUID, its tag where any source has one, and its intervals.
func (s *gtidSet) encode() []byte {
	le := binary.LittleEndian
	tagged := slices.ContainsFunc(slices.Collect(maps.Keys(s.sources)), func(g gtidSource) bool { return g.tag != "" })
	n := uint64(len(s.sources))
	if tagged {
		n = 1<<56 | n<<8 | 1
	}
	out := le.AppendUint64(nil, n)
	for _, src := range s.sorted() {
		out = append(out, src.uuid[:]...)
		if tagged {
			out = append(out, byte(len(src.tag))<<1) // a length of variable size; of one byte up to 127
			out = append(out, src.tag...)
		}
		list := s.sources[src]
		out = le.AppendUint64(out, uint64(len(list)))
		for _, iv := range list {
			out = le.AppendUint64(out, uint64(iv.first))
			out = le.AppendUint64(out, uint64(iv.end))
		}
	}
	return out
}

// decodeGTIDs reads MySQL's set as encode writes it.
func decodeGTIDs(b []byte) (*gtidSet, error) {
	s := &gtidSet{}
	c := cursor{b: b}
	n := c.u64()
	tagged := n>>56 == 1
	if tagged {
		n = n >> 8 & (1<<48 - 1)
	}
	for ; n > 0 && !c.bad; n-- {
		var src gtidSource
		copy(src.uuid[:], c.take(16))
		if tagged {
			src.tag = string(c.take(int(c.u8() >> 1)))
		}
		for m := c.u64(); m > 0 && !c.bad; m-- {
			iv := interval{int64(c.u64()), int64(c.u64())}
			if iv.first < 1 || iv.end <= iv.first {
				return nil, errShort
			}
			s.add(src, iv)
		}
	}
	if c.bad {
		return nil, errShort
	}
	return s, nil
}
