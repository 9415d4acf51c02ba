// Package provider has the config providers: they put values from elsewhere (a file, a folder of files, the
// environment) in the place of variables, ${name:path:key}, in the settings of connectors and workers.
//
// What is stored and shown is the text with its variables; connectors run on what they stand for. A value that a
// provider gave is a secret: Secrets takes it out of whatever is said about the configuration it went into. Values
// are put in once: a variable inside of a value is text, and records are never looked at.
//
// Providers are bound by the folders whose files may be opened; which these are, a worker's settings say.
package provider
