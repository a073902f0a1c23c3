package discord

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"ravenbot/internal/core/chat"
)

// connectionEnd is how a connection ended. cause is for the log and Health, fatal ends the shard, and with neither
// resume nor fatal the next connection begins a new session.
type connectionEnd struct {
	cause   string
	fatal   error
	resume  bool // the session is still good
	invalid bool // Discord called it invalid
	wasLive bool // READY or RESUMED had come
}

// pause returns how long to wait before the next attempt, of which so many failed in a row. It is random, so that many
// shards do not connect at once. After an invalid session Discord asks for one to five seconds.
func (e connectionEnd) pause(failures int) time.Duration {
	switch {
	case e.invalid:
		return time.Second + rand.N(4*time.Second)
	case failures == 0:
		return rand.N(500 * time.Millisecond)
	}
	longest := min(firstPause<<min(failures-1, 10), maxPause)
	return longest/2 + rand.N(longest/2)
}

// Close codes that tell more than "try again", by Discord's gateway reference.
const (
	// The token is wrong.
	codeToken   = 4004
	codeInvalid = 4006 // no longer in the reference, but sent
	// The sequence to resume at, or the session, is no longer known.
	codeSequence = 4007
	codeTimedOut = 4009
	// The server cannot be divided in this way, or has to be divided further.
	codeShard      = 4010
	codeSharding   = 4011
	codeVersion    = 4012
	codeIntents    = 4013
	codeDisallowed = 4014
)

// Words of the remedies.
const (
	portal        = "https://discord.com/developers/applications"
	contentIntent = "Message Content Intent"
	intentsPage   = portal + " → your application → Bot → Privileged Gateway Intents"
	intentRemedy  = "switch on " + contentIntent + " at " + intentsPage +
		`, or take "respondTo": "all" out of the Discord channels in config.json`
)

// verdict decides from the status of a connection that ended what to do next.
func (d *shard) verdict(s *session, st status, cause string) connectionEnd {
	code := st.closeCode()
	if code != 0 {
		cause = fmt.Sprintf("%s (close code %d)", cause, code)
	}
	end := connectionEnd{cause: cause, fatal: d.fatalError(code), invalid: st.invalid, resume: s.canResume()}
	if st.invalid && !st.resumable || code == codeSequence || code == codeTimedOut || code == codeInvalid {
		end.resume = false
	}
	return end
}

// fatalError returns the error behind a close code that would come again; nil for other codes.
func (d *Discord) fatalError(code int) error {
	switch code {
	case codeToken:
		return tokenError(errors.New("close code 4004"))
	case codeIntents, codeDisallowed:
		return d.intentsError(code)
	case codeShard, codeSharding:
		return errReplan
	case codeVersion:
		return &chat.SetupError{
			Reason: "Discord refused the version of its protocol (close code 4012)",
			Remedy: "update ravenbot",
		}
	}
	return nil
}

// tokenError returns the error that only a new token ends.
func tokenError(err error) *chat.SetupError {
	return &chat.SetupError{Reason: "Discord refused the bot token",
		Remedy: "reset the token at " + portal + " → your application → Bot → Reset Token, and set DISCORD_TOKEN", Err: err}
}

// intentsError returns the error that only other intents end, with the page on which they are switched on.
func (d *Discord) intentsError(code int) error {
	if !d.o.MessageContent {
		return &chat.SetupError{Reason: fmt.Sprintf("Discord refused the intents asked for (close code %d)", code),
			Remedy: "see " + intentsPage + "; none of those there is asked for"}
	}
	return &chat.SetupError{Reason: fmt.Sprintf("Discord refused the %s (close code %d)", contentIntent, code),
		Remedy: intentRemedy}
}
