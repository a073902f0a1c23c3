package digest_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ravenbot/internal/chat"
	"ravenbot/internal/digest"
	"ravenbot/internal/feed"
	"ravenbot/internal/store"
)

// member says something to the bot where the digest is posted.
func (b *bench) member(t *testing.T, id, text string) string {
	t.Helper()
	return b.Command(t.Context(), chat.Message{Conversation: general, Author: chat.User{ID: id, Name: id},
		Text: text}).Text
}

// What a model says about an entry counts for filters, too: the item itself may use other words.
func TestMemberFilter_FitsWhatTheModelSays(t *testing.T) {
	b := service(t, digest.Plan{Feeds: from(a), Style: digest.Bullets}, writes("- It is about seafaring [1]."))
	b.feeds[a] = []feed.Item{topical(1, "The harbour gets a crane", "It is tall.")}
	b.member(t, "anna", "filter morning seafaring")
	b.member(t, "bert", "filter morning railways")
	b.run(t, b.now)
	if annas, berts := b.direct("anna"), b.direct("bert"); len(annas) != 1 || len(berts) != 0 {
		t.Errorf("anna got %d posts, bert %d", len(annas), len(berts))
	}
}

func topical(n int, title, text string) feed.Item {
	return feed.Item{ID: fmt.Sprint(n), Title: title, Link: fmt.Sprintf("https://example.org/%d", n),
		Summary: "<p>" + text + "</p>", Published: monday}
}

// direct returns what was sent directly to a member.
func (b *bench) direct(id string) []store.Post {
	var list []store.Post
	for _, p := range b.sent {
		if p.To.Channel == "dm-"+id {
			list = append(list, p)
		}
	}
	return list
}

// What fits the filter of a member goes to them once, with the words of the post; who can no longer read the place gets
// nothing, and nobody gets what was sent to others.
func TestMemberFilter_SendsWhatFitsOnce(t *testing.T) {
	b := service(t, digest.Plan{Feeds: from(a)})
	id := func(answer string) string {
		t.Helper()
		_, rest, ok := strings.Cut(answer, "unfilter ")
		if !ok {
			t.Fatalf("the filter is answered %q", answer)
		}
		return rest[:8]
	}
	annas := id(b.member(t, "anna", "filter morning only security, -sponsored, by direct message"))
	if list := b.member(t, "anna", "filters"); !strings.Contains(list, ": security, -sponsored\n") {
		t.Errorf("anna's filter is kept as %q", list)
	}
	id(b.member(t, "bert", "filter morning harbour"))
	id(b.member(t, "carl", "filter morning security"))
	b.left = []string{"carl"}
	b.feeds[a] = []feed.Item{
		topical(1, "Security hole in a mail server", "An update is there."),
		topical(2, "The harbour gets a crane", "It is tall. Security is tight."),
		topical(3, "Library opens on Sundays", "Books may be borrowed."),
	}
	run := func() {
		t.Helper()
		b.now = b.now.Add(24 * time.Hour)
		if _, err := b.Run(t.Context(), "morning", b.now, false); err != nil {
			t.Fatal(err)
		}
	}
	run()
	got := b.direct("anna")
	if len(got) != 1 || len(got[0].Draft.Cards) != 2 || got[0].Draft.Cards[0].URL == "" ||
		!strings.Contains(got[0].Draft.Text, "security") ||
		!strings.Contains(got[0].Draft.Footer, annas) {
		t.Fatalf("anna got %+v", got)
	}
	if list := b.direct("bert"); len(list) != 1 || len(list[0].Draft.Cards) != 1 ||
		!strings.Contains(list[0].Draft.Cards[0].Title, "harbour") {
		t.Errorf("bert got %+v", list)
	}
	if list := b.direct("carl"); len(list) != 0 {
		t.Errorf("carl, who has left, got %+v", list)
	}
	run()
	b.restart(t, digest.Plan{Name: "morning", Schedule: "30 8 * * *", Feeds: from(a), Post: []string{general.String()}})
	b.feeds[a] = append(b.feeds[a], topical(4, "Security of bridges", "They were looked at."))
	// The post fails everywhere, so that its items are new again; they are not sent to anna a second time.
	b.refuse = func(to chat.Address) string {
		if to == general {
			return "it is full"
		}
		return ""
	}
	b.now = b.now.Add(24 * time.Hour)
	_, _ = b.Run(t.Context(), "morning", b.now, false) // it fails, as it should
	b.refuse = nil
	run()
	if got := b.direct("anna"); len(got) != 2 || len(got[1].Draft.Cards) != 1 ||
		!strings.Contains(got[1].Draft.Cards[0].Title, "bridges") {
		t.Errorf("anna got %+v", got)
	}
	b.readerError = errors.New("the platform is down")
	b.feeds[a] = append(b.feeds[a], topical(5, "More security", "Again."))
	run()
	if got := b.direct("anna"); len(got) != 2 {
		t.Errorf("while it is not known what anna may read, she got %+v", got[2:])
	}
	if answer := b.member(t, "bert", "unfilter "+annas); !strings.Contains(answer, "no such filter") {
		t.Errorf("somebody else removes it: %s", answer)
	}
	if list := b.member(t, "bert", "filters"); strings.Contains(list, annas) || !strings.Contains(list, "harbour") {
		t.Errorf("bert sees %s", list)
	}
	if answer := b.member(t, "anna", "unfilter "+annas); !strings.Contains(answer, "is removed") {
		t.Errorf("its owner removes it: %s", answer)
	}
	if list := b.member(t, "anna", "filters"); !strings.Contains(list, "You have no filters") {
		t.Errorf("anna sees %s", list)
	}
}

func TestMemberFilter_WhatCannotBeIsRefused(t *testing.T) {
	b := service(t, digest.Plan{Feeds: from(a)})
	for words, want := range map[string]string{
		"":                       "holds no word",
		"only":                   "",
		"/(/":                    "no expression",
		strings.Repeat("x", 300): "too long",
		strings.Repeat("x,", 11): "too many",
	} {
		if answer := b.member(t, "anna", "filter morning "+words); want != "" && !strings.Contains(answer, want) {
			t.Errorf("%q is answered %q, want %q", words, answer, want)
		}
	}
	if answer := b.member(t, "shy", "filter morning security"); !strings.Contains(answer,
		"no direct message can be sent") {
		t.Errorf("who takes no direct messages is answered %q", answer)
	}
	elsewhere := chat.Message{Conversation: chat.Address{Platform: "web", Channel: "other"},
		Author: chat.User{ID: "root", Admin: true}, Text: "filter morning security"}
	if d := b.Command(t.Context(), elsewhere); !strings.Contains(d.Text, "to which the digest is posted") {
		t.Errorf("elsewhere it is answered %q", d.Text)
	}
	for range 10 {
		b.member(t, "bert", "filter morning security")
	}
	if answer := b.member(t, "bert", "filter morning one more"); !strings.Contains(answer, "you have 10 filters already") {
		t.Errorf("the eleventh is answered %q", answer)
	}
}

// titles returns those of the cards of posts.
func titles(posts []store.Post) []string {
	var list []string
	for _, p := range posts {
		for _, c := range p.Draft.Cards {
			list = append(list, c.Title)
		}
	}
	return list
}

// What fits and had no place in the post is sent, too, marked as such and in its own words; it is not sent again when
// it gets its place, nor when another feed tells it.
func TestMemberFilter_SendsWhatHadNoPlace(t *testing.T) {
	b := service(t, digest.Plan{Feeds: from(a, b2), MaxItems: 1, MaxAge: digest.Duration(240 * time.Hour)})
	b.feeds[a], b.feeds[b2] = []feed.Item{topical(1, "The harbour gets a crane", "It is tall.")}, nil
	b.member(t, "anna", "filter morning security, -sponsored")
	run := func() []store.Post {
		t.Helper()
		b.sent, b.now = nil, b.now.Add(24*time.Hour)
		if _, err := b.Run(t.Context(), "morning", b.now, false); err != nil {
			t.Fatal(err)
		}
		return b.direct("anna")
	}
	if got := run(); len(got) != 0 {
		t.Errorf("nothing fits, and anna got %+v", got)
	}
	hole := topical(3, "Security hole found in the mail server of the city",
		"An update closes it. Engineers found it on Monday.")
	b.feeds[a] = append(b.feeds[a],
		topical(2, "Library opens on Sundays", "Books may be borrowed."), hole,
		topical(4, "Security of old bridges was looked at", "All of them hold."),
		topical(5, "Security lamps by a maker", "A sponsored text."))
	b.feeds[a][1].Published = b.now // the newest, which gets the place
	got := run()
	list := titles(got)
	slices.Sort(list)
	want := []string{"Security hole found in the mail server of the city", "Security of old bridges was looked at"}
	if diff := cmp.Diff(want, list); diff != "" {
		t.Fatalf("anna got (-want +got):\n%s", diff)
	}
	for _, c := range got[0].Draft.Cards {
		if c.N != 0 || c.Why != "not in the post" || c.Text == "" {
			t.Errorf("a card of what was not posted is %+v", c)
		}
	}
	// Another feed tells it now, newer, so that its item stands for the story; later each gets its place.
	hole.ID, hole.Link, hole.Published = "other", "https://example.com/hole", b.now
	b.feeds[b2] = []feed.Item{hole}
	for range 5 {
		if got := run(); len(got) != 0 {
			t.Errorf("anna got again %v", titles(got))
		}
	}
	b.feeds[a] = append(b.feeds[a], topical(6, "Security guards for the market", "There are two."))
	b.feeds[a][len(b.feeds[a])-1].Published = b.now
	if got := run(); len(got) != 1 || len(got[0].Draft.Cards) != 1 || got[0].Draft.Cards[0].N != 1 ||
		got[0].Draft.Cards[0].Why != "" {
		t.Errorf("of what was posted anna got %+v", got)
	}
}

// A run sends so many at most of what had no place, and the next one more of them; each comes once.
func TestMemberFilter_ManyWithoutAPlace_ComeInParts(t *testing.T) {
	b := service(t, digest.Plan{Feeds: from(a), MaxItems: 1, MaxAge: digest.Duration(2400 * time.Hour)})
	b.feeds[a] = []feed.Item{topical(0, "The harbour gets a crane", "It is tall.")}
	b.member(t, "anna", "filter morning security")
	words := strings.Fields("apple bridge castle desert engine forest garden hammer island jacket kettle ladder " +
		"mirror needle orange pencil quarry ribbon saddle tunnel umpire valley window yellow zipper anchor")
	sent := map[string]int{}
	for n := range 4 {
		b.sent, b.now = nil, b.now.Add(24*time.Hour)
		b.run(t, b.now)
		for _, p := range b.direct("anna") {
			unposted := 0
			for _, c := range p.Draft.Cards {
				if sent[c.Title]++; c.N == 0 {
					unposted++
				}
			}
			if want := map[int]int{1: 20, 2: 5}[n]; unposted != want {
				t.Errorf("run %d sends %d without a place, want %d", n, unposted, want)
			}
		}
		if n == 0 {
			for i, w := range words {
				b.feeds[a] = append(b.feeds[a], topical(i+1, "Security of the "+w, "The "+w+" was examined by "+w+" experts."))
			}
		}
	}
	if len(sent) != len(words) {
		t.Errorf("%d of %d were sent", len(sent), len(words))
	}
	for title, n := range sent {
		if n != 1 {
			t.Errorf("%s was sent %d times", title, n)
		}
	}
}

// Of the style deep, which posts one story, members get the others that fit; of one that posts items as they come,
// those that the post only names.
func TestMemberFilter_OtherStyles(t *testing.T) {
	for name, p := range map[string]digest.Plan{
		"deep":   {Feeds: from(a), Style: digest.Deep},
		"on-new": {Feeds: from(a), Schedule: digest.OnNew, MaxItems: 1},
	} {
		t.Run(name, func(t *testing.T) {
			b := service(t, p)
			b.feeds[a] = []feed.Item{topical(1, "The harbour gets a crane", "It is tall.")}
			poll := func() {
				b.now = b.now.Add(24 * time.Hour)
				if p.Schedule == digest.OnNew {
					b.Poll(t.Context())
					return
				}
				b.run(t, b.now)
			}
			poll()
			b.member(t, "anna", "filter morning security")
			b.feeds[a] = append(b.feeds[a], topical(2, "Security of trains", "They are safe."),
				topical(3, "Bakery wins a security prize", "The bread is good."), topical(4, "Library opens", "On Sundays."))
			b.sent = nil
			poll()
			poll()
			list := titles(b.direct("anna"))
			slices.Sort(list)
			if diff := cmp.Diff([]string{"Bakery wins a security prize", "Security of trains"}, list); diff != "" {
				t.Errorf("anna got (-want +got):\n%s", diff)
			}
		})
	}
}
