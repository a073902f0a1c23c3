// Package bundled holds the feeds that come with ravenbot, so that a digest can be tried without a network.
//
// It promises that each is a valid RSS or Atom document with dated, linked items whose ids never change. Reading and
// parsing them like any other feed is left to others.
package bundled

import (
	"embed"
	"io/fs"
	"strings"
)

//go:embed *.xml
var files embed.FS

// Feeds returns the bundled feeds: bundled:NAME in a configuration is the file NAME.xml.
func Feeds() fs.FS { return files }

// Names returns the names of the bundled feeds, in order.
func Names() []string {
	found, _ := fs.Glob(files, "*.xml") // fails for a malformed pattern alone
	for i, name := range found {
		found[i] = strings.TrimSuffix(name, ".xml")
	}
	return found
}
