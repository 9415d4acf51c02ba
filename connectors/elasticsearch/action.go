package elasticsearch

import (
	"fmt"
	"hash/maphash"
	"strconv"
	"strings"

	"millrace/connectors"
	"millrace/schema"
	"millrace/schema/envelope"
	"millrace/schema/javatext"
)

// maxID is the server's bound on ids. A longer one fails the whole request.
const maxID = 512

type op uint8

const (
	opIndex op = iota
	opDelete
	opUpdate
	opCreate // of a data stream
)

var opNames = [...]string{opIndex: "index", opDelete: "delete", opUpdate: "update", opCreate: "create"}

// An action is what a record asks of the server.
type action struct {
	op        op
	id        string // empty: the server makes it
	version   int64
	versioned bool
	skip      string // not empty: nothing is asked, for this reason
	report    bool   // with skip: where errors are tolerated, it is reported
}

// An actor makes actions of records. It is used by one goroutine.
type actor struct {
	set     set
	enc     encoder
	events  envelope.Reader
	perName map[string]topicSet // by topic
}

// topicSet is what a topic's name decides.
type topicSet struct {
	keyIgnore, schemaIgnore bool
	index                   string
	err                     error
}

// topic is what the record's topic, as transforms have left it, decides.
func (a *actor) topic(name string) topicSet {
	ts, ok := a.perName[name]
	if ok {
		return ts
	}
	ts.keyIgnore = a.set.keyIgnore || a.set.topicKeyIgnore[name]
	ts.schemaIgnore = a.set.schemaIgnore || a.set.topicSchemaIgnore[name]
	ts.index, ts.err = a.set.resources.name(name)
	if len(a.perName) >= 10_000 { // a transform that names topics by their data
		clear(a.perName)
	}
	if a.perName == nil {
		a.perName = map[string]topicSet{}
	}
	a.perName[name] = ts
	return ts
}

// indexName is the index of a topic: its name in lower case, cut to 255 bytes, without
// one leading - or _; the names . and .. are spelled out.
func indexName(topic string) (string, error) {
	name := strings.ToLower(topic)
	name = cut(name, 255)
	if strings.HasPrefix(name, "-") || strings.HasPrefix(name, "_") {
		name = name[1:]
	}
	switch name {
	case ".":
		return "dot", nil
	case "..":
		return "dotdot", nil
	}
	if name == "" || strings.ContainsAny(name[:1], "-_+") || strings.ContainsAny(name, "\\/*?\"<>| ,#:") {
		return "", fmt.Errorf("topic %q makes no index name: %q begins with - _ + or holds one of \\ / * ? \" < > | , # : or a space; name another with RegexRouter", topic, name)
	}
	return name, nil
}

// action is what the record asks for. An error is a data error of this record.
func (a *actor) action(r *schema.Record, ts topicSet) (act action, err error) {
	if r.Value.IsNull() {
		switch {
		case a.set.onNull == ignore:
			return action{skip: "null value (behavior.on.null.values=ignore)", report: true}, nil
		case a.set.onNull == fail:
			return act, connectors.Failed(&nullValue, nil, fmt.Sprintf("the record at %s has a null value", where(r)), "")
		case ts.keyIgnore || a.set.autoIDs:
			return action{skip: "null value, and its document's id is not the key"}, nil
		case r.Key.IsNull():
			return action{skip: "null value and null key: there is no document to delete"}, nil
		}
		act.op = opDelete
	} else if a.set.upsert {
		act.op = opUpdate
	} else if a.set.resources.stream {
		act.op = opCreate
	}
	switch {
	case a.set.autoIDs && act.op != opDelete:
		return act, nil
	case ts.keyIgnore:
		act.id = r.Origin.Topic + "+" + strconv.Itoa(int(r.Origin.Partition)) + "+" + strconv.FormatInt(r.Origin.Offset, 10)
		return act, nil
	}
	if a.events.Truncates(r) {
		return action{skip: "a table was truncated: the event has no key, and names no document"}, nil
	}
	if act.id, err = documentID(r.Key); err != nil {
		return act, bad(r, err)
	}
	if a.set.upsert || !a.set.versions || act.op == opCreate {
		return act, nil
	}
	act.version, act.versioned = r.Origin.Offset, true
	if a.set.versionHeader != "" {
		if act.version, err = headerVersion(r, a.set.versionHeader); err != nil {
			return act, bad(r, err)
		}
	}
	return act, nil
}

// bad is the data error of a record that makes no document.
func bad(r *schema.Record, err error) error {
	return connectors.Failed(&badRecord, err, fmt.Sprintf("the record at %s makes no document: %v", where(r), err), "")
}

// where is the record's place in the log, for messages.
func where(r *schema.Record) string {
	return fmt.Sprintf("%s-%d @ %d", r.Origin.Topic, r.Origin.Partition, r.Origin.Offset)
}

// documentID is a key's text: of a string or whole number, or of the one field of a
// struct or map.
func documentID(key schema.Value) (string, error) {
	k := key.Kind()
	switch {
	case k == schema.Struct && len(key.Fields()) == 1:
		key = key.At(0)
	case k == schema.Map && len(key.Entries()) == 1:
		key = key.Entries()[0].Value
	case k == schema.Struct || k == schema.Map:
		return "", fmt.Errorf("its key has %d fields, and an id is one text or whole number; take one with ExtractField$Key, or make a text of them", max(len(key.Fields()), len(key.Entries())))
	}
	switch key.Kind() {
	case schema.String:
		switch id := key.Str(); {
		case id == "":
			return "", fmt.Errorf("its key is an empty text, which is no id")
		case len(id) > maxID:
			return "", fmt.Errorf("its key has %d bytes, and an id at most %d", len(id), maxID)
		default:
			return id, nil
		}
	case schema.Int8, schema.Int16, schema.Int32, schema.Int64:
		return strconv.FormatInt(key.Int(), 10), nil
	case schema.Null:
		return "", fmt.Errorf("its key is null, and key.ignore is false")
	}
	return "", fmt.Errorf("its key is %v, and an id is a text or a whole number; convert it, or set key.ignore=true", key.Kind())
}

func headerVersion(r *schema.Record, name string) (int64, error) {
	h, ok := r.Header(name)
	if !ok {
		return 0, fmt.Errorf("it has no header %q (external.version.header)", name)
	}
	n := h.Value.Int()
	switch h.Value.Kind() {
	case schema.Int8, schema.Int16, schema.Int32, schema.Int64:
	case schema.String:
		var err error
		if n, err = strconv.ParseInt(strings.TrimSpace(h.Value.Str()), 10, 64); err != nil {
			return 0, fmt.Errorf("its header %q is %q, which is no whole number", name, h.Value.Str())
		}
	default:
		return 0, fmt.Errorf("its header %q is %v, which is no whole number", name, h.Value.Kind())
	}
	if n < 0 {
		return 0, fmt.Errorf("its header %q is %d, and a version is not negative", name, n)
	}
	return n, nil
}

// append appends the lines of a bulk request.
func (a *actor) append(dst []byte, act action, index string, r *schema.Record) ([]byte, error) {
	dst = append(dst, '{', '"')
	dst = append(dst, opNames[act.op]...)
	dst = append(dst, `":{"_index":`...)
	dst = javatext.AppendJSONUTF8(dst, []byte(index))
	if act.id != "" {
		dst = append(dst, `,"_id":`...)
		dst = javatext.AppendJSONUTF8(dst, []byte(act.id))
	}
	if act.versioned {
		dst = append(dst, `,"version":`...)
		dst = strconv.AppendInt(dst, act.version, 10)
		dst = append(dst, `,"version_type":"external"`...)
	}
	if act.op == opUpdate {
		dst = append(dst, `,"retry_on_conflict":`...)
		dst = strconv.AppendInt(dst, int64(min(a.set.maxInFlight, 5)), 10)
	}
	dst = append(dst, "}}\n"...)
	var err error
	switch act.op {
	case opDelete:
		return dst, nil
	case opUpdate:
		dst = append(dst, `{"doc":`...)
		if dst, err = a.enc.document(dst, r.ValueSchema, r.Value); err != nil {
			return dst, bad(r, err)
		}
		return append(dst, ",\"doc_as_upsert\":true}\n"...), nil
	}
	if act.op == opCreate {
		dst, err = a.enc.streamDocument(dst, r.ValueSchema, r.Value, r.Timestamp)
	} else {
		dst, err = a.enc.document(dst, r.ValueSchema, r.Value)
	}
	if err != nil {
		return dst, bad(r, err)
	}
	return append(dst, '\n'), nil
}

var idSeed = maphash.MakeSeed()

// hashID is a hash of a document's index and id, never 0.
func hashID(index, id string) uint64 {
	return maphash.String(idSeed, index)*31 + maphash.String(idSeed, id) | 1
}
