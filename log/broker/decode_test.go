package broker

import (
	"encoding/binary"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/deploy/trial"
	"millrace/log/broker/auth"
	"millrace/log/internal/wire"
)

// A decoder takes no more memory than its input allows, whatever lengths stand in it: every request kind in every served
// version, with bodies that claim much and hold little.
func TestDecodersTakeNoMoreThanTheirInputAllows(t *testing.T) {
	if underRace {
		t.Skip("the race detector counts its own")
	}
	seed := trial.Seed(t)
	rng := rand.New(rand.NewPCG(seed, 0))
	const size = 60 << 10
	fill := func(f func(i int) byte) []byte {
		b := make([]byte, size)
		for i := range b {
			b[i] = f(i)
		}
		return b
	}
	claims := fill(func(int) byte { return 0 })
	for at := 0; at+8 < size; at += 8 {
		binary.BigEndian.PutUint32(claims[at:], uint32(size-at-4)/(1+rng.Uint32N(8)))
	}
	bodies := map[string][]byte{
		"the largest lengths":    fill(func(i int) byte { return []byte{0x7f, 0xff, 0xff, 0xff}[i%4] }),
		"the largest uvarints":   fill(func(i int) byte { return []byte{0xff, 0xff, 0xff, 0xff, 0x07}[i%5] }),
		"ones":                   fill(func(int) byte { return 0xff }),
		"zeros":                  fill(func(int) byte { return 0 }),
		"lengths that just fit":  claims,
		"small numbers":          fill(func(int) byte { return byte(rng.IntN(4)) }),
		"a long array of little": append([]byte{0, 0, byte(size >> 8), byte(size & 0xff)}, fill(func(int) byte { return 0 })...),
		"uvarints that just fit": append([]byte{0xe0, 0xd4, 0x03}, fill(func(int) byte { return 1 })...),
	}
	n := start(t)
	var before, after memory
	decoded, most := 0, uint64(0)
	for key := int16(0); int(key) < len(n.srv.handlers); key++ {
		a, known := wire.Lookup(key)
		if !known || n.srv.handlers[key] == nil {
			continue
		}
		for v := a.Min; v <= a.Max; v++ {
			for name, body := range bodies {
				req, allowed := kmsg.RequestForKey(key), uint64(decodedSize)
				before.read()
				if key == wire.Produce {
					(&wire.ProduceRequest{}).Parse(v, body)
				} else {
					req.SetVersion(v)
					if req.ReadFrom(body) != nil {
						allowed += announced(reflect.TypeOf(req).Elem())
					}
				}
				after.read()
				took := after.total - before.total
				most, decoded = max(most, took), decoded+1
				if took > allowed*uint64(len(body))+64<<10 {
					t.Errorf("%s version %d, %s: %d bytes of %d", wire.Name(key), v, name, took, len(body))
				}
			}
		}
	}
	t.Logf("%d bodies of %d bytes, at most %d bytes taken", decoded, size, most)
	if decoded < 1000 {
		t.Errorf("only %d were decoded", decoded)
	}
	for _, mechanism := range auth.Known {
		for name, body := range bodies {
			s := auth.New(n.cat, make([]byte, 32))
			before.read()
			e := s.Begin(mechanism)
			e.Next(t.Context(), body)
			e = s.Begin(mechanism)
			e.Next(t.Context(), append([]byte("n,,n=alice,r=x,"), body...))
			e.Next(t.Context(), append([]byte("c=biws,r=x,"), body...))
			after.read()
			if took := after.total - before.total; took > 8*3*uint64(len(body))+64<<10 {
				t.Errorf("%s, %s: %d bytes of %d", mechanism, name, took, len(body))
			}
		}
	}
}

// announced is what arrays take that a body announces and does not hold, per byte of the body: an element takes a byte at
// least, and only the arrays around the place where the body ends can lack elements.
func announced(t reflect.Type) (most uint64) {
	for i := range t.NumField() {
		switch f := t.Field(i).Type; {
		case f.Kind() == reflect.Slice && f.Elem().Kind() == reflect.Struct:
			most = max(most, uint64(f.Elem().Size())+announced(f.Elem()))
		case f.Kind() == reflect.Slice:
			most = max(most, uint64(f.Elem().Size()))
		case f.Kind() == reflect.Struct:
			most = max(most, announced(f))
		case f.Kind() == reflect.Pointer && f.Elem().Kind() == reflect.Struct:
			most = max(most, announced(f.Elem()))
		}
	}
	return most
}
