package auth

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"time"

	xscram "github.com/xdg-go/scram"

	"millrace/log/internal/catalog"
	"millrace/log/internal/scram"
)

// people are users in memory.
type people map[catalog.Account]scram.Credential

func (p people) Scram(a catalog.Account) (scram.Credential, bool) { cr, ok := p[a]; return cr, ok }

func (p people) ScramShape(m scram.Mechanism) (salt, iterations int, any bool) {
	for a, cr := range p {
		if a.Mechanism == m {
			return len(cr.Salt), cr.Iterations, true
		}
	}
	return 0, 0, false
}

func some() people {
	p := people{}
	for user, password := range map[string]string{"alice": "wonderland", "b,o=b": "builder", "grüße": "pässwörd"} {
		for _, m := range scram.Mechanisms {
			p[catalog.Account{User: user, Mechanism: m}] = scram.New(m, password)
		}
	}
	return p
}

func server() *Server { return New(some(), []byte("secret of the log")) }

// scramAs runs an exchange with a client of the library.
func scramAs(s *Server, mechanism, user, password, authz string) (*Exchange, error) {
	m, _ := scram.Parse(mechanism)
	c, err := xscram.HashGeneratorFcn(m.Hash()).NewClientUnprepped(user, password, authz)
	if err != nil {
		return nil, err
	}
	conv := c.NewConversation()
	e := s.Begin(mechanism)
	text := ""
	for !conv.Done() {
		if text, err = conv.Step(text); err != nil {
			return e, err
		}
		if conv.Done() {
			break
		}
		answer, _, err := e.Next(context.Background(), []byte(text))
		if err != nil {
			return e, err
		}
		text = string(answer)
	}
	if !conv.Valid() {
		return e, errors.New("the server did not prove that it knows the password")
	}
	return e, nil
}

func TestWhoIsLetIn(t *testing.T) {
	s := server()
	for _, c := range []struct {
		name, user, password, authz string
		want                        error
	}{
		{"the right password", "alice", "wonderland", "", nil},
		{"a name with signs of the protocol", "b,o=b", "builder", "", nil},
		{"letters beyond ASCII", "grüße", "pässwörd", "", nil},
		{"acting for oneself", "alice", "wonderland", "alice", nil},
		{"acting for another", "alice", "wonderland", "b,o=b", ErrDenied},
		{"a wrong password", "alice", "wonderlanD", "", ErrDenied},
		{"a name in another case", "Alice", "wonderland", "", ErrDenied},
		{"a name that no user has", "nobody", "wonderland", "", ErrDenied},
		{"a name without letters", "", "x", "", ErrMalformed},
		{"a name with a line break", "alice\nadmin", "x", "", ErrMalformed},
	} {
		for _, mechanism := range []string{"SCRAM-SHA-256", "SCRAM-SHA-512"} {
			e, err := scramAs(s, mechanism, c.user, c.password, c.authz)
			if !errors.Is(err, c.want) || err == nil && e.User() != c.user {
				t.Errorf("%s, %s: got %v", mechanism, c.name, err)
			}
			if err != nil && e.User() != "" {
				t.Errorf("%s, %s: is %q after all", mechanism, c.name, e.User())
			}
		}
		e := s.Begin(Plain)
		_, done, err := e.Next(context.Background(), []byte(c.authz+"\x00"+c.user+"\x00"+c.password))
		if !errors.Is(err, c.want) || done != (c.want == nil) || err == nil && e.User() != c.user {
			t.Errorf("PLAIN, %s: got %v", c.name, err)
		}
		if err != nil && e.User() != "" {
			t.Errorf("PLAIN, %s: is %q after all", c.name, e.User())
		}
	}
}

func TestMessagesThatAreNone(t *testing.T) {
	s := server()
	for _, c := range []struct{ name, mechanism, token string }{
		{"nothing", Plain, ""},
		{"no password", Plain, "\x00alice\x00"},
		{"two parts", Plain, "alice\x00wonderland"},
		{"four parts", Plain, "\x00alice\x00wonderland\x00"},
		{"a password of a megabyte", Plain, "\x00alice\x00" + strings.Repeat("x", 1<<20)},
		{"a password of some kilobytes", Plain, "\x00alice\x00" + strings.Repeat("x", 8<<10)},
		{"nothing", "SCRAM-SHA-256", ""},
		{"commas", "SCRAM-SHA-256", strings.Repeat(",", 60_000)},
		{"a binding that is not offered", "SCRAM-SHA-256", "p=tls-unique,,n=alice,r=x"},
		{"an extension that must be understood", "SCRAM-SHA-256", "n,,m=x,n=alice,r=x"},
		{"a name that is not quoted right", "SCRAM-SHA-256", "n,,n=al=ice,r=x"},
	} {
		_, done, err := s.Begin(c.mechanism).Next(context.Background(), []byte(c.token))
		if done || !errors.Is(err, ErrMalformed) {
			t.Errorf("%s, %s: got %v, %v", c.mechanism, c.name, done, err)
		}
	}
	if s.Begin("GSSAPI") != nil || s.Begin("scram-sha-256") != nil || s.Begin("SCRAM-SHA-1") != nil {
		t.Error("an unknown mechanism was begun")
	}
}

// librdkafka before 2.6.1 puts its part of the nonce twice into its last message; Kafka takes that.
func TestAClientMayRepeatItsNonce(t *testing.T) {
	for _, c := range []struct {
		name   string
		nonce  func(mine, all string) string
		proved bool
	}{
		{"as it should be", func(_, all string) string { return all }, true},
		{"its own part twice", func(mine, all string) string { return mine + all }, true},
		{"ours cut off", func(_, all string) string { return all[:len(all)-1] }, false},
		{"its own alone", func(mine, _ string) string { return mine }, false},
	} {
		e := server().Begin("SCRAM-SHA-256")
		const bare = "n=alice,r=mine"
		first, _, err := e.Next(context.Background(), []byte("n,,"+bare))
		if err != nil {
			t.Fatal(err)
		}
		fields := strings.Split(string(first), ",")
		salt, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(fields[1], "s="))
		if err != nil {
			t.Fatal(err)
		}
		last := "c=biws,r=" + c.nonce("mine", strings.TrimPrefix(fields[0], "r="))
		mac := func(key []byte, text string) []byte {
			h := hmac.New(sha256.New, key)
			h.Write([]byte(text))
			return h.Sum(nil)
		}
		key := mac(scram.Salted(scram.SHA256, "wonderland", salt, 8192), "Client Key")
		stored := sha256.Sum256(key)
		proof := make([]byte, len(key))
		subtle.XORBytes(proof, key, mac(stored[:], bare+","+string(first)+","+last))
		_, done, err := e.Next(context.Background(), []byte(last+",p="+base64.StdEncoding.EncodeToString(proof)))
		if done != c.proved || (err == nil) != c.proved {
			t.Errorf("%s: got %v, %v", c.name, done, err)
		}
	}
}

// An exchange ends with its first error, and a second proof is none.
func TestAnExchangeEndsOnce(t *testing.T) {
	e := server().Begin(Plain)
	if _, _, err := e.Next(context.Background(), []byte("\x00alice\x00wrong")); !errors.Is(err, ErrDenied) {
		t.Fatal(err)
	}
	if _, done, err := e.Next(context.Background(), []byte("\x00alice\x00wonderland")); done || err == nil {
		t.Error("an exchange went on after it had failed")
	}
}

// What a stranger learns of a name is the same, whether or not a user has it.
func TestNamesThatNobodyHasLookLikeOthers(t *testing.T) {
	users := some()
	s := New(users, []byte("secret of the log"))
	first := func(s *Server, user string) string {
		answer, _, err := s.Begin("SCRAM-SHA-256").Next(context.Background(), []byte("n,,n="+user+",r=nonce"))
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(answer), ",")
		return rest // salt and iterations
	}
	real, made := first(s, "alice"), first(s, "nobody")
	if len(real) != len(made) || !strings.HasSuffix(made, ",i=8192") {
		t.Errorf("alice has %q, nobody has %q", real, made)
	}
	if made != first(s, "nobody") || made != first(New(users, []byte("secret of the log")), "nobody") {
		t.Error("the salt of a name that nobody has changes")
	}
	if made == first(s, "nobody2") || made == first(New(users, []byte("another secret")), "nobody") {
		t.Error("the salt can be foretold")
	}
}

// A wrong password and a name that nobody has cost the same: one derivation each, whichever is asked for. The least times
// of many tries are compared, and tried again while other work disturbs them.
func TestNamesThatNobodyHasTakeTheSameTime(t *testing.T) {
	s := server()
	least := map[string]time.Duration{"alice": time.Hour, "nobody": time.Hour}
	for begun := time.Now(); ; {
		for user := range least {
			at := time.Now()
			s.Begin(Plain).Next(context.Background(), []byte("\x00"+user+"\x00wrong"))
			least[user] = min(least[user], time.Since(at))
		}
		low, high := min(least["alice"], least["nobody"]), max(least["alice"], least["nobody"])
		if high < 2*low {
			return
		}
		if time.Since(begun) > 30*time.Second {
			t.Fatalf("a wrong password takes %v, a wrong name %v", least["alice"], least["nobody"])
		}
	}
}

// Strangers who send wrong passwords use two processors at most, and who gives up does not wait.
func TestGuessersWaitTheirTurn(t *testing.T) {
	s := server()
	for range derivations {
		s.turns <- struct{}{}
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	gone := errors.New("the peer has gone")
	cancel(gone)
	if _, _, err := s.Begin(Plain).Next(ctx, []byte("\x00alice\x00wonderland")); !errors.Is(err, gone) {
		t.Errorf("got %v", err)
	}
}

func FuzzExchange(f *testing.F) {
	s := server()
	f.Add(uint8(0), []byte("\x00alice\x00wonderland"), []byte{})
	f.Add(uint8(1), []byte("n,,n=alice,r=nonce"), []byte("c=biws,r=nonce,p=AAAA"))
	f.Add(uint8(2), []byte("y,a=alice,n=alice,r=nonce,tokenauth=true"), []byte("c=eSxhPWFsaWNlLA==,r=nonce,p=AAAA"))
	f.Fuzz(func(t *testing.T, which uint8, first, second []byte) {
		e := s.Begin(Known[int(which)%len(Known)])
		isAlice := e.Mechanism() == Plain && (bytes.Equal(first, []byte("\x00alice\x00wonderland")) || bytes.Equal(first, []byte("alice\x00alice\x00wonderland")))
		_, done, err := e.Next(context.Background(), first)
		if err == nil && !done {
			_, done, err = e.Next(context.Background(), second)
		}
		if done && err == nil && !isAlice {
			t.Errorf("%q, %q signed in as %q with %s", first, second, e.User(), e.Mechanism())
		}
	})
}
