package txn

import (
	"math"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Who may end a transaction, in which state, with which epoch.
func TestEnds(t *testing.T) {
	const me, old, stranger = int64(5), int64(4), int64(99)
	code := func(e *kerr.Error) int16 { return e.Code }
	at := func(s state, version, epoch int16) *txn {
		return &txn{state: s, pid: me, prevPID: me, epoch: epoch, version: version}
	}
	rotated := func(s state) *txn { return &txn{state: s, pid: me, prevPID: old, epoch: 0, version: 2} }
	for name, c := range map[string]struct {
		t       *txn
		pid     int64
		epoch   int16
		commit  bool
		version int16
		want    verdict
		code    int16
	}{
		"a transaction ends once it is open": {at(ongoing, 0, 3), me, 3, true, 0, ends, 0},
		"in the newer flow as well":          {at(ongoing, 2, 3), me, 3, true, 2, ends, 0},
		"a stranger does not end it":         {at(ongoing, 0, 3), stranger, 3, true, 0, refused, code(kerr.InvalidProducerIDMapping)},
		"an older epoch does not":            {at(ongoing, 0, 3), me, 2, true, 0, refused, code(kerr.ProducerFenced)},
		"an older epoch does not in the newer flow, though it is the one before":   {at(ongoing, 2, 3), me, 2, true, 2, refused, code(kerr.ProducerFenced)},
		"an epoch that was not given out does not":                                 {at(ongoing, 0, 3), me, 4, true, 0, refused, code(kerr.ProducerFenced)},
		"what was not begun cannot be committed":                                   {at(empty, 0, 3), me, 3, true, 0, refused, code(kerr.InvalidTxnState)},
		"nor aborted":                                                              {at(empty, 0, 3), me, 3, false, 0, refused, code(kerr.InvalidTxnState)},
		"in the newer flow it can be aborted, for the next epoch":                  {at(empty, 0, 3), me, 3, false, 2, ends, 0},
		"but not committed":                                                        {at(empty, 0, 3), me, 3, true, 2, refused, code(kerr.InvalidTxnState)},
		"a commit that is repeated was carried out":                                {at(completeCommit, 0, 3), me, 3, true, 0, ended, 0},
		"an abort that is repeated was carried out":                                {at(completeAbort, 0, 3), me, 3, false, 0, ended, 0},
		"an abort after the commit is refused":                                     {at(completeCommit, 0, 3), me, 3, false, 0, refused, code(kerr.InvalidTxnState)},
		"a commit after the abort is refused":                                      {at(completeAbort, 0, 3), me, 3, true, 0, refused, code(kerr.InvalidTxnState)},
		"in the newer flow it is repeated with the epoch that ended":               {at(completeCommit, 2, 3), me, 2, true, 2, ended, 0},
		"an abort with that epoch is refused":                                      {at(completeCommit, 2, 3), me, 2, false, 2, refused, code(kerr.InvalidTxnState)},
		"an abort with the next one is another":                                    {at(completeCommit, 2, 3), me, 3, false, 2, ends, 0},
		"a commit with the next one has nothing to commit":                         {at(completeCommit, 2, 3), me, 3, true, 2, refused, code(kerr.InvalidTxnState)},
		"an epoch further back is fenced":                                          {at(completeCommit, 2, 3), me, 1, true, 2, refused, code(kerr.ProducerFenced)},
		"no epoch is none":                                                         {at(completeCommit, 2, 0), me, -1, true, 2, refused, code(kerr.ProducerFenced)},
		"an older client does not repeat with the epoch before":                    {at(completeCommit, 2, 3), me, 2, true, 0, refused, code(kerr.ProducerFenced)},
		"what is being carried out is waited for":                                  {at(prepareCommit, 0, 3), me, 3, true, 0, waits, 0},
		"in the newer flow with the epoch that ended":                              {at(prepareCommit, 2, 3), me, 2, true, 2, waits, 0},
		"the epoch to come is not known to anybody":                                {at(prepareCommit, 2, 3), me, 3, true, 2, refused, code(kerr.ProducerFenced)},
		"the opposite of what is being carried out is refused":                     {at(prepareCommit, 0, 3), me, 3, false, 0, refused, code(kerr.InvalidTxnState)},
		"after the last epoch it is repeated with the id before":                   {rotated(completeCommit), old, lastEpoch, true, 2, ended, 0},
		"with another epoch of that id it is not":                                  {rotated(completeCommit), old, lastEpoch - 1, true, 2, refused, code(kerr.InvalidProducerIDMapping)},
		"a producer that was fenced for its slowness may ask for the abort itself": {at(completeAbort, 2, 4), me, 3, false, 2, ended, 0},
		"the epoch that fences is nobody's":                                        {at(completeAbort, 2, math.MaxInt16), me, math.MaxInt16, false, 2, refused, code(kerr.ProducerFenced)},
		"nor can one that was fenced get it":                                       {at(completeAbort, 2, math.MaxInt16), me, lastEpoch, false, 2, refused, code(kerr.ProducerFenced)},
	} {
		got, code := c.t.judge(Producer{ID: c.pid, Epoch: c.epoch}, c.commit, c.version)
		if got != c.want || code != c.code {
			t.Errorf("%s: verdict %d, code %d; want %d, %d", name, got, code, c.want, c.code)
		}
	}
}

// What a producer gets when it initialises.
func TestInitialises(t *testing.T) {
	at := func(epoch, last int16) txn {
		return txn{state: completeCommit, pid: 5, prevPID: 4, nextPID: -1, epoch: epoch, lastEpoch: last}
	}
	for name, c := range map[string]struct {
		t         txn
		pid       int64
		epoch     int16
		may       bool
		wantPID   int64
		wantEpoch int16
		wantLast  int16
	}{
		"a new id begins with epoch 0":                            {at(-1, -1), -1, -1, true, 5, 0, -1},
		"another producer gets the next epoch":                    {at(3, -1), -1, -1, true, 5, 4, -1},
		"the same one does, and may repeat its request":           {at(3, -1), 5, 3, true, 5, 4, 3},
		"a repeated request gets the same answer":                 {at(4, 3), 5, 3, true, 5, 4, 3},
		"an epoch before is fenced":                               {at(4, 3), 5, 2, false, 0, 0, 0},
		"an epoch ahead is fenced":                                {at(4, 3), 5, 5, false, 0, 0, 0},
		"another id is fenced":                                    {at(4, 3), 6, 4, false, 0, 0, 0},
		"the id before is fenced":                                 {at(4, 3), 4, 3, false, 0, 0, 0},
		"the id before, with its last epoch, repeats its request": {at(0, lastEpoch), 4, lastEpoch, true, 5, 0, lastEpoch},
		"after the last epoch comes another id":                   {at(lastEpoch, -1), -1, -1, true, 1000, 0, -1},
		"for its producer as well":                                {at(lastEpoch, -1), 5, lastEpoch, true, 1000, 0, lastEpoch},
		"an exhausted id is fenced for other epochs":              {at(lastEpoch, -1), 5, 3, false, 0, 0, 0},
	} {
		if may := c.t.expects(c.pid, c.epoch); may != c.may {
			t.Errorf("%s: may initialise: %v", name, may)
			continue
		}
		if !c.may {
			continue
		}
		got, ok := c.t.initialise(c.pid, c.epoch, 1000, 60_000, true, 7)
		if !ok || got.pid != c.wantPID || got.epoch != c.wantEpoch || got.lastEpoch != c.wantLast {
			t.Errorf("%s: producer %d, epoch %d, before that %d, %v", name, got.pid, got.epoch, got.lastEpoch, ok)
		}
		if got.state != empty || got.start != -1 || got.timeout != 60_000 || !got.embedded || got.updated != 7 {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// The life of a transaction in the newer flow: each has an epoch of its own, and an id of its own after the last one.
func TestEpochsOfTheNewerFlow(t *testing.T) {
	x := txn{state: empty, pid: 5, prevPID: -1, nextPID: -1, epoch: lastEpoch - 1, lastEpoch: -1, start: -1}
	x = x.add([]Partition{{"b", 0}, {"a", 1}, {"a", 0}, {"a", 1}}, 10)
	if x.state != ongoing || x.start != 10 || len(x.parts) != 3 || !x.has(Partition{"a", 1}) || x.has(Partition{"a", 2}) {
		t.Errorf("%+v", x)
	}
	y := x.add([]Partition{{"c", 0}}, 20)
	if y.start != 10 || len(y.parts) != 4 || len(x.parts) != 3 || !y.hasAll(x.parts) || x.hasAll(y.parts) {
		t.Errorf("%+v, %+v", x, y)
	}
	x = y.decide(true, 2, -1, 30)
	if x.state != prepareCommit || x.epoch != lastEpoch || !x.wrote(5, lastEpoch-1) || x.wrote(5, lastEpoch) {
		t.Errorf("%+v", x)
	}
	x = x.complete(40)
	if x.state != completeCommit || x.pid != 5 || x.parts != nil {
		t.Errorf("%+v", x)
	}
	x = x.add([]Partition{{"a", 0}}, 50).decide(false, 2, 77, 60)
	if x.epoch != math.MaxInt16 || x.nextPID != 77 {
		t.Errorf("%+v", x)
	}
	x = x.complete(70)
	if x.state != completeAbort || x.pid != 77 || x.epoch != 0 || x.prevPID != 5 || x.nextPID != -1 || !x.wrote(5, lastEpoch) || x.wrote(77, 0) {
		t.Errorf("%+v", x)
	}
	if z := x.add([]Partition{{"a", 0}}, 80).fence(90).complete(95); z.pid != 77 || z.epoch != 1 || z.state != completeAbort {
		t.Errorf("%+v", z)
	}
}
