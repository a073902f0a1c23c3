package agent

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"net"
	"net/url"
	"syscall"
	"time"

	"ravenbot/internal/core/llm"
)

// errorText returns the sentence for the user, with a reference by which the operator finds the
// error in the log. It discloses no internals; the reasons that it repeats are those of llm.Error,
// which are for people.
func errorText(err error, ref string) string {
	tail := " (reference " + ref + ")."
	var fault *llm.Error
	if errors.Is(err, errNoModel) {
		return "No language model is switched on for this agent; the bot's operator can set a key" + tail
	}
	if !errors.As(err, &fault) {
		return "Something went wrong inside the bot; please try again" + tail
	}
	switch fault.Kind {
	case llm.RateLimited:
		return "The language model takes no more requests for now; please try again " + formatWait(fault.RetryAfter) + tail
	case llm.Blocked:
		return "The language model refuses to answer this: " + cmp.Or(fault.Reason, "it gives no reason") +
			". Please put it differently" + tail
	case llm.BadRequest:
		return "The language model did not accept the request; the bot's log has the reason" + tail
	case llm.ContextTooLong:
		return "This is too long for the language model, even without the older part of the conversation. " +
			"Send less at once, or start a new conversation" + tail
	case llm.OutputLimit:
		return "The language model gave no answer: " + fault.Reason + ". Ask for less at once" + tail
	case llm.Denied:
		return "The language model did not accept the bot's key; the bot's operator can fix that" + tail
	case llm.Exhausted:
		return "The bot's quota with the language model is used up for now" + tail
	case llm.Capped:
		return fault.Reason
	case llm.TimedOut:
		return "The language model did not answer in time; please try again " + formatWait(fault.RetryAfter) + tail
	}
	if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
		return "The bot has too many files and connections open; the bot's operator can raise the limit " +
			"(ulimit -n, LimitNOFILE)" + tail
	}
	why := "The service of the language model failed"
	switch {
	case fault.Kind == llm.BadCall:
		why = "The language model wrote a tool call that cannot be read"
	case errors.Is(err, errEmpty):
		why = "The language model gave an empty answer"
	case fault.Reason == reasonCutOff:
		why = "The answer of the language model was cut off"
	case errors.As(err, new(*url.Error)), errors.As(err, new(net.Error)):
		why = "The language model could not be reached"
	}
	return why + "; please try again " + formatWait(fault.RetryAfter) + tail
}

// minWait is the shortest wait that the bot suggests, because it has already retried for some time.
const minWait = 30 * time.Second

// formatWait returns when to try again, rounded up.
func formatWait(d time.Duration) string {
	minutes := int(math.Ceil(max(d, minWait).Minutes()))
	switch hours := (minutes + 59) / 60; {
	case minutes == 1:
		return "in about a minute"
	case minutes < 60:
		return fmt.Sprintf("in about %d minutes", minutes)
	case hours == 1:
		return "in about an hour"
	default:
		return fmt.Sprintf("in about %d hours", hours)
	}
}
