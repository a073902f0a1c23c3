package discord

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/bwmarrin/discordgo"

	"ravenbot/internal/core/chat"
)

// Rules of asking which threads a channel has.
const (
	archivedPage     = 50 // threads
	maxArchivedPages = 2
)

// threadInfo is a thread as lists of threads have it.
type threadInfo struct {
	ID      string                `json:"id"`
	Parent  string                `json:"parent_id"`
	Type    discordgo.ChannelType `json:"type"`
	Last    string                `json:"last_message_id"`
	Details struct {
		ArchivedAt time.Time `json:"archive_timestamp"`
	} `json:"thread_metadata"`
}

// isOpen reports whether everybody who reads the channel may read the thread.
func (t threadInfo) isOpen() bool {
	return t.Type == discordgo.ChannelTypeGuildPublicThread || t.Type == discordgo.ChannelTypeGuildNewsThread
}

// OpenThreads returns up to limit threads of a channel that everybody who reads the channel may read, with messages
// after an instant: those under way, and those archived since. The one with the newest message comes first. It asks
// Discord three times at the most.
func (d *Discord) OpenThreads(
	ctx context.Context,
	channel chat.Address,
	after time.Time,
	limit int,
) ([]chat.Address, error) {
	if channel.Workspace == directGuild {
		return nil, nil
	}
	since := snowflake(after)
	var answer struct {
		Threads []threadInfo `json:"threads"`
	}
	path := "/guilds/" + channel.Workspace + "/threads/active"
	if err := d.api.do(ctx, request{method: "GET", path: path}, &answer); err != nil {
		return nil, fmt.Errorf("list the threads of a server: %w", err)
	}
	archived, err := d.archivedThreads(ctx, channel.Channel, after)
	if err != nil {
		return nil, err
	}
	list := slices.DeleteFunc(append(answer.Threads, archived...), func(t threadInfo) bool {
		return t.Parent != channel.Channel || !t.isOpen() || t.Last == "" || !isNewer(t.Last, since)
	})
	slices.SortFunc(list, func(a, b threadInfo) int { return compareIDs(b.Last, a.Last) })
	list = slices.CompactFunc(list, func(a, b threadInfo) bool { return a.ID == b.ID }) // archived between two answers
	var threads []chat.Address
	for _, t := range list[:min(len(list), limit)] {
		at := channel
		at.Thread = t.ID
		threads = append(threads, at)
	}
	return threads, nil
}

// archivedThreads returns the public threads of a channel that were archived after an instant. Discord has them in that
// order, the newest first.
func (d *Discord) archivedThreads(ctx context.Context, channel string, after time.Time) ([]threadInfo, error) {
	path := "/channels/" + channel + "/threads/archived/public"
	r := request{method: "GET", path: path + "?limit=" + strconv.Itoa(archivedPage), route: "GET" + path}
	var list []threadInfo
	for range maxArchivedPages {
		var page struct {
			Threads []threadInfo `json:"threads"`
			More    bool         `json:"has_more"`
		}
		if err := d.api.do(ctx, r, &page); err != nil {
			return nil, fmt.Errorf("list the archived threads of a channel: %w", err)
		}
		list = append(list, page.Threads...)
		if !page.More || len(page.Threads) == 0 {
			break
		}
		last := page.Threads[len(page.Threads)-1].Details.ArchivedAt
		if last.Before(after) {
			break
		}
		r.path = path + "?limit=" + strconv.Itoa(archivedPage) + "&before=" + last.UTC().Format(time.RFC3339Nano)
	}
	return list, nil
}
