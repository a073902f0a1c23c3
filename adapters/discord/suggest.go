package discord

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"ravenbot/internal/core/chat"
)

// Rules of completing what somebody types.
const (
	suggestTimeout = 2 * time.Second // of the three that Discord waits
	maxSuggestions = 25
	maxSuggestion  = 100 // characters
)

// onTyping answers with values for the option of a command that somebody is typing.
func (d *shard) onTyping(ctx context.Context, at chat.Address, w wireInteraction, arrived time.Time) {
	d.startWork(func() {
		choices := []choice{}
		for _, s := range d.suggestions(ctx, at, w) {
			// A name that had to be cut would stand for another.
			if n := len([]rune(s)); n > 0 && n <= maxSuggestion && len(choices) < maxSuggestions {
				choices = append(choices, choice{Name: s, Value: s})
			}
		}
		d.sendCallback(ctx, w, arrived, callback{Type: answerAutocomplete, Data: &callbackData{Choices: &choices}})
	})
}

// suggestions returns values for an option; none if there was no answer in time.
func (d *shard) suggestions(ctx context.Context, at chat.Address, w wireInteraction) []string {
	command, option, typed := w.typedOption()
	if d.o.Suggest == nil || option == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, suggestTimeout)
	defer cancel()
	found := make(chan []string, 1)
	d.startWork(func() {
		defer func() {
			if r := recover(); r != nil {
				d.o.Log.Error(
					"panic while completing a discord command",
					"platform",
					"discord",
					"command",
					command,
					"panic",
					fmt.Sprint(r),
					"stack",
					string(debug.Stack()),
				)
				found <- nil
			}
		}()
		found <- d.o.Suggest(ctx, at, command, option, typed)
	})
	select {
	case list := <-found:
		return list
	case <-ctx.Done():
		return nil
	}
}

// typedOption returns which option of which subcommand somebody is typing.
func (w wireInteraction) typedOption() (command, option, text string) {
	for _, sub := range w.Data.Options {
		for _, o := range sub.Options {
			if s, ok := o.Value.(string); ok && o.Focused && w.Data.Name == commandName {
				return sub.Name, o.Name, s
			}
		}
	}
	return "", "", ""
}
