package rest

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	goruntime "runtime"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/crypto/bcrypt"
)

// Limits of a file of users.
const (
	maxUsersBytes = 4 << 20
	maxUsers      = 50_000
	// maxCost bounds what one sign-in costs: at 14 about a second.
	maxCost = 14
	// remembered is for how long a sign-in that was right needs no bcrypt, and rememberedUsers how many of them.
	remembered      = 5 * time.Minute
	rememberedUsers = 4096
	// lookAgain is how often the file is looked at, at most.
	lookAgain = time.Second
)

// Users are those of an htpasswd file with bcrypt passwords. It is read anew when it changes; where the new one is
// wrong, the users that there were stay. Its methods may be called concurrently.
type Users struct {
	path string
	lg   *slog.Logger
	slow chan struct{} // bcrypt runs as often at a time as this has room
	key  []byte        // of what is remembered

	mu      sync.Mutex // guards the fields below
	looked  time.Time
	stamp   fileStamp
	byName  map[string][]byte // bcrypt hashes
	cost    int               // the highest, which a user that there is not costs too
	nobody  []byte            // hash of that cost that no password has
	known   map[[sha256.Size]byte]time.Time
	lastErr string
}

type fileStamp struct {
	size int64
	at   time.Time
	id   os.FileInfo
}

func (s fileStamp) same(o fileStamp) bool {
	return s.size == o.size && s.at.Equal(o.at) && s.id != nil && o.id != nil && os.SameFile(s.id, o.id)
}

// OpenUsers reads an htpasswd file. Errors name the line, and show no hash.
func OpenUsers(path string, lg *slog.Logger) (*Users, error) {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	u := &Users{path: path, lg: lg, key: key, slow: make(chan struct{}, max(1, goruntime.GOMAXPROCS(0)-1)), looked: time.Now()}
	byName, stamp, err := readUsers(path)
	if err != nil {
		return nil, err
	}
	return u, u.take(byName, stamp)
}

// take makes a file's users those that count.
func (u *Users) take(byName map[string][]byte, stamp fileStamp) error {
	cost := bcrypt.MinCost
	for _, h := range byName {
		c, err := bcrypt.Cost(h)
		if err != nil {
			return err
		}
		cost = max(cost, c)
	}
	if cost != u.cost {
		secret := make([]byte, 32)
		_, _ = rand.Read(secret)
		nobody, err := bcrypt.GenerateFromPassword(secret, cost)
		if err != nil {
			return err
		}
		u.cost, u.nobody = cost, nobody
	}
	u.byName, u.stamp, u.known, u.lastErr = byName, stamp, map[[sha256.Size]byte]time.Time{}, ""
	return nil
}

func readUsers(path string) (map[string][]byte, fileStamp, error) {
	fi, err := os.Stat(path)
	if err != nil {
		return nil, fileStamp{}, err
	}
	if !fi.Mode().IsRegular() { // to open a pipe would wait for a writer
		return nil, fileStamp{}, fmt.Errorf("%s is no regular file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fileStamp{}, err
	}
	defer f.Close()
	if fi, err = f.Stat(); err != nil {
		return nil, fileStamp{}, err
	}
	b, err := io.ReadAll(io.LimitReader(f, maxUsersBytes+1))
	if err != nil {
		return nil, fileStamp{}, err
	}
	byName, err := parseUsers(b)
	if err != nil {
		return nil, fileStamp{}, fmt.Errorf("%s: %w", path, err)
	}
	return byName, fileStamp{fi.Size(), fi.ModTime(), fi}, nil
}

// parseUsers reads lines NAME:HASH. Empty lines and those that begin with # say nothing.
func parseUsers(b []byte) (map[string][]byte, error) {
	if len(b) > maxUsersBytes {
		return nil, fmt.Errorf("it has more than %d bytes", maxUsersBytes)
	}
	out := map[string][]byte{}
	n := 0
	for line := range bytes.Lines(b) {
		n++
		line = bytes.TrimRight(line, "\r\n")
		if len(bytes.TrimSpace(line)) == 0 || line[0] == '#' {
			continue
		}
		name, hash, ok := bytes.Cut(line, []byte{':'})
		switch {
		case !ok:
			return nil, fmt.Errorf("line %d is not NAME:HASH; make it with htpasswd -B", n)
		case len(name) == 0:
			return nil, fmt.Errorf("line %d has no user's name", n)
		case !utf8.Valid(name):
			return nil, fmt.Errorf("line %d: the user's name is not UTF-8", n)
		case out[string(name)] != nil:
			return nil, fmt.Errorf("line %d: user %q is there already; name each once", n, name)
		case len(out) == maxUsers:
			return nil, fmt.Errorf("line %d: more than %d users", n, maxUsers)
		}
		cost, err := bcrypt.Cost(hash)
		switch {
		case err != nil || len(hash) != 60 || hash[2] != 'a' && hash[2] != 'b' && hash[2] != 'y' || !bcryptText(hash[7:]):
			return nil, fmt.Errorf("line %d: the password of user %q is not hashed with bcrypt; make the line with htpasswd -nB %s", n, name, name)
		case cost > maxCost:
			return nil, fmt.Errorf("line %d: the password of user %q has a bcrypt cost of %d, and %d is the most: every request would take seconds; make the line with htpasswd -nBC 12 %s", n, name, cost, maxCost, name)
		}
		// Whether what stands there can be a hash at all shows here and not at the first sign-in.
		if err := bcrypt.CompareHashAndPassword(cheap(hash), nil); err != nil && !errors.Is(err, bcrypt.ErrMismatchedHashAndPassword) {
			return nil, fmt.Errorf("line %d: the password of user %q is not hashed with bcrypt: what stands there is damaged", n, name)
		}
		out[string(name)] = bytes.Clone(hash)
	}
	if len(out) == 0 {
		return nil, errors.New("it names no user; make a line with htpasswd -nB NAME")
	}
	return out, nil
}

// bcryptText reports whether b has only letters in which bcrypt writes salts and hashes.
func bcryptText(b []byte) bool {
	for _, c := range b {
		if !(c == '.' || c == '/' || c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z') {
			return false
		}
	}
	return true
}

// cheap is a hash with the lowest cost: its form can be tried without its price.
func cheap(hash []byte) []byte {
	c := bytes.Clone(hash)
	copy(c[4:6], "04")
	return c
}

// SignsIn reports whether a user of that name has that password. A user that there is not takes as long as a wrong
// password. It waits while many others sign in, until ctx ends.
func (u *Users) SignsIn(ctx context.Context, name, password string) bool {
	hash, nobody, proof, known := u.lookUp(name, password)
	if known {
		return true
	}
	select {
	case u.slow <- struct{}{}:
		defer func() { <-u.slow }()
	case <-ctx.Done():
		return false
	}
	there := hash != nil
	if !there {
		hash = nobody
	}
	if bcrypt.CompareHashAndPassword(hash, []byte(password)) != nil || !there {
		return false
	}
	u.remember(name, hash, proof)
	return true
}

// lookUp is what the file says of a name, and whether the pair was right a moment ago.
func (u *Users) lookUp(name, password string) (hash, nobody []byte, proof [sha256.Size]byte, known bool) {
	mac := hmac.New(sha256.New, u.key)
	fmt.Fprintf(mac, "%d:%s%s", len(name), name, password)
	mac.Sum(proof[:0])
	u.mu.Lock()
	defer u.mu.Unlock()
	u.renew()
	until, ok := u.known[proof]
	return u.byName[name], u.nobody, proof, ok && time.Now().Before(until)
}

// remember keeps a pair that was right, unless the user's password has changed meanwhile.
func (u *Users) remember(name string, hash []byte, proof [sha256.Size]byte) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !bytes.Equal(u.byName[name], hash) {
		return
	}
	now := time.Now()
	if len(u.known) >= rememberedUsers {
		for p, until := range u.known {
			if now.After(until) {
				delete(u.known, p)
			}
		}
		if len(u.known) >= rememberedUsers {
			clear(u.known)
		}
	}
	u.known[proof] = now.Add(remembered)
}

// renew reads the file again where it has changed. The caller holds the lock; what it costs is the stat of a file
// once a second.
func (u *Users) renew() {
	if time.Since(u.looked) < lookAgain {
		return
	}
	u.looked = time.Now()
	fi, err := os.Stat(u.path)
	if err == nil && u.stamp.same(fileStamp{fi.Size(), fi.ModTime(), fi}) {
		return
	}
	var byName map[string][]byte
	var stamp fileStamp
	if err == nil {
		byName, stamp, err = readUsers(u.path)
	}
	if err == nil {
		err = u.take(byName, stamp)
	}
	switch {
	case err == nil:
		u.lg.Info("users of the API were read anew", "file", u.path, "users", len(u.byName))
	case err.Error() != u.lastErr: // told once
		u.lastErr = err.Error()
		u.lg.Error("users of the API could not be read anew: those that there were stay; mend rest.auth.file", "err", err)
	}
}

// challenge asks a client for a user's name and password.
const challenge = `Basic realm="Millrace", charset="UTF-8"`

// internalCall reports whether a request is one between workers: signed with a key of their own, and never with a
// user's password.
func internalCall(method, path string) bool {
	part := strings.Split(strings.Trim(path, "/"), "/")
	if isParts(method, path) {
		return true
	}
	if len(part) != 3 || part[0] != "connectors" || part[1] == "" {
		return false
	}
	return method == "POST" && part[2] == "tasks" || method == "PUT" && part[2] == "fence"
}
