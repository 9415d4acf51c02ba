// Package config is how a component declares its settings: once, as typed keys.
//
// A [Key] holds a setting's name, type, default, rule and documentation. [Define]
// makes a [Def] of keys; [Def.Parse] turns a client's text into [Values], which a
// key reads with its own type and without its name being spelled again. From the
// same declaration come Connect's validate answers, warnings about unknown keys,
// the documentation and the forms.
package config
