package cli

import (
	"strings"
	"testing"

	"ravenbot/internal/ops/config"
)

func TestDiagnoseKeys_NamesWhatAnswersInstead(t *testing.T) {
	found := diagnoseKeys(&config.Config{Models: map[string]config.Model{
		"default": {Provider: "gemini", KeyMissing: true, Fallback: []string{"local"}},
		"local":   {Provider: "openai"},
		"other":   {Provider: "anthropic", KeyMissing: true},
	}})
	if len(found) != 2 || !found[0].OK || !strings.Contains(found[0].Notes[0], "the model local answers") ||
		!strings.Contains(found[1].Notes[0], "the model offline answers") {
		t.Errorf("found %+v", found)
	}
}
