package feed

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"ravenbot/internal/ops/egress"
)

// Explain says in one sentence, for people, why a feed could not be read. It masks secrets in the address.
func Explain(address string, err error) string {
	// The sentence is shown in chats and stored with the feed, so it must not hold a token of its address.
	address = egress.RedactURL(address)
	switch {
	case errors.Is(err, ErrQueued):
		return address + " was not read this time: other requests took too long."
	case errors.Is(err, egress.ErrBlocked):
		return address + " is on a private network. Feeds there can be read only when the operator allows it."
	case errors.Is(err, egress.ErrTooLarge):
		return address + " is too large to read."
	case errors.Is(err, egress.ErrTimeout):
		return address + " did not answer in time."
	case errors.Is(err, egress.ErrRedirects):
		return address + " redirects too often. Its server may redirect programs in a circle."
	case errors.Is(err, egress.ErrUserinfo):
		return address + " contains a user name or password, which the bot does not send. Remove it from the address."
	case errors.Is(err, egress.ErrURL):
		return fmt.Sprintf("%q is not an address that can be fetched; it must begin with http:// or https://.", address)
	}
	var wait *WaitError
	var failing *FailingError
	var status *StatusError
	var page *PageError
	switch {
	case errors.As(err, &wait) && wait.Cause != "":
		return fmt.Sprintf("%s is not read until %s: its host asked for that when %s was read.", address,
			wait.Until.UTC().Format("15:04 MST"), egress.RedactURL(wait.Cause))
	case errors.As(err, &wait):
		return fmt.Sprintf("%s asks to wait until %s before it is read again.", address, wait.Until.UTC().Format("15:04 MST"))
	case errors.As(err, &failing):
		const layout = "2 January 15:04 MST"
		return fmt.Sprintf("%s has failed %d times since %s. The next attempt is after %s. The last failure: %s", address,
			failing.Times, failing.Since.UTC().Format(layout), failing.TryAgain.UTC().Format(layout), failing.Last)
	case errors.As(err, &status) && status.Status == http.StatusGone:
		return address + " has been removed, according to its server."
	case errors.As(err, &status) && status.Status == http.StatusForbidden:
		return address + " answered with status 403: its server refuses programs, or asks for a sign-in."
	case errors.As(err, &status):
		return fmt.Sprintf("%s answered with status %d.", address, status.Status)
	case errors.As(err, &page) && len(page.Links) > 0:
		return address + " is a page, not a feed; it names these feeds: " + page.names()
	case errors.Is(err, ErrNoFeed):
		return address + " does not link to a feed, and there is none in the usual places."
	case errors.Is(err, ErrNotFeed):
		return address + " is not a feed."
	case strings.HasPrefix(address, "bundled:"):
		return "There is no bundled feed called " + address + "."
	}
	if errors.Is(err, errMalformed) {
		return address + " could not be read: the feed is malformed."
	}
	return address + " could not be fetched: " + cmp.Or(egress.Reason(err), "the connection failed") + "."
}
