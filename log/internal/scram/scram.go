package scram

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/subtle"
	"fmt"
	"hash"
)

// Mechanism is a SCRAM mechanism, with the protocol's number.
type Mechanism int8

// The mechanisms. Their numbers are fixed for ever.
const (
	SHA256 Mechanism = 1
	SHA512 Mechanism = 2
)

// Mechanisms are all, the first preferred where any will do.
var Mechanisms = []Mechanism{SHA256, SHA512}

// Kafka's bounds of the number of iterations, and what we derive with.
const (
	MinIterations     = 4096
	MaxIterations     = 16384
	DefaultIterations = 8192
)

func (m Mechanism) String() string {
	switch m {
	case SHA256:
		return "SCRAM-SHA-256"
	case SHA512:
		return "SCRAM-SHA-512"
	}
	return fmt.Sprintf("unknown mechanism %d", int8(m))
}

// Parse reads a mechanism's name.
func Parse(name string) (Mechanism, bool) {
	for _, m := range Mechanisms {
		if m.String() == name {
			return m, true
		}
	}
	return 0, false
}

// Hash makes the mechanism's hash. The mechanism must be a known one.
func (m Mechanism) Hash() func() hash.Hash {
	if m == SHA512 {
		return sha512.New
	}
	return sha256.New
}

// Credential is what is kept of one user's password for one mechanism. It is immutable.
type Credential struct {
	Salt       []byte
	Iterations int
	StoredKey  []byte
	ServerKey  []byte
}

// String hides a credential's keys: with them a password can be guessed offline.
func (c Credential) String() string { return "[hidden]" }

// New derives a credential of a password with a new salt.
func New(m Mechanism, password string) Credential {
	salt := make([]byte, 24)
	rand.Read(salt)
	return FromSalted(m, salt, DefaultIterations, Salted(m, password, salt, DefaultIterations))
}

// Salted is the salted password: what a client computes, and sends when it sets a password.
func Salted(m Mechanism, password string, salt []byte, iterations int) []byte {
	h := m.Hash()
	out, err := pbkdf2.Key(h, password, salt, iterations, h().Size())
	if err != nil {
		panic(err) // only of lengths and counts that do not occur
	}
	return out
}

// FromSalted makes a credential of a salted password.
func FromSalted(m Mechanism, salt []byte, iterations int, salted []byte) Credential {
	mac := func(text string) []byte {
		x := hmac.New(m.Hash(), salted)
		x.Write([]byte(text))
		return x.Sum(nil)
	}
	h := m.Hash()()
	h.Write(mac("Client Key"))
	return Credential{Salt: salt, Iterations: iterations, StoredKey: h.Sum(nil), ServerKey: mac("Server Key")}
}

// Matches reports whether a credential is of that password. It takes the same time whether or not.
func (c Credential) Matches(m Mechanism, password string) bool {
	is := FromSalted(m, c.Salt, c.Iterations, Salted(m, password, c.Salt, c.Iterations))
	return subtle.ConstantTimeCompare(is.StoredKey, c.StoredKey) == 1
}

// Check reports why a credential cannot be one of the mechanism.
func (c Credential) Check(m Mechanism) error {
	size := m.Hash()().Size()
	switch {
	case m != SHA256 && m != SHA512:
		return fmt.Errorf("%s", m)
	case len(c.Salt) == 0 || len(c.Salt) > 1024:
		return fmt.Errorf("the salt has %d bytes", len(c.Salt))
	case c.Iterations < MinIterations || c.Iterations > MaxIterations:
		return fmt.Errorf("%d iterations; %d to %d are taken", c.Iterations, MinIterations, MaxIterations)
	case len(c.StoredKey) != size || len(c.ServerKey) != size:
		return fmt.Errorf("its keys have %d and %d bytes, want %d", len(c.StoredKey), len(c.ServerKey), size)
	}
	return nil
}
