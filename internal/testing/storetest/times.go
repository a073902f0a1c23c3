package storetest

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/conversation"
	"ravenbot/internal/core/llm"
	"ravenbot/internal/store"
)

// What is kept for a time of its own is there until shortly before its end, and gone shortly after it.
func timesKept(t *testing.T, s store.Store, now *time.Time) {
	ctx := t.Context()
	const day = 24 * time.Hour
	SayEverywhere(t, s, general, "said", "words", noon)
	must(t, s.SaveStream(ctx, "begun", chat.Ref{IDs: []string{"1"}}))
	_, err := s.FinishRun(ctx, store.Run{Digest: "d", Due: noon, Ended: noon}, []string{"x"}, nil)
	must(t, err)
	must(t, s.CountUsage(ctx, store.Usage{Model: "m", Tokens: llm.Usage{Input: 1}}))
	must(t, s.SaveFeedback(ctx, store.Feedback{Turn: "said", User: "u", At: noon}))
	things := []struct {
		what  string
		keep  time.Duration
		there func() bool
	}{
		{"the key of an answered message", 48 * time.Hour, func() bool {
			isNew, err := s.Accept(ctx, store.Received{Message: chat.Message{ID: "said", Conversation: general}})
			must(t, err)
			return !isNew
		}},
		{"where a post is", 48 * time.Hour, func() bool {
			_, found, err := s.PostRef(ctx, "posted said")
			must(t, err)
			return found
		}},
		{"where an answer has begun", 48 * time.Hour, func() bool {
			_, found, err := s.Stream(ctx, "begun")
			must(t, err)
			return found
		}},
		{"a post that was given up", 7 * day, func() bool {
			list, err := s.Undelivered(ctx)
			must(t, err)
			return len(list) > 0
		}},
		{"the turn that a post shows", 30 * day, func() bool {
			_, found, err := s.ShownTurn(ctx, general, "shown said")
			must(t, err)
			return found
		}},
		{"an approval", 30 * day, func() bool {
			list, err := s.Approvals(ctx, time.Time{})
			must(t, err)
			return len(list) > 0
		}},
		{"a turn of which there is a summary", 30 * day, func() bool {
			list, err := s.Turns(ctx, general, store.Range{Newest: 1})
			must(t, err)
			return len(list) > 0
		}},
		{"a call", kept.Calls, func() bool {
			list, err := s.ToolCalls(ctx, 0, 1, nil)
			must(t, err)
			return len(list) > 0
		}},
		{"an item that was seen", 90 * day, func() bool {
			seen, _, err := s.SeenItems(ctx, "d", []string{"x"})
			must(t, err)
			return seen["x"]
		}},
		{"feedback", kept.Feedback, func() bool {
			list, err := s.Feedback(ctx)
			must(t, err)
			return len(list) > 0
		}},
		{"usage", kept.Usage + 12*time.Hour, func() bool { // it is of a day
			list, _, err := s.Usage(ctx, "", "", 1)
			must(t, err)
			return len(list) > 0
		}},
	}
	for _, keep := range []time.Duration{48 * time.Hour, 7 * day, 30 * day, 90 * day, kept.Feedback, kept.Usage + 12*time.Hour} {
		for _, want := range []bool{true, false} {
			*now = noon.Add(keep + time.Minute)
			if want {
				*now = noon.Add(keep - time.Minute)
			}
			prune(t, s)
			for _, c := range things {
				if c.keep == keep {
					same(t, fmt.Sprintf("%s is there after %v", c.what, now.Sub(noon)), want, c.there())
				}
			}
		}
	}
}

// lastSeenKept is timesKept for a message that nothing else was said after.
func lastSeenKept(t *testing.T, s store.Store, now *time.Time) {
	ctx := t.Context()
	_, err := s.Accept(ctx, store.Received{Message: message("1")})
	must(t, err)
	*now = noon.Add(30*24*time.Hour - time.Minute)
	prune(t, s)
	list, err := s.LastSeen(ctx, "web", noon)
	must(t, err)
	same(t, "messages seen last before a month is over", 1, len(list))
	*now = noon.Add(30*24*time.Hour + time.Minute)
	prune(t, s)
	list, err = s.LastSeen(ctx, "web", noon)
	must(t, err)
	same(t, "messages seen last after a month", 0, len(list))
}

// Where no time is set, nothing that was said goes, nor what is counted.
func withoutEnd(t *testing.T, s store.Store, now *time.Time) {
	ctx := t.Context()
	SayEverywhere(t, s, general, "said", "words", noon)
	must(t, s.SaveSummary(ctx, general, conversation.Summary{}))
	must(t, s.CountUsage(ctx, store.Usage{Model: "m", Tokens: llm.Usage{Input: 1}}))
	must(t, s.SaveFeedback(ctx, store.Feedback{Turn: "said", User: "u", At: noon}))
	*now = noon.AddDate(50, 0, 0)
	none := func(string) time.Duration { return 0 }
	for _, keep := range []store.Retention{
		{}, {Conversations: func(chat.Address) time.Duration { return 0 }, Rooms: none}} {
		changed, err := s.Prune(ctx, keep)
		must(t, err)
		same(t, "conversations that lost something", 0, len(changed))
		left := readAll(t, s, general)
		must(t, containsAll(left, `"words"`, `"text":"words"`, `"result":"words"`))
		_, err = s.RoomFile(ctx, "general", 1)
		must(t, err)
		_, err = s.ToolResult(ctx, fmt.Sprintf("%011xsaid", noon.UnixMilli()))
		must(t, err)
		usage, _, err := s.Usage(ctx, "", "", 9)
		must(t, err)
		same(t, "sums of usage", 1, len(usage))
		feedback, err := s.Feedback(ctx)
		must(t, err)
		same(t, "feedback", 1, len(feedback))
	}
}

// Turns are deleted from the oldest on: one that is young keeps those behind it, whatever their times say.
func youngTurnFirst(t *testing.T, s store.Store, now *time.Time) {
	ctx := t.Context()
	*now = noon.Add(2 * week)
	for i, began := range []time.Time{noon, noon, *now, noon} {
		must(t, s.SaveTurn(ctx, general, &conversation.Turn{ID: fmt.Sprint(i), Began: began}))
	}
	_, err := s.Prune(ctx, WeekIn("general"))
	must(t, err)
	turns, err := s.Turns(ctx, general, store.Range{Newest: 9})
	must(t, err)
	var ids []string
	for _, turn := range turns {
		ids = append(ids, turn.ID)
	}
	same(t, "turns that are left", []string{"2", "3"}, ids)
}

// A post that was given up and sent again later is no longer listed after a week, and where the other is stays known.
func replacedLate(t *testing.T, s store.Store, now *time.Time) {
	ctx := t.Context()
	must(t, s.SavePosts(ctx, []store.Post{{Key: "a", To: general, At: noon}}))
	must(t, s.SaveOutcomes(ctx, []store.Outcome{{Key: "a", Error: "refused", At: noon}}, 0))
	*now = noon.Add(week - time.Hour)
	must(t, s.SavePosts(ctx, []store.Post{{Key: "b", To: general, Replaces: "a", At: *now}}))
	must(t, s.SaveOutcomes(ctx, []store.Outcome{{Key: "b", Ref: chat.Ref{IDs: []string{"1"}}, At: *now}}, 0))
	*now = noon.Add(week + time.Hour)
	prune(t, s)
	lost, err := s.Undelivered(ctx)
	must(t, err)
	same(t, "posts given up", 0, len(lost))
	ref, found, err := s.PostRef(ctx, "a")
	must(t, err)
	same(t, "the other is known", true, found)
	same(t, "where it is", []string{"1"}, ref.IDs)
}

// However posts are stored, they have the numbers by which they are listed.
func postsNumbered(t *testing.T, s store.Store, _ *time.Time) {
	ctx := t.Context()
	post := func(key string) []store.Post { return []store.Post{{Key: key, To: general, At: noon}} }
	all := [][]store.Post{post("z"), post("y"), post("x"), post("w")}
	must(t, s.SavePosts(ctx, all[0]))
	must(t, s.SaveAnswer(ctx, general, nil, nil, all[1]))
	_, err := s.SwapItem(ctx, "kind", "name", nil, []byte(`{}`), all[2])
	must(t, err)
	_, err = s.FinishRun(ctx, store.Run{Digest: "d", Due: noon, Ended: noon}, nil, all[3])
	must(t, err)
	pending, err := s.PendingPosts(ctx)
	must(t, err)
	same(t, "posts that wait", len(all), len(pending))
	for i, p := range pending {
		same(t, "the post", all[i][0].Key, p.Key)
		same(t, "its number", p.Seq, all[i][0].Seq)
		same(t, "it has one", true, p.Seq > 0)
	}
}

// Of lists no more is returned than is asked for, which may be nothing, or all.
func listLengths(t *testing.T, s store.Store, _ *time.Time) {
	ctx := t.Context()
	SayEverywhere(t, s, general, "said", "words", noon)
	must(t, s.CountUsage(ctx, store.Usage{Model: "m", Tokens: llm.Usage{Input: 1}}))
	_, err := s.FinishRun(ctx, store.Run{Digest: "d", Due: noon, Ended: noon}, nil, nil)
	must(t, err)
	for n, want := range map[int]int{-1: 0, 0: 0, math.MaxInt: 1} {
		for name, list := range map[string]func() (int, error){
			"lines":     func() (int, error) { return count(s.Entries(ctx, "general", 0, n)) },
			"runs":      func() (int, error) { return count(s.LastRuns(ctx, "d", n)) },
			"calls":     func() (int, error) { return count(s.ToolCalls(ctx, 0, n, nil)) },
			"old calls": func() (int, error) { return count(s.ToolCalls(ctx, math.MaxUint64, n, nil)) },
			"turns":     func() (int, error) { return count(s.Turns(ctx, general, store.Range{Newest: n})) },
			"messages": func() (int, error) {
				list, _, err := s.Messages(ctx, general, "", n)
				return len(list), err
			},
			"conversations": func() (int, error) {
				list, next, err := s.Conversations(ctx, "", max(n, 0))
				return len(list), errors.Join(err, noCursor(next))
			},
			"usage": func() (int, error) {
				list, next, err := s.Usage(ctx, "", "", max(n, 0))
				return len(list), errors.Join(err, noCursor(next))
			},
		} {
			got, err := list()
			must(t, err)
			same(t, fmt.Sprintf("%s of up to %d", name, n), want, got)
		}
	}
}

// noCursor returns an error where there is a cursor.
func noCursor(cursor string) error {
	if cursor != "" {
		return fmt.Errorf("the cursor %q leads to more", cursor)
	}
	return nil
}
