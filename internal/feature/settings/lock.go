package settings

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// MemberRules are the rules for people's own settings. Layers of channels and of the bot, which administrators set,
// have no such limits.
type MemberRules struct {
	Locked []string // names of settings, such as tools.maxSteps
	Models []string // names of models that may be chosen; nil: all
}

// setting is one value of a layer.
type setting struct {
	name  string // as in the configuration and the API
	word  string // as in commands and forms
	value func(Layer) string
	clear func(*Layer)
}

// all are the values of a layer, in the order in which they are listed.
var all = []setting{
	{"model", fieldModel, func(l Layer) string { return l.Model }, func(l *Layer) { l.Model = "" }},
	{"language", fieldLanguage, func(l Layer) string { return l.Language }, func(l *Layer) { l.Language = "" }},
	{"timezone", wordTimezone, func(l Layer) string { return l.Timezone }, func(l *Layer) { l.Timezone = "" }},
	{"tools.enabled", fieldTools, func(l Layer) string { return onOrOff(l.Tools.Enabled) },
		func(l *Layer) { l.Tools.Enabled = nil }},
	{"tools.maxSteps", fieldSteps, func(l Layer) string {
		if l.Tools.MaxSteps == nil {
			return ""
		}
		return strconv.Itoa(*l.Tools.MaxSteps)
	}, func(l *Layer) { l.Tools.MaxSteps = nil }},
	{"tools.systemPrompt", fieldPrompt, func(l Layer) string {
		if l.Tools.SystemPrompt == nil {
			return ""
		}
		return strconv.Quote(*l.Tools.SystemPrompt)
	}, func(l *Layer) { l.Tools.SystemPrompt = nil }},
}

// isLocked reports whether members must not set a value.
func (m MemberRules) isLocked(s setting) bool { return slices.Contains(m.Locked, s.name) }

// opensModel reports whether members may choose a model; no model, which takes a choice back, always.
func (m MemberRules) opensModel(name string) bool {
	return name == "" || m.Models == nil || slices.Contains(m.Models, name)
}

// limit returns what of a member's layer counts. A value that was set before it was locked does not.
func (m MemberRules) limit(l Layer) Layer {
	for _, s := range all {
		if m.isLocked(s) {
			s.clear(&l)
		}
	}
	if !m.opensModel(l.Model) {
		l.Model = ""
	}
	return l
}

// check returns an error, in words for the member, for a layer that sets a locked value.
func (m MemberRules) check(l Layer) error {
	for _, s := range all {
		if m.isLocked(s) && s.value(l) != "" {
			return fmt.Errorf("%s is locked: administrators set it for a channel or the whole bot", s.name)
		}
	}
	if !m.opensModel(l.Model) {
		return fmt.Errorf("you cannot choose the model %q yourself; open to you: %s", l.Model, strings.Join(m.Models, ", "))
	}
	return nil
}

// isUser reports whether a scope is a user's scope.
func (s Scope) isUser() bool { return strings.HasPrefix(string(s), "user/") }

// modelsFor returns the names of the models that may be set in a scope.
func (r *Repository) modelsFor(s Scope) []string {
	names := r.models()
	if s.isUser() {
		rules := r.members()
		names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !rules.opensModel(name) })
	}
	return names
}
