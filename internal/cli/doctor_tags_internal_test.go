package cli

import (
	"context"
	"errors"
	"testing"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/ops/config"
)

// forums takes the tag news alone, and cannot be asked about channel 3.
type forums struct{}

func (forums) CheckPost(_ context.Context, to chat.Address, tags []string) error {
	switch {
	case to.Channel == "3":
		return errors.New("no answer")
	case len(tags) != 1 || tags[0] != "news":
		return &chat.SetupError{Reason: "the forum has no such tag", Remedy: "name news"}
	}
	return nil
}

func TestDiagnoseTags_NamesTheDigestsThatDoNotFit(t *testing.T) {
	found := diagnoseTags(t.Context(), &config.Config{Digests: map[string]config.Digest{
		"bad":     {Post: []string{"discord:1/2", "slack:T1/C1"}, Tags: []string{"sport"}},
		"good":    {Post: []string{"discord:1/2"}, Tags: []string{"news"}},
		"unknown": {Post: []string{"discord:1/3"}},
	}}, forums{})
	want := finding{Name: "Digest bad", Cause: "the forum has no such tag", Lost: "its posts to discord:1/2",
		Fix: "name news"}
	if len(found) != 1 || found[0].Name != want.Name || found[0].Cause != want.Cause || found[0].Lost != want.Lost ||
		found[0].Fix != want.Fix {
		t.Errorf("found %+v, want %+v", found, want)
	}
}
