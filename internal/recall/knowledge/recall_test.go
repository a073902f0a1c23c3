package knowledge_test

import (
	"fmt"
	"strings"
	"testing"
)

// gardenBook returns a book about plants in pots and their care in each season, too long to be known as a whole.
func gardenBook() string {
	var b strings.Builder
	plants := []string{"lemon tree", "olive tree", "fig", "oleander", "bay laurel", "fuchsia", "agave", "hibiscus",
		"myrtle", "rosemary"}
	care := map[string]string{
		"spring": "it moves outdoors after the last frost and gets fresh soil",
		"summer": "it is watered every day, best in the evening",
		"autumn": "it is cut back by a third and cleaned of fallen leaves",
		"winter": "it stands in a cool and bright room and is hardly watered",
	}
	filler := "Gardeners of earlier days had much to tell of such things, and not all of what they told has been shown " +
		"to be right. "
	for _, plant := range plants {
		for _, season := range []string{"spring", "summer", "autumn", "winter"} {
			fmt.Fprintf(&b, "# The %s in %s\n\nOf the %s: in %s %s. %s\n\n", plant, season, plant, season, care[season],
				strings.Repeat(filler, 4))
		}
	}
	return b.String()
}

func TestRecall_FollowUpsAndTextsWithoutASubject(t *testing.T) {
	b, _ := base(t)
	if err := b.Put(t.Context(), "default", "garden.md", []byte(gardenBook())); err != nil {
		t.Fatal(err)
	}
	lemon := "How is a lemon tree kept in winter?"
	said := map[string]bool{} // standing parts
	for _, c := range []struct {
		question string
		earlier  []string
		first    string // heading of the first passage; "" for none at all
	}{
		{lemon, nil, "The lemon tree in winter"},
		{"And what happens to it in spring?", []string{lemon}, "The lemon tree in spring"},
		{"and in autumn?", []string{"What does an agave need?", lemon}, "The lemon tree in autumn"},
		{"why?", []string{lemon}, "The lemon tree in winter"},
		{"How often is the olive tree watered in summer?", []string{lemon}, "The olive tree in summer"},
		{"ok thanks", []string{lemon}, ""},
		{"great, thank you!", []string{lemon}, ""},
		{"hello", nil, ""},
		{"yes please", []string{lemon}, ""},
		{"Translate zygote into Swahili", []string{lemon}, ""},
	} {
		standing, got := b.Recall(t.Context(), "default", nil, c.question, c.earlier)
		if said[standing] = true; len(said) != 1 || len(standing) > 500 {
			t.Errorf("%q: the standing part is %.600q, want the short one of every question", c.question, standing)
		}
		switch {
		case c.first == "" && len(got) > 0:
			t.Errorf("%q after %q brings %q", c.question, c.earlier, got[0][:80])
		case c.first != "" && (len(got) == 0 || !strings.HasPrefix(got[0], "[garden.md, "+c.first+"]")):
			t.Errorf("%q after %q brings %.200q, want first %q", c.question, c.earlier, got, c.first)
		}
		if len(got) > 6 {
			t.Errorf("%q brings %d passages", c.question, len(got))
		}
	}
}

func TestSearch_PassagesTellTheirLine(t *testing.T) {
	b, _ := base(t)
	text := "\n\nAn introduction without a heading.\n\n# Opening hours\n\nFrom nine to five.\n\n## Holidays\n\nClosed " +
		"at Easter.\n"
	if err := b.Put(t.Context(), "default", "shop.md", []byte(text)); err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string]int{"introduction": 3, "opening hours": 5, "Easter": 9} {
		got := b.Search(t.Context(), "default", nil, query, 3)
		if len(got) == 0 || got[0].Line != want || got[0].File != "shop.md" || got[0].Score <= 0 {
			t.Errorf("%q finds %+v, want line %d", query, got, want)
		}
	}
}
