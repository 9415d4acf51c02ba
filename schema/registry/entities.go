package registry

import (
	"bytes"
	"crypto/md5"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
)

// Reference is a schema that another needs, under the name by which it stands there. The version -1 is the latest.
type Reference struct {
	Name    string `json:"name,omitempty"`
	Subject string `json:"subject,omitempty"`
	Version int32  `json:"version,omitempty"`
}

// Metadata is what users note about a schema. Sets are sorted, each element once.
type Metadata struct {
	Tags       map[string][]string `json:"tags,omitempty"`
	Properties map[string]string   `json:"properties,omitempty"`
	Sensitive  []string            `json:"sensitive,omitempty"`
}

// versionProperty is the property in which a schema's metadata carry its own version.
const versionProperty = "confluent:version"

// UnmarshalJSON reads metadata and puts their sets in order.
func (m *Metadata) UnmarshalJSON(b []byte) error {
	type plain Metadata
	if err := json.Unmarshal(b, (*plain)(m)); err != nil {
		return err
	}
	for k, tags := range m.Tags {
		m.Tags[k] = set(tags)
	}
	m.Sensitive = set(m.Sensitive)
	return nil
}

func set(list []string) []string {
	slices.Sort(list)
	return slices.Compact(list)
}

func (m *Metadata) equal(o *Metadata) bool {
	if m == nil || o == nil {
		return m == o
	}
	return maps.Equal(m.Properties, o.Properties) && slices.Equal(m.Sensitive, o.Sensitive) && maps.EqualFunc(m.Tags, o.Tags, slices.Equal)
}

// property is a property's value; "" and false where there is none.
func (m *Metadata) property(name string) (string, bool) {
	if m == nil {
		return "", false
	}
	v, ok := m.Properties[name]
	return v, ok
}

// with is the metadata with a property set, without the one of old.
func (m *Metadata) with(name, value string) *Metadata {
	out := &Metadata{}
	if m != nil {
		*out = *m
	}
	out.Properties = maps.Clone(out.Properties)
	if out.Properties == nil {
		out.Properties = map[string]string{}
	}
	out.Properties[name] = value
	return out
}

// without is the metadata, which may be none, without a property. What is left of metadata is metadata, if empty.
func (m *Metadata) without(name string) *Metadata {
	if _, has := m.property(name); !has {
		return m
	}
	out := *m
	out.Properties = maps.Clone(m.Properties)
	delete(out.Properties, name)
	return &out
}

// mergeMetadata lays later over earlier.
func mergeMetadata(earlier, later *Metadata) *Metadata {
	if earlier == nil || later == nil {
		if later != nil {
			return later
		}
		return earlier
	}
	out := &Metadata{Tags: maps.Clone(earlier.Tags), Properties: maps.Clone(earlier.Properties), Sensitive: set(slices.Concat(earlier.Sensitive, later.Sensitive))}
	if out.Tags == nil {
		out.Tags = later.Tags
	} else {
		maps.Copy(out.Tags, later.Tags)
	}
	if out.Properties == nil {
		out.Properties = later.Properties
	} else {
		maps.Copy(out.Properties, later.Properties)
	}
	return out
}

// Rule is one rule of a RuleSet. The registry keeps it; clients act on it.
type Rule struct {
	Name      string            `json:"name,omitempty"`
	Doc       string            `json:"doc,omitempty"`
	Kind      string            `json:"kind,omitempty"` // TRANSFORM, CONDITION
	Mode      string            `json:"mode,omitempty"` // UPGRADE, DOWNGRADE, UPDOWN, READ, WRITE, WRITEREAD
	Type      string            `json:"type,omitempty"`
	Tags      []string          `json:"tags,omitempty"` // sorted
	Params    map[string]string `json:"params,omitempty"`
	Expr      string            `json:"expr,omitempty"`
	OnSuccess string            `json:"onSuccess,omitempty"`
	OnFailure string            `json:"onFailure,omitempty"`
	Disabled  bool              `json:"disabled"`
}

// UnmarshalJSON reads a rule and puts its tags in order.
func (r *Rule) UnmarshalJSON(b []byte) error {
	type plain Rule
	if err := json.Unmarshal(b, (*plain)(r)); err != nil {
		return err
	}
	r.Tags = set(r.Tags)
	return nil
}

// On is the action for a rule's outcome when it runs in a mode, such as WRITE: of two, parted by a comma, those of rules of two modes, the
// first is for writing and upgrading.
func (r *Rule) On(actions, mode string) string {
	if first, second, two := strings.Cut(actions, ","); two && (r.Mode == "WRITEREAD" || r.Mode == "UPDOWN") {
		if mode == "WRITE" || mode == "UPGRADE" {
			return first
		}
		return second
	}
	return actions
}

// RunsIn reports whether the rule runs in a mode: READ, WRITE, UPGRADE or DOWNGRADE.
func (r *Rule) RunsIn(mode string) bool {
	switch {
	case r.Disabled:
		return false
	case mode == "READ" || mode == "WRITE":
		return r.Mode == mode || r.Mode == "WRITEREAD"
	}
	return r.Mode == mode || r.Mode == "UPDOWN"
}

func (r Rule) equal(o Rule) bool {
	return r.Name == o.Name && r.Doc == o.Doc && r.Kind == o.Kind && r.Mode == o.Mode && r.Type == o.Type && slices.Equal(r.Tags, o.Tags) &&
		maps.Equal(r.Params, o.Params) && r.Expr == o.Expr && r.OnSuccess == o.OnSuccess && r.OnFailure == o.OnFailure && r.Disabled == o.Disabled
}

// RuleSet are the rules of a schema.
type RuleSet struct {
	MigrationRules []Rule `json:"migrationRules,omitempty"`
	DomainRules    []Rule `json:"domainRules,omitempty"`
	EncodingRules  []Rule `json:"encodingRules,omitempty"`
	EnableAt       string `json:"enableAt,omitempty"`
}

func (s *RuleSet) equal(o *RuleSet) bool {
	if s == nil || o == nil {
		return s == o
	}
	same := func(a, b []Rule) bool { return slices.EqualFunc(a, b, Rule.equal) }
	return same(s.MigrationRules, o.MigrationRules) && same(s.DomainRules, o.DomainRules) && same(s.EncodingRules, o.EncodingRules) && s.EnableAt == o.EnableAt
}

// hasType reports whether one of the rules is of a type.
func (s *RuleSet) hasType(typ string) bool {
	if s == nil {
		return false
	}
	return slices.ContainsFunc(slices.Concat(s.MigrationRules, s.DomainRules, s.EncodingRules), func(r Rule) bool { return r.Type == typ })
}

// mergeRuleSets lays later over earlier: a rule takes the place of those of its name.
func mergeRuleSets(earlier, later *RuleSet) *RuleSet {
	if earlier == nil || later == nil {
		if later != nil {
			return later
		}
		return earlier
	}
	merge := func(earlier, later []Rule) []Rule {
		out := slices.DeleteFunc(slices.Clone(earlier), func(r Rule) bool {
			return slices.ContainsFunc(later, func(l Rule) bool { return l.Name == r.Name })
		})
		return append(out, later...)
	}
	out := &RuleSet{merge(earlier.MigrationRules, later.MigrationRules), merge(earlier.DomainRules, later.DomainRules), merge(earlier.EncodingRules, later.EncodingRules), later.EnableAt}
	if out.EnableAt == "" {
		out.EnableAt = earlier.EnableAt
	}
	return out
}

// removed is the set without the rules of those names.
func (s *RuleSet) removed(names []string) *RuleSet {
	if s == nil || len(names) == 0 {
		return s
	}
	keep := func(rules []Rule) []Rule {
		return slices.DeleteFunc(slices.Clone(rules), func(r Rule) bool { return slices.Contains(names, r.Name) })
	}
	return &RuleSet{keep(s.MigrationRules), keep(s.DomainRules), keep(s.EncodingRules), s.EnableAt}
}

// maxRuleName is the longest name of a rule, in characters.
const maxRuleName = 64

func (s *RuleSet) check() error {
	if s == nil {
		return nil
	}
	names := map[string]bool{}
	for _, group := range []struct {
		rules []Rule
		modes []string
		text  string
	}{
		{s.MigrationRules, []string{"UPGRADE", "DOWNGRADE", "UPDOWN"}, "Migration rules can only be UPGRADE, DOWNGRADE, UPDOWN"},
		{s.DomainRules, []string{"WRITE", "READ", "WRITEREAD"}, "Domain rules can only be WRITE, READ, WRITEREAD"},
		{s.EncodingRules, []string{"WRITE", "READ", "WRITEREAD"}, "Encoding rules can only be WRITE, READ, WRITEREAD"},
	} {
		for _, r := range group.rules {
			if names[r.Name] {
				return failf(CodeInvalidRuleSet, "Found rule with duplicate name '%s'", cut(r.Name))
			}
			names[r.Name] = true
			if err := r.check(); err != nil {
				return err
			}
			if !slices.Contains(group.modes, r.Mode) {
				return failf(CodeInvalidRuleSet, "Rule '%s': %s", cut(r.Name), group.text)
			}
		}
	}
	return nil
}

func (r Rule) check() error {
	switch {
	case r.Name == "":
		return failf(CodeInvalidRuleSet, "Missing rule name")
	case len(utf16.Encode([]rune(r.Name))) > maxRuleName:
		return failf(CodeInvalidRuleSet, "Rule name too long")
	}
	for i, c := range r.Name {
		if !(c == '_' || unicode.IsLetter(c) || i > 0 && (c == '-' || unicode.IsDigit(c))) {
			return failf(CodeInvalidRuleSet, "Illegal character %q in rule name: %s", c, r.Name)
		}
	}
	if r.Type == "" {
		return failf(CodeInvalidRuleSet, "Rule '%s': Missing rule type", r.Name)
	}
	if r.Kind != "" && r.Kind != "TRANSFORM" && r.Kind != "CONDITION" {
		return failf(CodeInvalidRuleSet, "Rule '%s': kind %q is none; there are TRANSFORM and CONDITION", r.Name, cut(r.Kind))
	}
	if r.Mode != "WRITEREAD" && r.Mode != "UPDOWN" && (strings.Contains(r.OnSuccess, ",") || strings.Contains(r.OnFailure, ",")) {
		return failf(CodeInvalidRuleSet, "Rule '%s': Multiple actions only valid with WRITEREAD and UPDOWN", r.Name)
	}
	return nil
}

// guid is the MD5 of a schema's text, references, metadata and rules: it says which schemas are the same, in all contexts.
type guid [md5.Size]byte

// String is the form of a UUID.
func (g guid) String() string {
	var b [36]byte
	hex.Encode(b[:8], g[:4])
	hex.Encode(b[9:13], g[4:6])
	hex.Encode(b[14:18], g[6:8])
	hex.Encode(b[19:23], g[8:10])
	hex.Encode(b[24:], g[10:])
	b[8], b[13], b[18], b[23] = '-', '-', '-', '-'
	return string(b[:])
}

// parseGUID reads a UUID, or 32 hexadecimal digits.
func parseGUID(s string) (g guid, ok bool) {
	if len(s) == 36 && s[8] == '-' && s[13] == '-' && s[18] == '-' && s[23] == '-' {
		s = strings.ReplaceAll(s, "-", "")
	}
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != len(g) {
		return g, false
	}
	return guid(b), true
}

func guidOf(text string, refs []Reference, m *Metadata, rules *RuleSet) (g guid) {
	h := md5.New()
	write(h, text)
	for _, r := range refs {
		write(h, r.Name, r.Subject)
		h.Write(binary.BigEndian.AppendUint32(nil, uint32(r.Version)))
	}
	if m != nil {
		h.Write([]byte{1})
		for _, k := range slices.Sorted(maps.Keys(m.Tags)) {
			write(h, k)
			write(h, m.Tags[k]...)
		}
		for _, k := range slices.Sorted(maps.Keys(m.Properties)) {
			write(h, k, m.Properties[k])
		}
		write(h, m.Sensitive...)
	}
	if rules != nil {
		h.Write([]byte{1})
		for _, r := range slices.Concat(rules.MigrationRules, rules.DomainRules, rules.EncodingRules) {
			write(h, r.Name, r.Doc, r.Kind, r.Mode, r.Type)
			write(h, r.Tags...)
			for _, k := range slices.Sorted(maps.Keys(r.Params)) {
				write(h, k, r.Params[k])
			}
			write(h, r.Expr, r.OnSuccess, r.OnFailure)
			if r.Disabled {
				h.Write([]byte{1})
			}
		}
		write(h, rules.EnableAt)
	}
	return guid(h.Sum(nil))
}

func write(h hash.Hash, texts ...string) {
	for _, t := range texts {
		h.Write([]byte(t))
	}
}

// Config is what a subject, a context or the registry as a whole is set to. Absent fields are inherited or mean the default.
type Config struct {
	Alias               *string   `json:"alias,omitempty"`
	AliasForDeks        *string   `json:"aliasForDeks,omitempty"`
	Normalize           *bool     `json:"normalize,omitempty"`
	ValidateFields      *bool     `json:"validateFields,omitempty"`
	ValidateNewSchemas  *bool     `json:"validateNewSchemas,omitempty"`
	ValidateRules       *bool     `json:"validateRules,omitempty"`
	Compatibility       Level     `json:"compatibilityLevel,omitempty"`
	CompatibilityPolicy string    `json:"compatibilityPolicy,omitempty"`
	CompatibilityGroup  *string   `json:"compatibilityGroup,omitempty"`
	DefaultMetadata     *Metadata `json:"defaultMetadata,omitempty"`
	OverrideMetadata    *Metadata `json:"overrideMetadata,omitempty"`
	DefaultRuleSet      *RuleSet  `json:"defaultRuleSet,omitempty"`
	OverrideRuleSet     *RuleSet  `json:"overrideRuleSet,omitempty"`
}

// Request is the configuration as PUT answers it: the level stands under another name than in a GET.
func (c Config) Request() any {
	level := c.Compatibility
	c.Compatibility = ""
	return struct {
		Config
		Level Level `json:"compatibility,omitempty"`
	}{c, level}
}

// hasDefaults reports whether schemas get metadata or rules from the configuration.
func (c Config) hasDefaults() bool {
	return c.DefaultMetadata != nil || c.OverrideMetadata != nil || c.DefaultRuleSet != nil || c.OverrideRuleSet != nil
}

// A ConfigChange is the body of a PUT of a configuration: a field that stands there replaces what was set, null removes it.
type ConfigChange struct {
	given map[string]json.RawMessage
	set   Config
}

// UnmarshalJSON reads the change. Fields that there are not are ignored.
func (c *ConfigChange) UnmarshalJSON(b []byte) error {
	if err := json.Unmarshal(b, &c.given); err != nil {
		return err
	}
	if err := json.Unmarshal(b, &c.set); err != nil {
		return err
	}
	c.set.Compatibility = ""
	for name, into := range map[string]*string{"compatibility": (*string)(&c.set.Compatibility), "compatibilityPolicy": &c.set.CompatibilityPolicy} {
		if raw, ok := c.given[name]; ok {
			*into = "" // null says nothing
			if err := json.Unmarshal(raw, into); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return nil
}

// apply is old, which may be nil, with the change.
func (c *ConfigChange) apply(old *Config) (*Config, error) {
	out := &Config{}
	if old != nil {
		*out = *old
	}
	set := c.set
	if set.Compatibility != "" {
		level, ok := ParseLevel(string(set.Compatibility))
		if !ok {
			return nil, &Error{CodeInvalidCompatibility, invalidCompatibilityText}
		}
		set.Compatibility = level
	}
	if set.CompatibilityPolicy != "" {
		set.CompatibilityPolicy = strings.ToUpper(set.CompatibilityPolicy)
		if !slices.Contains([]string{"STRICT", "LENIENT"}, set.CompatibilityPolicy) {
			return nil, failf(CodeInvalidCompatibility, "Invalid compatibility policy %q. Valid values are strict and lenient", cut(c.set.CompatibilityPolicy))
		}
	}
	for _, rules := range []*RuleSet{set.DefaultRuleSet, set.OverrideRuleSet} {
		if err := rules.check(); err != nil {
			return nil, err
		}
	}
	if set.Alias != nil && *set.Alias != "" {
		if err := checkSubject(*set.Alias, false); err != nil {
			return nil, err
		}
	}
	for name, take := range map[string]func(){
		"alias": func() { out.Alias = set.Alias }, "aliasForDeks": func() { out.AliasForDeks = set.AliasForDeks },
		"normalize": func() { out.Normalize = set.Normalize }, "validateFields": func() { out.ValidateFields = set.ValidateFields },
		"validateNewSchemas": func() { out.ValidateNewSchemas = set.ValidateNewSchemas }, "validateRules": func() { out.ValidateRules = set.ValidateRules },
		"compatibility": func() { out.Compatibility = set.Compatibility }, "compatibilityPolicy": func() { out.CompatibilityPolicy = set.CompatibilityPolicy },
		"compatibilityGroup": func() { out.CompatibilityGroup = set.CompatibilityGroup },
		"defaultMetadata":    func() { out.DefaultMetadata = set.DefaultMetadata }, "overrideMetadata": func() { out.OverrideMetadata = set.OverrideMetadata },
		"defaultRuleSet": func() { out.DefaultRuleSet = set.DefaultRuleSet }, "overrideRuleSet": func() { out.OverrideRuleSet = set.OverrideRuleSet },
	} {
		if _, given := c.given[name]; given {
			take()
		}
	}
	return out, nil
}

// Mode says what may be done with a subject, a context or the registry.
type Mode string

// The modes.
const (
	ReadWrite        Mode = "READWRITE"
	ReadOnly         Mode = "READONLY"
	ReadOnlyOverride Mode = "READONLY_OVERRIDE" // set for the registry as a whole, it goes before every other
	Import           Mode = "IMPORT"            // ids and versions come from the client
	Forwarding       Mode = "FORWARD"           // as Import, for whoever copies a registry
)

var modes = []Mode{ReadWrite, ReadOnly, ReadOnlyOverride, Import, Forwarding}

func (m Mode) readOnly() bool  { return m == ReadOnly || m == ReadOnlyOverride }
func (m Mode) importing() bool { return m == Import || m == Forwarding }

// Entry is a version of a subject as the API answers it. Fields that do not apply are left out.
type Entry struct {
	Subject    string       `json:"subject,omitempty"`
	Version    int32        `json:"version,omitempty"`
	ID         *int32       `json:"id,omitempty"`
	MaxID      *int32       `json:"maxId,omitempty"`
	GUID       string       `json:"guid,omitempty"`
	Type       string       `json:"schemaType,omitempty"` // empty for AVRO
	References []Reference  `json:"references,omitempty"`
	Metadata   *Metadata    `json:"metadata,omitempty"`
	RuleSet    *RuleSet     `json:"ruleSet,omitempty"`
	Schema     string       `json:"schema,omitempty"`
	SchemaTags []SchemaTags `json:"schemaTags,omitempty"`
	Timestamp  *int64       `json:"ts,omitempty"` // ms since the epoch
	Deleted    *bool        `json:"deleted,omitempty"`
	Aliases    []string     `json:"aliases,omitempty"`
}

// SchemaTags are the tags of a part of a schema.
type SchemaTags struct {
	Entity struct {
		Path string `json:"entityPath,omitempty"`
		Type string `json:"entityType,omitempty"` // sr_record or sr_field
	} `json:"schemaEntity"`
	Tags []string `json:"tags,omitempty"`
}

// A Request is a schema as clients send it.
type Request struct {
	Schema              string       `json:"schema"`
	Type                string       `json:"schemaType"`
	References          []Reference  `json:"references"`
	Metadata            *Metadata    `json:"metadata"`
	RuleSet             *RuleSet     `json:"ruleSet"`
	ID                  *int32       `json:"id"`
	Version             *int32       `json:"version"`
	TagsToAdd           []SchemaTags `json:"schemaTagsToAdd"`
	TagsToRemove        []SchemaTags `json:"schemaTagsToRemove"`
	PropagateSchemaTags bool         `json:"propagateSchemaTags"`
}

// A TagRequest changes the tags, metadata and rules of a version, which makes another version.
type TagRequest struct {
	NewVersion    *int32       `json:"newVersion"`
	TagsToAdd     []SchemaTags `json:"tagsToAdd"`
	TagsToRemove  []SchemaTags `json:"tagsToRemove"`
	Metadata      *Metadata    `json:"metadata"`
	RuleSet       *RuleSet     `json:"ruleSet"`
	RulesToMerge  *RuleSet     `json:"rulesToMerge"`
	RulesToRemove []string     `json:"rulesToRemove"`
}

// SubjectVersion is a version by its subject and number.
type SubjectVersion struct {
	Subject string `json:"subject"`
	Version int32  `json:"version"`
}

// ContextID is an id in its context.
type ContextID struct {
	Context string `json:"context"`
	ID      int32  `json:"id"`
}

// Latest is the version that clients call "latest".
const Latest = -1

// ParseVersion reads a version of a path: a number from 1, "latest" or -1.
func ParseVersion(text string) (int, error) {
	text = strings.TrimSpace(text)
	if strings.EqualFold(text, "latest") {
		return Latest, nil
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < 1 && n != Latest {
		return 0, failf(CodeInvalidVersion, invalidVersionText, cut(text))
	}
	return int(n), nil
}

// marshal is JSON as the original writes it: without escapes for HTML.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte{'\n'}), nil
}
