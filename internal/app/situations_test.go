package app_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	simdiscord "ravenbot/internal/testing/sim/discord"
	simfeeds "ravenbot/internal/testing/sim/feeds"
	simmodel "ravenbot/internal/testing/sim/model"
	simslack "ravenbot/internal/testing/sim/slack"
)

const (
	speaker = "(Sunday, 22 November 2026, 09:00 UTC):\n"
	inOslo  = "(Sunday, 22 November 2026, 09:00 Europe/Oslo):\n"
	quoted  = " (22 November 2026, 09:00)"
)

// defaultAgent changes the entry of the only agent.
func defaultAgent(settings map[string]any) map[string]any {
	return settings["agents"].(map[string]any)["default"].(map[string]any)
}

// writeFile writes a file in the folder of the configuration.
func (w *world) writeFile(name, text string) {
	path := filepath.Join(w.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		panic(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		panic(err)
	}
}

// person adds somebody to Discord who is called name there.
func (s *stage) person(name string) simdiscord.User {
	return s.discord.AddPerson(simdiscord.User{Name: strings.ToLower(name) + ".account", Nick: name})
}

// slackPerson adds somebody to Slack who is called name there.
func (s *stage) slackPerson(name string) simslack.User {
	u := s.slack.AddUser(strings.ToLower(name) + ".account")
	s.slack.SetProfile(u.ID, name, "Europe/Oslo")
	return u
}

// remember has something saved to the memory, by a tool.
func (s *stage) remember(text, about string) {
	args := string(must(json.Marshal(map[string]string{"text": text, "about": about})))
	s.model.SetScript(simmodel.CallTool("memory_save", args))
	s.slack.Mention(s.channel.ID, s.berit, "remember this")
	if _, err := s.slack.WaitPost(deadline(s.t), s.channel.ID, inSlack(text)); err != nil {
		s.t.Fatal(err)
	}
}

// situations are what is shown in docs/prompts.md, in its order.
var situations = []situation{
	{
		title: "Web chat: the first message",
		says:  "The operator writes in a web room.",
		play:  func(s *stage) { s.bot.ask("general", "What is a feed?") },
		has: []string{promptInstructions, "on a web page that one operator reads", "── user ──\n", "What is a feed?",
			"web_fetch", "digest_create"},
		lacks: []string{"End of what it is about", "Notes from memory", "Passages of your files"},
	},
	{
		title: "Web chat: the second message",
		says:  "The first question and its answer come before it, unchanged, so that a provider can cache them.",
		play: func(s *stage) {
			s.bot.ask("general", "What is a feed?")
			s.bot.ask("general", "And Atom?")
		},
		has: []string{"What is a feed?\n── model ──\nAnswer 1.\n── user ──\n", "And Atom?"},
	},
	{
		title:    "Discord: a mention",
		says:     "The bot may read the channel, so a first mention brings what was said before it.",
		readable: true,
		play: func(s *stage) {
			s.discord.SetTopic(s.news.ID, "Lunch and news")
			bob := s.person("Bob")
			s.discord.Say(s.news.ID, bob, "I vote for soup\nor for pizza")
			s.mention(s.anna, "what does Bob want?")
		},
		has: []string{
			"in the channel #news, which several people read, on Discord “guild”", "“Lunch and news”",
			"Before it was said, oldest first:\n> Bob" + quoted, "> I vote for soup\n> or for pizza\n",
			"Anna says " + speaker + "what does Bob want?",
		},
		lacks: []string{"bob.account", "not shown to"},
	},
	{
		title: "Discord: a mention without Message Content",
		says:  "Discord hides the words of others from the bot, and the model is told how many messages it does not see.",
		play: func(s *stage) {
			bob := s.person("Bob")
			s.discord.Say(s.news.ID, bob, "I vote for soup")
			s.discord.Say(s.news.ID, bob, "or for pizza")
			s.mention(s.anna, "what does Bob want?")
		},
		has: []string{"2 messages of others are not shown to me, because", "Message Content Intent",
			"Anna says " + speaker},
		lacks: []string{"soup", "pizza"},
	},
	{
		title:    "Discord: a reply to somebody",
		says:     "What somebody replies to is quoted, though it was said long ago.",
		readable: true,
		play: func(s *stage) {
			defer s.mention(s.anna, "is this true?", simdiscord.ReplyTo(s.discord.Say(s.news.ID, s.person("Bob"),
				"Tea has more caffeine").ID))
		},
		has: []string{"It replies to this message:\n> Bob" + quoted, "> Tea has more caffeine\n", "is this true?"},
	},
	{
		title:    "Discord: a reply to a picture",
		says:     "The picture is sent along, behind a line that names it.",
		readable: true,
		play: func(s *stage) {
			chart := simdiscord.File{Name: "chart.png", ContentType: "image/png", Body: onePixel}
			said := s.discord.Say(s.news.ID, s.person("Bob"), "our sales", simdiscord.Attach(chart))
			s.mention(s.anna, "what does it show?", simdiscord.ReplyTo(said.ID))
		},
		has: []string{"It replies to this message:\n> Bob", "> our sales\n> [attached: chart.png]", "[image/png]"},
	},
	{
		title: "Discord: a reply to an older answer of the bot",
		says:  "The older answer is quoted as the bot's own words.",
		play: func(s *stage) {
			s.mention(s.anna, "what is tea?")
			s.mention(s.anna, "what is coffee?")
			answer := must(s.discord.WaitPost(deadline(s.t), s.news.ID, inDiscord("Answer 1.")))
			s.mention(s.anna, "explain that one", simdiscord.ReplyTo(answer.ID))
		},
		has: []string{"It replies to this message:\n> you" + quoted, "> Answer 1.\n",
			"what is coffee?\n── model ──\nAnswer 2."},
	},
	{
		title:    "Discord: a thread",
		says:     "The title of the thread stands in the system prompt.",
		readable: true,
		play: func(s *stage) {
			thread := s.discord.AddThreadBy(s.news, s.anna, "Outage on Monday")
			s.discord.Say(thread.ID, s.person("Bob"), "db1 was full")
			s.discord.Say(thread.ID, s.anna, s.discord.Mention()+" what happened?")
			s.next()
		},
		has:   []string{"in the thread “Outage on Monday” of the channel #news", "> Bob" + quoted, "> db1 was full"},
		lacks: []string{"several people read, on Discord “guild”. The channel's topic"},
	},
	{
		title: "Discord: a direct message",
		says:  "Nothing is quoted: the history has all that was said.",
		play: func(s *stage) {
			s.discord.Say(s.discord.AddDM(s.anna).ID, s.anna, "hello")
			s.next()
		},
		has:   []string{"in a direct message on Discord", "says " + speaker + "hello"},
		lacks: []string{"#news", "About the next message"},
	},
	{
		title:    "Discord: /raven ask",
		says:     "A command brings the same as a mention.",
		readable: true,
		play: func(s *stage) {
			if err := s.discord.WaitCommand(deadline(s.t), "raven"); err != nil {
				s.t.Fatal(err)
			}
			s.discord.Say(s.news.ID, s.person("Bob"), "I vote for soup")
			must(s.discord.Slash(s.news.ID, s.anna, "raven", "ask", map[string]any{"text": "who wants soup?"}))
			s.next()
		},
		has: []string{"#news", "> I vote for soup", "Anna says " + speaker + "who wants soup?"},
	},
	{
		title: "Discord: an embed and a poll",
		says:  "What is no text is written in words, in brackets.",
		play: func(s *stage) {
			s.mention(s.anna, "look", simdiscord.With(func(p *simdiscord.Post) {
				p.Embeds = []json.RawMessage{[]byte(`{"title":"Release 2","description":"Faster than before"}`)}
				p.Poll = []byte(`{"question":{"text":"Lunch?"},"answers":[{"answer_id":1,"poll_media":{"text":"Pizza"}}]}`)
			}))
		},
		has: []string{"look\n[embed: Release 2\nFaster than before]\n[poll: Lunch? Answers: Pizza"},
	},
	{
		title:    "Discord: a link to another message",
		says:     "A message of the same channel is quoted; one of another channel is not read, and the model is told so.",
		readable: true,
		play: func(s *stage) {
			link := func(p simdiscord.Post) string {
				return "https://discord.com/channels/" + s.guild.ID + "/" + p.ChannelID + "/" + p.ID
			}
			plan := s.discord.Say(s.news.ID, s.person("Bob"), "the plan is tea")
			secret := s.discord.Say(s.discord.AddChannel(s.guild, "board").ID, s.person("Eve"), "the plan is to sell")
			s.mention(s.anna, "compare "+link(plan)+" and "+link(secret))
		},
		has:   []string{"It links to this message:\n> Bob" + quoted, "> the plan is tea\n", "another channel"},
		lacks: []string{"to sell"},
	},
	{
		title: "Discord: an edit that adds the mention",
		says:  "It is answered like a new question.",
		play: func(s *stage) {
			said := s.discord.Say(s.news.ID, s.anna, "what is tea?")
			s.discord.Edit(said.ID, s.discord.Mention()+" what is tea?")
			s.next()
		},
		has: []string{"Anna says " + speaker + "what is tea?"},
	},
	{
		title: "Discord: a voice message",
		says:  "The model gets the sound where it takes any, and is told that it is a voice message.",
		play: func(s *stage) {
			voice := simdiscord.File{Name: "voice-message.ogg", ContentType: "audio/ogg", Seconds: 11.6, Body: []byte("OggS")}
			s.discord.Say(s.discord.AddDM(s.anna).ID, s.anna, "", simdiscord.Attach(voice),
				simdiscord.With(func(p *simdiscord.Post) { p.Flags |= 1 << 13 }))
			s.next()
		},
		has: []string{"[attached: voice message, 12 s]"},
	},
	{
		title: "Slack: a mention",
		says:  "The name and time zone are those of the author's profile.",
		play: func(s *stage) {
			s.slack.SetTopic(s.channel.ID, s.berit, "Lunch and news")
			s.slack.Say(s.channel.ID, s.slackPerson("Carl"), "I vote for soup")
			s.slack.Mention(s.channel.ID, s.berit, "what does Carl want?")
			s.next()
		},
		has: []string{
			"in the channel #news, which several people read, on Slack “Simulated”", "“Lunch and news”",
			"> Carl" + quoted, "> I vote for soup\n", "Berit says " + inOslo + "what does Carl want?",
		},
		lacks: []string{"carl.account"},
	},
	{
		title: "Slack: somebody is mentioned",
		says:  "Ids of people are replaced by their names.",
		play: func(s *stage) {
			carl := s.slackPerson("Carl")
			s.slack.Mention(s.channel.ID, s.berit, "who is <@"+carl.ID+">?")
			s.next()
		},
		has:   []string{"who is @Carl?"},
		lacks: []string{"@U0"},
	},
	{
		title: "Slack: a thread of others",
		says:  "The first mention in a thread brings how it began, and its replies.",
		play: func(s *stage) {
			carl := s.slackPerson("Carl")
			root := s.slack.Say(s.channel.ID, carl, "tea is better")
			s.slack.Say(s.channel.ID, carl, "said beside the thread")
			s.slack.ThreadReply(s.channel.ID, root.TS, s.berit, "coffee is")
			s.slack.ThreadReply(s.channel.ID, root.TS, s.berit, simslack.BotMention+" who is right?")
			s.next()
		},
		has: []string{"The thread began with:\n> Carl" + quoted, "> tea is better\n", "> coffee is\n",
			"in a thread of the channel #news"},
		lacks: []string{"beside the thread"},
	},
	{
		title: "Slack: a second mention",
		says:  "It brings what was said since the first one.",
		play: func(s *stage) {
			carl := s.slackPerson("Carl")
			root := s.slack.Say(s.channel.ID, carl, "tea is better")
			s.slack.ThreadReply(s.channel.ID, root.TS, s.berit, simslack.BotMention+" is it?")
			s.next()
			s.slack.ThreadReply(s.channel.ID, root.TS, carl, "<@"+s.berit.ID+"> it has no foam")
			s.slack.ThreadReply(s.channel.ID, root.TS, s.berit, simslack.BotMention+" and now?")
			s.next()
		},
		has: []string{
			"is it?\n── model ──\nAnswer 1.\n── user ──\n[About the next message", "Before it was said, oldest first:\n> Carl",
			"> @Berit it has no foam\n", "and now?",
		},
		lacks: []string{"> you"},
	},
	{
		title: "Slack: a direct message",
		says:  "Nothing is quoted: the history has all that was said.",
		play: func(s *stage) {
			s.slack.DM(s.berit, "hello")
			s.next()
		},
		has:   []string{"in a direct message on Slack", "Berit says " + inOslo + "hello"},
		lacks: []string{"#news", "About the next message"},
	},
	{
		title: "Slack: /raven ask",
		says:  "A command brings the same as a mention.",
		play: func(s *stage) {
			s.slack.Say(s.channel.ID, s.slackPerson("Carl"), "I vote for soup")
			s.slack.Slash(s.channel.ID, s.berit, "/raven", "ask who wants soup?")
			s.next()
		},
		has: []string{"#news", "> I vote for soup", "Berit says " + inOslo + "who wants soup?"},
	},
	{
		title: "Slack: a text and a PDF are attached",
		says:  "The text of both stands behind the words, each with the name of its file.",
		play: func(s *stage) {
			text := s.slack.Upload(simslack.File{Name: "plan.txt", Title: "plan.txt", Type: "text/plain",
				Body: []byte("Tea at four.")})
			pdf := s.slack.Upload(simslack.File{Name: "menu.pdf", Title: "menu.pdf", Type: "application/pdf",
				Body: smallPDF("Soup of the day")})
			s.slack.SayWith(s.channel.ID, s.berit, simslack.BotMention+" sum these up", func(p *simslack.Post) {
				p.Files = []simslack.File{text, pdf}
			})
			s.next()
		},
		has: []string{"plan.txt", "Tea at four.", "menu.pdf", "Soup of the day", "sum these up"},
	},
	{
		title: "Several people at once",
		says:  "What came while the bot was busy is answered in one reply, and everybody keeps their name.",
		play: func(s *stage) {
			release := make(chan struct{})
			n := 0
			s.model.SetScript(func(r simmodel.Request) simmodel.Reply {
				if n++; n == 1 {
					<-release
				}
				return simmodel.Say(answerNumber(n))
			})
			free := sync.OnceFunc(func() { close(release) })
			defer free()
			root := s.slack.Mention(s.channel.ID, s.berit, "what is tea?")
			must(s.model.WaitAsked(deadline(s.t), 1))
			for _, e := range []simslack.Event{
				s.slack.ThreadReply(s.channel.ID, root.TS, s.slackPerson("Carl"), simslack.BotMention+" and coffee?"),
				s.slack.ThreadReply(s.channel.ID, root.TS, s.slackPerson("Dora"), simslack.BotMention+" and cocoa?"),
			} {
				must(s.slack.WaitAck(deadline(s.t), e.IDs[0])) // only what is stored is acknowledged
			}
			free()
			s.next()
			s.next()
		},
		has: []string{"Carl says " + inOslo + "and coffee?", "Dora says " + inOslo + "and cocoa?",
			"[The last 2 messages of users came while you were busy"},
	},
	{
		title: "Notes of the asker and of the channel",
		says:  "Those that fit the question stand behind it, and only in this one request.",
		play: func(s *stage) {
			s.remember("Berit takes her tea without sugar", "me")
			s.remember("The channel orders tea on Fridays", "channel")
			s.model.SetScript(func(simmodel.Request) simmodel.Reply { return simmodel.Say(answerNumber(1)) })
			s.slack.Mention(s.channel.ID, s.berit, "which tea do I order, and when?")
			s.next()
		},
		has: []string{"[Notes from memory that may matter here, up to the mark END-", "without sugar", "on Fridays"},
	},
	{
		title: "A small file is known as a whole",
		says:  "It stands in the system prompt, which a provider can cache.",
		setUp: func(w *world, settings map[string]any) {
			w.writeFile("handbook.md", "# Doors\n\nThe door code is 1111.\n")
			defaultAgent(settings)["knowledge"] = []string{"handbook.md"}
		},
		play: func(s *stage) { s.bot.ask("general", "What is the door code?") },
		has:  []string{"You know these files as a whole.", "The door code is 1111.", "handbook.md"},
	},
	{
		title: "Large files are known by passages",
		says:  "The passages that fit stand before the question, each with its file and heading.",
		setUp: func(w *world, settings map[string]any) {
			var b strings.Builder
			for n := range 200 {
				fmt.Fprintf(&b, "## Room %d\n\n%s\n\n", n, strings.Repeat(fmt.Sprintf("Room %d has chairs and a window. ", n), 8))
			}
			w.writeFile("handbook.md", "# Doors\n\nThe code of the front door is 1111.\n\n"+b.String())
			defaultAgent(settings)["knowledge"] = []string{"handbook.md"}
		},
		play: func(s *stage) { s.bot.ask("general", "What is the code of the front door?") },
		has: []string{"[Passages of your files that may matter to the next message, up to the mark END-",
			"The code of the front door is 1111.", "knowledge_search"},
		lacks: []string{"Room 150"},
	},
	{
		title: "A skill",
		says:  "The model knows what the skill is for, and reads it when it needs it.",
		setUp: func(w *world, settings map[string]any) {
			w.writeFile("skills/brew-tea/SKILL.md", "---\nname: brew-tea\ndescription: How we brew tea.\n---\nThree minutes.")
			defaultAgent(settings)["skills"] = []string{"skills/*"}
		},
		play:  func(s *stage) { s.bot.ask("general", "How do you brew tea?") },
		has:   []string{"read it with skill_read", "- brew-tea: How we brew tea.", "skill_read"},
		lacks: []string{"Three minutes."},
	},
	{
		title:     "Sixty tools",
		discovery: true,
		says:      "With more tools than `tools.discovery.threshold` the model gets five that find and run the others.",
		setUp: func(w *world, settings map[string]any) {
			settings["mcpServers"] = map[string]any{"kit": map[string]any{"command": os.Args[0], "eager": true,
				"env": map[string]string{
					"RAVENBOT_TOOL_SERVER": w.tools, "RAVENBOT_TOOL_COUNT": "57", "GORACE": "atexit_sleep_ms=0"}}}
		},
		play: func(s *stage) {
			within(s.t, "the tool server is connected", func() bool {
				var v struct{ State string }
				s.bot.call(http.MethodGet, "/api/v1/mcp/servers/kit", nil, &v)
				return v.State == "connected"
			})
			s.bot.ask("general", "Start machine 7.")
		},
		has: []string{"discover_tools", "get_tool_schema", "execute_tool", "list_tool_domains",
			"browse_tool_domain", "memory_save"},
		lacks: []string{"kit_machine", "feeds_fetch", "memory_update"},
	},
	{
		title: "A tool result in the history",
		says:  "Calls and results of earlier turns stay in the request, in their order.",
		play: func(s *stage) {
			s.feeds.AddFeed("/own.xml", "Our own", simfeeds.RSS)
			s.feeds.AddItem("/own.xml", simfeeds.Item{ID: "1", Title: "Tea is here", Link: "https://own.example/1",
				Published: time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC)})
			s.model.SetScript(simmodel.Sequence(
				simmodel.Reply{Calls: []simmodel.Call{{Name: "feeds_fetch",
					Args: must(json.Marshal(map[string]string{"url": s.feeds.URL() + "/own.xml"}))}}},
				simmodel.Say("One item."),
				simmodel.Say(answerNumber(1)),
			))
			s.bot.ask("general", "What is new?")
			s.bot.ask("general", "Is there tea?")
		},
		has: []string{"calls feeds_fetch {", "returned: ", "Tea is here", "── model ──\nOne item.\n── user ──\n"},
	},
	{
		title:  "After a summary",
		varies: true,
		says:   "With `context.turns` at 2 earlier questions are replaced by a summary.",
		setUp: func(_ *world, settings map[string]any) {
			defaultAgent(settings)["context"] = map[string]any{"turns": 2}
		},
		play: func(s *stage) {
			for n := range 6 {
				s.bot.ask("general", fmt.Sprintf("What is tea number %d?", n))
			}
			within(s.t, "there is a summary in a request", func() bool {
				s.bot.ask("general", "And sugar?")
				asked := s.model.Asked()
				return strings.Contains(string(asked[len(asked)-1].Raw), "asked about tea")
			})
		},
		has:   []string{"[What was said here before, in short:\nAnna asked about tea and sugar.", "And sugar?"},
		lacks: []string{"What is tea number 0?"},
	},
	{
		title: "A scheduled task",
		says:  "Nobody waits for it, so the model is not told to ask back.",
		setUp: func(w *world, settings map[string]any) {
			settings["digests"] = map[string]any{"task": map[string]any{"schedule": "0 3 1 1 *",
				"prompt": "Say something about tea.",
				"post":   []string{"slack:" + simslack.TeamID + "/" + w.channel.ID}}}
		},
		play: func(s *stage) {
			s.bot.call(http.MethodPost, "/api/v1/digests/task/run", nil, nil)
			if _, err := s.slack.WaitPost(deadline(s.t), s.channel.ID, inSlack("Answer 1.")); err != nil {
				s.t.Fatal(err)
			}
		},
		has:   []string{"carried out on a schedule", "Say something about tea."},
		lacks: []string{"ask one short question", " says ("},
	},
	{
		title: "A language is set",
		says:  "It is the last sentence of the instructions.",
		play: func(s *stage) {
			set := s.slack.Slash(s.channel.ID, s.berit, "/raven", "settings language Norwegian")
			isSet := func(a simslack.Answer) bool { return strings.Contains(a.Text, "Norwegian") }
			if _, err := s.slack.WaitAnswer(deadline(s.t), set, isSet); err != nil {
				s.t.Fatal(err)
			}
			s.slack.Mention(s.channel.ID, s.berit, "what is tea?")
			s.next()
		},
		has: []string{"Answer in this language, whatever the question is written in: Norwegian."},
	},
	{
		title: "A message that is read late",
		says:  "Beside when it was said the model is told what time it is now.",
		late:  true,
		play: func(s *stage) {
			s.mention(s.anna, "is it lunch time?")
		},
		has: []string{"Anna says " + speaker + "is it lunch time?", "[It is now Sunday, 22 November 2026, 09:00 UTC.]"},
	},
}

// onePixel is the smallest PNG.
var onePixel = []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00\x1f\x15\xc4\x89" +
	"\x00\x00\x00\nIDATx\x9cc\x00\x01\x00\x00\x05\x00\x01\r\n-\xb4\x00\x00\x00\x00IEND\xaeB`\x82")

// smallPDF returns a PDF with one line of text.
func smallPDF(line string) []byte {
	content := "BT /F1 12 Tf 72 720 Td (" + line + ") Tj ET"
	objects := []string{
		"<< /Type /Catalog /Pages 2 0 R >>",
		"<< /Type /Pages /Kids [4 0 R] /Count 1 >>",
		"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
		"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Resources << /Font << /F1 3 0 R >> >> /Contents 5 0 R >>",
		fmt.Sprintf("<< /Length %d >>\nstream\n%s\nendstream", len(content), content),
	}
	file, index := "%PDF-1.4\n", "0000000000 65535 f \n"
	for n, object := range objects {
		index += fmt.Sprintf("%010d 00000 n \n", len(file))
		file += fmt.Sprintf("%d 0 obj\n%s\nendobj\n", n+1, object)
	}
	return fmt.Appendf(nil, "%sxref\n0 %d\n%strailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n",
		file, len(objects)+1, index, len(objects)+1, len(file))
}
