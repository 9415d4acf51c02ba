package postgres

import (
	"context"
	"testing"
)

func TestProgress(t *testing.T) {
	tk := &task{s: &settings{}}
	if p := tk.Progress(context.Background()); p.Behind >= 0 {
		t.Errorf("before it streams: %+v", p)
	}
	r := &reader{t: tk, received: 100, pos: position{commit: 90}, queued: position{commit: 90}}
	for _, c := range []struct {
		name   string
		do     func()
		behind int64
	}{
		{"idle, though the server has sent what is not for us", func() {}, 0},
		{"a transaction has been read and is not handed on", func() { r.pos.commit = 95 }, 5},
		{"it is", func() { r.queued.commit = 95 }, 0},
		{"a transaction has begun", func() { r.inTx, r.commit = true, 400 }, 300},
		{"all of it but its commit was sent", func() { r.received = 400 }, 1},
		{"it has ended", func() { r.inTx, r.pos.commit, r.queued.commit = false, 401, 401 }, 0},
	} {
		before := tk.Progress(context.Background()).At
		c.do()
		r.show(1)
		p := tk.Progress(context.Background())
		if p.Behind != c.behind || p.At != before+1 {
			t.Errorf("%s: %+v, want %d behind", c.name, p, c.behind)
		}
	}
	if p := tk.Progress(context.Background()); p.Position != "LSN 0/190" {
		t.Errorf("position %q", p.Position)
	}
}
