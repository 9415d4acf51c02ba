package herder

import (
	"bytes"
	"encoding/hex"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"millrace/deploy/trial"
)

// The bytes of Connect's messages, field by field as the protocol lays them down.
func TestProtocolBytes(t *testing.T) {
	a := assignment{
		version: 2, leader: "l", leaderURL: "http://h/", configOffset: 7, delay: 3 * time.Second,
		assigned: work{connectors: []string{"c"}, tasks: []taskID{{Connector: "c", Task: 0}, {Connector: "d", Task: 4}}}.normal(),
		revoked:  work{tasks: []taskID{{Connector: "x", Task: 1}}},
	}
	for _, c := range []struct {
		name, hex string
		bytes     []byte
	}{
		{"metadata of version 0 ends with the config offset",
			"0000" + "0009687474703a2f2f682f" + "0000000000000005",
			appendMetadata(nil, metadata{version: 0, url: "http://h/", configOffset: 5, allocation: &a})},
		{"nothing owned is null",
			"0002" + "0009687474703a2f2f682f" + "ffffffffffffffff" + "ffffffff",
			appendMetadata(nil, metadata{version: 2, url: "http://h/", configOffset: -1})},
		{"an assignment has what came, what goes, and the delay",
			"0002" + "0000" + "00016c" + "0009687474703a2f2f682f" + "0000000000000007" +
				"00000002" + "000163" + "00000002" + "ffffffff" + "00000000" + "000164" + "00000001" + "00000004" +
				"00000001" + "000178" + "00000001" + "00000001" + "00000bb8",
			appendAssignment(nil, a)},
		{"the eager protocol knows neither",
			"0000" + "0001" + "0000" + "0000" + "0000000000000007" + "00000000",
			appendAssignment(nil, assignment{err: errConfigMismatch, configOffset: 7})},
	} {
		if got := hex.EncodeToString(c.bytes); got != c.hex {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.hex)
		}
	}
	back, err := parseAssignment(appendAssignment(nil, a))
	if err != nil || !reflect.DeepEqual(back, a) {
		t.Errorf("parse: %+v, %v", back, err)
	}
	m := metadata{version: 1, url: "u", configOffset: 3, allocation: &a}
	mb, err := parseMetadata(appendMetadata(nil, m))
	if err != nil || !reflect.DeepEqual(mb, m) {
		t.Errorf("parse: %+v, %v", mb, err)
	}
}

// Older workers leave fields at the end out.
func TestProtocolToleratesMissingFields(t *testing.T) {
	whole := appendAssignment(nil, assignment{version: 1, leader: "l", assigned: work{connectors: []string{"c"}}})
	for _, cut := range []int{4, 8} { // without the delay, without what is revoked
		if a, err := parseAssignment(whole[:len(whole)-cut]); err != nil || !a.assigned.hasConnector("c") {
			t.Errorf("without the last %d bytes: %+v, %v", cut, a, err)
		}
	}
	for n := range 12 {
		if _, err := parseAssignment(whole[:n]); err == nil {
			t.Errorf("%d bytes pass for an assignment", n)
		}
	}
}

func TestProtocolReadsWhatItWrites(t *testing.T) {
	seed := trial.Seed(t)
	rng := rand.New(rand.NewPCG(seed, 0))
	some := func() work {
		var w work
		for range rng.IntN(5) {
			w.connectors = append(w.connectors, string(rune('a'+rng.IntN(26))))
			w.tasks = append(w.tasks, taskID{Connector: string(rune('a' + rng.IntN(26))), Task: rng.IntN(100)})
		}
		return w.normal()
	}
	for range 500 {
		a := assignment{version: int16(rng.IntN(3)), err: int16(rng.IntN(2)), leader: "m", leaderURL: "u", configOffset: rng.Int64(), assigned: some()}
		if a.version > 0 {
			a.revoked, a.delay = some(), time.Duration(rng.IntN(1000))*time.Millisecond
		}
		got, err := parseAssignment(appendAssignment(nil, a))
		if err != nil || !got.assigned.equal(a.assigned) || !got.revoked.equal(a.revoked) || got.delay != a.delay || got.configOffset != a.configOffset {
			t.Fatalf("seed %d: wrote %+v, read %+v, %v", seed, a, got, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	a := assignment{version: 2, leader: "l", leaderURL: "u", assigned: work{connectors: []string{"c"}, tasks: []taskID{{Connector: "c"}}}}
	f.Add(appendAssignment(nil, a))
	f.Add(appendMetadata(nil, metadata{version: 2, url: "u", allocation: &a}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if a, err := parseAssignment(b); err == nil {
			again, err := parseAssignment(appendAssignment(nil, a))
			if err != nil || !again.assigned.equal(a.assigned) {
				t.Fatalf("%+v reads as %+v, %v", a, again, err)
			}
		}
		if m, err := parseMetadata(b); err == nil && !bytes.Equal(nil, b) {
			if _, err := parseMetadata(appendMetadata(nil, m)); err != nil {
				t.Fatal(err)
			}
		}
	})
}
