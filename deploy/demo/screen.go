package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// screen prints for people. Colours only repeat what the words say, and only where a terminal shows them.
type screen struct {
	mu     sync.Mutex // one printer at a time
	out    io.Writer
	colour bool
	live   bool // a person watches: take the time to be read
	step   int
}

func newScreen(f *os.File, once bool) *screen {
	info, err := f.Stat()
	terminal := err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
	return &screen{out: f, colour: terminal && os.Getenv("NO_COLOR") == "", live: terminal && !once}
}

const (
	bold   = "1"
	dim    = "2"
	red    = "31"
	green  = "32"
	yellow = "33"
	cyan   = "36"
)

func (s *screen) paint(code, text string) string {
	if !s.colour {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (s *screen) print(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(s.out, format+"\n", args...)
}

// heading opens the next part of the story.
func (s *screen) heading(format string, args ...any) {
	s.step++
	s.print("\n%s", s.paint(bold, fmt.Sprintf("%d  ", s.step)+fmt.Sprintf(format, args...)))
}

// pause lets a person read.
func (s *screen) pause(d time.Duration) {
	if s.live {
		time.Sleep(d)
	}
}

// indented prints text, each line of it four columns to the right.
func (s *screen) indented(text string) {
	s.print("    %s", strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n    "))
}

// progress is a writer for what installing says: its own sentences go to the screen, the package managers' to a file.
func (s *screen) progress(log io.Writer) io.Writer { return &progress{s: s, log: log} }

type progress struct {
	s    *screen
	log  io.Writer
	rest []byte
}

func (p *progress) Write(b []byte) (int, error) {
	if _, err := p.log.Write(b); err != nil {
		return 0, err
	}
	p.rest = append(p.rest, b...)
	for {
		line, rest, whole := bytes.Cut(p.rest, []byte("\n"))
		if !whole {
			return len(b), nil
		}
		if _, said, ours := strings.Cut(string(line), ".sh: "); ours {
			p.s.print("    %s", p.s.paint(dim, said+" …"))
		}
		p.rest = rest
	}
}

// count writes a number as people do: 12,345.
func count(n int) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

func things(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return count(n) + " " + what + "s"
}

func short(d time.Duration) string {
	switch {
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}
