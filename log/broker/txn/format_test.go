package txn

import (
	"encoding/hex"
	"reflect"
	"strings"
	"testing"
)

func TestRecordsAreKafkas(t *testing.T) {
	x := txn{
		id: "tx", state: prepareCommit, pid: 5, prevPID: 4, nextPID: 9, epoch: 3, lastEpoch: 2, timeout: 60_000, start: 7, updated: 8, version: 2, embedded: true,
		parts: []Partition{{"a", 0}, {"a", 2}, {"b", 1}},
	}
	if got := hex.EncodeToString(stateKey("tx")); got != "000000027478" {
		t.Errorf("key %s", got)
	}
	// By hand, after TransactionLogValue.json: version 1, id, epoch, timeout, state, partitions by topic, two times, tags 0, 1, 2, and ours.
	want := strings.ReplaceAll("0001 0000000000000005 0003 0000ea60 02 03 0261 03 00000000 00000002 00 0262 02 00000001 00"+
		" 0000000000000008 0000000000000007 05 00 08 0000000000000004 01 08 0000000000000009 02 02 0002 904e 00 914e 02 0002", " ", "")
	if got := hex.EncodeToString(stateValue(&x)); got != want {
		t.Errorf("value\n%s, want\n%s", got, want)
	}
	for _, x := range []txn{x, {id: "y", state: empty, prevPID: -1, nextPID: -1, lastEpoch: -1, start: -1}} {
		if got, err := parseValue(x.id, stateValue(&x)); err != nil || !reflect.DeepEqual(got, x) {
			t.Errorf("%+v, want %+v; %v", got, x, err)
		}
	}
	// As Kafka wrote them before its version 4.
	old, _ := hex.DecodeString(strings.ReplaceAll("0000 0000000000000005 0003 0000ea60 01 00000001 0001 61 00000001 00000004 0000000000000008 0000000000000007", " ", ""))
	got, err := parseValue("z", old)
	if want := (txn{id: "z", state: ongoing, pid: 5, prevPID: -1, nextPID: -1, epoch: 3, lastEpoch: -1, timeout: 60_000, start: 7, updated: 8, parts: []Partition{{"a", 4}}}); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("version 0: %+v, %v", got, err)
	}
}

func FuzzState(f *testing.F) {
	for _, x := range []txn{
		{id: "x", state: ongoing, pid: 5, prevPID: -1, nextPID: -1, lastEpoch: -1, parts: []Partition{{"a", 0}, {"b", 1}}},
		{id: "y", state: completeAbort, pid: 5, prevPID: 1, nextPID: 2, epoch: 7, lastEpoch: 6, version: 2, embedded: true},
	} {
		f.Add(stateKey(x.id), stateValue(&x))
	}
	f.Fuzz(func(t *testing.T, key, value []byte) {
		id, known, err := parseKey(key)
		if err == nil && known && string(stateKey(id)) == "" {
			t.Error("no key")
		}
		x, err := parseValue("x", value)
		if err != nil {
			return
		}
		if len(x.parts) > len(value) {
			t.Errorf("%d partitions out of %d bytes", len(x.parts), len(value))
		}
		// What was read can be written, and is the same when it is read again.
		if again, err := parseValue("x", stateValue(&x)); err != nil || !reflect.DeepEqual(again, x) {
			t.Errorf("%+v became %+v; %v", x, again, err)
		}
	})
}
