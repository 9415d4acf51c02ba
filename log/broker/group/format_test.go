package group

import (
	"bytes"
	"encoding/hex"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"millrace/deploy/trial"
)

// TestRecordsAreTheBytesThatStandInLogs pins the formats: a log that was written once must be readable for ever.
func TestRecordsAreTheBytesThatStandInLogs(t *testing.T) {
	g := newGroup("g", time.UnixMilli(0x0102030405))
	g.state, g.protocolType, g.generation, g.protocol, g.leader = stable, "consumer", 7, "range", "m-1"
	g.members = []*member{
		{id: "m-1", client: Client{"app", "/10.0.0.1"}, session: 10 * time.Second, rebalance: time.Minute,
			protocols: []protocol{{"other", []byte("no")}, {"range", []byte{0xa1}}}, assigned: []byte{0xb1}},
		{id: "i-2", instance: "i", client: Client{"app", "embedded"}, session: 10 * time.Second, rebalance: time.Minute,
			protocols: []protocol{{"range", nil}}},
	}
	gone := newGroup("g", time.UnixMilli(0x0102030405))
	gone.protocolType, gone.generation = "connect", 8
	p := partition{"t", 3}
	for name, c := range map[string]struct {
		r          record
		key, value string
	}{
		"offset": {offsetRecord("g", p, offset{offset: 5, leaderEpoch: 2, metadata: "hi", committed: 9, expire: -1}),
			"0001 0001 67 0001 74 00000003", "0003 0000000000000005 00000002 0002 6869 0000000000000009"},
		"offset with the topic's id": {offsetRecord("g", p, offset{offset: 5, leaderEpoch: -1, committed: 9, expire: -1, topicID: [16]byte{0xaa, 15: 0xbb}}),
			"0001 0001 67 0001 74 00000003", "0004 0000000000000005 ffffffff 01 0000000000000009 01 00 10 aa0000000000000000000000000000bb"},
		"offset that expires": {offsetRecord("g", p, offset{offset: 5, leaderEpoch: -1, committed: 9, expire: 10, topicID: [16]byte{1}}),
			"0001 0001 67 0001 74 00000003", "0001 0000000000000005 0000 0000000000000009 000000000000000a"},
		"no offset": {offsetTombstone("g", p), "0001 0001 67 0001 74 00000003", "null"},
		"group": {groupRecord(g), "0002 0001 67", `0003 0008 636f6e73756d6572 00000007 0005 72616e6765 0003 6d2d31 0000000102030405 00000002
			0003 6d2d31 ffff 0003 617070 0009 2f31302e302e302e31 0000ea60 00002710 00000001 a1 00000001 b1
			0003 692d32 0001 69 0003 617070 0008 656d626564646564 0000ea60 00002710 00000000 00000000`},
		"empty group": {groupRecord(gone), "0002 0001 67", "0003 0007 636f6e6e656374 00000008 ffff ffff 0000000102030405 00000000"},
		"no group":    {groupTombstone("g"), "0002 0001 67", "null"},
	} {
		t.Run(name, func(t *testing.T) {
			for what, b := range map[string]struct {
				got  []byte
				want string
			}{"key": {c.r.key, c.key}, "value": {c.r.value, c.value}} {
				want, err := hex.DecodeString(strings.Join(strings.Fields(b.want), ""))
				if b.want == "null" {
					want, err = nil, nil
				}
				if err != nil || !bytes.Equal(b.got, want) || (b.got == nil) != (want == nil) {
					t.Errorf("%s %x, want %x (%v)", what, b.got, want, err)
				}
			}
		})
	}
}

// TestOldVersionsAreRead reads what older brokers wrote, as far as it can come here by copying a topic.
func TestOldVersionsAreRead(t *testing.T) {
	raw := func(s string) []byte {
		b, err := hex.DecodeString(strings.Join(strings.Fields(s), ""))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	group, p, known, err := parseKey(raw("0000 0001 67 0001 74 00000003"))
	if group != "g" || p != (partition{"t", 3}) || !known || err != nil {
		t.Errorf("key version 0: %q %v %v %v", group, p, known, err)
	}
	for value, want := range map[string]offset{
		"0000 0000000000000005 0002 6869 0000000000000009":                  {5, -1, "hi", 9, -1, [16]byte{}, 0},
		"0001 0000000000000005 0002 6869 0000000000000009 000000000000000a": {5, -1, "hi", 9, 10, [16]byte{}, 0},
		"0002 0000000000000005 0002 6869 0000000000000009":                  {5, -1, "hi", 9, -1, [16]byte{}, 0},
	} {
		if o, err := parseOffset(raw(value)); err != nil || o != want {
			t.Errorf("%s: %+v, %v", value, o, err)
		}
	}
	now := time.UnixMilli(1000)
	for _, value := range []string{
		"0000 0008 636f6e73756d6572 00000007 0005 72616e6765 0003 6d2d31 00000001 0003 6d2d31 0003 617070 0002 2f31 00002710 00000001 a1 00000001 b1",
		"0001 0008 636f6e73756d6572 00000007 0005 72616e6765 0003 6d2d31 00000001 0003 6d2d31 0003 617070 0002 2f31 0000ea60 00002710 00000001 a1 00000001 b1",
	} {
		g, err := parseGroup("g", raw(value), now)
		if err != nil {
			t.Fatalf("%s: %v", value, err)
		}
		m := g.members[0]
		if g.state != stable || g.generation != 7 || m.session != 10*time.Second || m.rebalance < m.session || string(m.assigned) != "\xb1" ||
			string(m.metadata("range")) != "\xa1" || !m.deadline.Equal(now.Add(10*time.Second)) || !g.since.Equal(now) {
			t.Errorf("%s: %+v %+v", value, g, m)
		}
	}
	if _, _, known, err := parseKey(raw("0003 0001 67")); known || err != nil {
		t.Errorf("a key of KIP-848 is left alone: %v %v", known, err)
	}
}

func TestRecordsComeBackAsTheyWere(t *testing.T) {
	seed := trial.Seed(t)
	rnd := rand.New(rand.NewPCG(seed, 0))
	text := func() string { return strings.Repeat("x", rnd.IntN(3)) + string(rune('a'+rnd.IntN(26))) }
	now := time.UnixMilli(5000)
	for range 2000 {
		o := offset{offset: rnd.Int64(), leaderEpoch: rnd.Int32N(5) - 1, metadata: text(), committed: rnd.Int64(), expire: -1}
		if rnd.IntN(2) == 0 {
			o.topicID[rnd.IntN(16)] = byte(rnd.Uint32())
		}
		if rnd.IntN(4) == 0 {
			o.expire, o.topicID, o.leaderEpoch = rnd.Int64(), [16]byte{}, -1
		}
		p := partition{text(), rnd.Int32()}
		r := offsetRecord("g", p, o)
		if got, err := parseOffset(r.value); err != nil || got != o {
			t.Fatalf("%+v came back as %+v, %v", o, got, err)
		}
		if group, got, known, err := parseKey(r.key); group != "g" || got != p || !known || err != nil {
			t.Fatalf("%+v came back as %+v, %v", p, got, err)
		}

		g := newGroup(text(), time.UnixMilli(rnd.Int64N(1<<40)))
		g.protocolType, g.generation = text(), rnd.Int32()
		for range rnd.IntN(4) {
			g.state, g.protocol, g.leader = stable, "p", text()
			m := &member{id: text(), client: Client{text(), text()}, session: time.Duration(rnd.IntN(1e6)) * time.Millisecond,
				rebalance: time.Duration(rnd.IntN(1e6)) * time.Millisecond, synced: true,
				protocols: []protocol{{"p", []byte(text())}}, assigned: []byte(text())}
			if rnd.IntN(2) == 0 {
				m.instance = text()
			}
			m.touch(now)
			g.members = append(g.members, m)
		}
		if got, err := parseGroup(g.name, groupRecord(g).value, now); err != nil || !reflect.DeepEqual(got, g) {
			t.Fatalf("%+v came back as %+v, %v", g, got, err)
		}
	}
}

func FuzzRecords(f *testing.F) {
	g := newGroup("g", time.UnixMilli(5))
	g.members = []*member{{id: "m", protocols: []protocol{{"p", []byte("meta")}}}}
	g.protocol = "p"
	for _, r := range []record{groupRecord(g), offsetRecord("g", partition{"t", 1}, offset{topicID: [16]byte{1}}), offsetRecord("g", partition{"t", 1}, offset{expire: 4})} {
		f.Add(r.key, r.value)
	}
	f.Fuzz(func(t *testing.T, key, value []byte) {
		parseKey(key)
		parseOffset(value)
		if g, err := parseGroup("g", value, time.UnixMilli(0)); err == nil && len(g.members) > len(value) {
			t.Errorf("%d members out of %d bytes", len(g.members), len(value))
		}
		// Whatever stands in the topic, the groups come up.
		im := image{values: map[string]entry{string(key): {b: value}}}
		for _, g := range im.groups(time.UnixMilli(0), func(string, error) {}) {
			e := &env{now: time.UnixMilli(0), append: func([]record) error { return nil }, id: func(string) string { return "" }}
			l := Limits{}.withDefaults()
			e.limits = &l
			g.dropEmbedded(e)
			g.tick(e)
			g.describe()
		}
	})
}
