package auth

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"

	"millrace/log/internal/catalog"
	"millrace/log/internal/scram"
)

// Plain is the mechanism that sends the password itself.
const Plain = "PLAIN"

// Known are the mechanisms that can be offered, strongest first.
var Known = []string{scram.SHA512.String(), scram.SHA256.String(), Plain}

// Users are who can sign in. Its methods are called concurrently.
type Users interface {
	Scram(catalog.Account) (scram.Credential, bool)
	// ScramShape is the salt length and number of iterations that most credentials of a mechanism have, and whether
	// there are any.
	ScramShape(scram.Mechanism) (salt, iterations int, any bool)
}

// Server signs clients in. Its methods may be called concurrently.
type Server struct {
	users  Users
	secret []byte // makes up what users that do not exist have
	turns  chan struct{}
}

// derivations is how many passwords are checked at once. Each takes milliseconds of a processor, and strangers cause it.
const derivations = 2

// New returns a server for these users. The secret must be the same after a restart, or names that do not exist would
// change their salt with it.
func New(users Users, secret []byte) *Server {
	return &Server{users: users, secret: secret, turns: make(chan struct{}, derivations)}
}

// ErrDenied says that the client did not prove who it says it is. It holds neither name nor reason, since it is shown to
// the client.
var ErrDenied = errors.New("invalid credentials")

// ErrMalformed says that a message is none of the mechanism's.
var ErrMalformed = errors.New("malformed message")

// maxToken is the size of a message of the exchange.
const maxToken = 64 << 10

// Exchange is one sign-in. It is for one goroutine.
type Exchange struct {
	srv       *Server
	mechanism string
	scram     *scramServer // nil: PLAIN
	account   catalog.Account
	user      string
	real      bool
	done      bool
}

// Begin starts an exchange of a mechanism, nil if it is not a known one.
func (s *Server) Begin(mechanism string) *Exchange {
	e := &Exchange{srv: s, mechanism: mechanism}
	if mechanism == Plain {
		return e
	}
	m, ok := scram.Parse(mechanism)
	if !ok {
		return nil
	}
	e.account.Mechanism = m
	e.scram = &scramServer{mechanism: m}
	return e
}

// Mechanism is the exchange's mechanism.
func (e *Exchange) Mechanism() string { return e.mechanism }

// User is the name that was proved; empty until Next said that it is done.
func (e *Exchange) User() string { return e.user }

// Claimed is the name that the client gave, proved or not, for the log. It may be empty.
func (e *Exchange) Claimed() string { return e.account.User }

// Next takes a message of the client and returns what to answer. After done the client is who User says. An error ends
// the exchange: ErrDenied, ErrMalformed, or ctx's.
func (e *Exchange) Next(ctx context.Context, token []byte) (answer []byte, done bool, err error) {
	if e.done || len(token) > maxToken {
		return nil, false, ErrMalformed
	}
	defer func() { e.done = e.done || done || err != nil }()
	if e.scram == nil {
		return e.plain(ctx, token)
	}
	return e.nextScram(string(token))
}

// plain checks name NUL name NUL password, of which the first may be empty.
func (e *Exchange) plain(ctx context.Context, token []byte) ([]byte, bool, error) {
	parts := strings.SplitN(string(token), "\x00", 4)
	if len(parts) != 3 || len(parts[2]) == 0 || len(parts[2]) > 1024 || catalog.CheckUser(parts[1]) != nil {
		return nil, false, ErrMalformed
	}
	user, password := parts[1], parts[2]
	e.account.User = user
	ok, err := e.srv.check(ctx, user, password)
	if err != nil {
		return nil, false, err
	}
	if !ok || parts[0] != "" && parts[0] != user {
		return nil, false, ErrDenied
	}
	e.user = user
	return []byte{}, true, nil
}

// check derives once, whether or not there is such a user.
func (s *Server) check(ctx context.Context, user, password string) (bool, error) {
	var a catalog.Account
	var cr scram.Credential
	known := false
	for _, m := range scram.Mechanisms {
		a = catalog.Account{User: user, Mechanism: m}
		if cr, known = s.users.Scram(a); known {
			break
		}
	}
	if made := s.fake(user, s.usual()); !known {
		a, cr = catalog.Account{User: user, Mechanism: s.usual()}, made
	}
	select {
	case s.turns <- struct{}{}:
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
	defer func() { <-s.turns }()
	return cr.Matches(a.Mechanism, password) && known, nil
}

// usual is the mechanism in which a user's password is checked.
func (s *Server) usual() scram.Mechanism {
	for _, m := range scram.Mechanisms {
		if _, _, any := s.users.ScramShape(m); any {
			return m
		}
	}
	return scram.Mechanisms[0]
}

// fake is the credential of a name that no user has. It looks like those that users have.
func (s *Server) fake(user string, m scram.Mechanism) scram.Credential {
	size, iterations, any := s.users.ScramShape(m)
	if !any {
		size, iterations = 24, scram.DefaultIterations
	}
	out := func(what string, n int) (b []byte) {
		for i := 0; len(b) < n; i++ {
			h := hmac.New(sha256.New, s.secret)
			fmt.Fprintf(h, "%s %s %d %s", what, m, i, user)
			b = h.Sum(b)
		}
		return b[:n]
	}
	keys := m.Hash()().Size()
	return scram.Credential{Salt: out("salt", size), Iterations: iterations, StoredKey: out("stored", keys), ServerKey: out("server", keys)}
}
