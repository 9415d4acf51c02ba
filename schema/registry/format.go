package registry

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"

	"millrace/schema/javatext"
)

// The records of the topic, as the original writes them. They are JSON; the order of a key's properties is fixed for ever, since keys
// are compared by their bytes when the topic is compacted.
//
//	SCHEMA          {"keytype":"SCHEMA","subject":s,"version":n,"magic":1}     a version; null: deleted for good
//	CONFIG          {"keytype":"CONFIG","subject":s|null,"magic":0}           null: not set
//	MODE            {"keytype":"MODE","subject":s|null,"magic":0}             null: not set
//	DELETE_SUBJECT  {"keytype":"DELETE_SUBJECT","subject":s,"magic":0}        versions up to value.version are deleted
//	CLEAR_SUBJECT   {"keytype":"CLEAR_SUBJECT","subject":s,"magic":0}         deleted versions are forgotten
//	NOOP            {"keytype":"NOOP","magic":0}                              says nothing
//	CONTEXT         {"keytype":"CONTEXT","tenant":"default","context":c,"magic":0}
const (
	typeSchema        = "SCHEMA"
	typeConfig        = "CONFIG"
	typeMode          = "MODE"
	typeDeleteSubject = "DELETE_SUBJECT"
	typeClearSubject  = "CLEAR_SUBJECT"
	typeNoop          = "NOOP"
	typeContext       = "CONTEXT"

	tenant = "default"
)

// A Record is one of the topic's. A nil value deletes what stood under the key.
type Record struct {
	Key, Value []byte
	Timestamp  int64 // ms since the epoch, where it was read
	Offset     int64 // where it was read
}

// key is what a record's key says.
type key struct {
	Type    string  `json:"keytype"`
	Subject *string `json:"subject"` // nil for the registry as a whole
	Version int32   `json:"version"`
	Magic   int     `json:"magic"`
	Context string  `json:"context"`
}

func parseKey(b []byte) (k key, err error) {
	if err := json.Unmarshal(b, &k); err != nil {
		return k, fmt.Errorf("a record's key is no JSON object: %w", err)
	}
	switch k.Type {
	case typeSchema:
		if k.Magic != 0 && k.Magic != 1 {
			return k, fmt.Errorf("a schema's key has the magic byte %d; there are 0 and 1", k.Magic)
		}
		if k.Subject == nil || k.Version < 1 {
			return k, fmt.Errorf("a schema's key has no subject, or the version %d", k.Version)
		}
	case typeDeleteSubject, typeClearSubject:
		if k.Subject == nil && k.Type == typeDeleteSubject {
			return k, fmt.Errorf("the key of a deleted subject has no subject")
		}
	}
	return k, nil
}

func schemaKey(subject string, version int32) []byte {
	b := append([]byte(`{"keytype":"SCHEMA","subject":`), javatext.AppendJSONUTF8(nil, []byte(subject))...)
	b = strconv.AppendInt(append(b, `,"version":`...), int64(version), 10)
	return append(b, `,"magic":1}`...)
}

// subjectKey is a key of a type that has a subject, the empty one for the registry as a whole.
func subjectKey(keytype, subject string) []byte {
	b := append([]byte(`{"keytype":"`), keytype...)
	b = append(b, `","subject":`...)
	if subject == "" {
		b = append(b, "null"...)
	} else {
		b = javatext.AppendJSONUTF8(b, []byte(subject))
	}
	return append(b, `,"magic":0}`...)
}

func contextKey(context string) []byte {
	b := javatext.AppendJSONUTF8([]byte(`{"keytype":"CONTEXT","tenant":"default","context":`), []byte(context))
	return append(b, `,"magic":0}`...)
}

// Noop is the record that an instance writes to learn where the topic ends.
func Noop() Record { return Record{Key: []byte(`{"keytype":"NOOP","magic":0}`)} }

// schemaValue is the value of a version.
type schemaValue struct {
	Subject    string      `json:"subject"`
	Version    int32       `json:"version"`
	ID         int32       `json:"id"`
	MD5        string      `json:"md5,omitempty"` // base64; of what the original has encrypted
	Type       string      `json:"schemaType,omitempty"`
	References []Reference `json:"references,omitempty"`
	Metadata   *Metadata   `json:"metadata,omitempty"`
	RuleSet    *RuleSet    `json:"ruleSet,omitempty"`
	Schema     string      `json:"schema"`
	Deleted    bool        `json:"deleted"`
}

// guid is the schema's, given or computed.
func (v *schemaValue) guid() guid {
	if b, err := base64.StdEncoding.DecodeString(v.MD5); err == nil && len(b) == len(guid{}) {
		return guid(b)
	}
	return guidOf(v.Schema, v.References, v.Metadata, v.RuleSet)
}

// versionRecord is the record of a version.
func versionRecord(subject string, number int32, c *content, deleted bool) (Record, error) {
	v := schemaValue{Subject: subject, Version: number, ID: c.id, MD5: c.md5, References: c.refs, Metadata: c.meta, RuleSet: c.rules, Schema: c.text, Deleted: deleted}
	if c.typ != TypeAvro {
		v.Type = c.typ
	}
	b, err := marshal(v)
	return Record{Key: schemaKey(subject, number), Value: b}, err
}

// tombstone deletes a version for good.
func tombstone(subject string, number int32) Record { return Record{Key: schemaKey(subject, number)} }

// configValue is the value of a configuration.
type configValue struct {
	Subject string `json:"subject,omitempty"`
	Config
}

// modeValue is the value of a mode.
type modeValue struct {
	Subject string `json:"subject,omitempty"`
	Mode    Mode   `json:"mode"`
}

// deletion is the value of a deleted or cleared subject.
type deletion struct {
	Subject string `json:"subject,omitempty"`
	Version *int32 `json:"version,omitempty"`
}

// contextValue is the value of a context.
type contextValue struct {
	Tenant  string `json:"tenant"`
	Context string `json:"context"`
}

// record is one whose value is v.
func record(key []byte, v any) (Record, error) {
	b, err := marshal(v)
	return Record{Key: key, Value: b}, err
}
