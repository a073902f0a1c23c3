package digest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ravenbot/internal/core/chat"
)

// daily returns a plan that can be carried out, changed.
func daily(change func(*Plan)) Plan {
	p := Plan{
		Name: "news", Schedule: "0 9 * * *", Feeds: []Feed{{URL: "https://example.org/feed"}},
		Post: []string{"slack:T1/C1"}, Source: FromAPI,
	}
	if change != nil {
		change(&p)
	}
	return p
}

// repeat returns n copies of a value.
func repeat[T any](v T, n int) []T { return slices.Repeat([]T{v}, n) }

// A plan that contradicts itself, or asks for too much, is refused with what is wrong.
func TestCompile_SaysWhatIsWrong(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Plan)
		want   string // empty: nothing is wrong
	}{
		"nothing":  {nil, ""},
		"zone":     {func(p *Plan) { p.Timezone = "Nowhere" }, "timezone: "},
		"schedule": {func(p *Plan) { p.Schedule = "at will" }, "schedule: "},
		"place":    {func(p *Plan) { p.Post = []string{"here"} }, "post: "},
		"no place": {func(p *Plan) { p.Post = nil }, "post: it is posted nowhere"},
		"filter":   {func(p *Plan) { p.Filters = []string{"-"} }, "filters: "},
		"nothing to do": {func(p *Plan) { p.Feeds, p.Prompt = nil, " \n" },
			"it has neither feeds, channels nor a prompt"},
		"a task": {func(p *Plan) { p.Feeds, p.Prompt = nil, "Say hello." }, ""},
		"on-new": {func(p *Plan) { p.Schedule = OnNew }, ""},
		"on-new, no feeds": {func(p *Plan) { p.Schedule, p.Feeds, p.Prompt = OnNew, nil, "Say." },
			"schedule: on-new needs feeds"},
		"on-new, webhooks": {func(p *Plan) { p.Schedule, p.Hooks = OnNew, []string{"ci"} },
			"channels: on-new works with feeds only"},
		"on-new, channels": {func(p *Plan) { p.Schedule, p.Channels = OnNew, []string{"slack:T1/C2"} },
			"channels: on-new works with feeds"},
		"weekly":        {func(p *Plan) { p.Style, p.Feeds = Weekly, nil }, ""},
		"weekly, feeds": {func(p *Plan) { p.Style = Weekly }, "style weekly takes no feeds"},
		"weekly, channels": {func(p *Plan) { p.Style, p.Feeds, p.Channels = Weekly, nil, []string{"slack:T1/C2"} },
			"channels: style weekly takes no channels"},
		"channels": {func(p *Plan) { p.Channels = repeat("slack:T1/C2", 20) }, ""},
		"too many channels": {func(p *Plan) { p.Channels = repeat("slack:T1/C2", 21) },
			"channels: 21 channels are too many"},
		"other workspace": {func(p *Plan) { p.Channels = []string{"slack:T2/C2"} },
			"channels: what is said in slack:T2/C2"},
		"other platform": {func(p *Plan) { p.Channels = []string{"discord:T1/C2"} },
			"channels: what is said in discord:T1/C2"},
		"no channel": {func(p *Plan) { p.Channels = []string{"there"} }, "channels: "},
		"items":      {func(p *Plan) { p.MaxItems = -1 }, "maxItems must be 1 or more"},
		"tokens":     {func(p *Plan) { p.MaxTokens = -1 }, "maxItems must be 1 or more"},
		"age":        {func(p *Plan) { p.MaxAge = -1 }, "maxItems must be 1 or more"},
		"ping":       {func(p *Plan) { p.Ping = []string{"role:1", "user:U1"} }, ""},
		"bad ping":   {func(p *Plan) { p.Ping = []string{"role:1", "everyone"} }, `ping: "everyone" is neither`},
		"style":      {func(p *Plan) { p.Style = "loud" }, "style loud is not known; want one of brief, bullets"},
		"catchUp":    {func(p *Plan) { p.CatchUp = "twice" }, "catchUp twice is not known; want one of once, skip"},
		"whenEmpty": {func(p *Plan) { p.WhenEmpty = "sing" },
			"whenEmpty sing is not known; want one of skip, say"},
		"weight":      {func(p *Plan) { p.Feeds[0].Weight = 0.1 }, ""},
		"most weight": {func(p *Plan) { p.Feeds[0].Weight = 10 }, ""},
		"too little weight": {func(p *Plan) { p.Feeds[0].Weight = 0.09 },
			"feeds: the weight 0.09 of https://example.org/feed"},
		"too much weight": {func(p *Plan) { p.Feeds[0].Weight = 10.1 }, "feeds: the weight 10.1"},
		"mail":            {func(p *Plan) { p.Email = repeat("anna@example.org", 50) }, ""},
		"too many mailboxes": {func(p *Plan) { p.Email = repeat("anna@example.org", 51) },
			"email: 51 mailboxes are too many"},
		"no mailbox": {func(p *Plan) { p.Email = []string{"anna"} }, "email: "},
		"channels by mail": {func(p *Plan) {
			p.Email, p.Channels = []string{"anna@example.org"},
				[]string{"slack:T1/C2"}
		}, "email: messages of channels"},
	} {
		d, err := compile(daily(c.change))
		if (err == nil) != (c.want == "") || err != nil && !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if err == nil && (d.Timezone != "UTC" || d.zone != time.UTC || len(d.post) != 1 ||
			len(d.channels) != len(d.Channels) ||
			len(d.mail) != len(d.Email) || d.MaxItems != 10 || d.quiet != (d.Schedule == OnNew)) {
			t.Errorf("%s: compiled to %+v", name, d)
		}
	}
}

// What does not come from the configuration has limits; in chat fewer feeds are taken, and a task has a cap.
func TestCheckLimits(t *testing.T) {
	task := func(p *Plan) { p.Source, p.Feeds, p.Prompt = FromChat, nil, "Say." }
	for name, c := range map[string]struct {
		change func(*Plan)
		want   string
	}{
		"nothing":        {nil, ""},
		"feeds":          {func(p *Plan) { p.Feeds = repeat(p.Feeds[0], 300) }, ""},
		"too many feeds": {func(p *Plan) { p.Feeds = repeat(p.Feeds[0], 301) }, "it is too much: 300 feeds"},
		"in chat":        {func(p *Plan) { p.Source, p.Feeds = FromChat, repeat(p.Feeds[0], 50) }, ""},
		"too many in chat": {func(p *Plan) { p.Source, p.Feeds = FromChat, repeat(p.Feeds[0], 51) },
			"it is too much: 50 feeds"},
		"places":            {func(p *Plan) { p.Post = repeat("slack:T1/C1", 20) }, ""},
		"too many places":   {func(p *Plan) { p.Post = repeat("slack:T1/C1", 21) }, "it is too much"},
		"filters":           {func(p *Plan) { p.Filters = repeat("-x", 50) }, ""},
		"too many filters":  {func(p *Plan) { p.Filters = repeat("-x", 51) }, "it is too much"},
		"prompt":            {func(p *Plan) { p.Prompt = strings.Repeat("x", 4000) }, ""},
		"long prompt":       {func(p *Plan) { p.Prompt = strings.Repeat("x", 4001) }, "the prompt may have 4000"},
		"items":             {func(p *Plan) { p.MaxItems = 100 }, ""},
		"control character": {func(p *Plan) { p.Prompt = "birds\x00" }, "the prompt has control characters"},
		"too many items":    {func(p *Plan) { p.MaxItems = 101 }, "maxItems may be 100"},
		"language":          {func(p *Plan) { p.Language = strings.Repeat("x", 200) }, ""},
		"long language":     {func(p *Plan) { p.Language = strings.Repeat("x", 201) }, "is too long: 200 bytes"},
		"long filter":       {func(p *Plan) { p.Filters = []string{strings.Repeat("x", 201)} }, "is too long"},
		"no feed":           {func(p *Plan) { p.Feeds = []Feed{{URL: "file:///etc/passwd"}} }, "is not the address of a feed"},
		"bundled":           {func(p *Plan) { p.Feeds = []Feed{{URL: "bundled:news"}} }, ""},
		"name":              {func(p *Plan) { p.Name = "Nyheter-1_æ" }, ""},
		"long name":         {func(p *Plan) { p.Name = strings.Repeat("x", 41) }, "the name"},
		"name of two":       {func(p *Plan) { p.Name = "two words" }, "the name"},
		"task without cap":  {task, "maxTokens of a task must be between 1 and 200000"},
		"task with a cap":   {func(p *Plan) { task(p); p.MaxTokens = 1 }, ""},
		"largest cap":       {func(p *Plan) { task(p); p.MaxTokens = 200_000 }, ""},
		"cap too large":     {func(p *Plan) { task(p); p.MaxTokens = 200_001 }, "maxTokens of a task"},
		"an operator's":     {func(p *Plan) { task(p); p.Source = FromAPI }, ""},
		"feeds without cap": {func(p *Plan) { p.Source = FromChat }, ""},
	} {
		err := checkLimits(daily(c.change))
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// A feed is written as its address, or with what is not usual of it, and read back as it was.
func TestFeed_JSON(t *testing.T) {
	for want, f := range map[string]Feed{
		`"https://a.example/"`:                                 {URL: "https://a.example/"},
		`{"url":"https://a.example/","mergeDuplicates":false}`: {URL: "https://a.example/", NoMerge: true},
		`{"url":"https://a.example/","weight":2,"pin":true}`:   {URL: "https://a.example/", Weight: 2, Pin: true},
		`{"url":"https://a.example/","mute":true}`:             {URL: "https://a.example/", Mute: true},
	} {
		got, err := json.Marshal(f)
		if err != nil || string(got) != want {
			t.Errorf("%+v is written as %s, %v", f, got, err)
		}
		var back Feed
		if err := json.Unmarshal([]byte(want), &back); err != nil || back != f {
			t.Errorf("%s is read as %+v, %v", want, back, err)
		}
	}
	var f Feed
	if err := json.Unmarshal([]byte(`{"url":"x","mergeDuplicates":true}`), &f); err != nil || f.NoMerge {
		t.Errorf("%+v, %v", f, err)
	}
	if err := json.Unmarshal([]byte(`5`), &f); err == nil {
		t.Error("a number is read as a feed")
	}
	hidden, err := json.Marshal(Feed{URL: "https://a.example/?key=1", Shown: "https://a.example/?key=***"})
	if err != nil || string(hidden) != `"https://a.example/?key=1"` {
		t.Errorf("a feed with a secret is written as %s, %v", hidden, err)
	}
}

// Each field is changed by its name in any case, and a wrong value says why.
func TestSetField(t *testing.T) {
	const feedB = "https://b.example/feed"
	for words, want := range map[string]string{
		"SCHEDULE 0 8 * * *": "", "timezone Europe/Oslo": "", "style titles": "", "language Norwegian": "",
		"prompt Be brief.": "",
		"whenEmpty say":    "", "catchUp skip": "", "maxItems 5": "", "maxTokens 700": "",
		"maxItems five":        `"five" is not a number`,
		"filters -spam,, /x/ ": "", "tags a, b": "", "channels slack:T1/C2,slack:T1/C3 slack:T1/C4": "",
		"feeds +" + feedB: "", "feeds " + feedB: "", "feeds -https://EXAMPLE.org/feed": "", "feeds -" +
			feedB: "it does not read " + feedB,
		"feeds +": "say +ADDRESS", "colour red": "name a field to change",
	} {
		p := daily(nil)
		key, value, _ := strings.Cut(words, " ")
		err := p.setField(key, strings.TrimSpace(value))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", words, err, want)
		}
		if err == nil && cmp.Equal(p, daily(nil)) && words != "feeds https://example.org/feed" {
			t.Errorf("%s changes nothing", words)
		}
	}
	p := daily(nil)
	for _, words := range [][2]string{{"feeds", "+https://EXAMPLE.org/feed"}, {"filters", " -spam, ,/x/"}, {"channels", "a, b"}} {
		if err := p.setField(words[0], words[1]); err != nil {
			t.Error(err)
		}
	}
	want := daily(func(p *Plan) { p.Filters, p.Channels = []string{"-spam", "/x/"}, []string{"a", "b"} })
	if diff := cmp.Diff(want, p); diff != "" {
		t.Errorf("changed to (-want +got):\n%s", diff)
	}
}

// There are limits for all digests together, for one channel and for one person, and names are not taken twice.
func TestValidateNew_Limits(t *testing.T) {
	add := func(s *Service, n int, change func(n int, p *Plan)) {
		for k := range n {
			p := daily(func(p *Plan) { p.Name = fmt.Sprint("made", len(s.created)+1); change(k, p) })
			d, err := compile(p)
			if err != nil {
				t.Fatal(err)
			}
			s.created[p.Name] = d
		}
	}
	elsewhere := func(n int, p *Plan) { p.Post = []string{fmt.Sprint("slack:T1/D", n)} }
	own := func(n int, p *Plan) { elsewhere(n, p); p.Source, p.By.ID, p.On = FromChat, "U1", "slack" }
	limit := 0
	for name, c := range map[string]struct {
		fill func(*Service)
		plan func(*Plan)
		want string
	}{
		"room for one":        {func(s *Service) { add(s, 199, elsewhere) }, nil, ""},
		"too many":            {func(s *Service) { add(s, 200, elsewhere) }, nil, "there are too many digests already"},
		"room in the channel": {func(s *Service) { add(s, 19, func(int, *Plan) {}) }, nil, ""},
		"too many there": {func(s *Service) { add(s, 20, func(int, *Plan) {}) }, nil,
			"there are too many digests already"},
		"in a thread of it": {func(s *Service) { add(s, 20, func(int, *Plan) {}) },
			func(p *Plan) { p.Post = []string{"slack:T1/C1/99"} }, "there are too many"},
		"one of the person's": {func(s *Service) { limit = 2; add(s, 1, own) }, func(p *Plan) { own(50, p) }, ""},
		"all of the person's": {func(s *Service) { limit = 2; add(s, 2, own) }, func(p *Plan) { own(50, p) },
			"you have made 2 digests already"},
		"another platform": {func(s *Service) { limit = 2; add(s, 2, own) }, func(p *Plan) {
			own(50,
				p)
			p.On = "discord"
		}, ""},
		"an operator": {func(s *Service) { limit = 2; add(s, 2, own) }, func(p *Plan) {
			own(50,
				p)
			p.By.Operator = true
		}, ""},
		"through the API": {func(s *Service) { limit = 2; add(s, 2, own) }, func(p *Plan) {
			own(50,
				p)
			p.Source = FromAPI
		}, ""},
		"API does not count": {func(s *Service) {
			limit = 1
			add(s, 2, func(n int, p *Plan) {
				own(n,
					p)
				p.Source = FromAPI
			})
		}, func(p *Plan) { own(50, p) }, ""},
		"no limit": {func(s *Service) { limit = 0; add(s, 19, own) }, func(p *Plan) { own(50, p) }, ""},
		"the name is taken": {func(s *Service) { add(s, 1, elsewhere) }, func(p *Plan) { p.Name = "made1" },
			ErrExists.Error()},
		"too often in chat": {func(*Service) {}, func(p *Plan) { own(1, p); p.Schedule = "*/14 * * * *" },
			"more often than every 15 minutes"},
		"often enough":      {func(*Service) {}, func(p *Plan) { own(1, p); p.Schedule = "*/15 * * * *" }, ""},
		"often, by the API": {func(*Service) {}, func(p *Plan) { p.Schedule = "* * * * *" }, ""},
		"never, in chat":    {func(*Service) {}, func(p *Plan) { own(1, p); p.Schedule = "0 0 30 2 *" }, "is never due"},
		"twice a day, at once": {func(*Service) {}, func(p *Plan) { own(1, p); p.Schedule = "0,5 9 * * *" },
			"more often than every 15 minutes"},
	} {
		limit = 0
		s := New(Options{Now: func() time.Time { return noon }, Settings: userLimit{&limit}})
		c.fill(s)
		_, err := s.validateNew(daily(c.plan))
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// Who may see and change a digest: everybody where it is posted, its author on the same platform, and administrators.
func TestCanBeManaged(t *testing.T) {
	d, err := compile(daily(func(p *Plan) { p.By.ID, p.On = "U1", "slack" }))
	if err != nil {
		t.Fatal(err)
	}
	here, there := d.post[0], chat.Address{Platform: "slack", Workspace: "T1", Channel: "C2"}
	thread, discord := here, chat.Address{Platform: "discord", Workspace: "T1", Channel: "C1"}
	thread.Thread = "99"
	for _, c := range []struct {
		at               chat.Address
		by               chat.User
		visible, managed bool
	}{
		{here, chat.User{ID: "U2"}, true, false}, {thread, chat.User{ID: "U2"}, true, false}, {there, chat.User{ID: "U2"},
			false, false},
		{there, chat.User{ID: "U1"}, true, true}, {discord, chat.User{ID: "U1"}, false, false},
		{discord, chat.User{ID: "U2", Admin: true}, true, true}, {there, chat.User{}, false, false},
	} {
		m := chat.Message{Conversation: c.at, Author: c.by}
		if d.isVisible(m) != c.visible || d.canBeManaged(m) != c.managed {
			t.Errorf("%+v in %s: visible %v, may change it %v", c.by, c.at, d.isVisible(m), d.canBeManaged(m))
		}
	}
	d.By.ID = ""
	if d.canBeManaged(chat.Message{Conversation: here}) {
		t.Error("a digest of nobody is everybody's")
	}
}

// userLimit sets how many digests one person may have made.
type userLimit struct{ limit *int }

func (userLimit) Language(chat.Address) string { return "" }
func (u userLimit) MaxDigestsPerUser() int     { return *u.limit }
