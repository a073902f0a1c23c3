package memory_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"ravenbot/internal/core/chat"
)

func (r *room) recall(where chat.Address, who chat.User, question string) string {
	r.t.Helper()
	text, _ := r.pack.Recall(r.t.Context(), chat.Message{Conversation: where, Author: who}, question)
	if len(text) > 1024 || strings.Count(text, "- about ") > 8 {
		r.t.Errorf("%d bytes are recalled:\n%s", len(text), text)
	}
	return text
}

func TestRecall_FewNotes_AllAreTold(t *testing.T) {
	r := newRoom(t)
	if text := r.recall(general, anna, "hello"); text != "" {
		t.Errorf("of nothing %q is recalled", text)
	}
	r.save(general, anna, "me", "prefers metric units")
	r.save(general, berit, "me", "prefers miles")
	r.save(general, berit, "channel", "deploys on Fridays")
	for _, c := range []struct {
		where        chat.Address
		who          chat.User
		want, refuse []string
	}{
		{thread, anna, []string{"- about whoever asks (number 1, 2026-03-04): prefers metric units",
			"- about this channel, from berit (number 1, 2026-03-04): deploys on Fridays"}, []string{"miles"}},
		{random, anna, []string{"metric"}, []string{"miles", "Fridays"}},
		{general, several, []string{"Fridays"}, []string{"miles", "metric"}},
	} {
		text := r.recall(c.where, c.who, "how far is it to Bergen?")
		for _, want := range c.want {
			if !strings.Contains(text, want) {
				t.Errorf("for %s in %s\n%s\nis recalled, want %q", c.who.Name, c.where, text, want)
			}
		}
		for _, no := range c.refuse {
			if strings.Contains(text, no) {
				t.Errorf("for %s in %s\n%s\nis recalled, want no %q", c.who.Name, c.where, text, no)
			}
		}
	}
}

// TestRecall_ManyNotes_OnlyWhatFitsAndPreferences saves 200 notes.
func TestRecall_ManyNotes_OnlyWhatFitsAndPreferences(t *testing.T) {
	r := newRoom(t)
	data, err := os.ReadFile("testdata/notes.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if !strings.HasPrefix(line, "#") {
			r.save(general, anna, "me", line)
		}
	}
	preferences := r.recall(general, anna, "ok thanks, see you")
	if n := strings.Count(preferences, "- about "); n > 3 {
		t.Errorf("for a question without a subject %d notes are recalled:\n%s", n, preferences)
	}
	for question, want := range map[string]string{
		"can you book my flight to GopherCon?":                  "aisle seat",
		"who is my boss?":                                       "Ingrid Solberg",
		"what should I cook tonight, something with nuts?":      "allergic to hazelnuts",
		"When does the contract with our biggest customer end?": "May",
	} {
		if text := r.recall(general, anna, question); !strings.Contains(text, want) {
			t.Errorf("for %q\n%s\nis recalled, want %q", question, text, want)
		}
	}
}

func TestRecall_LongNotes_StaysSmall(t *testing.T) {
	r := newRoom(t)
	for n := range 5 {
		r.save(general, anna, "me", fmt.Sprint(n, " prefers ", strings.Repeat("æøå ", 120)))
		r.save(general, anna, "channel", fmt.Sprint(n, " always ", strings.Repeat("æøå ", 120)))
	}
	if text := r.recall(general, anna, "æøå"); !strings.Contains(text, "prefers") {
		t.Errorf("%q is recalled", text)
	}
}
