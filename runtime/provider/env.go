package provider

import (
	"context"
	"fmt"
	"os"

	"millrace/schema/config"
	"millrace/schema/javatext"
	"millrace/schema/plugin"
)

var allowlist = config.Key[string]{Name: "allowlist.pattern", Doc: "Regular expression, in Java's syntax, that matches in the names of the variables which may be read; all, where not given.", Check: func(p string) error { _, err := javatext.Compile(p); return err }}

// Env is the provider of environment variables: ${env:NAME}.
var Env = Plugin{
	Info: plugin.Info{
		Name: "env", Class: "org.apache.kafka.common.config.provider.EnvVarConfigProvider", Version: "4.3.1",
		Doc:    "Config provider: environment variables of the worker, `${env:NAME}`.",
		Config: config.Define(allowlist),
	},
	New: func(_ Context, v config.Values) (Provider, error) {
		if !allowlist.Has(v) {
			return env{}, nil
		}
		re, err := javatext.Compile(allowlist.Get(v))
		return env{re}, err
	},
}

type env struct{ allowed *javatext.Regexp }

// Get implements Provider. There are no paths. A name that may not be read is refused whether or not it is set.
func (e env) Get(_ context.Context, path string, keys []string) (Data, error) {
	d := Data{Values: map[string]string{}}
	if path != "" {
		return d, fmt.Errorf("Path is not supported for EnvVarConfigProvider, invalid value '%s'", path)
	}
	for _, k := range keys {
		if e.allowed != nil {
			if ok, err := e.allowed.Find(k); err != nil || !ok {
				return d, fmt.Errorf("environment variable %s may not be read: the provider's param.allowlist.pattern does not match it", k)
			}
		}
		if v, ok := os.LookupEnv(k); ok {
			d.Values[k] = v
		}
	}
	return d, nil
}
