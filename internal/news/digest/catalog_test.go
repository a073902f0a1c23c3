package digest_test

import (
	"errors"
	"strings"
	"testing"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/news/digest"
	"ravenbot/internal/news/feed"
	"ravenbot/internal/ops/config"
)

// oneAgent is the agent that there is when no other is named.
type oneAgent struct{}

func (oneAgent) Exists(name string) bool { return name == "" || name == "default" }

// onlyWeb can post to web rooms alone.
type onlyWeb struct{ *bench }

func (onlyWeb) CanPost(to chat.Address) bool { return to.Platform == "web" }

// An entry over the API is refused where something that it names is missing, and says what.
func TestCatalog_Add_ChecksWhatAnEntryNames(t *testing.T) {
	for _, c := range []struct {
		name, entry string
		host        string // of the mail server
		fault       string
	}{
		{"plain", `"post":["web:/general"]`, "", ""},
		{"with mail", `"post":["web:/general"],"email":["anna@example.org"]`, "mail.example.org", ""},
		{"mail without a server", `"post":["web:/general"],"email":["anna@example.org"]`, "", "there is no mail server"},
		{"agent", `"post":["web:/general"],"agent":"default"`, "", ""},
		{"unknown agent", `"post":["web:/general"],"agent":"nobody"`, "", `there is no agent "nobody"`},
		{"platform", `"post":["web:/general","slack:T1/C1"]`, "", "nothing can be posted to slack:T1/C1"},
		{"unknown key", `"post":["web:/general"],"colour":"red"`, "", "colour"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := service(t, digest.Plan{Feeds: from(a)}, func(o *digest.Options) { o.Platforms = onlyWeb{} })
			b.feeds[a] = []feed.Item{story(1)}
			conf := &config.Config{}
			conf.SMTP.Host = c.host
			catalog := digest.Catalog{Service: b.Service, Config: func() *config.Config { return conf }, Agents: oneAgent{}}
			entry := `{"schedule":"every day at 9","feeds":["` + a + `"],` + c.entry + `}`
			info, err := catalog.Add(t.Context(), "made", []byte(entry))
			if c.fault == "" {
				if err != nil || info.Source != digest.FromAPI {
					t.Errorf("made: %+v, %v", info, err)
				}
				if _, err := catalog.Add(t.Context(), "made", []byte(entry)); !errors.Is(err, digest.ErrExists) {
					t.Errorf("made twice: %v", err)
				}
				return
			}
			var bad digest.BadPlan
			if !errors.As(err, &bad) || !strings.Contains(err.Error(), c.fault) {
				t.Errorf("the fault is %v, want %q", err, c.fault)
			}
		})
	}
}

// An entry that is wrong changes nothing.
func TestCatalog_Replace_WrongEntry_IsAFault(t *testing.T) {
	b := made(t, weekdays)
	catalog := digest.Catalog{Service: b.Service, Config: func() *config.Config { return &config.Config{} },
		Agents: oneAgent{}}
	var bad digest.BadPlan
	if _, err := catalog.Replace(t.Context(), "feed-a", []byte(`{"colour":"red"}`)); !errors.As(err, &bad) {
		t.Errorf("the fault is %v", err)
	}
	if p, _ := b.Plan("feed-a"); p.Schedule != weekdays.Schedule {
		t.Errorf("the digest is %+v", p)
	}
}

// A channel has an address, and belongs to the server or workspace where the digest is posted.
func TestCheckChannel(t *testing.T) {
	for channel, ok := range map[string]bool{"slack:T1/C2": true, "slack:T2/C2": false, "web:/general": false, "C2": false} {
		if err := digest.CheckChannel(channel, news.String()); (err == nil) != ok {
			t.Errorf("%s: %v", channel, err)
		}
	}
}
