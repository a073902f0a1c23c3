package discord

import (
	"bytes"
	"context"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"ravenbot/internal/core/chat"
)

// ownPost is the event of a post of the bot's account with a nonce.
func ownPost(id string) []byte {
	return []byte(`{"id":"` + id + `","channel_id":"20","guild_id":"3","type":0,"nonce":"n` + id +
		`","author":{"id":"1","bot":true}}`)
}

func TestPostsOfAnotherProcessAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := newStub(ctx, func(chat.Message) error { return nil })
		var log bytes.Buffer
		s.o.Log = slog.New(slog.NewTextHandler(&log, nil))
		reports := func() int {
			time.Sleep(answerWait + time.Second)
			synctest.Wait()
			return strings.Count(log.String(), "another process")
		}
		for n := range 20 { // the event comes before the answer to the request
			id := strconv.Itoa(100 + n)
			s.onMessage(s.state, ownPost(id))
			s.sent.put("key"+id, outcome{ids: []string{id}})
		}
		for n := range minForeign - 1 {
			s.onMessage(s.state, ownPost(strconv.Itoa(200+n)))
		}
		if got := reports(); got != 0 {
			t.Errorf("%d reports of posts of its own and too few others:\n%s", got, log.String())
		}
		for n := range 10 {
			s.onMessage(s.state, ownPost(strconv.Itoa(300+n)))
		}
		if got := reports(); got != 1 {
			t.Errorf("%d reports, want 1 within an hour:\n%s", got, log.String())
		}
		cancel()
		s.wg.Wait()
	})
}
