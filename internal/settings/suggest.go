package settings

import "strings"

// Suggest returns the completions of what somebody types after /raven settings.
func (r *Repository) Suggest(typed string) []string {
	scope, rest := "", strings.TrimLeft(typed, " ")
	if after, ok := strings.CutPrefix(rest, "channel "); ok {
		scope, rest = "channel ", after
	}
	all := []string{fieldTools + " " + on, fieldTools + " " + off}
	for _, name := range r.models() {
		all = append(all, fieldModel+" "+name)
	}
	for _, key := range []string{fieldModel, fieldLanguage, fieldTools, fieldSteps, fieldPrompt} {
		all = append(all, key+" "+unset)
	}
	if scope == "" {
		all = append(all, "channel")
	}
	var found []string
	for _, one := range all {
		if strings.HasPrefix(strings.ToLower(one), strings.ToLower(rest)) {
			found = append(found, scope+one)
		}
	}
	return found
}
