// Package ravenbot embeds the two files at the root of this project that "ravenbot init" writes at an installation.
package ravenbot

import _ "embed"

// Config is the config.json that ravenbot ships, comments included.
//
//go:embed config.json
var Config []byte

// Variables is the .env.example that ravenbot ships: every variable of Config, empty.
//
//go:embed .env.example
var Variables []byte
