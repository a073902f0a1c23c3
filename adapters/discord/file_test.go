package discord_test

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/testing/sim"
	simdiscord "ravenbot/internal/testing/sim/discord"
)

// attach says something with files and returns the message that it became.
func (s *stage) attach(t *testing.T, text string, files ...simdiscord.File) chat.Message {
	t.Helper()
	var with []simdiscord.SayOption
	for _, f := range files {
		with = append(with, simdiscord.Attach(f))
	}
	s.Say(s.general.ID, s.ann, s.Mention()+text, with...)
	return receive(t, s.got)
}

func TestFilesOfAMessage(t *testing.T) {
	t.Parallel()
	s := open(t, script{})
	m := s.attach(t, " look", simdiscord.File{Name: "photo.png", ContentType: "image/png", Body: []byte("PNG")},
		simdiscord.File{Name: "notes.md", Body: []byte("# notes")},
		simdiscord.File{Name: "old\n.zip", ContentType: "application/zip", Body: []byte("PK")},
		simdiscord.File{Name: "log.txt", ContentType: "text/plain; charset=utf-8",
			Body: []byte("a log")}, simdiscord.File{Name: "data", ContentType: "application/json", Body: []byte("{}")})
	if m.Text != "look\n[attached: old .zip]" {
		t.Errorf("text %q", m.Text)
	}
	want := []chat.File{{Name: "photo.png", Type: "image/png", Size: 3},
		{Name: "notes.md", Type: "text/markdown", Size: 7}, {Name: "log.txt", Type: "text/plain; charset=utf-8", Size: 5},
		{Name: "data", Type: "application/json", Size: 2}}
	if diff := cmp.Diff(want, m.Files, cmpopts.IgnoreFields(chat.File{}, "Handle")); diff != "" {
		t.Fatal(diff)
	}
	for i, body := range []string{"PNG", "# notes", "a log", "{}"} {
		if data, err := s.d.Fetch(within(t), m.Files[i], math.MaxInt64); err != nil || string(data) != body {
			t.Errorf("%s: %q, %v", m.Files[i].Name, data, err)
		}
	}
	for _, r := range s.Requests() {
		if strings.HasPrefix(r.Path, "/attachments/") && r.Header.Get("Authorization") != "" {
			t.Error("the token was sent for a file")
		}
	}
}

// The addresses of files are good for a day or so.
func TestExpiredFileIsAskedForAgainOnce(t *testing.T) {
	t.Parallel()
	s := open(t, script{})
	m := s.attach(t, "", simdiscord.File{Name: "a.txt", ContentType: "text/plain", Body: []byte("words")})
	s.ExpireFiles()
	if data, err := s.d.Fetch(within(t), m.Files[0], 100); err != nil || string(data) != "words" {
		t.Errorf("%q, %v", data, err)
	}
	s.Fail(sim.Fault{Match: sim.MatchPath("GET", "/attachments/"), Status: 404})
	asked := func() (n int) { // what else the bot asks for does not count
		for _, r := range s.Requests() {
			if strings.Contains(r.Path, "/attachments/") || strings.Contains(r.Path, "/messages/") {
				n++
			}
		}
		return n
	}
	before := asked()
	if _, err := s.d.Fetch(within(t), m.Files[0], 100); err == nil || asked()-before != 3 {
		t.Errorf("%v after %d requests, want 3", err, asked()-before)
	}
}

func TestFilesThatAreNotFetched(t *testing.T) {
	t.Parallel()
	s := open(t, script{})
	m := s.attach(t, "", simdiscord.File{Name: "a.txt", ContentType: "text/plain", Body: bytes.Repeat([]byte("x"), 101)})
	own := string(m.Files[0].Handle)
	elsewhere := func(url string) string { return `{"channel":"1","message":"2","id":"3","url":"` + url + `"}` }
	for name, c := range map[string]struct {
		file chat.File
		why  string
	}{
		"too large as it says":       {chat.File{Size: 101, Handle: []byte(own)}, "101 bytes, 100 are allowed"},
		"too large without a word":   {chat.File{Handle: []byte(own)}, "larger than the 100 bytes"},
		"another host":               {chat.File{Handle: []byte(elsewhere("http://127.0.0.1:1/attachments/a"))}, "not Discord's"},
		"not encrypted":              {chat.File{Handle: []byte(elsewhere("http://cdn.discordapp.com/attachments/a"))}, "not Discord's"},
		"a host that looks like it":  {chat.File{Handle: []byte(elsewhere("https://cdn.discordapp.com.example.org/a"))}, "not Discord's"},
		"somebody before the host":   {chat.File{Handle: []byte(elsewhere("https://cdn.discordapp.com@127.0.0.1/a"))}, "not Discord's"},
		"no address at all":          {chat.File{Handle: []byte(`{}`)}, "not Discord's"},
		"the handle of another kind": {chat.File{Handle: []byte(`"x"`)}, "no address of Discord's"},
	} {
		if _, err := s.d.Fetch(within(t), c.file, 100); err == nil || !strings.Contains(err.Error(), c.why) {
			t.Errorf("%s: %v, want %q in it", name, err, c.why)
		}
	}
	for _, to := range []string{"http://169.254.169.254/secret", s.URL() + "/elsewhere"} {
		off := s.Fail(sim.Fault{Match: sim.MatchPath("GET", "/attachments/"), Status: 302,
			Header: map[string]string{"Location": to}})
		if _, err := s.d.Fetch(within(t), m.Files[0], 1000); err == nil || !strings.Contains(err.Error(), "302") {
			t.Errorf("redirected to %s: %v", to, err)
		}
		off()
	}
}

// names lists the files of a post with their contents.
func names(p simdiscord.Post) []string {
	var list []string
	for _, f := range p.Files {
		list = append(list, f.Name+"="+string(f.Body[:min(len(f.Body), 10)]))
	}
	return list
}

func TestFilesArePosted(t *testing.T) {
	t.Parallel()
	s := open(t, script{})
	d := chat.Draft{Key: "k", Text: strings.Repeat("words of an answer. ", 150), Files: []chat.File{
		{Name: "a.csv", Type: "text/csv", Data: []byte("1,2")}, {Name: `b"\/` + "\r\n.bin", Data: []byte{0}}}}
	s.Fail(sim.Fault{Match: s.messages(), Times: 2, Status: 502, Accept: true})
	ref := s.repeat(t, d)
	posts := s.Posts(s.general.ID)
	if len(posts) != 2 || len(posts[0].Files) > 0 || posts[1].Files[0].ContentType != "text/csv" ||
		posts[1].Flags != simdiscord.FlagSuppressEmbeds {
		t.Fatalf("posts %+v", posts)
	}
	if diff := cmp.Diff([]string{"a.csv=1,2", "b_____.bin=\x00"}, names(posts[1])); diff != "" {
		t.Error(diff)
	}
	next := chat.Draft{Key: "k2", Text: "short", Files: []chat.File{{Name: "a.csv", Type: "text/csv",
		Data: []byte("3,4")}}, Replaces: chat.Ref{IDs: ref.IDs[1:]}}
	s.post(t, s.address(), next)
	if diff := cmp.Diff([]string{"a.csv=3,4"}, names(s.Posts(s.general.ID)[1])); diff != "" {
		t.Errorf("after an edit: %s", diff)
	}
	s.post(t, s.address(), chat.Draft{Key: "k3", Text: "bare", Replaces: chat.Ref{IDs: ref.IDs[1:]}})
	if left := names(s.Posts(s.general.ID)[1]); len(left) > 0 {
		t.Errorf("%q are left", left)
	}
}

func TestFilesAlone(t *testing.T) {
	t.Parallel()
	s := open(t, script{})
	m := s.slash(t, "ask", map[string]any{"text": "a file"})
	s.post(t, m.Conversation, chat.Draft{Key: m.Key(), Reply: m.Reply,
		Files: []chat.File{{Name: "a.txt", Data: []byte("x")}}})
	if p := s.Posts(s.general.ID); len(p) != 1 || p[0].Content != "" || len(p[0].Files) != 1 || p[0].Interaction != m.ID {
		t.Errorf("posts %+v", p)
	}
}

func TestTooMuchToAttachIsSaid(t *testing.T) {
	t.Parallel()
	s := open(t, script{})
	d := chat.Draft{Key: "k", Text: "files", Files: []chat.File{{Name: "half.bin", Data: make([]byte, 6<<20)},
		{Name: "other-half.bin", Data: make([]byte, 6<<20)}}}
	for i := range 10 {
		d.Files = append(d.Files, chat.File{Name: fmt.Sprintf("%d.txt", i), Data: []byte("x")})
	}
	s.post(t, s.address(), d)
	p := s.Posts(s.general.ID)[0]
	if p.Content != "files\n-# too much to attach: other-half.bin, 9.txt" || len(p.Files) != 10 {
		t.Errorf("%q with %d files", p.Content, len(p.Files))
	}
}

func TestVeryLongAnswerIsAttached(t *testing.T) {
	t.Parallel()
	s := open(t, script{})
	said := s.Say(s.general.ID, s.ann, s.Mention()+" everything")
	receive(t, s.got)
	text := "# Everything\n\n" + strings.Repeat("```go\nfmt.Println(\"@everyone\")\n```\n\nWords of a very long "+
		"answer.\n\n", 300)
	live := chat.Draft{Key: "k", Text: text, Partial: true, Reply: chat.Reply{MessageID: said.ID}}
	live.Replaces = s.post(t, s.address(), live)
	if n := len(live.Replaces.IDs); n != 6 {
		t.Errorf("%d pieces are shown while it is written", n)
	}
	s.post(t, s.address(), chat.Draft{Key: "k", Text: text, Footer: "by a test", Reply: live.Reply,
		Replaces: live.Replaces, Buttons: []chat.Button{{Label: "Good", Value: "good"}}})
	var left []simdiscord.Post
	for _, p := range s.Posts(s.general.ID) {
		if !p.Deleted {
			left = append(left, p)
		}
	}
	if len(left) != 1 || len(left[0].Files) != 1 || left[0].Files[0].Name != "answer.md" ||
		string(left[0].Files[0].Body) != text {
		t.Fatalf("%d posts, the first %+v", len(left), left[0])
	}
	if p := left[0]; !strings.HasSuffix(p.Content, "\n-# the whole answer is in answer.md · by a test") ||
		strings.Count(p.Content, "```")%2 != 0 ||
		len([]rune(p.Content)) < 1500 || p.Pings.Everyone || len(p.Components) != 1 || p.ReplyTo != said.ID {
		t.Errorf("post %+v", p)
	}
}

// Who invited the bot may have left out Attach Files: the words come nevertheless.
func TestWithoutThePermissionToAttach(t *testing.T) {
	t.Parallel()
	s := open(t, script{})
	s.Fail(sim.Fault{Match: func(r sim.Request) bool {
		return strings.HasPrefix(r.Header.Get("Content-Type"), "multipart/")
	},
		Status: 403, Body: `{"code":50013,"message":"Missing Permissions"}`})
	ref := s.post(t, s.address(), chat.Draft{
		Key:   "k",
		Text:  "short",
		Files: []chat.File{{Name: "a.txt", Data: []byte("x")}},
	})
	s.post(t, s.address(), chat.Draft{
		Key:      "k2",
		Text:     "edited",
		Files:    []chat.File{{Name: "b.txt", Data: []byte("x")}},
		Replaces: ref,
	})
	posts := s.Posts(s.general.ID)
	if len(posts) != 1 || posts[0].Content != "edited\n-# I am not allowed to attach files here: b.txt" {
		t.Fatalf("posts %+v", posts)
	}
	long := s.post(t, s.address(), chat.Draft{Key: "k3", Text: strings.Repeat("words of a very long answer. ", 800)})
	words := 0
	for _, p := range s.Posts(s.general.ID) {
		words += strings.Count(p.Content, "answer")
	}
	if len(long.IDs) < 10 || words != 800 {
		t.Errorf("%d pieces with %d words", len(long.IDs), words)
	}
}
