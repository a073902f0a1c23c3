package app_test

import (
	"context"
	"fmt"
	"os"

	slackgo "github.com/slack-go/slack"
	"github.com/slack-go/slack/slackevents"
	"github.com/slack-go/slack/socketmode"
	"go.etcd.io/bbolt"
	"google.golang.org/genai"
)

// bareBot is the least that could do the bot's job on Slack, for the benchmarks:
// one request to the model, one synced commit, one post. It is this test binary, started again.
func bareBot() {
	ctx := context.Background()
	api := slackgo.New("xoxb-token", slackgo.OptionAPIURL(os.Getenv("BARE_SLACK")),
		slackgo.OptionAppLevelToken("xapp-token"))
	model, err := genai.NewClient(ctx, &genai.ClientConfig{APIKey: "key", Backend: genai.BackendGeminiAPI,
		HTTPOptions: genai.HTTPOptions{BaseURL: os.Getenv("BARE_MODEL")}})
	if err != nil {
		panic(err)
	}
	db, err := bbolt.Open(os.Getenv("BARE_STORE"), 0o600, nil)
	if err != nil {
		panic(err)
	}
	answer := func(e *slackevents.AppMentionEvent) {
		res, err := model.Models.GenerateContent(ctx, "gemini-3.8-flash", genai.Text(e.Text), nil)
		if err != nil {
			return
		}
		err = db.Update(func(tx *bbolt.Tx) error {
			b, err := tx.CreateBucketIfNotExists([]byte("done"))
			if err != nil {
				return err
			}
			return b.Put([]byte(e.Channel+e.TimeStamp), []byte(res.Text()))
		})
		if err == nil {
			_, _, _ = api.PostMessageContext(ctx, e.Channel, slackgo.MsgOptionText(res.Text(), false),
				slackgo.MsgOptionTS(e.TimeStamp))
		}
	}
	client := socketmode.New(api)
	go func() {
		for e := range client.Events {
			if e.Type == socketmode.EventTypeConnected {
				fmt.Fprintln(os.Stderr, "msg=ready")
			}
			if e.Type != socketmode.EventTypeEventsAPI {
				continue
			}
			_ = client.Ack(*e.Request)
			if m, ok := e.Data.(slackevents.EventsAPIEvent).InnerEvent.Data.(*slackevents.AppMentionEvent); ok {
				go answer(m)
			}
		}
	}()
	_ = client.RunContext(ctx)
}
