// Package bundled holds the feeds that come with ravenbot, so that people can try a digest without a network. Each is
// a valid RSS or Atom document with dated, linked items whose ids never change.
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
