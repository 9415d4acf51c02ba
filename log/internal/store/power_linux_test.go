package store

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"millrace/deploy/trial"
	"millrace/log/internal/batch"
	"millrace/log/internal/vfs"
)

// image is an ext4 file system of the test's own, on a loop device.
type image struct {
	t     *testing.T
	file  string
	mount string
}

func newImage(t *testing.T, mib int) *image {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounting a file system of the test's own needs root")
	}
	dir := t.TempDir()
	im := &image{t: t, file: filepath.Join(dir, "image"), mount: filepath.Join(dir, "mount")}
	f, err := os.Create(im.file)
	if err == nil {
		err = f.Truncate(int64(mib) << 20)
		f.Close()
	}
	if err == nil {
		err = os.Mkdir(im.mount, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mkfs.ext4", "-q", im.file).CombinedOutput(); err != nil {
		t.Skipf("no ext4 can be made here: %v %s", err, out)
	}
	if err := im.up(); err != nil {
		t.Skipf("loop devices cannot be mounted here: %v", err)
	}
	t.Cleanup(im.down)
	return im
}

func (im *image) up() error {
	if out, err := exec.Command("mount", "-o", "loop", im.file, im.mount).CombinedOutput(); err != nil {
		return fmt.Errorf("%v: %s", err, out)
	}
	return nil
}

func (im *image) down() { exec.Command("umount", im.mount).Run() }

// cut stops the file system where it is, without flushing its journal: what is not on the device is gone.
func (im *image) cut() {
	im.t.Helper()
	var here, above unix.Stat_t
	if unix.Stat(im.mount, &here) != nil || unix.Stat(filepath.Dir(im.mount), &above) != nil || here.Dev == above.Dev {
		im.t.Fatal("not a mount of the test's own")
	}
	d, err := os.Open(im.mount)
	if err != nil {
		im.t.Fatal(err)
	}
	defer d.Close()
	const goingDown, noLogFlush = 0x8004587d, 2 // EXT4_IOC_SHUTDOWN
	if err := unix.IoctlSetPointerInt(int(d.Fd()), goingDown, noLogFlush); err != nil {
		im.t.Skipf("the file system cannot be shut down here: %v", err)
	}
}

func TestARealLossOfPowerTakesNothingThatWasAcknowledged(t *testing.T) {
	im := newImage(t, 96)
	seed := trial.Seed(t)
	rng := rand.New(rand.NewPCG(seed, 0))
	o := Options{Maintain: 20 * time.Millisecond, Ballast: -1, MinFree: -1}
	cfg := DefaultConfig()
	cfg.SegmentBytes, cfg.RetentionBytes = 50_000, 4<<20
	type sent struct {
		seq   int32
		acked bool
	}
	var mu sync.Mutex
	log := map[TopicPartition]map[int64][]sent{} // by producer, in order of sequence
	acked, survived := 0, 0
	rounds := trial.Effort(12)
	for round := range rounds {
		s, err := Open(vfs.OS{}, filepath.Join(im.mount, "data"), o)
		if err != nil {
			t.Fatal(err)
		}
		// What earlier rounds left: everything acknowledged, once, in order.
		for tp, producers := range log {
			p := s.Get(tp.Topic, tp.Partition)
			if p == nil || len(p.Damaged()) > 0 {
				t.Fatalf("round %d: %v: %v", round, tp, p)
			}
			p.SetConfig(cfg)
			found := map[int64]int32{} // next sequence
			first := map[int64]int32{}
			for _, v := range readAll(t, p, p.LogStart(), 1<<20, ReadUncommitted) {
				id := v.ProducerID()
				if next, seen := found[id]; seen && v.BaseSequence() != next {
					t.Fatalf("round %d: %v: producer %d has sequence %d after %d", round, tp, id, v.BaseSequence(), next-1)
				} else if !seen {
					first[id] = v.BaseSequence()
				}
				found[id] = v.LastSequence() + 1
			}
			for id, all := range producers {
				for _, b := range all {
					if b.acked && b.seq >= found[id] && !(p.LogStart() > 0 && found[id] == 0) {
						t.Fatalf("round %d: %v: producer %d: sequence %d was acknowledged; the log has %d to %d", round, tp, id, b.seq, first[id], found[id]-1)
					}
					if b.acked {
						survived++
					}
				}
			}
		}
		ctx, cancel := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		dark := false // the power is gone, or going; mu
		for n := range int32(3) {
			tp := TopicPartition{"t", n}
			p := s.Get("t", n)
			if p == nil {
				if p, err = s.Create(tp, [16]byte{1}, cfg); err != nil {
					t.Fatal(err)
				}
				mu.Lock() // writers of the partitions before it are at work already
				log[tp] = map[int64][]sent{}
				mu.Unlock()
			}
			for w := range int64(3) {
				id := int64(round)*10 + w // a new life, a new producer
				value := strings.Repeat("v", rng.IntN(3000))
				wg.Go(func() {
					for seq := int32(0); ctx.Err() == nil; seq++ {
						a, err := p.Append([]batch.View{idempotent(id, 0, seq, 1, value)}, AppendOpts{})
						if err != nil {
							return
						}
						ok := p.WaitDurable(ctx, a.End) == nil
						mu.Lock()
						// The kernel may let an fsync pass that is under way while it shuts the file system down. What is
						// answered once the power is gone reaches nobody.
						ok = ok && !dark
						log[tp][id] = append(log[tp][id], sent{seq, ok})
						if ok {
							acked++
						}
						mu.Unlock()
						if !ok {
							return
						}
					}
				})
			}
		}
		time.Sleep(time.Duration(20+rng.IntN(180)) * time.Millisecond) // any instant will do
		mu.Lock()
		dark = true
		mu.Unlock()
		im.cut()
		cancel()
		wg.Wait()
		s.Close()
		im.down()
		if err := im.up(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d rounds, %d batches acknowledged", rounds, acked)
	if acked < rounds || survived == 0 && rounds > 1 {
		t.Errorf("only %d batches were acknowledged in %d rounds, %d looked for", acked, rounds, survived)
	}
}

func TestARealFullDiskLosesNothing(t *testing.T) {
	im := newImage(t, 32)
	s, err := Open(vfs.OS{}, filepath.Join(im.mount, "data"), Options{Maintain: -1, Ballast: 4 << 20, MinFree: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if !s.Health().Ballast {
		t.Fatal("no ballast")
	}
	cfg := DefaultConfig()
	cfg.SegmentBytes, cfg.TimestampAfter = 1<<20, -1
	p := create(t, s, "client", cfg)
	cfg.Internal = true
	in := create(t, s, "internal", cfg)
	fill := func() (n int) {
		for ; ; n++ {
			a, err := p.Append([]batch.View{plain(1, strings.Repeat("v", 30_000))}, AppendOpts{})
			if err != nil {
				if code(err) != batch.StorageError {
					t.Fatal(err)
				}
				return n
			}
			wait(t, p, a.End)
		}
	}
	first := fill()
	if first < 100 {
		t.Fatalf("full after %d batches", first)
	}
	for range 20 {
		a, err := in.Append([]batch.View{plain(1, strings.Repeat("i", 30_000))}, AppendOpts{Origin: FromCoordinator})
		if err != nil {
			t.Fatalf("the broker's own topic: %v", err)
		}
		wait(t, in, a.End)
	}
	if got := len(readAll(t, p, 0, 1<<20, ReadUncommitted)); got != first {
		t.Fatalf("%d batches, %d were acknowledged", got, first)
	}
	if _, err := p.DeleteRecordsTo(int64(first / 2)); err != nil {
		t.Fatal(err)
	}
	p.waitIdle()
	if err := s.Maintain(); err != nil {
		t.Fatal(err)
	}
	second := fill()
	if second == 0 {
		t.Fatal("nothing fits after half was deleted")
	}
	if got := len(readAll(t, p, int64(first/2), 1<<20, ReadUncommitted)); got != first-first/2+second {
		t.Fatalf("%d batches, want %d", got, first-first/2+second)
	}
	if err := s.Close(); err != nil && !vfs.IsNoSpace(err) {
		t.Fatal(err)
	}
	if s, err = Open(vfs.OS{}, filepath.Join(im.mount, "data"), Options{Maintain: -1, Ballast: -1, MinFree: -1}); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if got := len(readAll(t, s.Get("client", 0), int64(first/2), 1<<20, ReadUncommitted)); got != first-first/2+second {
		t.Fatalf("after a restart: %d batches, want %d", got, first-first/2+second)
	}
}
