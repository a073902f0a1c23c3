package web

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"path/filepath"
	"testing"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/store/storage"
	"ravenbot/internal/testing/chattest"
)

func TestContract(t *testing.T) {
	chattest.Run(t, func(t *testing.T) *chattest.World {
		db, err := storage.OpenFile(filepath.Join(t.TempDir(), "rooms.db"), time.Now)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { db.Close() })
		w := New(Options{Log: db, Now: time.Now, Logger: slog.New(slog.DiscardHandler)})
		base, c := serve(t, w)
		change := func(at chat.Address, id, what string, form url.Values) {
			entries, err := db.Entries(context.Background(), at.Channel, 0, 100)
			if err != nil {
				panic(fmt.Sprint("read the room: ", err))
			}
			seq := fmt.Sprint(entries[indexOfEntry(entries, id)].Seq)
			if status, _, body := request(t, c, "POST", base+"/chat/"+at.Channel+"/lines/"+seq+"/"+what, form,
				"HX-Request", "true"); status != 200 {
				t.Errorf("to %s gave %d: %s", what, status, body)
			}
		}
		return &chattest.World{
			Platform: w,
			Channel:  general,
			MaxText:  50_000,
			Name:     anna.Name,
			Say: func(at chat.Address, text string, files ...chat.File) (string, error) {
				m, err := w.Say(context.Background(), at.Channel, anna, text, files...)
				return m.ID, err
			},
			Edit: func(at chat.Address, message, text string) {
				change(at, message, "edit", url.Values{"one:words": {text}})
			},
			Delete: func(at chat.Address, message string) { change(at, message, "delete", nil) },
			Press: func(at chat.Address, post, value string) {
				form := url.Values{"post": {post}, "value": {value}}
				if status, _, body := request(t, c, "POST", base+"/chat/"+at.Channel+"/press", form,
					"HX-Request", "true"); status != 204 {
					t.Errorf("pressing gave %d: %s", status, body)
				}
			},
			Shown: func(at chat.Address) []string {
				entries, err := db.Entries(context.Background(), at.Channel, 0, 100)
				if err != nil {
					panic(fmt.Sprint("read the room: ", err))
				}
				var list []string
				for _, e := range entries {
					if e.Draft != nil {
						list = append(list, e.Draft.Text)
					}
				}
				return list
			},
		}
	})
}
