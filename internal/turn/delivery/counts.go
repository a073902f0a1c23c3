package delivery

import (
	"sync/atomic"

	"ravenbot/internal/ops/measure"
)

// counts are the counters since the start.
type counts struct {
	// They are what Counts names.
	accepted, repeats, busy, merged, revised, stopped atomic.Int64
	posted, repeated, givenUp, notified               atomic.Int64

	answers measure.Table[struct{}]
}

// Answers returns how many questions were answered, and how long it took from when work on one began until its answer
// was posted or given up.
func (s *Service) Answers() measure.Sum { return s.counts.answers.Sums()[struct{}{}] }

// Counts are the counters since the start.
type Counts struct {
	Accepted int64 `json:"accepted"` // messages and changes stored
	Repeats  int64 `json:"repeats"`  // messages that came again
	Busy     int64 `json:"busy"`     // refused, because too many were waiting
	Merged   int64 `json:"merged"`   // answered together with another
	Revised  int64 `json:"revised"`  // edits and deletions that reached work under way
	Stopped  int64 `json:"stopped"`  // answers that a person has stopped
	Posted   int64 `json:"posted"`   // posts that a platform accepted
	Repeated int64 `json:"repeated"` // of them, possible repeats
	GivenUp  int64 `json:"givenUp"`  // refused permanently, or for too long
	Notified int64 `json:"told"`     // undelivered posts with a notice
}

// Counts returns the counters since the start.
func (s *Service) Counts() Counts {
	c := &s.counts
	return Counts{
		Accepted: c.accepted.Load(),
		Repeats:  c.repeats.Load(),
		Busy:     c.busy.Load(),
		Merged:   c.merged.Load(),
		Revised:  c.revised.Load(),
		Stopped:  c.stopped.Load(),
		Posted:   c.posted.Load(),
		Repeated: c.repeated.Load(),
		GivenUp:  c.givenUp.Load(),
		Notified: c.notified.Load(),
	}
}
