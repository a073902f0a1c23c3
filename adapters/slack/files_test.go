package slack_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"ravenbot/adapters/slack"
	"ravenbot/internal/core/chat"
	"ravenbot/internal/testing/sim"
	simslack "ravenbot/internal/testing/sim/slack"
)

func without(scopes ...string) []string {
	return slices.DeleteFunc(slack.Scopes(), func(s string) bool { return slices.Contains(scopes, s) })
}

func TestAFileIsRead(t *testing.T) {
	b := start(t, simslack.Options{}, slack.Options{})
	channel, anna := b.sim.AddChannel("general").ID, b.sim.AddUser("anna")
	up(t, b)
	body := []byte("\x89PNG and so on")
	b.sim.Share(channel, "", anna, "what is this?", simslack.File{Name: "a picture.png", Type: "image/png", Body: body})
	m := b.wait(t, 1)[0]
	if len(m.Files) != 1 || m.Files[0].Name != "a picture.png" || m.Files[0].Type != "image/png" ||
		m.Files[0].Size != int64(len(body)) {
		t.Fatalf("the files are %+v", m.Files)
	}
	var fetcher chat.Fetcher = b.Slack
	if data, err := fetcher.Fetch(deadline(t), m.Files[0], int64(len(body))); err != nil || !bytes.Equal(data, body) {
		t.Errorf("read %q, %v", data, err)
	}
	other := m.Files[0] // found only where Slack keeps it to be downloaded
	other.Handle = bytes.Replace(other.Handle, []byte(`"url":`),
		[]byte(`"url":"`+strings.TrimSuffix(b.sim.APIURL(), "/api/")+`/files-pri/none","load":`), 1)
	if data, err := fetcher.Fetch(deadline(t), other, int64(len(body))); err != nil || !bytes.Equal(data, body) {
		t.Errorf("by its other address read %q, %v", data, err)
	}
	unsized := m.Files[0]
	unsized.Size = 0
	for _, f := range []chat.File{m.Files[0], unsized} {
		if _, err := b.Fetch(deadline(t), f, int64(len(body))-1); err == nil || !strings.Contains(err.Error(), "larger") {
			t.Errorf("a file that is too large: %v", err)
		}
	}
}

func TestAFileThatMayNotBeReadNamesTheScope(t *testing.T) {
	b := start(t, simslack.Options{Scopes: without("files:read", "assistant:write")}, slack.Options{})
	anna := b.sim.AddUser("anna")
	up(t, b)
	b.sim.Share(b.sim.AddDM(anna).ID, "", anna, "what is this?",
		simslack.File{Name: "a.txt", Type: "text/plain", Body: []byte("text")})
	f := b.wait(t, 1)[0].Files[0]
	if _, err := b.Fetch(deadline(t), f, 100); err == nil || !strings.Contains(err.Error(), "files:read") {
		t.Errorf("got %v", err)
	}
}

// The token opens the whole workspace: it goes to Slack alone, whatever an event or
// a redirect says.
func TestTheTokenGoesToSlackAlone(t *testing.T) {
	b := start(t, simslack.Options{}, slack.Options{})
	up(t, b)
	elsewhere := 0
	thief := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere++ }))
	t.Cleanup(thief.Close)
	b.sim.Fail(sim.Fault{Match: sim.MatchPath("GET", "/files-pri/"), Status: http.StatusFound,
		Header: map[string]string{"Location": thief.URL}})
	for _, address := range []string{thief.URL + "/a.png", "http://files.slack.com/a.png",
		"https://files.slack.com@" + strings.TrimPrefix(thief.URL, "http://") + "/",
		"https://files.slack.com.example.org/a", "//x", "", strings.TrimSuffix(b.sim.APIURL(),
			"/api/") + "/files-pri/F1/a.png"} {
		f := chat.File{Name: "a.png", Handle: []byte(fmt.Sprintf(`{"id":"F1","url":%q,"load":%q}`, address,
			thief.URL+"/b.png"))}
		if _, err := b.Fetch(deadline(t), f, 100); err == nil {
			t.Errorf("%q was read", address)
		}
	}
	if elsewhere != 0 {
		t.Errorf("%d requests went elsewhere", elsewhere)
	}
}

// shared are the names of the files that the bot posted, by thread.
func shared(b *bot, channel string) []string {
	var all []string
	for _, p := range b.sim.Posts(channel) {
		for _, f := range p.Files {
			all = append(all, p.ThreadTS+" "+f.Name+" "+string(f.Body[:min(8, len(f.Body))]))
		}
	}
	return all
}

func TestFilesArePostedOnceBelowTheirText(t *testing.T) {
	b := start(t, simslack.Options{}, slack.Options{})
	to, d := asked(t, b)
	d.Partial, d.Text, d.Since = false, "Here they are.", time.Now()
	d.Files = []chat.File{{Name: "a.csv", Data: []byte("1,2,3")}, {Name: "b.txt", Data: []byte("words")}, {Name: "empty"}}
	want := []string{to.Thread + " a.csv 1,2,3", to.Thread + " b.txt words"}
	for _, fault := range []sim.Fault{{Match: sim.MatchPath("POST", "files.getUploadURLExternal"),
		Status: http.StatusBadGateway},
		{Match: sim.MatchPath("POST", "/upload/"), Drop: true}, {Match: sim.MatchPath("POST", "files.completeUploadExternal"), Accept: true, Status: http.StatusBadGateway}} {
		fault.Times = 1
		b.sim.Fail(fault)
		if _, err := b.Post(deadline(t), to, d); err == nil {
			t.Fatal("no failure")
		}
	}
	for range 2 { // and once more after a restart
		if ref, err := b.Post(deadline(t), to, d); err != nil || len(ref.IDs) != 1 {
			t.Fatal(ref, err)
		}
		b.stop()
		b, d.Again = join(t, b.sim, slack.Options{}), true
	}
	posts := b.sim.Posts(to.Channel)
	if got := shared(b, to.Channel); !slices.Equal(got, want) || len(posts) != 2 || posts[0].Text != "Here they are." {
		t.Errorf("posted %q in %d posts", got, len(posts))
	}
}

func TestAVeryLongAnswerBecomesAFile(t *testing.T) {
	b := start(t, simslack.Options{}, slack.Options{})
	to, d := asked(t, b)
	text := long("part ", 7)
	d = grow(t, b, to, d, "part  0 is", text[:len(text)/2], text)
	d.Text = text
	ref := whole(t, b, to, d)
	var standing []simslack.Post
	for _, p := range b.sim.Posts(to.Channel) {
		if !p.Deleted {
			standing = append(standing, p)
		}
	}
	if len(ref.IDs) != 1 || len(standing) != 2 || !strings.Contains(string(standing[0].Blocks), "answer.md") ||
		labels(t, standing[0]) != "👍" ||
		len(standing[1].Files) != 1 || string(standing[1].Files[0].Body) != text {
		t.Errorf("%d posts stand, ids %v, files %q", len(standing), ref.IDs, shared(b, to.Channel))
	}
}

func TestWithoutFilesALongAnswerIsManyMessages(t *testing.T) {
	b := start(t, simslack.Options{Scopes: without("files:write", "assistant:write")}, slack.Options{})
	to, d := asked(t, b)
	d.Text, d.Files = long("part ", 7), []chat.File{{Name: "a.csv", Data: []byte("1,2,3")}}
	for range 2 {
		d.Replaces = whole(t, b, to, d)
		if got := first(standing(b, to.Channel)); len(got) != 7 || got[6] != "part  6" || len(d.Replaces.IDs) != 7 {
			t.Errorf("posted %q", got)
		}
	}
	posts := b.sim.Posts(to.Channel)
	if last := string(posts[len(posts)-1].Blocks); !strings.Contains(last, "a.csv") ||
		!strings.Contains(last, "missing_scope") {
		t.Errorf("the loss is not told: %s", last)
	}
}

func TestWhatIsForOneAloneHasNoFiles(t *testing.T) {
	b := start(t, simslack.Options{}, slack.Options{})
	channel, anna := b.sim.AddChannel("general").ID, b.sim.AddUser("anna")
	up(t, b)
	call := b.sim.Slash(channel, anna, "/raven", "help")
	m := b.wait(t, 1)[0]
	d := chat.Draft{Key: "k", Text: "secret", Ephemeral: true, Reply: m.Reply,
		Files: []chat.File{{Name: "a.csv", Data: []byte("1,2,3")}}}
	if _, err := b.Post(deadline(t), m.Conversation, d); err != nil {
		t.Fatal(err)
	}
	if a := b.sim.Answers(call); len(b.sim.Posts(channel)) != 0 || len(a) != 1 ||
		!strings.Contains(string(a[0].Blocks), "without its files") {
		t.Errorf("answers %+v, posts %q", a, shared(b, channel))
	}
}

// Where the bot may not read the channel it cannot see whether its files are there: they are posted
// once more, with a mark, and never a third time.
func TestPost_FilesOfUnknownOutcomeInAnUnreadableChannel_AreMarkedAndPostedTwiceAtMost(t *testing.T) {
	b := start(t, simslack.Options{Scopes: without("channels:history", "assistant:write")}, slack.Options{})
	channel := b.sim.AddChannel("general").ID
	up(t, b)
	to := chat.Address{Channel: channel}
	files := []chat.File{{Name: "a.csv", Data: []byte("1,2,3")}}
	d := chat.Draft{Key: "k", Text: "Here it is.", Since: time.Now(), Files: files}
	fail := func(path string, accept bool) {
		b.sim.Fail(sim.Fault{Match: sim.MatchPath("POST", path), Times: 1, Accept: accept, Status: http.StatusBadGateway})
	}
	post := func() error {
		_, err := b.Post(deadline(t), to, d)
		return err
	}
	fail("/upload/", false) // nobody sees it, so that it does not count
	for range 2 {
		if err := post(); err == nil {
			t.Fatal("no failure")
		}
		fail("files.completeUploadExternal", true)
	}
	if err := post(); err == nil {
		t.Fatal("no failure")
	}
	var failed *chat.PostError
	if err := post(); !errors.As(err, &failed) || !failed.Permanent {
		t.Errorf("the third attempt: %v, want a refusal for good", err)
	}
	var texts []string
	for _, p := range b.sim.Posts(channel) {
		texts = append(texts, fmt.Sprint(len(p.Files), " ", p.Text))
	}
	if want := []string{"0 Here it is.", "1 ", "1 _" + chat.MayRepeat + "_"}; !slices.Equal(texts, want) {
		t.Errorf("posted %q, want %q", texts, want)
	}
}
