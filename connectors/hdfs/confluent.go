package hdfs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"millrace/connectors"
)

// Confluent's sink keeps a log of its commits beside our claims. It is a file of its own making, close to Hadoop's sequence files:
//
//	"WAL" 0        4 bytes
//	sync           16 bytes, any
//	entries        length of key and value (int32, big-endian), length of the key (int32), key, value; both are texts
//	sync marks     -1 (int32) and the 16 bytes, between entries
//
// A text is its length (Hadoop's variable integer) and UTF-8. An entry's key is a temporary name and its value the final one, both as
// URLs; the keys BEGIN and END stand around the files of one commit. A commit without its END did not happen.

// A move is a file's temporary and final name.
type move struct{ Temporary, Final string }

const maxLog = 64 << 20

// applyConfluent brings to its end what a task of Confluent's sink had begun to make visible, and sets its log aside as that sink does.
func (t *target) applyConfluent(l *link, logs string, moving func()) error {
	name := logs + "/log"
	is, err := l.Stat(name)
	if errors.Is(err, fs.ErrNotExist) || err == nil && is.IsDir() {
		return nil
	}
	if err != nil {
		return err
	}
	// One who died did not close it, and then its end is not seen by readers. Appending nothing takes over the lease, which NameNodes
	// give away a minute after its holder was last heard of.
	if err := leaseOf(l, name); err != nil {
		return err
	}
	b, err := readFile(l, name, maxLog)
	if err != nil && strings.HasPrefix(err.Error(), "proto:") {
		return connectors.Failed(&badLog, nil, fmt.Sprintf("the log %q of Confluent's sink cannot be read: what DataNodes send is protected in a way that the client does not know (%v)", name, err),
			"start that sink once more and stop it in order, which leaves no log")
	}
	if err != nil {
		return err
	}
	moves, err := parseLog(b)
	if err != nil {
		return connectors.Failed(&badLog, nil, fmt.Sprintf("the log %q of Confluent's sink cannot be read: %v", name, err), "")
	}
	applied := 0
	for _, m := range moves {
		if _, err := l.Stat(m.Final); err == nil {
			continue
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := t.show(l, m.Temporary, m.Final); err != nil {
			return err
		}
		applied++
		moving()
	}
	t.lg.Info("the log of Confluent's sink is taken over", "log", name, "files", len(moves), "made_visible", applied)
	return l.Rename(name, name+".1")
}

// leaseOf closes a file that nobody writes to any more.
func leaseOf(l *link, name string) error {
	w, err := l.Append(name)
	if err != nil {
		if class, said := exceptionOf(err); class == "AlreadyBeingCreatedException" || class == "RecoveryInProgressException" {
			return connectors.Failed(&busyLog, nil, fmt.Sprintf("log %q of Confluent's sink is open: %s", name, said), "")
		}
		return err
	}
	return closeFile(w)
}

// parseLog returns the files of the commits that a log says are complete. What follows the last whole entry is none: whoever wrote it died.
func parseLog(b []byte) ([]move, error) {
	if len(b) == 0 {
		return nil, nil
	}
	if len(b) < 20 || string(b[:3]) != "WAL" {
		return nil, errors.New("it does not begin with WAL")
	}
	if b[3] != 0 {
		return nil, fmt.Errorf("it is of version %d, and 0 is known", b[3])
	}
	sync := string(b[4:20])
	var done, open []move
	for rest := b[20:]; len(rest) >= 4; {
		length := int32(binary.BigEndian.Uint32(rest))
		if length == -1 {
			if len(rest) < 20 {
				break
			}
			if string(rest[4:20]) != sync {
				return nil, fmt.Errorf("a sync mark at byte %d is not the file's", len(b)-len(rest))
			}
			rest = rest[20:]
			continue
		}
		if length < 0 {
			return nil, fmt.Errorf("the entry at byte %d has the length %d", len(b)-len(rest), length)
		}
		if len(rest) < 8 || int64(len(rest)) < 8+int64(length) {
			break
		}
		entry, keyLength := rest[8:8+length], int32(binary.BigEndian.Uint32(rest[4:]))
		if keyLength < 0 || keyLength > length {
			return nil, fmt.Errorf("the entry at byte %d has a key of %d bytes of %d", len(b)-len(rest), keyLength, length)
		}
		key, ok1 := parseText(entry[:keyLength])
		value, ok2 := parseText(entry[keyLength:])
		if !ok1 || !ok2 {
			return nil, fmt.Errorf("the entry at byte %d is no pair of texts", len(b)-len(rest))
		}
		switch key {
		case "BEGIN":
			open = nil
		case "END":
			done, open = append(done, open...), nil
		default:
			m := move{pathOf(key), pathOf(value)}
			if m.Temporary == "" || m.Final == "" {
				return nil, fmt.Errorf("the entry at byte %d names no files", len(b)-len(rest))
			}
			open = append(open, m)
		}
		rest = rest[8+length:]
	}
	return done, nil
}

// parseText reads a text that fills b.
func parseText(b []byte) (string, bool) {
	if len(b) == 0 {
		return "", false
	}
	first := int8(b[0])
	if first >= 0 {
		return string(b[1:]), len(b)-1 == int(first)
	}
	size := -112 - int(first) // bytes of a positive length; negative ones are no lengths
	if first < -120 || size < 1 || size > 4 || len(b) < 1+size {
		return "", false
	}
	n := 0
	for _, c := range b[1 : 1+size] {
		n = n<<8 | int(c)
	}
	return string(b[1+size:]), len(b)-1-size == n
}

// pathOf is the path of a URL, or of what is one already; empty where there is none.
func pathOf(url string) string {
	if _, rest, ok := strings.Cut(url, "://"); ok {
		_, p, ok := strings.Cut(rest, "/")
		if !ok {
			return ""
		}
		url = "/" + p
	}
	if !strings.HasPrefix(url, "/") {
		return ""
	}
	for strings.HasPrefix(url, "//") {
		url = url[1:]
	}
	return url
}

// readFile reads a file of at most that many bytes.
func readFile(l *link, name string, most int64) ([]byte, error) {
	f, err := l.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(b)) < min(f.Stat().Size(), most) {
		err = io.ErrUnexpectedEOF
	}
	if int64(len(b)) > most {
		return nil, connectors.Failed(&badLog, nil, fmt.Sprintf("%q has more than %d bytes", name, most), "")
	}
	return b, err
}
