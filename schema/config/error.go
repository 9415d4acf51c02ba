package config

import (
	"fmt"
	"log/slog"
)

// An Error is what is wrong with one setting. Its text is Connect's.
type Error struct {
	Key     string
	Value   string // as given; Hidden for secrets
	Reason  string // with the remedy
	Missing bool   // the key is not there at all

	// Text is the whole message where an original words its errors otherwise than
	// Connect does; empty where Connect's wording holds.
	Text string
}

func (e *Error) Error() string {
	if e.Text != "" {
		return e.Text
	}
	if e.Missing {
		return e.Reason
	}
	return fmt.Sprintf("Invalid value %s for configuration %s: %s", e.Value, e.Key, e.Reason)
}

// Hidden stands wherever a secret is not shown, as in Connect.
const Hidden = "[hidden]"

// A Password is a secret. It prints as [hidden] everywhere; Reveal is the one way
// to its text. The text stands behind a pointer, since fmt cannot call String on an
// unexported field of a struct and would print what the field holds.
type Password struct{ text *string }

// NewPassword makes a secret of text.
func NewPassword(text string) Password { return Password{&text} }

// Reveal is the secret's text, empty for the zero Password.
func (p Password) Reveal() string {
	if p.text == nil {
		return ""
	}
	return *p.text
}

// String hides the secret, so that no format verb shows it.
func (p Password) String() string { return Hidden }

// GoString hides the secret from %#v.
func (p Password) GoString() string { return Hidden }

// LogValue hides the secret from slog.
func (p Password) LogValue() slog.Value { return slog.StringValue(Hidden) }

// MarshalText hides the secret from encoders.
func (p Password) MarshalText() ([]byte, error) { return []byte(Hidden), nil }
