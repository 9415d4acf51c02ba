package catalog

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"millrace/log/internal/scram"
)

// Records of __embedded_meta-0. The key is text, the value JSON; a null value removes the key. Of
// several records with a key the last one counts. Readers ignore fields that they do not know.
//
//	key              value
//	cluster          {"id":"<base64url of 16 bytes>"}
//	topic/<name>     {"id":"<base64url of 16 bytes>","partitions":3,"configs":{"k":"v"},"deleting":true}
//	group/<name>     {"configs":{"k":"v"}}: what is set on a consumer group
//	producers        {"next":2000}: ids below are handed out or lost; blocks of 1000
//	secret           {"bytes":"<base64 of 32 bytes>"}: what nobody else knows
//	scram/<mechanism>/<user>  {"salt":"<base64>","iterations":8192,"storedKey":"<base64>","serverKey":"<base64>"},
//	                 mechanism SCRAM-SHA-256 or SCRAM-SHA-512 (RFC 5802)
//
// Fixed for ever.
const (
	// Topic is the name of the partition's topic. Clients never see it.
	MetaTopic = "__embedded_meta"

	keyCluster   = "cluster"
	keyProducers = "producers"
	keySecret    = "secret"
	topicPrefix  = "topic/"
	groupPrefix  = "group/"
	scramPrefix  = "scram/"
)

// Hidden says whether a record of the topic has a value for nobody's eyes: what SCRAM derives of a password, the secret.
func Hidden(key []byte) bool {
	return string(key) == keySecret || strings.HasPrefix(string(key), scramPrefix)
}

type clusterRecord struct {
	ID string `json:"id"`
}

type producersRecord struct {
	Next int64 `json:"next"`
}

type topicRecord struct {
	ID         string            `json:"id"`
	Partitions int32             `json:"partitions"`
	Configs    map[string]string `json:"configs,omitempty"`
	Deleting   bool              `json:"deleting,omitempty"`
}

type groupRecord struct {
	Configs map[string]string `json:"configs"`
}

type secretRecord struct {
	Bytes []byte `json:"bytes"`
}

type scramRecord struct {
	Salt       []byte `json:"salt"`
	Iterations int    `json:"iterations"`
	StoredKey  []byte `json:"storedKey"`
	ServerKey  []byte `json:"serverKey"`
}

func scramKey(a Account) string { return scramPrefix + a.Mechanism.String() + "/" + a.User }

// parseScramKey reads scramKey's text.
func parseScramKey(key string) (Account, bool) {
	rest, ok := strings.CutPrefix(key, scramPrefix)
	mechanism, user, ok2 := strings.Cut(rest, "/")
	m, known := scram.Parse(mechanism)
	return Account{user, m}, ok && ok2 && known
}

// FormatID is an id's usual text: base64url without padding, 22 characters.
func FormatID(id [16]byte) string { return base64.RawURLEncoding.EncodeToString(id[:]) }

// ParseID reads FormatID's text.
func ParseID(s string) (id [16]byte, err error) {
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil || len(b) != 16 {
		return id, fmt.Errorf("id %q is not base64url of 16 bytes", s)
	}
	return [16]byte(b), nil
}

func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // plain structs of strings and numbers
	}
	return b
}

// state is what the records say.
type state struct {
	cluster   string
	nextBlock int64 // first producer id that is not in a block yet
	topics    map[string]topicRecord
	groups    map[string]map[string]string // configurations
	secret    []byte
	users     map[Account]scram.Credential
}

// apply takes one record in. Values that cannot be read are errors: the catalogue is ours alone.
func (s *state) apply(key string, value []byte) error {
	name, isTopic := strings.CutPrefix(key, topicPrefix)
	account, isScram := parseScramKey(key)
	group, isGroup := strings.CutPrefix(key, groupPrefix)
	if value == nil {
		switch {
		case isTopic:
			delete(s.topics, name)
		case isScram:
			delete(s.users, account)
		case isGroup:
			delete(s.groups, group)
		}
		return nil
	}
	var into any
	var c clusterRecord
	var p producersRecord
	var t topicRecord
	var se secretRecord
	var sc scramRecord
	var g groupRecord
	switch {
	case key == keyCluster:
		into = &c
	case key == keyProducers:
		into = &p
	case isTopic:
		into = &t
	case key == keySecret:
		into = &se
	case isScram:
		into = &sc
	case isGroup:
		into = &g
	default:
		return nil // of a later version
	}
	if err := json.Unmarshal(value, into); err != nil {
		return fmt.Errorf("record %q: %w", key, err)
	}
	switch {
	case key == keyCluster:
		s.cluster = c.ID
	case key == keyProducers:
		s.nextBlock = max(s.nextBlock, p.Next)
	case key == keySecret:
		s.secret = se.Bytes
	case isGroup:
		if s.groups == nil {
			s.groups = map[string]map[string]string{}
		}
		s.groups[group] = g.Configs
	case isScram:
		cr := scram.Credential{Salt: sc.Salt, Iterations: sc.Iterations, StoredKey: sc.StoredKey, ServerKey: sc.ServerKey}
		if err := cr.Check(account.Mechanism); err != nil {
			return fmt.Errorf("record %q: %w", key, err)
		}
		s.users[account] = cr
	default:
		if _, err := ParseID(t.ID); err != nil {
			return fmt.Errorf("record %q: %w", key, err)
		}
		if t.Partitions < 1 {
			return fmt.Errorf("record %q: %d partitions", key, t.Partitions)
		}
		s.topics[name] = t
	}
	return nil
}
