package sampling_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/llm"
	"ravenbot/internal/core/tool"
	"ravenbot/internal/mcp"
	"ravenbot/internal/mcp/sampling"
	"ravenbot/internal/store"
	"ravenbot/internal/testing/llmtest"
	"ravenbot/internal/turn/agent"
	"ravenbot/internal/turn/invoke"
)

// world is a Sampler whose rules and answer a test sets.
type world struct {
	decision tool.Decision
	approve  bool
	answer   agent.Completion
	asked    []tool.Intent // of people
	requests []llm.Request
	on       store.Usage
	records  []store.ToolCall
}

func (w *world) Decide(tool.Intent) tool.Verdict {
	return tool.Verdict{Decision: w.decision, Reason: "the operator says no"}
}

func (w *world) Hooks() []tool.Hook { return nil }

func (w *world) Mask(s string) string { return strings.ReplaceAll(s, "hunter2", "***") }

func (w *world) Ask(_ context.Context, in tool.Intent, _ tool.Verdict) (bool, string, error) {
	w.asked = append(w.asked, in)
	return w.approve, "decided by Ann", nil
}

func (w *world) Begin(context.Context, tool.Intent) error { return nil }

func (w *world) SaveCalls(_ context.Context, calls []store.ToolCall) error {
	w.records = append(w.records, calls...)
	return nil
}

func (w *world) Route(chat.Message) agent.Profile { return agent.Profile{Models: []string{"m"}} }

func (w *world) CompleteRequest(
	_ context.Context,
	on store.Usage,
	_ []string,
	q llm.Request,
) (agent.Completion, error) {
	w.requests, w.on = append(w.requests, q), on
	return w.answer, nil
}

// recorded makes calls with an Invoker, and keeps their records.
type recorded struct {
	*invoke.Invoker
	*world
}

func (w *world) sample(q mcp.SamplingRequest) (mcp.SamplingResult, error) {
	calls := invoke.New(invoke.Options{
		Rules:     w,
		Approvals: w,
		Check:     func(_, args json.RawMessage) (json.RawMessage, error) { return args, nil },
		Log:       slog.New(slog.DiscardHandler),
		Now:       time.Now,
	})
	s := &sampling.Sampler{
		Calls: recorded{calls, w},
		Agent: w,
		Cost:  func(u store.Usage) float64 { return float64(u.Tokens.Input+u.Tokens.Output) / 1000 },
	}
	caller := tool.Caller{
		Turn:         "turn",
		Call:         "call",
		Conversation: chat.Address{Platform: "web", Channel: "room"},
		User:         chat.User{ID: "ann"},
	}
	return s.Sample(tool.WithCaller(context.Background(), caller), q)
}

func request(words ...string) mcp.SamplingRequest {
	q := mcp.SamplingRequest{Server: "notes", Tool: "summarize", MaxTokens: 50}
	for i, text := range words {
		role := []string{"user", "assistant"}[i%2]
		q.Messages = append(q.Messages, mcp.SamplingMessage{Role: role, Text: text})
	}
	return q
}

func TestSample_WhatTheServerAsksFor_ReachesTheModel(t *testing.T) {
	w := &world{decision: tool.Allow, answer: agent.Completion{
		Text: "short", Model: "m", Served: "m-1", Usage: llm.Usage{Input: 40, Output: 2}, Finish: llm.FinishLength,
	}}
	cool := 0.25
	q := request("look", "I look", "and now?")
	q.System, q.Temperature, q.Stop, q.MaxTokens = "Be brief.", &cool, []string{"END"}, 100_000
	q.Messages[2].Files = []chat.File{{Type: "image/png", Data: []byte("png")}, {Type: "application/pdf"}}
	got, err := w.sample(q)
	if err != nil || got != (mcp.SamplingResult{Text: "short", Model: "m-1", Reason: "maxTokens"}) {
		t.Fatalf("%+v, %v", got, err)
	}
	r := w.requests[0]
	if r.MaxOutput != 2000 || *r.Temperature != cool || !cmp.Equal(r.Stop, q.Stop) {
		t.Errorf("the limits of the request are %d, %v and %v", r.MaxOutput, *r.Temperature, r.Stop)
	}
	if !strings.Contains(r.System, "a tool server called notes") || !strings.HasSuffix(r.System, "Be brief.") {
		t.Errorf("the system prompt is %q", r.System)
	}
	want := []llm.Message{
		{Role: llm.User, Parts: []llm.Part{{Text: "look"}}},
		{Role: llm.Assistant, Parts: []llm.Part{{Text: "I look"}}},
		{Role: llm.User, Parts: []llm.Part{{Text: "and now?"}, {Media: &llm.Media{Type: "image/png", Data: []byte("png")}}}},
	}
	if diff := cmp.Diff(want, r.Messages); diff != "" {
		t.Errorf("the messages (-want +got):\n%s", diff)
	}
	if w.on.User != "web/ann" || w.on.Channel.Channel != "room" {
		t.Errorf("the usage counts for %+v", w.on)
	}
}

// Whatever roles a server names, the request is one that providers take.
func TestSample_RolesInAnyOrder_MakeAWellFormedRequest(t *testing.T) {
	for _, roles := range []string{"user", "assistant", "user user assistant", "assistant user",
		"user assistant assistant", "system"} {
		w := &world{decision: tool.Allow}
		q := request()
		for _, role := range strings.Fields(roles) {
			q.Messages = append(q.Messages, mcp.SamplingMessage{Role: role, Text: "x"})
		}
		if _, err := w.sample(q); err != nil {
			t.Fatal(err)
		}
		r := w.requests[0]
		if problem := llmtest.Malformed(r.Messages); problem != "" {
			t.Errorf("%s: %s", roles, problem)
		}
		if last := r.Messages[len(r.Messages)-1]; last.Role != llm.User {
			t.Errorf("%s: the last word is the model's", roles)
		}
	}
}

// A request is listed with the call that it belongs to and what it cost, whether or not it was let.
func TestSample_IsListedUnderCallAndServer(t *testing.T) {
	for name, c := range map[string]struct {
		decision tool.Decision
		approve  bool
		note     string
	}{
		"allowed":  {tool.Allow, false, "during a call of summarize; m read 40 tokens and wrote 2, $0.0420"},
		"approved": {tool.Ask, true, "decided by Ann; during a call of summarize; m read 40 tokens and wrote 2, $0.0420"},
		"refused":  {tool.Ask, false, "decided by Ann; during a call of summarize"},
		"denied":   {tool.Deny, false, "the operator says no; during a call of summarize"},
	} {
		t.Run(name, func(t *testing.T) {
			w := &world{decision: c.decision, approve: c.approve, answer: agent.Completion{
				Text: "yes", Model: "m", Usage: llm.Usage{Input: 40, Output: 2}, Finish: llm.FinishStop,
			}}
			_, err := w.sample(request("the password is hunter2"))
			allowed := c.decision == tool.Allow || c.approve
			if (err == nil) != allowed || (len(w.requests) == 1) != allowed {
				t.Errorf("error %v after %d requests", err, len(w.requests))
			}
			if asks := c.decision == tool.Ask; (len(w.asked) == 1) != asks {
				t.Errorf("%d people were asked", len(w.asked))
			} else if asks && !strings.Contains(string(w.asked[0].Args), "the password is hunter2") {
				t.Errorf("the person was shown %s", w.asked[0].Args)
			}
			r := w.records[0]
			if r.Server != "notes" || r.Tool != "notes_sampling" || r.Turn != "turn" || r.User != "web/ann" || r.Note != c.note {
				t.Errorf("the record is %+v", r)
			}
			if strings.Contains(string(r.Args), "hunter2") {
				t.Errorf("a secret stands in the record: %s", r.Args)
			}
		})
	}
}

func TestSample_TooMuch_IsRefusedBeforeAnybodyIsAsked(t *testing.T) {
	large := request(strings.Repeat("x", 64<<10+1))
	stops := request("x")
	stops.Stop = strings.Split("a b c d e", " ")
	for want, q := range map[string]mcp.SamplingRequest{"65537 bytes": large, "5 stop sequences": stops} {
		w := &world{decision: tool.Ask}
		if _, err := w.sample(q); err == nil || !strings.Contains(err.Error(), want) || len(w.asked) > 0 {
			t.Errorf("%v after %d questions, want an error with %q", err, len(w.asked), want)
		}
	}
}
