package agent

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/conversation"
	"ravenbot/internal/core/llm"
	"ravenbot/internal/core/origin"
	"ravenbot/internal/store"
	"ravenbot/internal/turn/prompt"
)

// contextTimeout limits how long an answer waits for what its question is about.
const contextTimeout = 2500 * time.Millisecond

// lateAfter is the age of a question from which the model gets the current time in addition to the time of the
// question.
const lateAfter = 10 * time.Minute

// loadContexts reads the context of the question's messages. isNew means that the turn has no messages yet, and also
// needs the preceding messages.
func (r *run) loadContexts(ctx context.Context, past history, isNew bool) {
	r.contexts = make([]chat.Context, len(r.asked.Messages))
	if r.engine.o.Places == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, contextTimeout)
	defer cancel()
	var wg sync.WaitGroup
	for i, m := range r.asked.Messages {
		if m.Command == chat.Pressed {
			continue
		}
		var q chat.ContextQuery
		// In a direct message the history has everything that was said.
		if isNew && i == 0 && !m.Direct && !m.Author.Operator {
			q = chat.ContextQuery{Messages: r.profile.ContextMessages, After: lastMessageID(past.turns)}
		}
		read := func() { r.contexts[i] = r.engine.o.Places.Context(ctx, m, q) }
		// Usually there is only one message, which needs no goroutine.
		if i == len(r.asked.Messages)-1 {
			read()
		} else {
			wg.Go(read)
		}
	}
	wg.Wait()
	for i, m := range r.asked.Messages {
		c := &r.contexts[i]
		// The history has the bot's answers. An answer that it lacks belongs to a deleted message, and must not return.
		c.Recent = slices.DeleteFunc(c.Recent, func(s chat.Said) bool {
			return s.Self && r.lookUpPost(ctx, m.Conversation, s).Turn != ""
		})
		r.markOrigins(ctx, m, c)
	}
}

// flushAfter is how old a post of the bot may be whose outcome is perhaps not stored yet.
const flushAfter = time.Minute

// lookUpPost returns the stored record of a message of the bot, or the zero value if there is none.
func (r *run) lookUpPost(ctx context.Context, at chat.Address, s chat.Said) store.ShownTurn {
	// The deadline of the look-ups may have passed by now; it is not meant for the store.
	ctx = context.WithoutCancel(ctx)
	shown, known, err := r.engine.o.Store.ShownTurn(ctx, at, s.ID)
	isNew := r.engine.o.Now().Sub(s.At) < flushAfter
	if err == nil && !known && isNew && r.engine.o.Flush != nil && r.engine.o.Flush() {
		shown, _, err = r.engine.o.Store.ShownTurn(ctx, at, s.ID)
	}
	if err != nil {
		r.engine.o.Log.Error("failed to look up the turn of a message of the bot", "message", s.ID, "error", err)
	}
	return shown
}

// lastMessageID returns the ID on its platform of the newest message that the turns answer.
func lastMessageID(turns []conversation.Turn) string {
	if len(turns) == 0 {
		return ""
	}
	_, id, _ := strings.Cut(last(turns[len(turns)-1].Subjects()), "/")
	return id
}

// last returns the last element of a list, which must not be empty.
func last[T any](list []T) T { return list[len(list)-1] }

// writeQuestion writes the messages of a new turn.
func (r *run) writeQuestion(ctx context.Context) {
	known := r.knownSubjects()
	for i, m := range r.asked.Messages {
		about := r.contexts[i]
		parts := prompt.Context(about, known, r.engine.o.Now().Location())
		// The files of the message replied to are as much in question as its words.
		if about.Reply != nil && len(about.Reply.Files) > 0 {
			quoted := chat.Message{ID: m.ID, Conversation: m.Conversation, Files: about.Reply.Files}
			parts = append(parts, r.engine.readFiles(ctx, quoted)...)
			parts = append(parts, llm.Part{Text: "\n", Source: llm.SourceFile})
		}
		parts = append(parts, r.userParts(m, about)...)
		parts = append(parts, r.engine.readFiles(ctx, m)...)
		r.turn.Messages = append(r.turn.Messages, llm.Message{Role: llm.User, Parts: parts})
	}
}

// knownSubjects returns a function that reports which messages are in the request anyway.
func (r *run) knownSubjects() func(subject string) bool {
	subjects := map[string]bool{}
	for _, t := range r.history.turns {
		for _, s := range t.Subjects() {
			subjects[s] = true
		}
		for _, s := range t.Quotes() {
			subjects[s] = true
		}
	}
	for _, m := range r.asked.Messages {
		subjects[m.Subject()] = true
	}
	return func(subject string) bool { return subjects[subject] }
}

// userParts returns the parts with the speaker and the words of a message.
func (r *run) userParts(m chat.Message, about chat.Context) []llm.Part {
	var parts []llm.Part
	if p := prompt.Speaker(m, about, r.engine.o.Now().Location()); p.Text != "" {
		parts = append(parts, p)
	}
	words := llm.Part{Text: prompt.Words(m, about), Origin: m.Origin.With(origin.User(m.Conversation.Platform, m.Author.ID))}
	mayUse := r.usersAt(m.Conversation)
	for id := range about.Names { // of the people whom it mentions
		switch {
		case id == m.Author.ID || !strings.Contains(m.Text, "@"+id):
		case mayUse(id):
			words.Origin = words.Origin.With(origin.User(m.Conversation.Platform, id))
		default:
			words.Origin = words.Origin.With(origin.Foreign("the name of somebody who may not use me"))
		}
	}
	return append(parts, words)
}

// loadKnowledge adds the agent's knowledge from files to a new question. It leaves out passages that are already in
// the conversation.
func (r *run) loadKnowledge(ctx context.Context, isNew bool) {
	if r.profile.Recall == nil {
		return
	}
	known := r.profile.Recall(ctx, r.questionText(), r.earlierQuestions())
	r.standing = known.Standing
	if !isNew || len(r.turn.Messages) == 0 {
		return
	}
	// The model has them from an earlier turn; once more would only cost tokens.
	shown := r.shownKnowledge()
	var fresh []string
	for _, p := range known.Passages {
		if !strings.Contains(shown, p) {
			fresh = append(fresh, p)
		}
	}
	if p := prompt.Knowledge(strings.Join(fresh, "\n\n")); p.Text != "" {
		// Insert it before the words, because models look for the question at the end.
		first := &r.turn.Messages[0]
		first.Parts = append([]llm.Part{p}, first.Parts...)
	}
}

// maxEarlierQuestions is the number of previous questions that give context to a follow-up question.
const maxEarlierQuestions = 2

// earlierQuestions returns the words of the newest questions before the current one, oldest first.
func (r *run) earlierQuestions() []string {
	var list []string
	turns := r.history.turns
	for _, t := range turns[max(0, len(turns)-maxEarlierQuestions):] {
		list = append(list, questionText(t))
	}
	return list
}

// questionText returns the words of all messages of the question.
func (r *run) questionText() string { return questionText(*r.turn) }

// questionText returns the words of a turn's messages.
func questionText(t conversation.Turn) string {
	var words []string
	for _, m := range t.UserMessages() {
		words = append(words, userText(m))
	}
	return strings.Join(words, "\n")
}

// shownKnowledge returns the passages that are already in the turns of the request.
func (r *run) shownKnowledge() string {
	var b strings.Builder
	for _, t := range r.history.turns {
		for _, m := range t.UserMessages() {
			for _, p := range m.Parts {
				if p.Source == llm.SourceKnowledge {
					b.WriteString(p.Text)
				}
			}
		}
	}
	return b.String()
}

// loadVolatile finds the parts after the question that belong only to this turn: they may differ in the next one, or
// are not for every later asker. They come last, so that the beginning of the request can be cached.
func (r *run) loadVolatile(ctx context.Context) {
	if r.engine.o.Notes != nil {
		m := r.message
		m.Author = r.asker()
		notes, from := r.engine.o.Notes.Recall(ctx, m, r.questionText())
		if p := prompt.Notes(notes, from); p.Text != "" {
			r.volatile = append(r.volatile, p)
		}
	}
	if n := len(r.asked.Messages); n > 1 {
		r.volatile = append(r.volatile, prompt.Several(n))
	}
	now := r.engine.o.Now()
	if said := r.message.Time; !said.IsZero() && now.Sub(said) > lateAfter {
		r.volatile = append(r.volatile, prompt.Late(now))
	}
}

// request returns the request to the model of an origin. What rarely changes comes first, so
// that providers can cache it.
func (r *run) request(origin string) llm.Request {
	turns := slices.Concat(r.history.turns, []conversation.Turn{r.requestTurn()})
	q := llm.Request{
		System:   r.system().Text(),
		Messages: conversation.Build(r.history.summary, turns, origin),
		Tools:    r.declared,
	}
	if r.stopReason != "" {
		q.Tools = nil
		q.System += "\n\nNo more tools can be called in this turn. " +
			"Answer now with what you have, and say what is missing."
	}
	return q
}

// system returns what the system prompt is made of.
func (r *run) system() prompt.System {
	s := prompt.System{
		Instructions: r.profile.System,
		Knowledge:    r.standing,
		Skills:       r.profile.Skills,
		Tools:        map[string]bool{},
		Place:        r.place,
		Direct:       r.message.Direct,
		Operator:     r.message.Author.Operator,
		Platform:     r.message.Conversation.Platform,
		Unattended:   r.profile.Unattended,
	}
	for _, t := range r.declared {
		s.Tools[t.Name] = true
	}
	if r.usesDiscovery && !r.profile.ToolText {
		s.Discovery = r.engine.o.Discovery.Prompt()
	}
	if r.engine.o.Places != nil {
		s.Formatting = r.engine.o.Places.Formatting(s.Platform)
	}
	return s
}

// requestTurn returns a copy of the turn for a request, with the parts that are not stored: the images, and the parts
// after the question that belong only to this turn.
func (r *run) requestTurn() conversation.Turn {
	t := *r.turn
	if r.isShortened {
		t = t.WithShortResults()
	}
	words := t.UserMessages()
	added := slices.Clone(r.volatile)
	if !r.imagesRefused {
		added = append(added, slices.Concat(r.media.get(), r.toolImages)...)
	}
	if len(added) == 0 || len(words) == 0 {
		return t
	}
	t.Messages = slices.Clone(t.Messages)
	question := &t.Messages[len(words)-1]
	question.Parts = slices.Concat(question.Parts, added)
	return t
}
