package catalog

import (
	"crypto/rand"
	"errors"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"

	"millrace/log/internal/scram"
)

// Account is one user's credential for one mechanism.
type Account struct {
	User      string
	Mechanism scram.Mechanism
}

// ScramChange sets a credential, or removes it where it is nil.
type ScramChange struct {
	Account
	Set *scram.Credential
}

// Scram returns a user's credential.
func (c *Catalog) Scram(a Account) (scram.Credential, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	cr, ok := c.users[a]
	return cr, ok
}

// ScramUsers returns all users' credentials. The map is the caller's.
func (c *Catalog) ScramUsers() map[Account]scram.Credential {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return maps.Clone(c.users)
}

// ScramShape is the salt length and number of iterations that most credentials of a mechanism have, and whether there are
// any.
func (c *Catalog) ScramShape(m scram.Mechanism) (salt, iterations int, any bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	s, any := c.shapes[m]
	return s.salt, s.iterations, any
}

// shape is what a client learns of a credential before it has proved anything.
type shape struct{ salt, iterations int }

// setUsers puts users in the place of those that were. c.mu is held, or nobody else has c yet.
func (c *Catalog) setUsers(users map[Account]scram.Credential) {
	count := map[scram.Mechanism]map[shape]int{}
	for a, cr := range users {
		if count[a.Mechanism] == nil {
			count[a.Mechanism] = map[shape]int{}
		}
		count[a.Mechanism][shape{len(cr.Salt), cr.Iterations}]++
	}
	c.users, c.shapes = users, map[scram.Mechanism]shape{}
	for m, of := range count {
		most := shape{}
		for s, n := range of {
			if n > of[most] || n == of[most] && (s.iterations > most.iterations || s.iterations == most.iterations && s.salt > most.salt) {
				most = s
			}
		}
		c.shapes[m] = most
	}
}

// MaxUsers is how many credentials are kept at most.
const MaxUsers = 10_000

// AlterScram makes changes and returns when they are durable: all of them or, with an error, none. A credential to
// remove must be there.
func (c *Catalog) AlterScram(changes ...ScramChange) error {
	c.turn <- struct{}{}
	defer func() { <-c.turn }()
	c.mu.RLock()
	next := maps.Clone(c.users)
	c.mu.RUnlock()
	if next == nil {
		next = map[Account]scram.Credential{}
	}
	var rs []record
	for _, ch := range changes {
		if ch.Set == nil {
			if _, ok := next[ch.Account]; !ok {
				return refuse(kerr.ResourceNotFound, "Attempt to delete a user credential that does not exist")
			}
			delete(next, ch.Account)
			rs = append(rs, record{scramKey(ch.Account), nil})
			continue
		}
		if err := ch.Set.Check(ch.Mechanism); err != nil {
			return refuse(kerr.UnacceptableCredential, "%s", err)
		}
		next[ch.Account] = *ch.Set
		rs = append(rs, record{scramKey(ch.Account), encode(scramRecord{ch.Set.Salt, ch.Set.Iterations, ch.Set.StoredKey, ch.Set.ServerKey})})
	}
	if len(next) > MaxUsers {
		return refuse(kerr.UnacceptableCredential, "there would be more than %d credentials", MaxUsers)
	}
	if len(rs) == 0 {
		return nil
	}
	if err := c.write(rs...); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.setUsers(next)
	return nil
}

// SetPasswords makes users who can sign in with these passwords, in every mechanism. Users who have these passwords
// already are left as they are, since what is derived anew differs every time.
func (c *Catalog) SetPasswords(passwords map[string]string) (changed []string, err error) {
	var changes []ScramChange
	for _, user := range slices.Sorted(maps.Keys(passwords)) {
		differs := false
		for _, m := range scram.Mechanisms {
			a := Account{user, m}
			if cr, ok := c.Scram(a); ok && cr.Matches(m, passwords[user]) {
				continue
			}
			cr := scram.New(m, passwords[user])
			changes = append(changes, ScramChange{a, &cr})
			differs = true
		}
		if differs {
			changed = append(changed, user)
		}
	}
	return changed, c.AlterScram(changes...)
}

// Secret is 32 random bytes that this log keeps for itself.
func (c *Catalog) Secret() ([]byte, error) {
	c.turn <- struct{}{}
	defer func() { <-c.turn }()
	if c.secret == nil {
		secret := make([]byte, 32)
		rand.Read(secret)
		if err := c.write(record{keySecret, encode(secretRecord{secret})}); err != nil {
			return nil, err
		}
		c.secret = secret
	}
	return c.secret, nil
}

// CheckUser refuses names that no user can have.
func CheckUser(name string) error {
	if name == "" || len(name) > 256 {
		return errors.New("a user's name has 1 to 256 bytes")
	}
	for _, r := range name {
		if r < ' ' || r == 0x7f || r == 0xfffd {
			return errors.New("a user's name holds no control characters")
		}
	}
	return nil
}
