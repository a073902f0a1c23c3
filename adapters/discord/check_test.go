package discord_test

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"ravenbot/adapters/discord"
	simdiscord "ravenbot/internal/testing/sim/discord"
)

func TestInvite(t *testing.T) {
	u, err := url.Parse(discord.Invite("42"))
	if err != nil || u.Host != "discord.com" || u.Path != "/oauth2/authorize" {
		t.Fatalf("%v: %v", u, err)
	}
	q := u.Query()
	bits, err := strconv.ParseInt(q.Get("permissions"), 10, 64)
	if err != nil || q.Get("client_id") != "42" || q.Get("scope") != "bot applications.commands" {
		t.Errorf("query %v: %v", q, err)
	}
	for i, bit := range []int{10, 11, 38, 35, 14, 15, 16, 6} { // by Discord's table of permissions
		if bits>>bit&1 == 0 || discord.Permissions()[i].Bit != 1<<bit {
			t.Errorf("%s is not bit %d", discord.Permissions()[i].Name, bit)
		}
		bits &^= 1 << bit
	}
	if bits != 0 {
		t.Errorf("also asks for %b", bits)
	}
}

func TestCheckFindsWhatIsMissing(t *testing.T) {
	t.Parallel()
	s := open(t, script{})
	all := discord.Needed()
	s.Grant(s.AddGuild("narrow").ID, all&^(1<<35|1<<16))
	s.Grant(s.AddGuild("administered").ID, 1<<3)
	for i := range 250 { // more than Discord lists at once
		s.AddGuild(fmt.Sprint("fine ", i))
	}
	s.Grant(s.AddGuild("blind").ID, 0)
	found := s.d.Check(within(t))
	var got []string
	for _, f := range found {
		name, _, _ := strings.Cut(f.Where, " (")
		missing, _ := strings.CutSuffix(f.Problem, " is missing")
		got = append(got, name+": "+missing)
		if f.Loses == "" || !strings.Contains(f.Remedy, missing) {
			t.Errorf("finding %+v", f)
		}
	}
	want := []string{"server narrow: Create Public Threads", "server narrow: Read Message History"}
	for _, p := range discord.Permissions() {
		want = append(want, "server blind: "+p.Name)
	}
	if !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
}

func TestCheckOfIntents(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		privileged int
		wanted     bool
		missing    string
	}{
		"wanted and off":   {wanted: true, missing: "Message Content Intent"},
		"wanted and on":    {wanted: true, privileged: simdiscord.IntentMessageContent},
		"neither":          {},
		"on without being": {privileged: simdiscord.IntentMessageContent},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, script{sim: simdiscord.Options{Privileged: c.privileged}})
			d := discord.New(discord.Options{Token: "token", APIBaseURL: s.URL(), Log: s.logger(), MessageContent: c.wanted})
			found := d.Check(within(t))
			if c.missing == "" && len(found) > 0 || c.missing != "" &&
				(len(found) != 1 || found[0].Problem != c.missing+" is missing" ||
					!strings.Contains(found[0].Remedy, "Privileged Gateway Intents")) {
				t.Errorf("found %+v", found)
			}
		})
	}
}

// What cannot be found out is a finding, and not a clean bill.
func TestCheckWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	s := open(t, script{})
	for name, c := range map[string]struct {
		options         discord.Options
		problem, remedy string
	}{
		"refused token": {discord.Options{APIBaseURL: s.URL()}, "Discord refused the bot token", "reset the token at"},
		"no address":    {discord.Options{APIBaseURL: "discord.com"}, "apiBaseURL", "check again"},
		"nobody there":  {discord.Options{APIBaseURL: "http://127.0.0.1:1"}, "refused", "see that this machine reaches Discord"},
		"no name": {discord.Options{APIBaseURL: "http://discord..invalid"},
			"Discord could not be asked: no address was found for discord..invalid (", "look at the network of this machine"},
	} {
		c.options.Token, c.options.Log = "SECRET", s.logger()
		found := discord.New(c.options).Check(within(t))
		if len(found) != 1 || strings.Contains(fmt.Sprint(found), "SECRET") ||
			!strings.Contains(found[0].Problem, c.problem) || !strings.HasPrefix(found[0].Remedy, c.remedy) {
			t.Errorf("%s: %+v", name, found)
		}
	}
	if id, err := s.d.Application(within(t)); id != s.Bot().ID {
		t.Errorf("application %q: %v", id, err)
	}
}
