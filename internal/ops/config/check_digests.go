package config

import (
	"fmt"
	"strings"
	"time"
)

// checkDigests checks the mail server and every digest.
func (k checker) checkDigests() {
	k.checkSMTP()
	for name, g := range k.c.Digests {
		checkNameExists(k, "agent", g.Agent, k.c.Agents, "digests", name, "agent")
		k.checkSchedule(g, name)
		k.checkHasTask(g, name)
		for i, feed := range g.Feeds {
			k.checkFeed(feed.URL.Reveal(), "digests", name, "feeds", i)
		}
		for i, address := range g.Post {
			k.checkPostAddress(address, "digests", name, "post", i)
			if len(g.Tags) > 0 && !strings.HasPrefix(address, "discord:") {
				k.addWarning(nodeAt(k.root, "digests", name, "tags"), "posts have tags in forums of Discord alone, not in "+address,
					"remove the tags, or leave it: the post there has none")
			}
		}
		k.checkEmail(g, name)
		for i, channel := range g.Channels {
			k.checkChannelSource(channel, g.Post, "digests", name, "channels", i)
		}
		for i, f := range g.Filters {
			k.checkWith(
				k.checks.Filter,
				f,
				"write a word, -word, /expression/, -/expression/ or mute:WORD until 2026-12-24",
				"digests",
				name,
				"filters",
				i,
			)
		}
	}
}

// checkEmail checks the mailboxes of a digest.
func (k checker) checkEmail(g Digest, name string) {
	for i, mailbox := range g.Email {
		k.checkWith(k.checks.Mailbox, mailbox, "write it like anna@example.org", "digests", name, "email", i)
	}
	switch {
	case len(g.Email) > 0 && k.c.SMTP.Host == "":
		k.report("there is no mail server", "name one: smtp.host and smtp.from", "digests", name, "email")
	case len(g.Email) > 0 && k.c.HTTP.PublicURL.Reveal() == "":
		k.addWarning(
			nodeAt(k.root, "digests", name, "email"),
			"mails have no link to unsubscribe, because http.publicURL is empty",
			"say under which address others reach the bot",
		)
	}
	switch {
	case len(g.Email) > 0 && len(g.Channels) > 0:
		k.report("messages of channels are not sent by mail, because the bot cannot check who reads the mail",
			"remove email, or make a digest of its own of the channels", "digests", name, "email")
	}
}

// checkSMTP checks the mail server.
func (k checker) checkSMTP() {
	s := k.c.SMTP
	switch {
	case s.Host == "":
		return
	case s.From == "":
		k.report("missing or empty", "say who the sender is, such as ravenbot@example.org", "smtp", "from")
	default:
		k.checkWith(k.checks.Mailbox, s.From, "write it like ravenbot@example.org", "smtp", "from")
	}
	local := s.Host == "localhost" || strings.HasPrefix(s.Host, "127.") || s.Host == "::1"
	if s.TLS == "none" && s.Password != "" && !local {
		k.report("the password would cross the network unprotected", "use starttls or tls, or remove user and password",
			"smtp", "tls")
	}
}

// checkChannelSource checks a channel that a digest is made of against the places that it is posted to.
func (k checker) checkChannelSource(channel string, post []string, path ...any) {
	for _, to := range post {
		if k.checks.DigestChannel == nil {
			return
		}
		if err := k.checks.DigestChannel(channel, to); err != nil {
			k.reportError(err, channel, "name a channel of the server or workspace that the digest is posted to", path...)
			return
		}
	}
}

// scheduleOnNew is the schedule of a digest that posts items as they arrive.
const scheduleOnNew = "on-new"

// styleWeekly is the style of digests that need neither feeds nor a prompt.
const styleWeekly = "weekly"

// checkHasTask reports a digest that has nothing to do.
func (k checker) checkHasTask(g Digest, name string) {
	switch {
	case g.Style == styleWeekly && len(g.Feeds) > 0:
		k.report("weekly takes no feeds", "remove the feeds: it is made of what other digests posted to the same place",
			"digests", name, "style")
	case g.Style == styleWeekly && g.Schedule == scheduleOnNew:
		k.report("on-new needs feeds", "write when the digest is due", "digests", name, "schedule")
	case g.Style == styleWeekly && len(g.Channels) > 0:
		k.report("weekly takes no channels", "remove the channels, or choose another style", "digests", name, "style")
	case len(g.Channels) > 0 && g.Schedule == scheduleOnNew:
		k.report("on-new works with feeds only", "write when the digest is due", "digests", name, "schedule")
	case len(g.Feeds)+len(g.Channels) > 0, k.hasHook(name), g.Style == styleWeekly:
	case g.Prompt == "":
		k.report(
			"missing or empty, and there is no prompt either",
			"name feeds or channels, or give a prompt as the agent's task",
			"digests",
			name,
			"feeds",
		)
	case g.Schedule == scheduleOnNew:
		k.report("on-new needs feeds", "name feeds, or write when the task is due", "digests", name, "schedule")
	}
}

// checkSchedule checks the time zone and, with another package's check, when a digest is due.
func (k checker) checkSchedule(g Digest, name string) {
	if _, err := time.LoadLocation(g.Timezone); err != nil {
		remedy := "write an IANA name such as Europe/Oslo or UTC"
		if nearest := k.checks.NearestZone; nearest != nil && nearest(g.Timezone) != "" {
			remedy = fmt.Sprintf("did you mean %q?", nearest(g.Timezone))
		}
		k.report(
			k.quote(g.Timezone, "digests", name, "timezone")+" is not a time zone",
			remedy,
			"digests",
			name,
			"timezone",
		)
		g.Timezone = "UTC" // report the expression's own faults too; they do not depend on the zone
	}
	if k.checks.Schedule == nil || g.Schedule == "" || g.Schedule == scheduleOnNew {
		return
	}
	if err := k.checks.Schedule(g.Schedule, g.Timezone); err != nil {
		k.reportError(
			err,
			g.Schedule,
			"write weekdays at 8:30, or minute hour day month weekday, such as 30 8 * * 1-5",
			"digests",
			name,
			"schedule",
		)
	}
}

// checkHookTarget reports a webhook that posts nowhere, or for which two keys say where.
func (k checker) checkHookTarget(name string, h Webhook) {
	digest, known := k.c.Digests[h.Digest]
	switch {
	case h.Digest == "" && len(h.Post) == 0:
		k.report("missing or empty, and there is no digest either", "say where it posts, or which digest collects it",
			"webhooks", name, "post")
	case h.Digest == "":
	case !known:
		k.report(fmt.Sprintf("there is no digest %s in this file", k.quote(h.Digest, "webhooks", name, "digest")),
			"name one of digests; those made in chat take no webhooks", "webhooks", name, "digest")
	case len(h.Post) > 0 || h.Prompt != "":
		k.report("a digest collects it, so post and prompt have no effect", "remove them, or the digest",
			"webhooks", name, "digest")
	case digest.Schedule == scheduleOnNew || digest.Style == styleWeekly:
		k.report("a digest that is on-new or weekly takes no webhooks", "give that digest times and another style",
			"webhooks", name, "digest")
	}
}

// hasHook reports whether a webhook is collected by a digest.
func (k checker) hasHook(digest string) bool {
	for _, h := range k.c.Webhooks {
		if h.Digest == digest {
			return true
		}
	}
	return false
}
