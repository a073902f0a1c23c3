package budget

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"
)

// sentFiles is what one process tells the others: how many files each user has sent to it on a day.
type sentFiles struct {
	Day   string         `json:"day"`
	Users map[string]int `json:"users,omitempty"`
}

// maxTold is the number of users that a process reports: those who have sent most.
const maxTold = 1000

// Topic names what replicas tell one another of files.
func (*Spending) Topic() string { return "files" }

// Told returns how many files users have sent to this process today, for the other replicas. It cannot fail.
func (s *Spending) Told() (json.RawMessage, error) {
	told := sentFiles{}
	if s.rates.Limits(nil).Files > 0 {
		told = s.quota.told(s.now())
	}
	return json.Marshal(told)
}

// Hear counts the files that users have sent to other processes today. With an error nothing has changed.
func (s *Spending) Hear(others map[int64]json.RawMessage) error {
	var list []sentFiles
	for id, text := range others {
		var f sentFiles
		if err := json.Unmarshal(text, &f); err != nil {
			return fmt.Errorf("read the file counts of replica %d: %w", id, err)
		}
		list = append(list, f)
	}
	s.quota.hear(s.now(), list)
	return nil
}

// told returns the users with the most files today.
func (q *quota) told(now time.Time) sentFiles {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.of(now, "") // so that the day is that of now
	told := sentFiles{Day: q.day, Users: map[string]int{}}
	for user, u := range q.used {
		if u.files > 0 {
			told.Users[user] = u.files
		}
	}
	if len(told.Users) > maxTold {
		most := slices.SortedFunc(maps.Keys(told.Users), func(a, b string) int {
			return cmp.Compare(told.Users[b], told.Users[a])
		})
		for _, user := range most[maxTold:] {
			delete(told.Users, user)
		}
	}
	return told
}

// hear replaces the counts of other processes. Counts of another day are ignored.
func (q *quota) hear(now time.Time, list []sentFiles) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.of(now, "")
	q.filesElsewhere = map[string]int{}
	for _, f := range list {
		if f.Day != q.day {
			continue
		}
		for user, n := range f.Users {
			q.filesElsewhere[user] += n
		}
	}
}
