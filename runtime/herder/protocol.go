package herder

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"millrace/runtime"
)

// The metadata and assignments of the group protocol connect, as Kafka Connect
// writes them. All integers are big-endian.
//
//	metadata    int16 version (0, 1, 2) | string url | int64 config offset
//	            | v1+: nullable bytes allocation, which is an assignment
//	assignment  int16 version | int16 error | string leader | string leader url | int64 config offset
//	            | array of (string connector, array of int32 task)
//	            | v1+: array of the same, what is revoked | int32 delay in ms
//
// A string is an int16 length and its bytes, bytes are an int32 length and theirs,
// an array is an int32 count and its elements; a length of -1 is null. Task -1 is
// the connector itself. Fields that a message ends before are left at zero: older
// workers do not write them. These are fixed for ever.
const (
	protoEager      = "default"    // version 0
	protoCompatible = "compatible" // version 1: incremental
	protoSessioned  = "sessioned"  // version 2: as 1, and internal requests are signed

	connectorItself = -1

	errNone           = 0
	errConfigMismatch = 1 // the leader has not read the config topic as far as a member
)

// versionOf is the version of messages under a protocol.
func versionOf(protocol string) int16 {
	switch protocol {
	case protoSessioned:
		return 2
	case protoCompatible:
		return 1
	}
	return 0
}

// protocolsFor are the protocols that a worker offers, the best first.
func protocolsFor(highest string) []string {
	switch highest {
	case "eager":
		return []string{protoEager}
	case "compatible":
		return []string{protoCompatible, protoEager}
	}
	return []string{protoSessioned, protoCompatible, protoEager}
}

// work is a share of the connectors and tasks. Both lists are sorted and hold each
// element once.
type work struct {
	connectors []string
	tasks      []runtime.TaskID
}

func compareTasks(a, b runtime.TaskID) int {
	if c := strings.Compare(a.Connector, b.Connector); c != 0 {
		return c
	}
	return a.Task - b.Task
}

func (w work) normal() work {
	slices.Sort(w.connectors)
	slices.SortFunc(w.tasks, compareTasks)
	return work{slices.Compact(w.connectors), slices.Compact(w.tasks)}
}

func (w work) empty() bool { return len(w.connectors) == 0 && len(w.tasks) == 0 }

func (w work) plus(o work) work {
	return work{append(slices.Clone(w.connectors), o.connectors...), append(slices.Clone(w.tasks), o.tasks...)}.normal()
}

func (w work) minus(o work) work {
	var out work
	for _, c := range w.connectors {
		if !o.hasConnector(c) {
			out.connectors = append(out.connectors, c)
		}
	}
	for _, t := range w.tasks {
		if !o.hasTask(t) {
			out.tasks = append(out.tasks, t)
		}
	}
	return out
}

func (w work) and(o work) work { return w.minus(w.minus(o)) }

func (w work) hasConnector(c string) bool {
	_, ok := slices.BinarySearch(w.connectors, c)
	return ok
}

func (w work) hasTask(t runtime.TaskID) bool {
	_, ok := slices.BinarySearchFunc(w.tasks, t, compareTasks)
	return ok
}

func (w work) equal(o work) bool {
	return slices.Equal(w.connectors, o.connectors) && slices.Equal(w.tasks, o.tasks)
}

// metadata is what a member tells the leader about itself.
type metadata struct {
	version      int16
	url          string
	configOffset int64
	allocation   *assignment // what it owns; nil for nothing
}

// assignment is what the leader tells a member. Under the incremental protocols
// assigned is what comes in addition to what the member keeps.
type assignment struct {
	version      int16
	err          int16
	leader       string // member id
	leaderURL    string
	configOffset int64
	assigned     work
	revoked      work
	delay        time.Duration // after which the member joins again; 0 for none
}

func appendString(b []byte, s string) []byte {
	b = binary.BigEndian.AppendUint16(b, uint16(len(s)))
	return append(b, s...)
}

func appendMetadata(b []byte, m metadata) []byte {
	b = binary.BigEndian.AppendUint16(b, uint16(m.version))
	b = appendString(b, m.url)
	b = binary.BigEndian.AppendUint64(b, uint64(m.configOffset))
	if m.version == 0 {
		return b
	}
	if m.allocation == nil {
		return binary.BigEndian.AppendUint32(b, math.MaxUint32)
	}
	at := len(b)
	b = binary.BigEndian.AppendUint32(b, 0)
	b = appendAssignment(b, *m.allocation)
	binary.BigEndian.PutUint32(b[at:], uint32(len(b)-at-4))
	return b
}

func appendAssignment(b []byte, a assignment) []byte {
	b = binary.BigEndian.AppendUint16(b, uint16(a.version))
	b = binary.BigEndian.AppendUint16(b, uint16(a.err))
	b = appendString(b, a.leader)
	b = appendString(b, a.leaderURL)
	b = binary.BigEndian.AppendUint64(b, uint64(a.configOffset))
	b = appendWork(b, a.assigned)
	if a.version == 0 {
		return b
	}
	b = appendWork(b, a.revoked)
	return binary.BigEndian.AppendUint32(b, uint32(min(a.delay.Milliseconds(), math.MaxInt32)))
}

// appendWork writes each connector's own entry and tasks together, in the order of names.
func appendWork(b []byte, w work) []byte {
	byName := map[string][]int32{}
	for _, c := range w.connectors {
		byName[c] = append(byName[c], connectorItself)
	}
	for _, t := range w.tasks {
		byName[t.Connector] = append(byName[t.Connector], int32(t.Task))
	}
	names := make([]string, 0, len(byName))
	for n := range byName {
		names = append(names, n)
	}
	slices.Sort(names)
	b = binary.BigEndian.AppendUint32(b, uint32(len(names)))
	for _, n := range names {
		b = appendString(b, n)
		b = binary.BigEndian.AppendUint32(b, uint32(len(byName[n])))
		for _, t := range byName[n] {
			b = binary.BigEndian.AppendUint32(b, uint32(t))
		}
	}
	return b
}

var errShort = errors.New("it ends too early")

// reader takes a message apart. After an error all it returns is zero.
type reader struct {
	b   []byte
	err error
}

func (r *reader) take(n int) []byte {
	if r.err == nil && (n < 0 || n > len(r.b)) {
		r.err = errShort
	}
	if r.err != nil {
		return make([]byte, min(max(n, 0), 8))
	}
	p := r.b[:n]
	r.b = r.b[n:]
	return p
}

func (r *reader) int16() int16 { return int16(binary.BigEndian.Uint16(r.take(2))) }
func (r *reader) int32() int32 { return int32(binary.BigEndian.Uint32(r.take(4))) }
func (r *reader) int64() int64 { return int64(binary.BigEndian.Uint64(r.take(8))) }

func (r *reader) string() string {
	n := r.int16()
	if n < 0 || r.err != nil {
		return ""
	}
	return string(r.take(int(n)))
}

func (r *reader) work() work {
	var w work
	n := r.int32()
	for i := int32(0); i < n && r.err == nil; i++ {
		name := r.string()
		m := r.int32()
		for j := int32(0); j < m && r.err == nil; j++ {
			switch t := r.int32(); {
			case r.err != nil:
			case t == connectorItself:
				w.connectors = append(w.connectors, name)
			case t >= 0:
				w.tasks = append(w.tasks, runtime.TaskID{Connector: name, Task: int(t)})
			default:
				r.err = fmt.Errorf("task %d of %q: want a number or -1", t, name)
			}
		}
	}
	return w.normal()
}

func parseMetadata(b []byte) (metadata, error) {
	r := reader{b: b}
	m := metadata{version: r.int16(), url: r.string(), configOffset: r.int64()}
	if r.err == nil && m.version >= 1 && len(r.b) > 0 {
		if n := r.int32(); n >= 0 && r.err == nil {
			if inner := r.take(int(n)); r.err == nil && len(inner) > 0 {
				a, err := parseAssignment(inner)
				if err != nil {
					return m, err
				}
				m.allocation = &a
			}
		}
	}
	if r.err != nil {
		return m, fmt.Errorf("member metadata of %d bytes: %w", len(b), r.err)
	}
	return m, nil
}

func parseAssignment(b []byte) (assignment, error) {
	r := reader{b: b}
	a := assignment{version: r.int16(), err: r.int16(), leader: r.string(), leaderURL: r.string(), configOffset: r.int64()}
	if r.err == nil && len(r.b) > 0 {
		a.assigned = r.work()
	}
	if r.err == nil && a.version >= 1 && len(r.b) > 0 {
		a.revoked = r.work()
	}
	if r.err == nil && a.version >= 1 && len(r.b) > 0 {
		a.delay = time.Duration(r.int32()) * time.Millisecond
	}
	if r.err != nil {
		return a, fmt.Errorf("assignment of %d bytes: %w", len(b), r.err)
	}
	return a, nil
}
