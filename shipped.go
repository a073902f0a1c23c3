// Package ravenbot holds the two files at the root of this project that come with
// the program, so that "ravenbot init" can write them where it is installed. What
// they mean is for internal/ops/config to say.
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
