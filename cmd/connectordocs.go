package cmd

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxDocument bounds a file of connectors.
const maxDocument = 64 << 20

// readDocuments reads the connectors of the paths: files, folders (their .json,
// .properties, .yaml and .yml files, by name) and "-" for standard input. A name that
// stands twice is an error.
func readDocuments(paths []string, stdin io.Reader) ([]*connectorFile, error) {
	if len(paths) == 0 {
		return nil, usage(errors.New("name a file, a folder or - with -f"))
	}
	var out []*connectorFile
	for _, path := range paths {
		files := []string{path}
		if path != "-" {
			fi, err := os.Stat(path)
			if err != nil {
				return nil, err
			}
			if fi.IsDir() {
				if files, err = documentsIn(path); err != nil {
					return nil, err
				}
			}
		}
		for _, file := range files {
			docs, err := readDocument(file, stdin)
			if err != nil {
				return nil, err
			}
			out = append(out, docs...)
		}
	}
	seen := map[string]string{}
	for _, d := range out {
		if first, twice := seen[d.name]; twice {
			return nil, fmt.Errorf("%s: a connector called %q is in %s already; names must differ", d.path, d.name, first)
		}
		seen[d.name] = d.path
	}
	slices.SortFunc(out, func(a, b *connectorFile) int { return strings.Compare(a.name, b.name) })
	return out, nil
}

func documentsIn(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		switch filepath.Ext(e.Name()) {
		case ".json", ".properties", ".yaml", ".yml":
			if !e.IsDir() {
				out = append(out, filepath.Join(dir, e.Name()))
			}
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("folder %s holds no .json, .properties, .yaml or .yml file", dir)
	}
	return out, nil
}

func readDocument(path string, stdin io.Reader) ([]*connectorFile, error) {
	in, shown := stdin, path
	if path == "-" {
		shown = "standard input"
	} else {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, maxDocument+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxDocument {
		return nil, fmt.Errorf("%s has more than %d MiB", shown, maxDocument>>20)
	}
	docs, err := parseDocuments(filepath.Ext(path), data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", shown, err)
	}
	var out []*connectorFile
	for i, doc := range docs {
		c, err := connectorOf(shown, doc)
		if err != nil && len(docs) > 1 {
			err = fmt.Errorf("connector %d: %w", i+1, err)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", shown, err)
		}
		out = append(out, c)
	}
	return out, nil
}

// parseDocuments splits a file into the JSON of its connectors.
func parseDocuments(ext string, data []byte) ([]json.RawMessage, error) {
	start := bytes.TrimSpace(data)
	switch {
	case ext == ".properties":
		flat, err := readProperties(data)
		if err != nil {
			return nil, err
		}
		doc, err := json.Marshal(flat)
		return []json.RawMessage{doc}, err
	case bytes.HasPrefix(start, []byte("[")) && ext != ".yaml" && ext != ".yml":
		var list []json.RawMessage
		err := json.Unmarshal(data, &list)
		return list, err
	case bytes.HasPrefix(start, []byte("{")) && ext != ".yaml" && ext != ".yml":
		return []json.RawMessage{start}, nil
	case ext == ".json":
		return nil, errors.New("not the JSON of a connector: want an object, or a list of them")
	}
	return yamlDocuments(data)
}

// yamlDocuments are the connectors of a YAML stream, in any of the forms that JSON has,
// and Strimzi's KafkaConnector.
func yamlDocuments(data []byte) ([]json.RawMessage, error) {
	var out []json.RawMessage
	d := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var node yaml.Node
		if err := d.Decode(&node); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("not JSON, and as YAML: %w", err)
		}
		v, err := plainYAML(&node, 0)
		if err != nil {
			return nil, err
		}
		list, ok := v.([]any)
		if !ok {
			list = []any{v}
		}
		for _, e := range list {
			if e == nil {
				continue // an empty document
			}
			m, ok := e.(map[string]any)
			if !ok {
				return nil, errors.New("a connector is a map of settings")
			}
			if m["kind"] == "KafkaConnector" {
				if m, err = strimzi(m); err != nil {
					return nil, err
				}
			}
			doc, err := json.Marshal(m)
			if err != nil {
				return nil, err
			}
			out = append(out, doc)
		}
	}
	if len(out) == 0 {
		return nil, errors.New("holds no connector")
	}
	return out, nil
}

// plainYAML is a node as JSON has it. Scalars are their text, as settings are; so 010
// and 1e3 stay what was written.
func plainYAML(n *yaml.Node, depth int) (any, error) {
	if depth > 20 {
		return nil, errors.New("nested too deeply for a connector")
	}
	switch n.Kind {
	case yaml.DocumentNode:
		return plainYAML(n.Content[0], depth+1)
	case yaml.SequenceNode:
		out := []any{}
		for _, c := range n.Content {
			v, err := plainYAML(c, depth+1)
			if err != nil {
				return nil, err
			}
			out = append(out, v)
		}
		return out, nil
	case yaml.MappingNode:
		out := map[string]any{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i].Value
			if _, twice := out[key]; twice {
				return nil, fmt.Errorf("line %d: %q stands twice", n.Content[i].Line, key)
			}
			v, err := plainYAML(n.Content[i+1], depth+1)
			if err != nil {
				return nil, err
			}
			out[key] = v
		}
		return out, nil
	case yaml.ScalarNode:
		if n.Tag == "!!null" {
			return nil, nil
		}
		return n.Value, nil
	}
	return nil, fmt.Errorf("line %d: aliases have no place in a connector", n.Line)
}

// strimzi is a KafkaConnector as Connect's JSON.
func strimzi(m map[string]any) (map[string]any, error) {
	meta, _ := m["metadata"].(map[string]any)
	spec, _ := m["spec"].(map[string]any)
	name, _ := meta["name"].(string)
	class, _ := spec["class"].(string)
	if name == "" || class == "" {
		return nil, errors.New("a KafkaConnector needs metadata.name and spec.class")
	}
	conf := map[string]any{"connector.class": class, "name": name}
	if max, ok := spec["tasksMax"].(string); ok {
		conf["tasks.max"] = max
	}
	if given, ok := spec["config"].(map[string]any); ok {
		for k, v := range given {
			conf[k] = v
		}
	}
	out := map[string]any{"name": name, "config": conf}
	if state, ok := spec["state"].(string); ok && state != "" {
		out["initial_state"] = strings.ToUpper(state)
	}
	return out, nil
}

// connectorOf reads one connector. What an answer of the API has beside it, its tasks and
// type, is passed over, so that `get -o json` prints what this reads.
func connectorOf(path string, doc []byte) (*connectorFile, error) {
	var raw map[string]json.RawMessage
	if json.Unmarshal(doc, &raw) == nil && raw["config"] != nil {
		delete(raw, "tasks")
		delete(raw, "type")
		var err error
		if doc, err = json.Marshal(raw); err != nil {
			return nil, err
		}
	}
	flat, name, initial, err := readJSON(doc)
	if err != nil {
		return nil, err
	}
	if flat["connector.class"] == "" {
		return nil, errors.New("no connector.class; a connector names its class")
	}
	return newConnectorFile(path, flat, name, initial)
}

// count is a number with its noun.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}
