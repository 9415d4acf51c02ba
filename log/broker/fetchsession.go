package broker

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/log/internal/wire"
)

// Fetch sessions (KIP-227), from version 7 of Fetch on. A client names its partitions once; afterwards a request carries only
// what changed (new positions, forgotten partitions), and an answer only partitions with something new: records, another high
// watermark or log start, an error. A session belongs to whoever knows its id, not to a connection.
//
//	session id  epoch   what it asks for
//	0           0       a full request, and a session
//	0           -1      a full request without a session
//	s           0       the end of s, and a new session
//	s           -1      the end of s
//	s           n > 0   what s knows, changed by the request; n counts the requests of s
//
// A session that is not there (70), another epoch than the expected one (71) and ids where the session has names (106) make
// clients begin anew. So sessions may be dropped at any time, which is what bounds them: there are at most maxFetchSessions, and
// they remember at most maxSessionParts partitions between them. When all places are taken a new session gets the place of one
// that has not been used for sessionStale, or of the smallest that is older than that and smaller than itself, or none: then
// the answer has id 0 and the client goes on with full requests.
const (
	maxFetchSessions = 1000
	maxSessionParts  = 100_000
	sessionStale     = 2 * time.Minute
	longestTopicName = 249 // longer ones name nothing, and are not worth remembering
)

type fetchSessions struct {
	mu       sync.Mutex // guards the fields below
	sessions map[int32]*fetchSession
	parts    int // of all sessions

	evictions atomic.Int64
}

// fetchSession is what one client wants. The mutex of all sessions may be held when its own is taken, not the other way round.
type fetchSession struct {
	id      int32
	byID    bool // topics go by their ids
	created time.Time
	used    time.Time // guarded by the mutex of all sessions, as is counted
	counted int       // partitions that are in the sum

	mu    sync.Mutex // guards the fields below
	epoch int32      // of the request that comes next
	known map[partKey]*knownPart
	turns []*knownPart // in the order in which they are read: whoever had records goes to the end
}

type partKey struct {
	name      string
	id        [16]byte
	partition int32
}

// knownPart is one partition of a session: what its client asks for and what it was told last.
type knownPart struct {
	fetchAsk
	highWatermark, logStart int64
	forgotten               bool
}

func (a *fetchAsk) key() partKey { return partKey{a.name, a.id, a.partition} }

// fetchOf is one request's part in a session; the zero value belongs to none.
type fetchOf struct {
	s     *fetchSession
	epoch int32 // that the session must still have when the answer is sent
	opens *fetchSessions
	byID  bool
}

// begin finds out what a request asks for, and puts it into f.asks. A code is the whole answer.
func (fs *fetchSessions) begin(f *fetching) (fetchOf, int16) {
	req := f.req
	byID := req.Version >= 13
	full := req.Version < 7 || req.SessionEpoch == 0 || req.SessionEpoch == -1
	if !full {
		s, code := fs.next(req, byID)
		if code != 0 || s == nil {
			return fetchOf{}, code
		}
		defer s.mu.Unlock()
		for _, k := range s.turns {
			f.asks = append(f.asks, k.fetchAsk)
		}
		return fetchOf{s: s, epoch: s.epoch}, 0
	}
	f.asks = appendAsks(f.asks, req)
	if req.Version < 7 {
		return fetchOf{}, 0
	}
	fs.close(req.SessionID)
	if req.SessionEpoch == 0 {
		return fetchOf{opens: fs, byID: byID}, 0
	}
	return fetchOf{}, 0
}

// next takes a request's changes over into its session, which is returned locked, or nil when nothing is left in it.
func (fs *fetchSessions) next(req *kmsg.FetchRequest, byID bool) (*fetchSession, int16) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	s := fs.sessions[req.SessionID]
	if s == nil {
		return nil, kerr.FetchSessionIDNotFound.Code
	}
	s.mu.Lock()
	code := int16(0)
	switch {
	case s.epoch != req.SessionEpoch:
		code = kerr.InvalidFetchSessionEpoch.Code
	case s.byID != byID:
		code = kerr.FetchSessionTopicIDError.Code
	case !s.update(req, maxSessionParts-(fs.parts-s.counted)):
		// No place for what it wants in addition. The client begins anew and gets no session.
		fs.drop(s)
		code = kerr.FetchSessionIDNotFound.Code
	default:
		fs.parts += len(s.turns) - s.counted
		s.counted = len(s.turns)
		if s.counted > 0 {
			s.used = time.Now()
			s.epoch = nextFetchEpoch(s.epoch)
			return s, 0
		}
		fs.drop(s)
	}
	s.mu.Unlock()
	return nil, code
}

func nextFetchEpoch(epoch int32) int32 {
	if epoch == 1<<31-1 {
		return 1
	}
	return epoch + 1
}

// update takes a request's changes over. It reports false when there would be more partitions than room.
func (s *fetchSession) update(req *kmsg.FetchRequest, room int) bool {
	for _, a := range appendAsks(nil, req) {
		if k := s.known[a.key()]; k != nil {
			k.fetchAsk = a
			continue
		}
		if len(a.name) > longestTopicName || len(s.turns) >= room {
			return false
		}
		s.add(a, -1, -1)
	}
	forgotten := false
	for i := range req.ForgottenTopics {
		t := &req.ForgottenTopics[i]
		for _, p := range t.Partitions {
			key := partKey{t.Topic, t.TopicID, p}
			if k := s.known[key]; k != nil {
				k.forgotten, forgotten = true, true
				delete(s.known, key)
			}
		}
	}
	if forgotten {
		s.keep(func(k *knownPart) bool { return !k.forgotten })
	}
	return true
}

func (s *fetchSession) add(a fetchAsk, highWatermark, logStart int64) {
	k := &knownPart{fetchAsk: a, highWatermark: highWatermark, logStart: logStart}
	s.known[a.key()] = k
	s.turns = append(s.turns, k)
}

// keep removes from turns what f does not want kept, without leaving it behind in memory.
func (s *fetchSession) keep(f func(*knownPart) bool) {
	kept := s.turns[:0]
	for _, k := range s.turns {
		if f(k) {
			kept = append(kept, k)
		}
	}
	clear(s.turns[len(kept):])
	s.turns = kept
}

// end takes out of an answer what the client knows already, and returns the session's id for it. It opens the session that a
// full request asked for. A code is the whole answer: somebody else used the session meanwhile.
func (r fetchOf) end(f *fetching) (id int32, code int16) {
	switch {
	case r.opens != nil:
		return r.opens.open(f, r.byID), 0
	case r.s == nil:
		return 0, 0
	}
	s := r.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.epoch != r.epoch {
		return s.id, kerr.InvalidFetchSessionEpoch.Code
	}
	n := 0
	var served []*knownPart
	for i := range f.asks {
		out := &f.out[i]
		// The session is as it was when its asks were copied, since its epoch is: they are in the order of its turns.
		k := s.turns[i]
		if !k.tell(out) {
			continue
		}
		if out.Records != nil {
			served = append(served, k)
		}
		if i != n {
			f.asks[n], f.out[n] = f.asks[i], f.out[i]
		}
		n++
	}
	f.asks, f.out = f.asks[:n], f.out[:n]
	if len(served) > 0 && len(served) < len(s.turns) {
		last := make(map[*knownPart]bool, len(served))
		for _, k := range served {
			last[k] = true
		}
		s.keep(func(k *knownPart) bool { return !last[k] })
		s.turns = append(s.turns, served...)
	}
	return s.id, 0
}

// tell remembers what the client is told and reports whether it is anything new.
func (k *knownPart) tell(out *wire.FetchPart) bool {
	news := out.Records != nil || out.Code != 0 || out.DivergedEpoch >= 0 || out.HighWatermark != k.highWatermark || out.LogStart != k.logStart
	k.highWatermark, k.logStart = out.HighWatermark, out.LogStart
	if out.Code != 0 {
		k.highWatermark = -1 // so that the end of the error is news
	}
	return news
}

// open makes a session of a full request; 0 when there is no place for it.
func (fs *fetchSessions) open(f *fetching, byID bool) int32 {
	now := time.Now()
	s := &fetchSession{byID: byID, created: now, used: now, epoch: 1, known: make(map[partKey]*knownPart, len(f.asks))}
	for i, a := range f.asks {
		if len(a.name) > longestTopicName {
			return 0
		}
		out := &f.out[i]
		if k := s.known[a.key()]; k != nil { // named twice: the last word counts
			k.fetchAsk = a
			k.tell(out)
			continue
		}
		s.add(a, out.HighWatermark, out.LogStart)
	}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if !fs.place(len(s.turns), now) {
		return 0
	}
	if fs.sessions == nil {
		fs.sessions = map[int32]*fetchSession{}
	}
	for s.id == 0 || fs.sessions[s.id] != nil {
		s.id = rand.Int32()
	}
	fs.sessions[s.id] = s
	s.counted = len(s.turns)
	fs.parts += s.counted
	return s.id
}

// place finds room for a session of so many partitions, at another's cost if need be.
func (fs *fetchSessions) place(parts int, now time.Time) bool {
	fits := func() bool { return len(fs.sessions) < maxFetchSessions && fs.parts+parts <= maxSessionParts }
	for !fits() {
		var stale, small *fetchSession
		for _, s := range fs.sessions {
			if now.Sub(s.used) > sessionStale && (stale == nil || s.used.Before(stale.used)) {
				stale = s
			}
			if now.Sub(s.created) > sessionStale && (small == nil || s.counted < small.counted || s.counted == small.counted && s.id < small.id) {
				small = s
			}
		}
		switch {
		case stale != nil:
			fs.drop(stale)
		case small != nil && small.counted < parts && len(fs.sessions) >= maxFetchSessions:
			fs.drop(small)
		default:
			return false
		}
		fs.evictions.Add(1)
	}
	return true
}

func (fs *fetchSessions) close(id int32) {
	if id == 0 {
		return
	}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if s := fs.sessions[id]; s != nil {
		fs.drop(s)
	}
}

// drop forgets a session. A request of it that is being answered ends as if it had not been dropped.
func (fs *fetchSessions) drop(s *fetchSession) {
	delete(fs.sessions, s.id)
	fs.parts -= s.counted
}

// SessionStats are the fetch sessions that there are, the partitions that they remember, and how many lost their place to
// another one since the start.
type SessionStats struct{ Sessions, Partitions, Evictions int64 }

// FetchSessions counts the fetch sessions.
func (s *Server) FetchSessions() SessionStats {
	fs := &s.sessions
	fs.mu.Lock()
	defer fs.mu.Unlock()
	return SessionStats{int64(len(fs.sessions)), int64(fs.parts), fs.evictions.Load()}
}
