package auth

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"strconv"
	"strings"

	"millrace/log/internal/catalog"
	"millrace/log/internal/scram"
)

// SCRAM's messages (RFC 5802), as Kafka takes them:
//
//	client  n,[a=NAME],n=NAME,r=NONCE[,extensions]      the part from n= on is the bare message
//	server  r=NONCE+OURS,s=SALT,i=ITERATIONS            base64, decimal
//	client  c=HEADER,r=NONCE+OURS[,extensions],p=PROOF  base64 of the first message's beginning, base64
//	server  v=SIGNATURE                                  base64
//
// In a NAME , is written =2C and = is written =3D. A proof is the client's key XORed with HMAC(stored key, bare message
// , server's first , client's last without the proof). Fixed for ever.
type scramServer struct {
	mechanism scram.Mechanism
	header    string // what stands before the bare message
	bare      string
	ours      string // our part of the nonce
	first     string // our first message
	cr        scram.Credential
	begun     bool
}

// firstMessage is what a client's first message says.
type firstMessage struct {
	user, authz string
	token       bool // the name is a delegation token's, of which there are none
}

// readFirst takes the client's first message; ok is false when it is none.
func (s *scramServer) readFirst(text string) (m firstMessage, nonce string, ok bool) {
	flag, rest, ok1 := strings.Cut(text, ",")
	authz, bare, ok2 := strings.Cut(rest, ",")
	if !ok1 || !ok2 || flag != "n" && flag != "y" { // p: channel binding, which is not offered
		return m, "", false
	}
	if authz != "" {
		name, is := strings.CutPrefix(authz, "a=")
		if m.authz, ok = unquote(name); !is || !ok {
			return m, "", false
		}
	}
	fields := strings.SplitN(bare, ",", 3)
	if len(fields) < 2 { // a mandatory extension, m=, would stand in the place of the name
		return m, "", false
	}
	name, is1 := strings.CutPrefix(fields[0], "n=")
	nonce, is2 := strings.CutPrefix(fields[1], "r=")
	if m.user, ok = unquote(name); !is1 || !is2 || !ok || !printable(nonce) {
		return m, "", false
	}
	m.token = len(fields) == 3 && strings.Contains(","+fields[2]+",", ",tokenauth=true,")
	s.header, s.bare = flag+","+authz+",", bare
	return m, nonce, true
}

// answerFirst makes our first message.
func (s *scramServer) answerFirst(nonce string, cr scram.Credential) string {
	s.ours, s.cr = rand.Text()+rand.Text(), cr
	s.first = "r=" + nonce + s.ours + ",s=" + base64.StdEncoding.EncodeToString(cr.Salt) + ",i=" + strconv.Itoa(cr.Iterations)
	return s.first
}

// finish takes the client's last message. It answers with our signature if the proof is right. ok is false when the
// message is none.
func (s *scramServer) finish(text string) (answer string, proved, ok bool) {
	at := strings.LastIndex(text, ",p=")
	if at < 0 {
		return "", false, false
	}
	proof, err := base64.StdEncoding.DecodeString(text[at+len(",p="):])
	fields := strings.SplitN(text[:at], ",", 3)
	if err != nil || len(fields) < 2 {
		return "", false, false
	}
	header, is1 := strings.CutPrefix(fields[0], "c=")
	nonce, is2 := strings.CutPrefix(fields[1], "r=")
	bound, err := base64.StdEncoding.DecodeString(header)
	h := s.mechanism.Hash()
	if !is1 || !is2 || err != nil || len(proof) != h().Size() {
		return "", false, false
	}
	// librdkafka before 2.6.1 sends its own part twice. What counts is ours: it makes the exchange this one, and the proof
	// covers all of it.
	if string(bound) != s.header || !strings.HasSuffix(nonce, s.ours) {
		return "", false, true
	}
	message := []byte(s.bare + "," + s.first + "," + text[:at])
	sign := func(key []byte) []byte {
		x := hmac.New(h, key)
		x.Write(message)
		return x.Sum(nil)
	}
	key := make([]byte, len(proof))
	subtle.XORBytes(key, proof, sign(s.cr.StoredKey))
	stored := h()
	stored.Write(key)
	if subtle.ConstantTimeCompare(stored.Sum(nil), s.cr.StoredKey) != 1 {
		return "", false, true
	}
	return "v=" + base64.StdEncoding.EncodeToString(sign(s.cr.ServerKey)), true, true
}

// unquote reads a NAME.
func unquote(s string) (string, bool) {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(s, "=")
		b.WriteString(before)
		switch {
		case !found:
			return b.String(), true
		case strings.HasPrefix(rest, "2C"):
			b.WriteByte(',')
		case strings.HasPrefix(rest, "3D"):
			b.WriteByte('=')
		default:
			return "", false
		}
		s = rest[2:]
	}
}

// printable reports whether s can be a nonce.
func printable(s string) bool {
	for i := range len(s) {
		if s[i] < 0x21 || s[i] > 0x7e || s[i] == ',' {
			return false
		}
	}
	return s != ""
}

// nextScram is Next for SCRAM.
func (e *Exchange) nextScram(token string) (answer []byte, done bool, err error) {
	s := e.scram
	if !s.begun {
		s.begun = true
		m, nonce, ok := s.readFirst(token)
		if !ok || catalog.CheckUser(m.user) != nil {
			return nil, false, ErrMalformed
		}
		e.account.User = m.user
		if m.authz != "" && m.authz != m.user {
			return nil, false, ErrDenied // nobody acts for another
		}
		cr, known := e.srv.users.Scram(e.account)
		if made := e.srv.fake(m.user, s.mechanism); !known { // made up in any case, for the time that it takes
			cr = made
		}
		e.real = known && !m.token
		return []byte(s.answerFirst(nonce, cr)), false, nil
	}
	text, proved, ok := s.finish(token)
	switch {
	case !ok:
		return nil, false, ErrMalformed
	case !proved || !e.real:
		return nil, false, ErrDenied
	}
	e.user = e.account.User
	return []byte(text), true, nil
}
