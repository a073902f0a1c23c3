package eval

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/text"
	"ravenbot/internal/core/tool"
	"ravenbot/internal/recall/document"
	"ravenbot/internal/recall/history"
	"ravenbot/internal/recall/knowledge"
	"ravenbot/internal/recall/memory"
	"ravenbot/internal/recall/page"
	"ravenbot/internal/recall/toolsearch"
	"ravenbot/internal/store"
)

// maxShownChars is how much of what was found instead is told.
const maxShownChars = 200

func shorten(s string) string { return text.Shorten(text.OneLine(s), maxShownChars) }

// contains reports whether a text holds another, whatever the case of letters and the white space.
func contains(s, part string) bool {
	return strings.Contains(strings.ToLower(text.OneLine(s)), strings.ToLower(text.OneLine(part)))
}

// found reports whether a search found what is expected: a tool by its name, anything else by its text.
func (c Case) found(want string, list []string) bool {
	if c.Kind == kindTools {
		return slices.Contains(list, want)
	}
	return slices.ContainsFunc(list, func(s string) bool { return contains(s, want) })
}

// searcher returns a function that searches what a case provides and returns the first c.K results.
func (w *workspace) searcher(ctx context.Context, c Case) (func(query string) ([]string, error), error) {
	switch c.Kind {
	case kindKnowledge:
		return w.knowledgeSearcher(ctx, c)
	case kindMemory:
		return w.memorySearcher(ctx, c)
	case kindHistory:
		return w.historySearcher(ctx, c)
	}
	return toolSearcher(c), nil
}

const agentName = "default"

// knowledge returns the files of a case as the agent knows them, and their paths.
func (w *workspace) knowledge(c Case) (*knowledge.Repository, []string, error) {
	repository := knowledge.New(knowledge.Options{
		Folder:    filepath.Join(w.folder, "uploads"),
		Documents: document.NewReader(nil), // cases have texts only
		Log:       w.log,
	})
	var named []string
	for _, f := range c.Files {
		// The base name keeps a case from writing outside of its folder.
		path := filepath.Join(w.folder, filepath.Base(f.Name))
		if err := os.WriteFile(path, []byte(f.Text), 0o600); err != nil {
			return nil, nil, err
		}
		named = append(named, path)
	}
	return repository, named, nil
}

// knowledgeSearcher returns a search in the files of a case, which are indexed first.
func (w *workspace) knowledgeSearcher(ctx context.Context, c Case) (func(string) ([]string, error), error) {
	repository, named, err := w.knowledge(c)
	if err != nil {
		return nil, err
	}
	return func(query string) ([]string, error) {
		var list []string
		for _, p := range repository.Search(ctx, agentName, named, query, c.K) {
			list = append(list, p.String())
		}
		return list, nil
	}, nil
}

// askerID is the author of questions.
const askerID = "asker"

// saveNotes stores the notes of a case about who asks.
func (w *workspace) saveNotes(
	ctx context.Context,
	c Case,
	at chat.Address,
) (pack *memory.Pack, scope string, err error) {
	pack = memory.New(memory.Options{Store: w.db, Now: w.now, Log: w.log, Manages: chat.Message.AuthorManages})
	scope = "user:" + at.Platform + "/" + askerID
	for _, note := range c.Notes {
		if _, err := pack.Add(ctx, scope, note, c.Author); err != nil {
			return nil, "", fmt.Errorf("note %q: %w", note, err)
		}
	}
	return pack, scope, nil
}

// memorySearcher returns a search in the notes of a case, which are saved first.
func (w *workspace) memorySearcher(ctx context.Context, c Case) (func(string) ([]string, error), error) {
	at, err := c.place()
	if err != nil {
		return nil, err
	}
	pack, scope, err := w.saveNotes(ctx, c, at)
	if err != nil {
		return nil, err
	}
	return func(query string) ([]string, error) {
		notes, err := pack.List(ctx, scope, query)
		var list []string
		for _, n := range notes[:min(len(notes), c.K)] {
			list = append(list, n.Text)
		}
		return list, err
	}, nil
}

// historySearcher stores the messages of a case a minute after each other, the last one now.
func (w *workspace) historySearcher(ctx context.Context, c Case) (func(string) ([]string, error), error) {
	at, err := c.place()
	if err != nil {
		return nil, err
	}
	began := w.now().Add(-time.Duration(len(c.Messages)) * time.Minute)
	var messages []store.Message
	for i, m := range c.Messages {
		by := cmp.Or(m.Author, "somebody")
		messages = append(messages, store.Message{
			Conversation: at,
			ID:           fmt.Sprint("message-", i+1),
			Author:       chat.User{ID: by, Name: by},
			At:           began.Add(time.Duration(i) * time.Minute),
			Text:         m.Text,
		})
	}
	if _, err := w.db.SaveMessages(ctx, messages); err != nil {
		return nil, err
	}
	return w.searchHistory(ctx, at, c.K), nil
}

// searchHistory returns a function that searches what was said at a place.
func (w *workspace) searchHistory(ctx context.Context, at chat.Address, k int) func(string) ([]string, error) {
	service := history.New(history.Options{
		Store:    w.db,
		Platform: func(string) chat.Platform { return nil },
		Place:    func(tool.Caller) (chat.Address, bool) { return at, true },
		Log:      w.log,
		Now:      w.now,
	})
	return func(query string) ([]string, error) {
		found, err := service.Search(ctx, history.Query{In: at, Text: query, Limit: k})
		var list []string
		for _, m := range found {
			list = append(list, m.Text)
		}
		return list, err
	}
}

// toolSearcher returns a search among the tools of a case.
func toolSearcher(c Case) func(string) ([]string, error) {
	servers := map[string]*toolsearch.Server{}
	for _, t := range c.Tools {
		if servers[t.Server] == nil {
			servers[t.Server] = &toolsearch.Server{Name: t.Server}
		}
		servers[t.Server].Tools = append(servers[t.Server].Tools, toolsearch.Doc{
			Name:        t.Name,
			Description: t.Description,
			Parameters:  t.Parameters,
		})
	}
	index := toolsearch.New()
	for _, s := range servers {
		index.Replace(*s)
	}
	return func(query string) ([]string, error) {
		var list []string
		for _, hit := range index.Search(query, c.K, nil) {
			list = append(list, hit.Name)
		}
		return list, nil
	}
}

// runPage checks what is read of an HTML page.
func runPage(c Case) (res Result, err error) {
	body := []byte(c.HTML)
	if c.Page != "" {
		if body, err = os.ReadFile(filepath.Join(c.folder, c.Page)); err != nil {
			return res, err
		}
	}
	read := page.Read(body, "text/html; charset=utf-8", "https://example.com/page.html")
	for _, want := range c.Expect {
		res.check(fmt.Sprintf("the page says %q", want), contains(read.Text, want), "it reads: "+shorten(read.Text))
	}
	for _, no := range c.Forbid {
		res.check(fmt.Sprintf("the page does not say %q", no), !contains(read.Text, no), "it is part of the text")
	}
	return res, nil
}
