package digest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// heading returns the first line of a post: the name of the digest, the date, and how much it tells of how much.
func (e *edition) heading(d spec, now time.Time) string {
	what := fmt.Sprintf("%d of %s", len(e.cards), pluralize(max(e.countNew(), len(e.cards)), "new item"))
	switch n := len(e.cards); {
	case d.Style == Deep && n > 1:
		what = fmt.Sprintf("one story, as %d sources tell it", n)
	case d.Style == Deep:
		what = "one story"
	case d.Style == Weekly:
		what = pluralize(n, "story")
	}
	return fmt.Sprintf("**%s** · %s · %s", escape(d.title), now.In(d.zone).Format("Monday 2 January"), what)
}

// countNew returns how many items are new to the digest. What has waited is none of them, unless it is posted.
func (e *edition) countNew() (n int) {
	for _, i := range e.items {
		if !e.seen[i.id] && i.verdict != tooOld && (i.since.IsZero() || i.event != "" || i.verdict == posted) {
			n++
		}
	}
	return n
}

// leftOutLine says what of the new items is not posted, by kinds.
func (e *edition) leftOutLine() string {
	counts := map[string]int{}
	for _, st := range e.unworthy {
		counts[st.score.Kind] += len(st.members())
	}
	for _, i := range e.items {
		for _, k := range itemKinds {
			if i.verdict == "left out: "+countKind(k.key, 1) {
				counts[k.key]++
			}
		}
	}
	kinds := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), strings.Compare(a, b))
	})
	var parts []string
	rest := counts[""]
	for _, kind := range kinds {
		if kind == "" {
			continue
		}
		if len(parts) < maxLeftOutKinds {
			parts = append(parts, countKind(kind, counts[kind]))
		} else {
			rest += counts[kind]
		}
	}
	if rest > 0 {
		parts = append(parts, countKind("", rest))
	}
	if n := len(e.waiting); n > 0 {
		parts = append(parts, fmt.Sprintf("%d kept for the next time", n))
	}
	if len(parts) == 0 {
		return ""
	}
	return "Left out: " + strings.Join(parts, ", ")
}

// maxLeftOutKinds is how many kinds are named of what is left out.
const maxLeftOutKinds = 4
