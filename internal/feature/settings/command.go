package settings

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"ravenbot/internal/core/chat"
)

// encodeLayer returns a layer in its stored form, or nil for an empty layer.
func encodeLayer(l Layer) ([]byte, error) {
	if l.IsZero() {
		return nil, nil
	}
	return json.Marshal(l)
}

// decodeLayer reads a layer as it was stored.
func decodeLayer(raw []byte) (Layer, error) {
	var l Layer
	err := json.Unmarshal(raw, &l)
	return l, err
}

// usage is the last line of each list and each refusal.
const usage = "Say `/raven settings` or, as an administrator, `/raven settings channel` to see and fill them in, " +
	"`/raven settings KEY VALUE` to set one for yourself, `/raven settings channel KEY VALUE` for this channel " +
	"(administrators). Keys: `model NAME`, `language NAME`, `timezone Europe/Oslo`, `tools on|off`, `steps N`, " +
	"`prompt TEXT`; the value `default` takes one back."

// Command answers /raven settings: it shows the settings that apply here, or changes one.
func (r *Repository) Command(ctx context.Context, m chat.Message) chat.Draft {
	say := func(format string, args ...any) chat.Draft {
		return chat.Draft{Ephemeral: true, Text: fmt.Sprintf(format, args...)}
	}
	key, value := cutWord(m.Text)
	if key == "" {
		return say("%s", r.describe(m))
	}
	scope, whose := User(m.Conversation.Platform, m.Author.ID), "you"
	if key == "channel" || key == "me" {
		if key == "channel" {
			if scope, whose = Channel(m.Conversation), "this channel"; !m.Author.Admin {
				d := say("Only administrators change the settings of a channel. " +
					"Yours you can change with `/raven settings KEY VALUE`.")
				d.Failed = true
				return d
			}
		}
		if key, value = cutWord(value); key == "" {
			return say("%s", r.describe(m))
		}
	}
	// Layer leaves out values that were locked after they were set: Check would refuse every change because of them.
	if err := r.Change(ctx, scope, func(l *Layer) error { return l.setKey(key, value) }); err != nil {
		d := say("Nothing was changed: %v. %s", err, usage)
		d.Failed = true
		return d
	}
	return say("Set for %s.\n\n%s", whose, r.describe(m))
}

// cutWord returns the first word of a text, and the text after it.
func cutWord(text string) (word, rest string) {
	text = strings.TrimSpace(text)
	if i := strings.IndexFunc(text, unicode.IsSpace); i >= 0 {
		return text[:i], strings.TrimSpace(text[i:])
	}
	return text, ""
}

// setKey changes one value of a layer; "default" removes it.
func (l *Layer) setKey(key, value string) error {
	if value == "" {
		return fmt.Errorf("a key and a value are needed")
	}
	// Line breaks are part of a prompt's meaning.
	if key != fieldPrompt {
		value = strings.Join(strings.Fields(value), " ")
	}
	reset := value == unset
	switch key {
	case "model":
		l.Model = value
		if reset {
			l.Model = ""
		}
	case "language":
		l.Language = value
		if reset {
			l.Language = ""
		}
	case wordTimezone:
		l.Timezone = value
		if reset {
			l.Timezone = ""
		}
	case "prompt":
		l.Tools.SystemPrompt = &value
		if reset {
			l.Tools.SystemPrompt = nil
		}
	case "tools":
		on := value == "on"
		if l.Tools.Enabled = &on; reset {
			l.Tools.Enabled = nil
		} else if value != "on" && value != "off" {
			return fmt.Errorf("tools are %q, want on or off", value)
		}
	case "steps":
		n, err := strconv.Atoi(value)
		if l.Tools.MaxSteps = &n; reset {
			l.Tools.MaxSteps = nil
		} else if err != nil {
			return fmt.Errorf("steps are %q, want a number", value)
		}
	default:
		return fmt.Errorf("there is no key %q", key)
	}
	return nil
}

// describe lists the settings that apply to the author of a message, and where each was set.
func (r *Repository) describe(m chat.Message) string {
	layers := []struct {
		name string
		Layer
	}{
		{"set by you", r.Layer(User(m.Conversation.Platform, m.Author.ID))},
		{"set for this channel", r.Layer(Channel(m.Conversation))},
		{"set for the whole bot", r.Layer(Instance)},
	}
	rules := r.members()
	lines := []string{"**Settings that hold for you here**", ""}
	for _, one := range all {
		line := fmt.Sprintf("- `%s`: as configured", one.word)
		for _, l := range layers {
			if v := one.value(l.Layer); v != "" {
				line = fmt.Sprintf("- `%s`: %s (%s)", one.word, v, l.name)
				break
			}
		}
		if rules.isLocked(one) {
			line += ", set only by administrators"
		}
		lines = append(lines, line)
	}
	return strings.Join(append(lines, "", usage), "\n")
}
