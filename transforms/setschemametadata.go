package transforms

import (
	"millrace/schema"
	"millrace/schema/config"
)

var (
	schemaName    = config.Key[string]{Name: "schema.name", Importance: config.High, Doc: "New name of the schema."}
	schemaVersion = config.Key[int32]{Name: "schema.version", NullDefault: true, Importance: config.High, Doc: "New version of the schema."}
)

// SetSchemaMetadata renames schemas.
var SetSchemaMetadata = pair("set-schema-metadata", "SetSchemaMetadata", "Sets the name and version of the %s's schema. A null without a schema stays as it is.",
	config.Define(schemaName, schemaVersion, replaceNull), newSetSchemaMetadata)

type setSchemaMetadata struct {
	programs
	half
	name       string
	version    int32
	hasVersion bool
	defaults   bool
	schemas    schema.Cache[*schema.Schema] // of what is no struct
}

func newSetSchemaMetadata(v config.Values, h half) (Transform, error) {
	t := &setSchemaMetadata{half: h, name: schemaName.Get(v), version: schemaVersion.Get(v), hasVersion: schemaVersion.Has(v), defaults: replaceNull.Get(v)}
	if !schemaName.Has(v) && !t.hasVersion {
		return nil, &config.Error{Key: schemaName.Name, Text: "Neither schema name nor version configured"}
	}
	return t, nil
}

func (t *setSchemaMetadata) Apply(r schema.Record) (schema.Record, bool, error) {
	s, v := t.of(&r)
	if s == nil {
		if v.IsNull() {
			return r, true, nil
		}
		return r, false, &schema.DataError{Reason: "Schema required for [updating schema metadata]"}
	}
	if v.Kind() == schema.Struct {
		return t.apply(t, &r)
	}
	out, err := t.schemas.Get(s, t.rename)
	if err != nil {
		return r, false, err
	}
	t.set(&r, out, v)
	return r, true, nil
}

func (t *setSchemaMetadata) plan(p *plan) error {
	s, fields, err := p.openRead(t.half, t.defaults)
	if err != nil {
		return err
	}
	out, err := t.rename(s)
	p.set(t.half, out, fields)
	return err
}

func (t *setSchemaMetadata) rename(s *schema.Schema) (*schema.Schema, error) {
	b := schema.From(s)
	if t.name != "" {
		b.Name(t.name)
	}
	if t.hasVersion {
		b.Version(t.version)
	}
	for _, f := range s.Fields() {
		b.Field(f.Name, f.Schema)
	}
	return b.TryBuild()
}
