package avrodata

import (
	"testing"

	"millrace/schema/avro"
	"millrace/schema/registry"
)

var parseNew = registry.ParseOptions{New: true}

func avroOf(tb testing.TB, text string) *avro.Type {
	tb.Helper()
	s, err := avro.Parse(text, parseNew)
	if err != nil {
		tb.Fatalf("%s: %v", text, err)
	}
	return s.Type()
}

func decoderOf(tb testing.TB, text string, o Options) *Decoder {
	tb.Helper()
	t := avroOf(tb, text)
	s, err := (&Mapper{Options: o}).ToConnect(t, NoVersion)
	if err != nil {
		tb.Fatalf("%s: %v", text, err)
	}
	d, err := NewDecoder(t, s)
	if err != nil {
		tb.Fatal(err)
	}
	return d
}
