package provider

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"millrace/connectors"
	"millrace/schema/config"
)

// Secrets takes values out of texts. A nil Secrets takes nothing. It is immutable.
type Secrets struct{ needles []needle }

// needle is a text that is hidden: everywhere, or, where it is so short that it is part of many others, as a
// word of its own.
type needle struct {
	text  string
	whole bool
}

// partOf are the lengths from which a value is hidden inside of words, and from which the parts of a list count.
const (
	insideWords = 6
	partLength  = 4
)

// NewSecrets hides values: as they are, without the space around them, in the forms in which messages and URLs
// quote them, and what stands between their commas, quotes and line breaks.
func NewSecrets(values ...string) *Secrets {
	seen := map[string]bool{}
	for _, v := range values {
		forms := []string{v, strings.TrimSpace(v)}
		for _, part := range strings.FieldsFunc(v, func(r rune) bool { return strings.ContainsRune(",;\"'\r\n", r) }) {
			if part = strings.TrimSpace(part); len(part) >= partLength {
				forms = append(forms, part)
			}
		}
		for _, f := range forms {
			for _, form := range []string{f, inside(strconv.Quote(f)), jsonText(f), url.QueryEscape(f), strings.ReplaceAll(url.QueryEscape(f), "+", "%20"), url.PathEscape(f), url.UserPassword("", f).String()[1:]} {
				if form != "" {
					seen[form] = true
				}
			}
		}
	}
	if len(seen) == 0 {
		return nil
	}
	s := &Secrets{}
	for text := range seen {
		s.needles = append(s.needles, needle{text, len(text) < insideWords})
	}
	slices.SortFunc(s.needles, func(a, b needle) int { return len(b.text) - len(a.text) })
	return s
}

// And hides the values of both.
func (s *Secrets) And(o *Secrets) *Secrets {
	switch {
	case s == nil:
		return o
	case o == nil:
		return s
	}
	both := slices.Concat(s.needles, o.needles)
	slices.SortStableFunc(both, func(a, b needle) int { return len(b.text) - len(a.text) })
	return &Secrets{slices.Compact(both)}
}

func inside(quoted string) string { return quoted[1 : len(quoted)-1] }

func jsonText(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		return ""
	}
	return inside(string(b))
}

// Text is s without the values.
func (s *Secrets) Text(text string) string {
	if s == nil {
		return text
	}
	for _, n := range s.needles {
		if !n.whole {
			text = strings.ReplaceAll(text, n.text, config.Hidden)
			continue
		}
		text = replaceWords(text, n.text)
	}
	return text
}

// replaceWords hides a short text where it stands by itself.
func replaceWords(text, word string) string {
	var b strings.Builder
	for {
		i := strings.Index(text, word)
		if i < 0 {
			b.WriteString(text)
			return b.String()
		}
		before, _ := utf8.DecodeLastRuneInString(text[:i])
		after, _ := utf8.DecodeRuneInString(text[i+len(word):])
		first, _ := utf8.DecodeRuneInString(word)
		last, _ := utf8.DecodeLastRuneInString(word)
		if isWord(before) && isWord(first) || isWord(after) && isWord(last) {
			b.WriteString(text[:i+len(word)])
		} else {
			b.WriteString(text[:i])
			b.WriteString(config.Hidden)
		}
		text = text[i+len(word):]
	}
}

func isWord(r rune) bool {
	return r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_')
}

// Error is err with the values taken out of its text and of its declared failure. What else is asked of it (whether
// a retry helps, which sentinel it is) is as before.
func (s *Secrets) Error(err error) error {
	if s == nil || err == nil {
		return err
	}
	text := s.Text(err.Error())
	if text == err.Error() {
		return err
	}
	return &hiddenError{text, err, s}
}

// hiddenError is an error whose text is clean.
type hiddenError struct {
	text string
	err  error
	s    *Secrets
}

func (e *hiddenError) Error() string { return e.text }
func (e *hiddenError) Unwrap() error { return e.err }

// As gives clean copies of what carries text of its own.
func (e *hiddenError) As(target any) bool {
	switch t := target.(type) {
	case **connectors.Failure:
		f := connectors.FailureOf(e.err)
		if f == nil {
			return false
		}
		clean := *f
		clean.Cause, clean.Remedy, clean.Err = e.s.Text(f.Cause), e.s.Text(f.Remedy), e.s.Error(f.Err)
		*t = &clean
		return true
	}
	return false
}

// ConfigErrors takes the values out of errors about settings.
func (s *Secrets) ConfigErrors(errs []*config.Error) []*config.Error {
	if s == nil {
		return errs
	}
	out := make([]*config.Error, len(errs))
	for i, e := range errs {
		clean := *e
		clean.Value, clean.Reason, clean.Text = s.Text(e.Value), s.Text(e.Reason), s.Text(e.Text)
		out[i] = &clean
	}
	return out
}

// Logger is lg with the values taken out of all that is logged.
func (s *Secrets) Logger(lg *slog.Logger) *slog.Logger {
	if s == nil || lg == nil {
		return lg
	}
	return slog.New(&hidingHandler{lg.Handler(), s})
}

// hidingHandler takes values out of records before another handler sees them.
type hidingHandler struct {
	next slog.Handler
	s    *Secrets
}

func (h *hidingHandler) Enabled(ctx context.Context, l slog.Level) bool {
	return h.next.Enabled(ctx, l)
}

func (h *hidingHandler) Handle(ctx context.Context, r slog.Record) error {
	clean := slog.NewRecord(r.Time, r.Level, h.s.Text(r.Message), r.PC)
	r.Attrs(func(a slog.Attr) bool {
		clean.AddAttrs(h.attr(a))
		return true
	})
	return h.next.Handle(ctx, clean)
}

func (h *hidingHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	clean := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		clean[i] = h.attr(a)
	}
	return &hidingHandler{h.next.WithAttrs(clean), h.s}
}

func (h *hidingHandler) WithGroup(name string) slog.Handler {
	return &hidingHandler{h.next.WithGroup(name), h.s}
}

func (h *hidingHandler) attr(a slog.Attr) slog.Attr {
	v := a.Value.Resolve()
	switch v.Kind() {
	case slog.KindGroup:
		group := v.Group()
		clean := make([]slog.Attr, len(group))
		for i, g := range group {
			clean[i] = h.attr(g)
		}
		return slog.Attr{Key: a.Key, Value: slog.GroupValue(clean...)}
	case slog.KindString, slog.KindAny:
		text := fmt.Sprintf("%+v", v.Any())
		if clean := h.s.Text(text); clean != text {
			return slog.String(a.Key, clean)
		}
	}
	return a
}
