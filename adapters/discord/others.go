package discord

import (
	"strings"
	"sync"
	"time"
)

// Limits of noticing another process with the same token.
const (
	// answerWait is how long the answer to a request may come after the event of the message that it made.
	answerWait = 15 * time.Second
	// minForeign is how many posts of another process are seen before it is reported: a single one can be
	// our own, whose request failed after Discord had taken it.
	minForeign  = 3
	reportEvery = time.Hour
)

// otherProcess notices that another process with a store of its own posts with the token of this one: both see every
// message, and each answers. Its fields are guarded by mu.
type otherProcess struct {
	mu sync.Mutex
	// seen counts posts of another process since the last report.
	seen     int
	reported time.Time
}

// noteOwn looks at a message of the bot's account. Only what a bot posts by this protocol carries a nonce. Processes that
// share the bot know one another's by the mark of their store; a process alone knows what it has posted itself.
func (d *shard) noteOwn(w wirePost) {
	nonce := strings.Trim(string(w.Nonce), `"`)
	if w.Author.ID != d.botUser().ID || nonce == "" || nonce == "null" || d.sent.has(w.ID) {
		return
	}
	if d.o.Sharing != nil {
		// Replicas of the version before, which an update has still running, post without a mark.
		if d.o.Sharing.Store != "" && len(nonce) != formerNonceLen && !strings.HasSuffix(nonce, d.mark) {
			d.noteForeign(w.ChannelID)
		}
		return
	}
	time.AfterFunc(answerWait, func() {
		if !d.sent.has(w.ID) {
			d.noteForeign(w.ChannelID)
		}
	})
}

// noteForeign counts a post of another process, and reports it when there are several.
func (d *shard) noteForeign(channel string) {
	o := &d.others
	o.mu.Lock()
	defer o.mu.Unlock()
	now := d.o.Now()
	if o.seen++; o.seen < minForeign || now.Sub(o.reported) < reportEvery {
		return
	}
	o.seen, o.reported = 0, now
	d.o.Log.Warn("discord shows posts of another process with this token", "channel", channel,
		"remedy", "stop the other bot, or let both use one PostgreSQL store")
}
