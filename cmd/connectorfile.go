package cmd

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"millrace/runtime"
	"millrace/runtime/provider"
)

// A connectorFile is a connector's configuration as a file on the command line
// holds it.
type connectorFile struct {
	path    string
	name    string
	config  map[string]string
	initial runtime.TargetState // "" where the file says nothing
}

// An argument of standalone is a file: a worker's properties, or a connector. It is
// a connector when it names its class, whatever its ending.
type argument struct {
	worker    map[string]string
	connector *connectorFile
}

// readArgument reads a file of the command line: Java's properties, or JSON as
// Connect takes it: {"name", "config", "initial_state"} or a flat object.
func readArgument(path string) (argument, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return argument{}, err
	}
	var flat map[string]string
	var name, initial string
	if strings.HasSuffix(path, ".json") || bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
		flat, name, initial, err = readJSON(data)
	} else {
		flat, err = readProperties(data)
	}
	if err != nil {
		return argument{}, fmt.Errorf("%s: %w", path, err)
	}
	if _, isConnector := flat["connector.class"]; !isConnector {
		if strings.HasSuffix(path, ".json") {
			return argument{}, fmt.Errorf("%s: no connector.class; a connector's file names its class", path)
		}
		return argument{worker: flat}, nil
	}
	c, err := newConnectorFile(path, flat, name, initial)
	if err != nil {
		return argument{}, fmt.Errorf("%s: %w", path, err)
	}
	return argument{connector: c}, nil
}

// newConnectorFile is a connector as a file has it: with a name beside the
// configuration, in it, or both alike.
func newConnectorFile(path string, flat map[string]string, name, initial string) (*connectorFile, error) {
	c := &connectorFile{path: path, name: flat["name"], config: flat}
	if name != "" {
		if c.name != "" && c.name != name {
			return nil, fmt.Errorf("the name is %q outside and %q inside the config; give it once", name, c.name)
		}
		c.name, flat["name"] = name, name
	}
	if c.name == "" {
		return nil, errors.New("the connector has no name; add name=…")
	}
	if initial != "" {
		var err error
		if c.initial, err = runtime.InitialState(initial); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func readProperties(data []byte) (map[string]string, error) {
	out, err := provider.ParseProperties(data)
	for k, v := range out {
		out[k] = strings.TrimSpace(v)
	}
	return out, err
}

func readJSON(data []byte) (flat map[string]string, name, initial string, err error) {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil {
		return nil, "", "", fmt.Errorf("not the JSON of a connector: %w", err)
	}
	config := data
	if inner, wrapped := raw["config"]; wrapped && len(inner) > 0 && inner[0] == '{' {
		for k, v := range raw {
			var err error
			switch k {
			case "config":
				config = v
			case "name":
				err = json.Unmarshal(v, &name)
			case "initial_state":
				err = json.Unmarshal(v, &initial)
			default:
				err = fmt.Errorf("unknown field %q; there are name, config and initial_state", k)
			}
			if err != nil {
				return nil, "", "", err
			}
		}
	}
	var c runtime.FlatConfig
	if err := json.Unmarshal(config, &c); err != nil {
		return nil, "", "", err
	}
	if len(c.Nulls) > 0 {
		return nil, "", "", fmt.Errorf("setting %s: null is no value", c.Nulls[0])
	}
	return c.Values, name, initial, nil
}
