// Package origin describes the sources of a text. Every stored text that can return into a request to a model keeps
// its Origin: turns, summaries, posts, notes and jobs. It promises that joining origins loses no kind of source, and
// that a full list still says that there were more sources.
package origin

import (
	"fmt"
	"slices"
	"strings"
)

// Origin holds the sources of a text. The zero Origin means the bot and its operator.
type Origin struct {
	// Taint names the sources of foreign text, which no participant of a conversation wrote: pages, feeds, files,
	// results of MCP tools, words of people without access to the bot. It is for people.
	Taint []string `json:"taint,omitempty"`
	// Authors are platform/id of the people who wrote the rest. An id is empty if unknown.
	Authors []string `json:"authors,omitempty"`
}

// maxNamed is the maximum number of sources and authors in an Origin. One source is enough for caution, and a few tell
// people the origin of the text.
const maxNamed = 8

// nobody is the author without any rights who replaces all authors beyond maxNamed.
const nobody = "/"

// Foreign returns the origin of a text from outside the conversation.
func Foreign(source string) Origin { return Origin{Taint: []string{source}} }

// User returns the origin of the words of a user of a platform.
func User(platform, id string) Origin { return Origin{Authors: []string{platform + "/" + id}} }

// IsForeign reports whether the text holds words that no participant wrote.
func (o Origin) IsForeign() bool { return len(o.Taint) > 0 }

// maxDescribed is the maximum number of sources of foreign text in a description.
const maxDescribed = 3

// Sources names the sources of the foreign text for people, up to maxDescribed of them. It is empty if there are none.
func (o Origin) Sources() string {
	named := strings.Join(o.Taint[:min(len(o.Taint), maxDescribed)], ", ")
	if n := len(o.Taint) - maxDescribed; n > 0 {
		named += fmt.Sprintf(" and %d more", n)
	}
	return named
}

// With returns the origin of a text that holds both. The lists of o are not changed, because stored turns share them.
func (o Origin) With(other Origin) Origin {
	for _, source := range other.Taint {
		if len(o.Taint) < maxNamed && !slices.Contains(o.Taint, source) {
			o.Taint = append(slices.Clip(o.Taint), source)
		}
	}
	for _, who := range other.Authors {
		if !slices.Contains(o.Authors, who) && len(o.Authors) >= maxNamed {
			who = nobody
		}
		if !slices.Contains(o.Authors, who) {
			o.Authors = append(slices.Clip(o.Authors), who)
		}
	}
	return o
}
