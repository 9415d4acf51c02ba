package group

import (
	"bytes"
	"encoding/hex"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestRecordsOfConsumerGroupsAreKafkas compares with records that Kafka's classes wrote.
func TestRecordsOfConsumerGroupsAreKafkas(t *testing.T) {
	first, second := [16]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}, [16]byte{}
	for i := range second {
		second[i] = first[i] + 16
	}
	want := map[string]consumerRecord{
		"group":                {kind: epochKey, epoch: 7, hash: 123456789012345},
		"group without topics": {kind: epochKey, epoch: 7},
		"member": {kind: memberKey, second: "m", member: consumer{
			id: "m", instance: "i", rack: "r", client: Client{"c", "/10.0.0.1"}, names: []string{"t", "u"}, regex: "t.*", rebalance: time.Minute, assignor: "range",
		}},
		"plain member": {kind: memberKey, second: "m", member: consumer{id: "m", client: Client{"c", "/h"}, rebalance: -1}},
		"classic member": {kind: memberKey, second: "m", member: consumer{
			id: "m", client: Client{"c", "/h"}, names: []string{"t"}, rebalance: time.Second,
			classic: &classicSide{session: 45 * time.Second, protocols: []protocol{{"range", []byte{0, 3, 1}}}},
		}},
		"target epoch": {kind: targetEpochKey, epoch: 9, time: 1700000000000},
		"target":       {kind: targetKey, second: "m", target: []tp{{first, 0}, {first, 2}, {second, 1}}},
		"current": {kind: currentKey, second: "m", member: consumer{
			id: "m", epoch: 5, previous: 4, state: unrevoked, assigned: []owned{{tp{first, 0}, 3}, {tp{first, 2}, 5}}, revoking: []owned{{tp{second, 1}, 2}},
		}},
		"current of an older version": {kind: currentKey, second: "m", member: consumer{
			id: "m", epoch: 5, previous: 4, assigned: []owned{{tp{first, 0}, 5}, {tp{first, 2}, 5}},
		}},
		"regex":      {kind: regexKey, second: "t.*", topics: []string{"t", "tt"}, metadata: 11, time: 1700000000000},
		"old topics": {kind: oldMetadataKey},
	}
	// What we write otherwise, and read alike: what there is not is null and not empty, and epochs are always said.
	other := []string{"plain member", "classic member", "current of an older version", "old topics"}
	b, err := os.ReadFile("testdata/consumer-records.golden")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if f[0] == "#" {
			continue
		}
		name := strings.Join(f[:len(f)-2], " ")
		w, ok := want[name]
		if !ok {
			t.Fatalf("what is %q?", name)
		}
		seen++
		w.group = "g"
		key, _ := hex.DecodeString(f[len(f)-2])
		value, _ := hex.DecodeString(f[len(f)-1])
		got, err := parseConsumerRecord(key, value)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !reflect.DeepEqual(got, w) {
			t.Errorf("%s: read\n%+v, want\n%+v", name, got, w)
		}
		if r := w.record(); !bytes.Equal(r.key, key) || !bytes.Equal(r.value, value) != slices.Contains(other, name) {
			t.Errorf("%s: wrote\n%x %x, Kafka\n%x %x", name, r.key, r.value, key, value)
		}
	}
	if seen != len(want) {
		t.Errorf("%d records", seen)
	}
}

// FuzzConsumerRecord reads any key and value without a panic; what could be read is written so that it reads the same.
func FuzzConsumerRecord(f *testing.F) {
	b, err := os.ReadFile("testdata/consumer-records.golden")
	if err != nil {
		f.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		w := strings.Fields(line)
		if key, err := hex.DecodeString(w[len(w)-2]); err == nil && w[0] != "#" {
			value, _ := hex.DecodeString(w[len(w)-1])
			f.Add(key, value)
		}
	}
	f.Fuzz(func(t *testing.T, key, value []byte) {
		if !isConsumerKey(key) {
			return
		}
		r, err := parseConsumerRecord(key, value)
		if err != nil || r.kind == oldMetadataKey || value == nil {
			return
		}
		again := r.record()
		r2, err := parseConsumerRecord(again.key, again.value)
		if err != nil {
			t.Fatalf("%x %x is written as %x %x: %v", key, value, again.key, again.value, err)
		}
		third := r2.record()
		if !bytes.Equal(again.key, third.key) || !bytes.Equal(again.value, third.value) {
			t.Fatalf("written as %x, then as %x", again.value, third.value)
		}
		// Whatever a log holds, groups are made of it.
		gs := map[string]*group{}
		loadConsumers(gs, []consumerRecord{r}, time.UnixMilli(0))
		if g := gs[r.group]; g == nil || g.consumer == nil {
			t.Fatal("no group")
		}
	})
}
