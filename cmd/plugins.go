package cmd

import "millrace/schema/plugin"

// Plugins are what ships in the binary.
func Plugins() []plugin.Plugin { return nil }
