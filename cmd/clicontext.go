package cmd

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// A cliContext is a cluster that people call by name, from the configuration file
// of the command line.
type cliContext struct {
	Name            string `yaml:"-"`
	REST            string `yaml:"rest"`
	Registry        string `yaml:"registry"`
	Kafka           string `yaml:"kafka"`
	User            string `yaml:"user"`
	PasswordCommand string `yaml:"password-command"`
	CA              string `yaml:"ca"`
	Guard           string `yaml:"guard"` // "name": dangerous verbs want the context's name typed
	Color           string `yaml:"color"` // of prompts, for a user interface
}

// cliContexts is the whole file.
type cliContexts struct {
	Current  string                `yaml:"current"`
	Contexts map[string]cliContext `yaml:"contexts"`
}

// cliConfigPath is $XDG_CONFIG_HOME/millrace/config.yaml, or its usual place.
func cliConfigPath(env func(string) string) string {
	if dir := env("XDG_CONFIG_HOME"); dir != "" {
		return filepath.Join(dir, "millrace", "config.yaml")
	}
	return filepath.Join(env("HOME"), ".config", "millrace", "config.yaml")
}

// readContext finds the context of that name, or the current one. Without a file and
// a name there is none, which is no error.
func readContext(path, name string) (cliContext, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) && name == "" {
		return cliContext{}, nil
	} else if err != nil {
		return cliContext{}, err
	}
	var file cliContexts
	d := yaml.NewDecoder(strings.NewReader(string(data)))
	d.KnownFields(true)
	if err := d.Decode(&file); err != nil {
		return cliContext{}, fmt.Errorf("%s: %w", path, err)
	}
	if name == "" {
		name = file.Current
	}
	if name == "" {
		return cliContext{}, nil
	}
	c, ok := file.Contexts[name]
	if !ok {
		var names []string
		for n := range file.Contexts {
			names = append(names, n)
		}
		slices.Sort(names)
		return c, fmt.Errorf("%s has no context %q; it has: %s", path, name, strings.Join(names, ", "))
	}
	if c.Guard != "" && c.Guard != "name" {
		return c, fmt.Errorf("%s: guard of context %q is %q; the one there is: name", path, name, c.Guard)
	}
	c.Name = name
	return c, nil
}
