package summary

import (
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestSentences(t *testing.T) {
	for _, tc := range []struct {
		name, text string
		want       []string
	}{
		{"plain", "It rained. Then it stopped! Did it?", []string{"It rained.", "Then it stopped!", "Did it?"}},
		{"titles", "Mr. Smith met Dr. Jones. They talked.", []string{"Mr. Smith met Dr. Jones.", "They talked."}},
		{"initials", "George W. Bush spoke. J. K. Rowling listened.", []string{"George W. Bush spoke.", "J. K. Rowling listened."}},
		{"months and numbers", "On Sept. 11 he left. See No. 5 of it.", []string{"On Sept. 11 he left.", "See No. 5 of it."}},
		{"abbreviation in the middle", "The U.S. Senate voted. It passed.", []string{"The U.S. Senate voted.", "It passed."}},
		{"abbreviation at the end", "He lives in the U.S. The rest moved.", []string{"He lives in the U.S.", "The rest moved."}},
		{"decimal", "It cost 3.14 dollars. Cheap.", []string{"It cost 3.14 dollars.", "Cheap."}},
		{"quotes", "“Stop.” She left. (He stayed.) End.", []string{"“Stop.”", "She left.", "(He stayed.)", "End."}},
		{"paragraphs", "A heading\n\nA text without stop", []string{"A heading", "A text without stop"}},
		{"wrapped lines", "A line that was wrapped by somebody at sixty columns or\nthereabouts. Next.",
			[]string{"A line that was wrapped by somebody at sixty columns or thereabouts.", "Next."}},
		{"short lines", "First item\nSecond item", []string{"First item", "Second item"}},
		{"Japanese", "今日は晴れです。明日は雨です。", []string{"今日は晴れです。", "明日は雨です。"}},
		{"Hindi", "यह पहला है। यह दूसरा है।", []string{"यह पहला है।", "यह दूसरा है।"}},
		{"stray punctuation", "Wait. ... What?", []string{"Wait. ...", "What?"}},
		{"nothing", " \n\t ", nil},
		{"an address", "See https://www.youtube.com/watch?v=abc. It is new.", []string{"See https://www.youtube.com/watch?v=abc.", "It is new."}},
		{"an address with a stop and a capital", "Read https://example.org/A.B?Next=1!x today. Done.", []string{"Read https://example.org/A.B?Next=1!x today.", "Done."}},
		{"an address that ends a question", "Have you seen www.example.org/a? I have.", []string{"Have you seen www.example.org/a?", "I have."}},
		{"a list of long entries", "- The first entry of the list is longer than fifty characters are\n- The second one " +
			"is as long as the first of the list",
			[]string{"- The first entry of the list is longer than fifty characters are",
				"- The second one is as long as the first of the list"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Sentences(tc.text)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

const report = `The city council voted on Tuesday to close the old harbour bridge for two years of repairs.
Traffic across the harbour will be led over the northern ring road from the first of March.

It was late. The council voted on Tuesday to close the old harbour bridge for repairs of two years.

Ferries will run every ten minutes between the two sides of the harbour, the council said, free of charge for pedestrians.
A baker near the square sold more rolls than usual during the long meeting that evening.
The repairs of the bridge will cost forty million and are paid half by the city and half by the state.`

func TestSummarize(t *testing.T) {
	got := Summarize("Old harbour bridge to close for two years", report, 3)
	want := []string{
		"The city council voted on Tuesday to close the old harbour bridge for two years of repairs.",
		"Traffic across the harbour will be led over the northern ring road from the first of March.",
		"Ferries will run every ten minutes between the two sides of the harbour, the council said, free of charge for " +
			"pedestrians.",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("summary (-want +got):\n%s", diff)
	}
}

func TestShortTextsStayWhole(t *testing.T) {
	text := "Once. Twice. Thrice."
	if diff := cmp.Diff([]string{"Once.", "Twice.", "Thrice."}, Summarize("", text, 3)); diff != "" {
		t.Error(diff)
	}
	for _, n := range []int{0, -1} {
		if got := Summarize("", text, n); got != nil {
			t.Errorf("%d sentences: %q", n, got)
		}
	}
	if got := Summarize("Title", "", 3); got != nil {
		t.Errorf("empty text: %q", got)
	}
}

func TestPlugsAreLeftOut(t *testing.T) {
	text := "The harbour bridge closes in March. Check Out our merch at https://www.youtube.com/watch?v=abc. " +
		"https://example.org/x\n\n" +
		"Ferries run instead. The post Harbour bridge appeared first on City News."
	want := []string{"The harbour bridge closes in March.", "Ferries run instead."}
	if diff := cmp.Diff(want, Summarize("", text, 3)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := Summarize("", "Read more", 3); len(got) != 1 {
		t.Errorf("a text of a plug alone: %q", got)
	}
	for _, news := range []string{"Checkout lines grow longer.", "Subscribers leave the service.",
		"Supporters of the bridge met.", "Readers moan."} {
		if got := Summarize("", news+" Nobody knows why.", 3); len(got) != 2 {
			t.Errorf("%q was left out", news)
		}
	}
}

func TestTitleDecides(t *testing.T) {
	text := strings.Repeat("Some filler sentence about nothing in particular number one stands here today. ", 4) +
		"The zebra escaped from the municipal zoo early on Monday morning and was found later. " +
		"The lawyers argued for hours about the contract that nobody had ever signed before."
	got := Summarize("Zebra escapes from zoo", text, 2)
	if !slices.ContainsFunc(got, func(s string) bool { return strings.Contains(s, "zebra") }) {
		t.Errorf("the sentence of the title is missing: %q", got)
	}
}

func TestOtherScripts(t *testing.T) {
	text := "東京で大きな地震がありました。電車は止まりました。けが人はいませんでした。東京の電車は夕方に動きました。天気は晴れです。"
	got := Summarize("東京で地震", text, 2)
	if len(got) != 2 || got[0] != "東京で大きな地震がありました。" {
		t.Errorf("summary %q", got)
	}
}

func TestHostileInputIsBounded(t *testing.T) {
	for name, text := range map[string]string{
		"many sentences": strings.Repeat("A b. ", 400_000),
		"one sentence":   strings.Repeat("word ", 400_000),
		"one word":       strings.Repeat("x", 2_000_000),
		"new words":      strings.Repeat("中文字符测试。", 100_000),
		"stops":          strings.Repeat(".", 2_000_000),
		"abbreviations":  strings.Repeat("Mr. ", 400_000),
		"bad UTF-8":      strings.Repeat("\xff\xfe. ", 400_000),
		"line breaks":    strings.Repeat("a\n", 400_000),
		"combining":      "a" + strings.Repeat("\u0301", 500_000),
	} {
		start := time.Now()
		if got := Summarize("title", text, 1000); len(got) > 2000 {
			t.Errorf("%s: %d sentences", name, len(got))
		}
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("%s: took %s", name, took)
		}
	}
}

func FuzzSummarize(f *testing.F) {
	f.Add("Old harbour bridge", report, 3)
	f.Add("東京", "今日は晴れ。明日は雨。", 1)
	f.Add("", "Mr. \xff\n\nU.S. The", 2)
	f.Fuzz(func(t *testing.T, title, text string, n int) {
		all := Sentences(text)
		got := Summarize(title, text, n)
		if len(got) > max(n, 0) {
			t.Fatalf("%d sentences, asked for %d", len(got), n)
		}
		at := 0
		for _, s := range got {
			if !utf8.ValidString(s) {
				t.Fatalf("invalid UTF-8: %q", s)
			}
			next := slices.Index(all[at:], s)
			if next < 0 {
				t.Fatalf("%q is no sentence of the text, or out of order", s)
			}
			at += next + 1
		}
		if n > 0 && len(all) > 0 && len(got) == 0 {
			t.Fatal("a text without a summary")
		}
	})
}
