package cdc

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"

	"millrace/schema"
)

// TestHashes: what Debezium's own tests expect of its two versions.
func TestHashes(t *testing.T) {
	for _, c := range []struct {
		key, text string
		length    int
		want      string
	}{
		{"column.mask.hash.SHA-256.with.salt.CzQMA0cB5K", "test", 0, "8e68c68edbbac316dfe2f6ada6b0d2d3e2002b487a985d4b7c7c82dd83b0f4d7"},
		{"column.mask.hash.SHA-256.with.salt.CzQMA0cB5K", "test", 20, "8e68c68edbbac316dfe2"},
		{"column.mask.hash.v2.SHA-256.with.salt.salt123", "12345678901234567890", 0, "b65875d34a3dedf070f3a012970bf3b5da424560d7be3d2c23b986b525d2d7f3"},
	} {
		r, err := ParseTextRule(c.key, "a.b.c")
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Change(&schema.Arena{}, []byte(c.text), c.length).Str(); got != c.want {
			t.Errorf("%s of %q: %s, want %s", c.key, c.text, got, c.want)
		}
	}
}

func TestSerializedText(t *testing.T) {
	long := strings.Repeat("x", 70000)
	for _, c := range []struct{ text, want string }{
		{"", "aced0005740000"}, {"a\u00e9\u20ac", "aced000574000661c3a9e282ac"},
		{"\x00", "aced0005740002c080"}, {"\U0001F600", "aced0005740006eda0bdedb880"},
		{long, "aced00057c0000000000011170" + strings.Repeat("78", 70000)},
	} {
		var b bytes.Buffer
		writeSerialized(&b, []byte(c.text))
		if got := hex.EncodeToString(b.Bytes()); got != c.want {
			t.Errorf("%.20q: %.60s, want %.60s", c.text, got, c.want)
		}
	}
}
