package s3

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A nameTemplate is a name of files in the manner of Aiven's sinks: {{topic}}-{{partition}}-{{start_offset:padding=true}}.
type nameTemplate []namePart

// A namePart is a text, or a variable with its parameter.
type namePart struct{ text, variable, param string }

// variables are the variables of templates, with the parameter that each takes.
var variables = map[string]string{"topic": "", "partition": "padding", "start_offset": "padding", "timestamp": "unit"}

// units are those of timestamp.
var units = map[string]string{"yyyy": "2006", "MM": "01", "dd": "02", "HH": "15"}

// parseTemplate reads a template. An error says what is wrong with it.
func parseTemplate(text string) (nameTemplate, error) {
	var out nameTemplate
	for rest := text; rest != ""; {
		before, after, found := strings.Cut(rest, "{{")
		if before != "" {
			out = append(out, namePart{text: before})
		}
		if !found {
			break
		}
		inside, behind, closed := strings.Cut(after, "}}")
		if !closed {
			return nil, fmt.Errorf("%q has no }} behind it", "{{"+after)
		}
		part, err := parseVariable(inside)
		if err != nil {
			return nil, err
		}
		out = append(out, part)
		rest = behind
	}
	return out, nil
}

func parseVariable(text string) (namePart, error) {
	name, param, has := strings.Cut(strings.TrimSpace(text), ":")
	name, param = strings.TrimSpace(name), strings.TrimSpace(param)
	takes, known := variables[name]
	switch {
	case name == "key":
		return namePart{}, fmt.Errorf("one file for each key is not supported here: name files by topic, partition and start_offset, or use Confluent's sink with FieldPartitioner")
	case !known:
		return namePart{}, fmt.Errorf("there is no variable %q; there are topic, partition, start_offset and timestamp", name)
	case !has:
		if name == "timestamp" {
			return namePart{}, fmt.Errorf("timestamp needs its unit: {{timestamp:unit=yyyy}}, MM, dd or HH")
		}
		return namePart{variable: name}, nil
	}
	key, value, _ := strings.Cut(param, "=")
	key, value = strings.TrimSpace(key), strings.TrimSpace(value)
	_, unit := units[value]
	if takes == "" || key != takes || takes == "padding" && value != "true" && value != "false" || takes == "unit" && !unit {
		return namePart{}, fmt.Errorf("%q is no parameter of %s; there are padding=true of partition and start_offset, and unit=yyyy, MM, dd or HH of timestamp", param, name)
	}
	return namePart{variable: name, param: value}, nil
}

// whole reports whether names tell all files apart.
func (t nameTemplate) whole() bool {
	has := map[string]bool{}
	for _, p := range t {
		has[p.variable] = true
	}
	return has["topic"] && has["partition"] && has["start_offset"]
}

// name is the name of a file; at is its time, in the zone of names.
func (t nameTemplate) name(topic string, partition int32, first int64, at time.Time) string {
	var b strings.Builder
	for _, p := range t {
		switch p.variable {
		case "":
			b.WriteString(p.text)
		case "topic":
			b.WriteString(topic)
		case "partition":
			b.WriteString(padded(int64(partition), 10, p.param))
		case "start_offset":
			b.WriteString(padded(first, 20, p.param))
		case "timestamp":
			b.WriteString(at.Format(units[p.param]))
		}
	}
	return b.String()
}

func padded(n int64, width int, padding string) string {
	if padding == "true" {
		return fmt.Sprintf("%0*d", width, n)
	}
	return strconv.FormatInt(n, 10)
}
