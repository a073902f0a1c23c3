package records

import (
	"context"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/store"
	"ravenbot/internal/store/kv"
)

// shownRecord says which turn a message of the bot shows.
type shownRecord struct {
	Shown store.ShownTurn `json:"shown"`
	At    time.Time       `json:"at"`
}

var (
	// feedback holds what users think of answers, by turn and user.
	feedback = kv.Of[store.Feedback](kv.Spec{Name: "feedback", Watch: func(string, string, bool) string {
		return store.FeedbackChanges
	}})
	// shownTurns holds which turn a message of the bot shows, by platform, id of the message and address: the full address
	// is not known when a reaction arrives. Ids are unique on some platforms, within a channel on others.
	shownTurns = kv.Of[shownRecord](kv.Spec{Name: "shown"})
)

// SaveFeedback stores the feedback of a user on a turn and replaces their earlier one.
func (s *Store) SaveFeedback(ctx context.Context, f store.Feedback) error {
	err := s.update(ctx, func(tx kv.Tx) error {
		return feedback.Put(tx, "", kv.Key(f.Turn, f.User), f)
	}, "feedback/"+f.Turn)
	return wrap(err, "store feedback on %s", f.Turn)
}

// SaveReaction applies a reaction, or the removal of one, to the feedback of its user. A removal without a user applies to
// all users.
func (s *Store) SaveReaction(ctx context.Context, r store.Reaction) error {
	err := s.update(ctx, func(tx kv.Tx) error {
		users := []string{r.User}
		prefix := kv.Key(r.Turn, "")
		if r.User == "" {
			users = nil
			err := tx.Scan(feedback.Spec, kv.Prefix("", prefix), func(e kv.Entry) error {
				users = append(users, e.Key[len(prefix):])
				return nil
			})
			if err != nil {
				return err
			}
		}
		for _, user := range users {
			f, found, err := feedback.Get(tx, "", prefix+user)
			if !found {
				f = store.Feedback{Turn: r.Turn, User: user}
			}
			if err != nil {
				return err
			}
			// Platforms deliver late and twice; such a reaction changes nothing.
			if after, changed := f.Apply(r); changed {
				if err := feedback.Put(tx, "", prefix+user, after); err != nil {
					return err
				}
			}
		}
		return nil
	}, "feedback/"+r.Turn)
	return wrap(err, "store a reaction on %s", r.Turn)
}

// Feedback returns all feedback that was not withdrawn, by turn.
func (s *Store) Feedback(ctx context.Context) ([]store.Feedback, error) {
	found, err := read(ctx, s, listFeedback)
	return found, wrap(err, "list feedback")
}

func listFeedback(tx kv.Tx) (found []store.Feedback, err error) {
	err = feedback.Scan(tx, kv.Range{}, func(_ string, f store.Feedback) error {
		if !f.Withdrawn {
			found = append(found, f)
		}
		return nil
	})
	return found, err
}

// feedbackVersion is a state of all feedback.
type feedbackVersion struct{ count, sum uint64 }

// FeedbackCounts returns how much feedback calls its answer helpful, and how much does not. It decodes the records only if
// they have changed since the last call.
func (s *Store) FeedbackCounts(ctx context.Context) (good, bad int, err error) {
	err = s.View(ctx, func(tx kv.Tx) error {
		var v feedbackVersion
		err := tx.Scan(feedback.Spec, kv.Range{KeysOnly: true}, func(e kv.Entry) error {
			v.count, v.sum = v.count+1, v.sum+e.Sum
			return nil
		})
		if err != nil {
			return err
		}
		var known bool
		if good, bad, known = s.feedback.Get(v); known {
			return nil
		}
		found, err := listFeedback(tx)
		if err == nil {
			good, bad = s.feedback.Set(v, found)
		}
		return err
	})
	return good, bad, wrap(err, "count feedback")
}

// saveShownTurns records which turn the messages of a post show, and whose words they hold.
func saveShownTurns(tx kv.Tx, p store.Post, o store.Outcome) error {
	if p.Turn == "" && p.Draft.Origin == nil {
		return nil
	}
	for _, id := range o.Ref.IDs {
		r := shownRecord{store.ShownTurn{To: p.To, Turn: p.Turn, Origin: p.Draft.Origin, News: p.Draft.News}, o.At}
		if err := shownTurns.Put(tx, "", kv.Key(p.To.Platform, id, p.To.String()), r); err != nil {
			return err
		}
	}
	return nil
}

// ShownTurn returns what is known of a message of the bot, by the message's id and the channel or thread that it is in.
// It returns false if nothing is.
func (s *Store) ShownTurn(ctx context.Context, in chat.Address, id string) (turn store.ShownTurn, found bool, err error) {
	err = s.View(ctx, func(tx kv.Tx) error {
		turn, found = store.ShownTurn{}, false
		return shownTurns.Scan(tx, kv.Prefix("", kv.Key(in.Platform, id, "")), func(_ string, r shownRecord) error {
			// On Discord a thread is a channel of its own, and reactions name only that.
			if r.Shown.To.Channel != in.Channel && r.Shown.To.Thread != in.Channel {
				return nil
			}
			turn, found = r.Shown, true
			return kv.ErrStop
		})
	})
	return turn, found, wrap(err, "look for what message %s shows", id)
}
