package postgres

import (
	"bytes"
	"testing"
	"testing/iotest"
)

// All comes as it was sent, whatever the size of the reads.
func TestPacedReadsBringAll(t *testing.T) {
	sent := bytes.Repeat([]byte("0123456789abcdef"), 4<<10)
	p := &pacedReader{r: iotest.HalfReader(bytes.NewReader(sent))}
	var got []byte
	for len(got) < len(sent) {
		b := make([]byte, 1+len(got)%5000)
		n, err := p.Read(b)
		got = append(got, b[:n]...)
		if err != nil {
			t.Fatalf("after %d bytes: %v", len(got), err)
		}
	}
	if !bytes.Equal(got, sent) {
		t.Error("something else came")
	}
	if !p.busy() {
		t.Error("short reads in close succession are not much")
	}
}
