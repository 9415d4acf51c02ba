package provider

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// ParseProperties reads Java's properties, in UTF-8, as java.util.Properties.load does. Variables in values stay
// as they are.
func ParseProperties(data []byte) (map[string]string, error) {
	if !utf8.Valid(data) {
		return nil, errors.New("it is not UTF-8")
	}
	out := map[string]string{}
	text := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(strings.TrimPrefix(string(data), "\uFEFF"))
	for n := 1; text != ""; {
		at := n
		var line string
		line, text, _ = strings.Cut(text, "\n")
		n++
		line = strings.TrimLeft(line, " \t\f")
		if line == "" || line[0] == '#' || line[0] == '!' {
			continue
		}
		var logical strings.Builder
		for continues(line) {
			logical.WriteString(line[:len(line)-1])
			line, text, _ = strings.Cut(text, "\n")
			n++
			line = strings.TrimLeft(line, " \t\f")
		}
		logical.WriteString(line)
		key, value := split(logical.String())
		k, err := unescape(key)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", at, err)
		}
		v, err := unescape(value)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", at, err)
		}
		out[k] = v
	}
	return out, nil
}

// continues reports whether a line goes on with the next: it ends in a backslash that no other escapes.
func continues(line string) bool {
	n := len(line) - len(strings.TrimRight(line, `\`))
	return n%2 == 1
}

// split takes a line apart at the first =, : or white space that nothing escapes.
func split(line string) (key, value string) {
	end := len(line)
	for i := 0; i < len(line); i++ {
		if line[i] == '\\' {
			i++
			continue
		}
		if strings.IndexByte("=: \t\f", line[i]) >= 0 {
			end = i
			break
		}
	}
	value = strings.TrimLeft(line[end:], " \t\f")
	if value != "" && (value[0] == '=' || value[0] == ':') {
		value = strings.TrimLeft(value[1:], " \t\f")
	}
	return line[:end], value
}

func unescape(s string) (string, error) {
	if strings.IndexByte(s, '\\') < 0 {
		return s, nil
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			b.WriteByte(s[i])
			continue
		}
		if i++; i == len(s) {
			break
		}
		switch s[i] {
		case 't':
			b.WriteByte('\t')
		case 'n':
			b.WriteByte('\n')
		case 'r':
			b.WriteByte('\r')
		case 'f':
			b.WriteByte('\f')
		case 'u':
			r, err := hex4(s[i+1:])
			if err != nil {
				return "", err
			}
			i += 4
			if utf16.IsSurrogate(r) && strings.HasPrefix(s[i+1:], `\u`) {
				if low, err := hex4(s[i+3:]); err == nil && utf16.DecodeRune(r, low) != utf8.RuneError {
					r = utf16.DecodeRune(r, low)
					i += 6
				}
			}
			b.WriteRune(r)
		default:
			b.WriteByte(s[i])
		}
	}
	return b.String(), nil
}

func hex4(s string) (rune, error) {
	if len(s) >= 4 {
		if n, err := strconv.ParseUint(s[:4], 16, 16); err == nil {
			return rune(n), nil
		}
	}
	return 0, errors.New(`a \u without four hexadecimal digits`)
}
