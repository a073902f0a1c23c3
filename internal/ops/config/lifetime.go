package config

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// Lifetime is how long something is kept, written like "90d" or "36h"; "0": without end.
type Lifetime time.Duration

const day = 24 * time.Hour

// minLifetime is the shortest: a question and its answer must not vanish while they are talked about.
const minLifetime = time.Hour

// Std returns the lifetime as the standard library's type.
func (l Lifetime) Std() time.Duration { return time.Duration(l) }

// String returns the lifetime as it is written.
func (l Lifetime) String() string {
	switch d := time.Duration(l); {
	case d == 0:
		return "0"
	case d%day == 0:
		return strconv.Itoa(int(d/day)) + "d"
	}
	return Duration(l).String()
}

// MarshalJSON marshals String.
func (l Lifetime) MarshalJSON() ([]byte, error) { return json.Marshal(l.String()) }

// parseLifetime returns false for a text that is no lifetime.
func parseLifetime(s string) (Lifetime, bool) {
	if days, ok := strings.CutSuffix(s, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 16) // 65,535 days are 179 years, and fit a time.Duration
		return Lifetime(time.Duration(n) * day), err == nil
	}
	d, err := time.ParseDuration(s)
	return Lifetime(d), err == nil && d >= 0
}

func (l *Lifetime) decode(d *decoder, n *node, _ reflect.StructTag) {
	const remedy = `write days, such as "90d", or "0" to keep it without end`
	// A bare 0 leaves nothing to misunderstand; any other number lacks its unit.
	if n.kind == '0' && n.text == "0" {
		*l = 0
		return
	}
	if n.kind != '"' {
		d.addFault(n, `expected a time such as "90d", found `+n.kindName(), remedy)
		return
	}
	s, ok := d.expand(n)
	if !ok {
		return
	}
	got, ok := parseLifetime(s)
	switch {
	case !ok:
		d.addFault(n, quote(n.text)+" is not a time", remedy)
	case got > 0 && got.Std() < minLifetime:
		d.addFault(n, fmt.Sprintf("%v is too short", got), fmt.Sprintf("write %v or more", Lifetime(minLifetime)))
	default:
		*l = got
	}
}

// RetentionFor returns how long what was said at an address is kept; 0: without end.
func (c *Config) RetentionFor(address string) time.Duration {
	if ch, ok := c.ChannelRule(address); ok && ch.Retention != nil {
		return ch.Retention.Std()
	}
	return c.Retention.Conversations.Std()
}

// LimitsConversations reports whether what was said anywhere is kept for a limited time.
func (c *Config) LimitsConversations() bool {
	limited := c.Retention.Conversations > 0
	for _, ch := range c.Channels {
		limited = limited || ch.Retention != nil && *ch.Retention > 0
	}
	return limited
}
