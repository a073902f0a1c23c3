package chat_test

import (
	"testing"

	"ravenbot/internal/core/chat"
)

func TestAddresses(t *testing.T) {
	good := map[string]chat.Address{
		"slack:T1/C2":            {Platform: "slack", Workspace: "T1", Channel: "C2"},
		"slack:T1/C2/171.000200": {Platform: "slack", Workspace: "T1", Channel: "C2", Thread: "171.000200"},
		"discord:@me/9":          {Platform: "discord", Workspace: "@me", Channel: "9"},
		"web:/general":           {Platform: "web", Channel: "general"},
	}
	for s, want := range good {
		got, err := chat.ParseAddress(s)
		if err != nil || got != want || got.String() != s {
			t.Errorf("%q became %+v (%v), written %q", s, got, err, got.String())
		}
	}
	for _, s := range []string{"", "slack", "slack:", "slack:T1", "slack:/C1", "slack:T1/", "slack:T1/C1/",
		"slack:T1/C1/t/x", ":T/C"} {
		if a, err := chat.ParseAddress(s); err == nil {
			t.Errorf("%q was taken for %+v", s, a)
		}
	}
}

func TestCommands(t *testing.T) {
	words := []chat.CommandSpec{{Name: "ask"}, {Name: "digest"}, {Name: "help"}}
	for in, want := range map[string][2]string{"ask what is new": {"ask", "what is new"},
		"what is new": {"ask", "what is new"}, "": {"help", ""},
		"Digest run morning": {"digest", "run morning"}, "help": {"help", ""}} {
		if c, rest := chat.SplitCommand(in, words); c != want[0] || rest != want[1] {
			t.Errorf("SplitCommand(%q) = %q, %q", in, c, rest)
		}
	}
	for in, want := range map[string][2]string{"/digest list": {"digest", "list"},
		"/raven digest list": {"digest", "list"}, "/raven": {"help", ""},
		"hello": {"", "hello"}, "/etc/passwd": {"", "/etc/passwd"}, "/ravenous": {"", "/ravenous"}, "/digets list": {"digets", "list"}, "/tmp is full": {"", "/tmp is full"}} {
		if c, rest := chat.Typed(in, words); c != want[0] || rest != want[1] {
			t.Errorf("Typed(%q) = %q, %q", in, c, rest)
		}
	}
	words[1].Options = []chat.CommandOption{{Choices: []string{"list"}}}
	words = append(words, chat.CommandSpec{Name: "remind", Spoken: true})
	for in, want := range map[string][2]string{"help": {"help", ""}, "help me": {"", "help me"}, "/help": {"help", ""},
		"Digest list": {"digest", "list"}, "digest this thread": {"", "digest this thread"}, "ask": {"", "ask"},
		"remind in 1 hour call": {"remind", "in 1 hour call"}, "what is new": {"", "what is new"}} {
		if c, rest := chat.Mentioned(in, words); c != want[0] || rest != want[1] {
			t.Errorf("Mentioned(%q) = %q, %q", in, c, rest)
		}
	}
}
