package config

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Type is a setting's type in Connect's spelling, as clients see it.
type Type string

// Connect's types.
const (
	BooleanType  Type = "BOOLEAN"
	StringType   Type = "STRING"
	ShortType    Type = "SHORT"
	IntType      Type = "INT"
	LongType     Type = "LONG"
	DoubleType   Type = "DOUBLE"
	ListType     Type = "LIST"
	ClassType    Type = "CLASS"
	PasswordType Type = "PASSWORD"
)

// Importance is how likely a user is to need a setting.
type Importance string

// Connect's importances. The zero value counts as Medium.
const (
	High   Importance = "HIGH"
	Medium Importance = "MEDIUM"
	Low    Importance = "LOW"
)

// Width is how wide a form's field should be.
type Width string

// Connect's widths. The zero value counts as NoWidth.
const (
	NoWidth Width = "NONE"
	Short   Width = "SHORT"
	MediumW Width = "MEDIUM"
	Long    Width = "LONG"
)

// Value is what a key may hold. A Duration is a number of milliseconds in text.
type Value interface {
	bool | string | int16 | int32 | int64 | float64 | []string | Class | Password | time.Duration
}

// Class is a component's class name or alias.
type Class string

// A Key is a setting: the one place where its name is written. It is read with
// Get. Keys are plain values, declared as package variables.
type Key[T Value] struct {
	Name string
	Doc  string // one or more sentences for users

	// Default is what Get returns where a configuration has no such key. A zero
	// Default of a string, list, class or password is shown as no default (null);
	// EmptyDefault shows it as an empty one. NullDefault says the same of a number,
	// boolean or duration: no default is shown, and Get returns zero; ask Has.
	Default                   T
	EmptyDefault, NullDefault bool
	Required                  bool // no default: a configuration without the key is wrong

	Importance Importance
	Group      string // heading in forms; "" for none
	Order      int    // place in the group; 0: by position in the Def (see OrderedFrom)
	Width      Width
	Display    string   // name in forms; Name where empty
	Dependents []string // keys whose recommendations or visibility depend on this one
	As         Type     // how clients see the type, where that is not T's own (a Duration that is an INT)
	Internal   bool     // accepted, but in no listing

	// Check returns why v is wrong, as a sentence that goes behind "Invalid value v for
	// configuration k: ". It is not asked about an absent key.
	Check func(v T) error

	// Hide returns what of a value's text may be shown where a configuration is not
	// asked for: in messages and in the answers of validation. Nil: all of it. It is for
	// a text that may hold a secret in its midst; what is one as a whole is a Password.
	Hide func(text string) string

	// Recommend returns values to offer, given the rest of the configuration.
	Recommend func(Values) []any
	// Visible says whether the setting matters, given the rest. Nil: always.
	Visible func(Values) bool
}

// Field is a declared setting without its Go type, as Define takes it.
type Field interface {
	info() Info
	parse(text string) (any, *Error)
	absent() any
}

// Info is what is known of a setting, for listings and documentation.
type Info struct {
	Name, Doc, Display, Group string
	Order                     int // in the group; see Key
	Type                      Type
	Importance                Importance
	Width                     Width
	Required                  bool
	Default                   any // nil: none. Text, number, bool or list; Connect prints it with DefaultText
	Dependents                []string
	Internal                  bool
	Recommend                 func(Values) []any
	Visible                   func(Values) bool
	Hide                      func(string) string // see Key
}

// DefaultText is the default as Connect's listings print it, and whether there is one.
func (i Info) DefaultText() (string, bool) {
	if i.Default == nil {
		return "", false
	}
	return Text(i.Default), true
}

// Text is a parsed value as Connect prints it in listings.
func Text(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case []string:
		return strings.Join(v, ",")
	case time.Duration:
		return strconv.FormatInt(v.Milliseconds(), 10)
	case float64:
		return javaDouble(v)
	default:
		return fmt.Sprint(v) // a Password hides itself
	}
}

// javaDouble prints a double as Java does where listings need it: with a point.
func javaDouble(f float64) string {
	if f == math.Trunc(f) && math.Abs(f) < 1e7 {
		return strconv.FormatFloat(f, 'f', 1, 64)
	}
	return strconv.FormatFloat(f, 'g', -1, 64)
}

// Get is the setting's value in v: what the configuration says, or the default.
// v must come from a Def that holds the key; a key that was not declared is a bug,
// so Get panics.
func (k Key[T]) Get(v Values) T {
	x, ok := v.parsed[k.Name]
	if !ok {
		panic("config: key " + strconv.Quote(k.Name) + " was not declared in the Def that parsed this configuration")
	}
	t, ok := x.(T)
	if !ok {
		var zero T
		return zero // a null default, or a value that Parse found wrong
	}
	return t
}

// Has reports whether the configuration itself, not a default, gives the setting.
func (k Key[T]) Has(v Values) bool { return v.given[k.Name] }

// Errorf makes an error about this setting's value in v.
func (k Key[T]) Errorf(v Values, format string, args ...any) *Error {
	return &Error{Key: k.Name, Value: v.shown(k.Name), Reason: fmt.Sprintf(format, args...)}
}

func (k Key[T]) absent() any {
	if k.Required {
		return nil
	}
	switch any(k.Default).(type) {
	case string, Class, Password, []string:
		if isZero(any(k.Default)) && !k.EmptyDefault {
			return nil
		}
	default:
		if k.NullDefault {
			return nil
		}
	}
	return any(k.Default)
}

func isZero(v any) bool {
	switch v := v.(type) {
	case string:
		return v == ""
	case Class:
		return v == ""
	case Password:
		return v == Password{}
	case []string:
		return len(v) == 0
	}
	return false
}

func (k Key[T]) info() Info {
	i := Info{
		Name: k.Name, Doc: k.Doc, Display: k.Display, Group: k.Group, Order: k.Order, Type: k.As, Importance: k.Importance,
		Width: k.Width, Required: k.Required, Default: k.absent(), Dependents: k.Dependents, Internal: k.Internal,
		Recommend: k.Recommend, Visible: k.Visible, Hide: k.Hide,
	}
	if i.Display == "" {
		i.Display = k.Name
	}
	if i.Importance == "" {
		i.Importance = Medium
	}
	if i.Width == "" {
		i.Width = NoWidth
	}
	if i.Type == "" {
		i.Type = typeOf(any(k.Default))
	}
	return i
}

func typeOf(v any) Type {
	switch v.(type) {
	case bool:
		return BooleanType
	case int16:
		return ShortType
	case int32:
		return IntType
	case int64, time.Duration:
		return LongType
	case float64:
		return DoubleType
	case []string:
		return ListType
	case Class:
		return ClassType
	case Password:
		return PasswordType
	}
	return StringType
}

func (k Key[T]) parse(text string) (any, *Error) {
	bad := func(reason string) *Error {
		e := &Error{Key: k.Name, Value: text, Reason: reason}
		switch any(k.Default).(type) {
		case Password:
			e.Value = Hidden
		case []string: // as Java prints a list
			e.Value = "[" + strings.Join(splitList(strings.TrimSpace(text)), ", ") + "]"
		}
		if k.Hide != nil {
			e.Value = k.Hide(e.Value)
		}
		return e
	}
	trimmed := strings.TrimSpace(text)
	var out any
	var notA string
	switch any(k.Default).(type) {
	case bool:
		switch strings.ToLower(trimmed) {
		case "true":
			out = true
		case "false":
			out = false
		default:
			notA = "Expected value to be either true or false"
		}
	case string:
		out = trimmed
	case Class:
		out = Class(trimmed)
	case Password:
		out = NewPassword(trimmed)
	case []string:
		out = splitList(trimmed)
	case int16:
		if n, err := strconv.ParseInt(trimmed, 10, 16); err == nil {
			out = int16(n)
		} else {
			notA = "Not a number of type SHORT"
		}
	case int32:
		if n, err := strconv.ParseInt(trimmed, 10, 32); err == nil {
			out = int32(n)
		} else {
			notA = "Not a number of type INT"
		}
	case int64:
		if n, err := strconv.ParseInt(trimmed, 10, 64); err == nil {
			out = n
		} else {
			notA = "Not a number of type LONG"
		}
	case time.Duration:
		bits := 64
		if k.As == IntType {
			bits = 32
		}
		switch n, err := strconv.ParseInt(trimmed, 10, bits); {
		case err != nil:
			notA = "Not a number of type " + string(k.info().Type)
		case n > math.MaxInt64/int64(time.Millisecond):
			out = time.Duration(math.MaxInt64) // Java's Long.MAX_VALUE means without end
		case n < math.MinInt64/int64(time.Millisecond):
			out = time.Duration(math.MinInt64)
		default:
			out = time.Duration(n) * time.Millisecond
		}
	case float64:
		if f, err := strconv.ParseFloat(trimmed, 64); err == nil {
			out = f
		} else {
			notA = "Not a number of type DOUBLE"
		}
	}
	if notA != "" {
		return nil, bad(notA)
	}
	if k.Check != nil {
		if err := k.Check(out.(T)); err != nil {
			return nil, bad(err.Error())
		}
	}
	return out, nil
}

func splitList(text string) []string {
	if text == "" {
		return []string{}
	}
	parts := strings.Split(text, ",")
	for i, p := range parts {
		parts[i] = strings.TrimSpace(p)
	}
	return parts
}

// NonEmpty is a Check: the text may not be empty.
func NonEmpty(s string) error {
	if s == "" {
		return fmt.Errorf("String must be non-empty")
	}
	return nil
}

// OneOf makes a Check: the text is one of these, whatever its case.
func OneOf(allowed ...string) func(string) error {
	return func(s string) error {
		if slices.ContainsFunc(allowed, func(a string) bool { return strings.EqualFold(a, s) }) {
			return nil
		}
		return fmt.Errorf("Value must be one of %s", strings.Join(allowed, ", "))
	}
}

// Number is what Between and AtLeast compare.
type Number interface {
	int16 | int32 | int64 | float64 | time.Duration
}

// AtLeast makes a Check: the number is not less than low.
func AtLeast[N Number](low N) func(N) error {
	return func(n N) error {
		if n < low {
			return fmt.Errorf("Value must be at least %s", Text(low))
		}
		return nil
	}
}

// AtLeastOneOrOff is a Check: the number is a bound of at least 1, or -1, which is none.
func AtLeastOneOrOff[N int32 | int64](n N) error {
	if n != -1 && n < 1 {
		return fmt.Errorf("it must be at least 1, or -1 for no bound")
	}
	return nil
}

// Login returns what is wrong where of a user and a password only one is given.
func Login(v Values, user Key[string], pass Key[Password]) []*Error {
	switch u, p := user.Get(v) != "", pass.Get(v) != (Password{}); {
	case u && !p:
		return []*Error{pass.Errorf(v, "%s is set and this is not; set both or neither", user.Name)}
	case p && !u:
		return []*Error{user.Errorf(v, "%s is set and this is not; set both or neither", pass.Name)}
	}
	return nil
}

// Between makes a Check: the number is in [low, high].
func Between[N Number](low, high N) func(N) error {
	return func(n N) error {
		switch {
		case n < low:
			return fmt.Errorf("Value must be at least %s", Text(low))
		case n > high:
			return fmt.Errorf("Value must be no more than %s", Text(high))
		}
		return nil
	}
}
