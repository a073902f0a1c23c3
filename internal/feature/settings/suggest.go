package settings

import "strings"

// Suggest returns the completions of text after /raven settings. Free text has none.
func (r *Repository) Suggest(typed string) []string {
	scope, rest := "", strings.TrimLeft(typed, " ")
	if after, ok := strings.CutPrefix(rest, "channel "); ok {
		scope, rest = "channel ", after
	}
	choices := []string{fieldTools + " " + on, fieldTools + " " + off}
	models := r.models()
	if scope == "" {
		models = r.modelsFor(User("", ""))
	}
	for _, name := range models {
		choices = append(choices, fieldModel+" "+name)
	}
	for _, key := range []string{fieldModel, fieldLanguage, wordTimezone, fieldTools, fieldSteps, fieldPrompt} {
		choices = append(choices, key+" "+unset)
	}
	if scope == "" {
		choices = append(choices, "channel")
	}
	var found []string
	for _, one := range choices {
		if strings.HasPrefix(strings.ToLower(one), strings.ToLower(rest)) {
			found = append(found, scope+one)
		}
	}
	return found
}
