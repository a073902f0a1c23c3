// Package bundled holds the feeds that come with ravenbot, so that a digest can be tried without a network.
//
// It promises that each is a valid RSS or Atom document with dated, linked items whose ids never change. Reading and
// parsing them like any other feed is left to others.
package bundled

import (
	"embed"
	"io/fs"
)

//go:embed *.xml
var files embed.FS

// Feeds returns the bundled feeds: bundled:NAME in a configuration is the file NAME.xml.
func Feeds() fs.FS { return files }
