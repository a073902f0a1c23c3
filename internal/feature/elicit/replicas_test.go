package elicit_test

import (
	"encoding/json"
	"testing"
	"testing/synctest"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/feature/elicit"
)

// The press of a button, and the form that was sent, come to another replica than that whose call waits for the answer.
func TestFormOfAnotherReplica_IsShownAndChecked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asking, b := newDesk()
		other, _ := newDesk()
		ask(t.Context(), asking, elicit.Question{Server: "shop", Tool: "buy", Message: "Which?",
			Schema: json.RawMessage(schema)})
		button := b.last().Buttons[0].Value
		if _, err := other.OpenForm(t.Context(), press(anna, button)); err == nil {
			t.Error("a replica shows a form that it was not told")
		}
		told, err := asking.Told()
		if err == nil {
			err = other.Hear(map[int64]json.RawMessage{1: told})
		}
		if err != nil {
			t.Fatal(err)
		}
		want, err := asking.OpenForm(t.Context(), press(anna, button))
		if err != nil {
			t.Fatal(err)
		}
		got, err := other.OpenForm(t.Context(), press(anna, button))
		if err != nil || got.ID != want.ID || len(got.Fields) != len(want.Fields) || got.Intro != want.Intro {
			t.Errorf("shown %+v (%v), want %+v", got, err, want)
		}
		if _, err := other.OpenForm(t.Context(), press(bert, button)); err == nil {
			t.Error("somebody else sees the form")
		}
		sent := press(anna, button)
		sent.Command, sent.Values = chat.Submitted, map[string]string{"when": "tomorrow", "colour": "r"}
		if faults := other.CheckForm(t.Context(), sent); faults["when"] == "" || len(faults) != 1 {
			t.Errorf("faults %v, want that of the date", faults)
		}
		if err := other.Hear(nil); err != nil {
			t.Fatal(err)
		}
		if _, err := other.OpenForm(t.Context(), press(anna, button)); err == nil {
			t.Error("the form is shown when the question is over")
		}
	})
}
