package store

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"millrace/log/logtest"
	"millrace/runtime"
)

func readTestdata(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// The files were written by Kafka's FileOffsetBackingStore.
func TestOffsetFileOfAJavaWorker(t *testing.T) {
	got, err := readOffsetFile(readTestdata(t, "java.offsets"))
	if err != nil {
		t.Fatal(err)
	}
	want := []offsetEntry{{[]byte(`["gone",{"filename":"x"}]`), nil}, {[]byte(`["file",{"filename":"in.txt"}]`), []byte(`{"position":8}`)},
		{[]byte(`["pg",{"server":"shop"}]`), []byte(`{"lsn":1234,"txId":7}`)}}
	if len(got) != len(want) {
		t.Fatalf("%d entries", len(got))
	}
	for i := range want {
		if !bytes.Equal(got[i].key, want[i].key) || !bytes.Equal(got[i].value, want[i].value) || (got[i].value == nil) != (want[i].value == nil) {
			t.Errorf("entry %d: %q %q", i, got[i].key, got[i].value)
		}
	}
	for _, name := range []string{"java-empty.offsets", ""} {
		var data []byte
		if name != "" {
			data = readTestdata(t, name)
		}
		if got, err := readOffsetFile(data); err != nil || len(got) != 0 {
			t.Errorf("%q: %v %v", name, got, err)
		}
	}
	whole := readTestdata(t, "java.offsets")
	for n := 1; n < len(whole); n++ {
		if _, err := readOffsetFile(whole[:n]); err == nil {
			t.Errorf("cut at byte %d: no error", n)
		}
	}
	for _, junk := range []string{"{}", "\xac\xed\x00\x05sr\x00\x07evil.Me", string(whole) + "x"} {
		if _, err := readOffsetFile([]byte(junk)); err == nil || !strings.Contains(err.Error(), "not the offset file") {
			t.Errorf("%.20q: %v", junk, err)
		}
	}
}

func FuzzOffsetFile(f *testing.F) {
	f.Add(readTestdata(f, "java.offsets"))
	f.Add(readTestdata(f, "java-empty.offsets"))
	f.Fuzz(func(t *testing.T, data []byte) {
		entries, err := readOffsetFile(data)
		if err != nil && entries != nil {
			t.Error("entries beside an error")
		}
		for _, e := range entries {
			if e.key == nil {
				t.Error("an entry without a key")
			}
		}
	})
}

func TestOffsetFileIsTakenOverOnce(t *testing.T) {
	l := logtest.New(t)
	o, err := OpenOffsets(t.Context(), l, runtime.InternalTopic{Name: "offsets", Partitions: 1, Replication: 1}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	path := filepath.Join(t.TempDir(), "connect.offsets")
	if n, done, err := o.ImportFile(t.Context(), path); n != 0 || !done || err != nil {
		t.Errorf("a file that is not there: %d %v %v", n, done, err)
	}
	if err := os.WriteFile(path, []byte("junk"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := o.ImportFile(t.Context(), path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("junk: %v", err)
	}
	if err := os.WriteFile(path, readTestdata(t, "java.offsets"), 0o600); err != nil {
		t.Fatal(err)
	}
	if n, done, err := o.ImportFile(t.Context(), path); n != 2 || !done || err != nil {
		t.Fatalf("%d %v %v", n, done, err)
	}
	if got := o.All("file"); len(got) != 1 {
		t.Errorf("%v", got)
	} else if v, _ := got[0].Position.Lookup("position"); v.Int() != 8 {
		t.Errorf("%v", got[0])
	}
	if n, done, err := o.ImportFile(t.Context(), path); n != 0 || done || err != nil {
		t.Errorf("a second time: %d %v %v", n, done, err)
	}
}
