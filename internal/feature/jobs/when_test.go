package jobs

import (
	"strings"
	"testing"
	"time"
)

// refused stands for a phrase that must not be understood.
const refused = "refused"

// requests are what people ask to be reminded of on Wednesday, 25 November 2026, at noon in Oslo: when it is due next and
// what the text is, or the word refused where it may mean two things. Plain requests have to be understood.
var requests = []struct{ words, due, text string }{
	// Amounts of time.
	{"in 20 minutes take out the bread", "25 Nov 12:20", "take out the bread"},
	{"in 1h 30m bread", "25 Nov 13:30", "bread"},
	{"in 1h30m bread", "25 Nov 13:30", "bread"},
	{"in 2h15 check the oven", "25 Nov 14:15", "check the oven"},
	{"in 90s flip the egg", "25 Nov 12:01", "flip the egg"},
	{"in 90m call home", "25 Nov 13:30", "call home"},
	{"in 3d water the ferns", "28 Nov 12:00", "water the ferns"},
	{"in 2w renew the pass", "9 Dec 12:00", "renew the pass"},
	{"in 1 hour 30", "25 Nov 13:30", ""},
	{"in 1 hour 30 minutes stretch", "25 Nov 13:30", "stretch"},
	{"in 1 hour and 30 minutes stretch", "25 Nov 13:30", "stretch"},
	{"in an hour and a half ring Ole", "25 Nov 13:30", "ring Ole"},
	{"in half an hour to leave", "25 Nov 12:30", "leave"},
	{"in two weeks return the drill", "9 Dec 12:00", "return the drill"},
	{"in a fortnight return the drill", "9 Dec 12:00", "return the drill"},
	{"in 3 days at 9 pay the rent", "28 Nov 09:00", "pay the rent"},
	{"in 2 hours 15 minutes tea", "25 Nov 14:15", "tea"},
	{"1h30m bread", "25 Nov 13:30", "bread"},
	{"1h 30m bread", "25 Nov 13:30", "bread"},
	{"2 hours from now stand up", "25 Nov 14:00", "stand up"},
	{"stand up in 2 hours", "25 Nov 14:00", "stand up"},
	{"feed the cat in 45 min", "25 Nov 12:45", "feed the cat"},
	{"me in 10 minutes to feed the cat", "25 Nov 12:10", "feed the cat"},
	{"in 2 months cancel the trial", "25 Jan 12:00", "cancel the trial"},
	{"in 5 minutes: 3 eggs", "25 Nov 12:05", "3 eggs"},
	{"in 1 hour 30 bread", refused, ""},
	{"in 1 hour 30 the bread", "25 Nov 13:30", "the bread"},
	{"in 1 hour 30 to ring Ole", "25 Nov 13:30", "ring Ole"},
	{"in 1 hour 20 push-ups", refused, ""},
	{"in 20 to 30 minutes tea", refused, ""},
	{"in 20 or 30 minutes tea", refused, ""},
	{"in 5 minutes 3 eggs", refused, ""},
	{"in 2 hours or 3 check", refused, ""},
	{"in an hour and friday call", refused, ""},
	{"in 2 fathoms dive", refused, ""},

	// Days and times.
	{"tomorrow at 9 call Anna", "26 Nov 09:00", "call Anna"},
	{"tomorrow at 9am call 2 friends", "26 Nov 09:00", "call 2 friends"},
	{"9 tomorrow call Ed", "26 Nov 09:00", "call Ed"},
	{"9am tomorrow call Ed", "26 Nov 09:00", "call Ed"},
	{"tomorrow 9am call Ed", "26 Nov 09:00", "call Ed"},
	{"tomorrow at 0730 run", "26 Nov 07:30", "run"},
	{"tomorrow 0730 run", "26 Nov 07:30", "run"},
	{"tomorrow at 24:00 lock up", "27 Nov 00:00", "lock up"},
	{"at 24:00 lock up", "26 Nov 00:00", "lock up"},
	{"friday at 24:00 lock up", "28 Nov 00:00", "lock up"},
	{"tomorrow at quarter to nine call Ed", "26 Nov 08:45", "call Ed"},
	{"quarter to nine call Ed", "26 Nov 08:45", "call Ed"},
	{"tomorrow at half past ten call Ed", "26 Nov 10:30", "call Ed"},
	{"half past ten tomorrow call Ed", "26 Nov 10:30", "call Ed"},
	{"tomorrow at noon lunch with Kim", "26 Nov 12:00", "lunch with Kim"},
	{"tomorrow morning at 8 jog", "26 Nov 08:00", "jog"},
	{"tomorrow at 8 in the evening jog", "26 Nov 20:00", "jog"},
	{"tonight at 8 take the pill", "25 Nov 20:00", "take the pill"},
	{"this evening at 7 call Mum", "25 Nov 19:00", "call Mum"},
	{"at 17:30 go home", "25 Nov 17:30", "go home"},
	{"at 5pm go home", "25 Nov 17:00", "go home"},
	{"the day after tomorrow at 7 pack", "27 Nov 07:00", "pack"},
	{"friday at 9 write the report", "27 Nov 09:00", "write the report"},
	{"on friday at 16:00 send the invoice", "27 Nov 16:00", "send the invoice"},
	{"send the invoice on friday at 4pm", "27 Nov 16:00", "send the invoice"},
	{"call 2 friends tomorrow at 18:00", "26 Nov 18:00", "call 2 friends"},
	{"read chapter 12 tomorrow at 18:00", "26 Nov 18:00", "read chapter 12"},
	{"buy 6 eggs on saturday at 10", "28 Nov 10:00", "buy 6 eggs"},
	{"meet at gate 9 tomorrow at 8", "26 Nov 08:00", "meet at gate 9"},
	{"on monday call Bob at 9", "30 Nov 09:00", "call Bob"},
	{"tomorrow call Bob at half past 9", "26 Nov 09:30", "call Bob"},
	{"next monday at 9 plan the week", "30 Nov 09:00", "plan the week"},
	{"next week monday at 9 plan", "30 Nov 09:00", "plan"},
	{"monday next week at 9 plan", "30 Nov 09:00", "plan"},
	{"on monday at 9 next week call Gus", "30 Nov 09:00", "call Gus"},
	{"thursday next week at 9 call Gus", "3 Dec 09:00", "call Gus"},
	{"next week on thursday at 9 call Gus", "3 Dec 09:00", "call Gus"},
	{"this week friday at 9 call Gus", "27 Nov 09:00", "call Gus"},
	{"monday at 9 in two weeks call Hal", "14 Dec 09:00", "call Hal"},
	{"in two weeks on monday at 9 call Hal", "14 Dec 09:00", "call Hal"},
	{"call Hal in two weeks on monday at 9", "14 Dec 09:00", "call Hal"},
	{"a week on monday at 9 call Hal", "7 Dec 09:00", "call Hal"},
	{"a week from monday at 9 call Hal", "7 Dec 09:00", "call Hal"},
	{"monday week at 9 call Hal", "7 Dec 09:00", "call Hal"},
	{"friday week at 5pm call Hal", "4 Dec 17:00", "call Hal"},
	{"in a week on monday at 9 call Hal", "7 Dec 09:00", "call Hal"},
	{"two weeks on friday at 9 call Hal", "11 Dec 09:00", "call Hal"},
	{"tomorrow week at 9 call Hal", "3 Dec 09:00", "call Hal"},
	{"a week tomorrow at 9 call Hal", "3 Dec 09:00", "call Hal"},
	{"a week from today at 9 call Hal", "2 Dec 09:00", "call Hal"},
	{"tomorrow at 9 for lunch with Bo", "26 Nov 09:00", "for lunch with Bo"},
	{"tomorrow at 9 sing the song seven days", "26 Nov 09:00", "sing the song seven days"},
	{"tomorrow at 9 ask about the end of the month", "26 Nov 09:00", "ask about the end of the month"},
	{"tomorrow at 9, call Anna", "26 Nov 09:00", "call Anna"},
	{"tomorrow at 9: and friday too", "26 Nov 09:00", "and friday too"},
	{"tomorrow at 9 that Jo has 3 tickets", "26 Nov 09:00", "Jo has 3 tickets"},
	{"tomorrow at 9 marching band", "26 Nov 09:00", "marching band"},
	{"tomorrow at 9 in-house training", "26 Nov 09:00", "in-house training"},
	{"tomorrow at 9 forward the mail", "26 Nov 09:00", "forward the mail"},
	{`"tomorrow at 9" 2 eggs`, "26 Nov 09:00", "2 eggs"},
	{`"tomorrow at 9" and friday pay`, "26 Nov 09:00", "and friday pay"},
	{"tomorrow at 9 and friday at 9 pay", refused, ""},
	{"tomorrow at 7 30 call Ed", refused, ""},
	{"tomorrow at 9 or 10 call Ed", refused, ""},
	{"tomorrow at 9 until noon work", refused, ""},
	{"tomorrow at 9 for three weeks exercise", refused, ""},
	{"tomorrow at 9 for an hour exercise", refused, ""},
	{"tomorrow at 9 friday call", refused, ""},
	{"tomorrow at 9 december plans", refused, ""},
	{"tomorrow at 9 and every monday call", refused, ""},
	{"tomorrow at 9 next week call", refused, ""},
	{"tomorrow at 9 starting friday call", refused, ""},
	{"tomorrow at 9 2 eggs", refused, ""},
	{"friday at 9 except holidays call", refused, ""},
	{"friday at 9 or saturday at 10 call", refused, ""},
	{"monday or tuesday at 9 call", refused, ""},
	{"next friday at 9 call", refused, ""},
	{"friday 3 call", refused, ""},
	{"wednesday week at 9 call", refused, ""},
	{"pay rent monday and friday at 9", refused, ""},
	{"swim every", refused, ""},
	{"pay in two weeks friday at 9", "11 Dec 09:00", "pay"},
	{"at half eight call", refused, ""},
	{"today at 9 call", refused, ""},

	// Dates.
	{"24 december 18:00 wrap gifts", "24 Dec 18:00", "wrap gifts"},
	{"december 24th at 6pm wrap gifts", "24 Dec 18:00", "wrap gifts"},
	{"the 24th of december at 18:00 wrap gifts", "24 Dec 18:00", "wrap gifts"},
	{"24/12/2026 at 18:00 wrap gifts", "24 Dec 18:00", "wrap gifts"},
	{"12/24/2026 at 18:00 wrap gifts", "24 Dec 18:00", "wrap gifts"},
	{"2026/12/24 18:00 wrap gifts", "24 Dec 18:00", "wrap gifts"},
	{"24.12.2026 18:00 wrap gifts", "24 Dec 18:00", "wrap gifts"},
	{"2026-12-24T18:00 wrap gifts", "24 Dec 18:00", "wrap gifts"},
	{"2026-12-24T18:00:00 wrap gifts", "24 Dec 18:00", "wrap gifts"},
	{"2026-12-24 18:00 wrap gifts", "24 Dec 18:00", "wrap gifts"},
	{"2026-12-24T18:00+01:00 wrap gifts", "24 Dec 18:00", "wrap gifts"},
	{"2026-12-24T17:00Z wrap gifts", "24 Dec 18:00", "wrap gifts"},
	{"2026-12-24T18:00:00+01:00 wrap gifts", "24 Dec 18:00", "wrap gifts"},
	{"wrap gifts on 24 december 2026 at 18:00", "24 Dec 18:00", "wrap gifts"},
	{"the 5th at 9 pay rent", "5 Dec 09:00", "pay rent"},
	{"the 5th of next month at 9 pay rent", "5 Dec 09:00", "pay rent"},
	{"end of month at 17:00 send the invoice", "30 Nov 17:00", "send the invoice"},
	{"at the end of the month at 17:00 send the invoice", refused, ""},
	{"on the last day of the month at 17 send it", "30 Nov 17:00", "send it"},
	{"end of the year at 17:00 count the stock", "31 Dec 17:00", "count the stock"},
	{"first monday of the month at 9 plan", "7 Dec 09:00", "plan"},
	{"3 march at 9 plan", "3 Mar 09:00", "plan"},
	{"3 march 2027 at 9 plan", "3 Mar 09:00", "plan"},
	{"3 march next year at 9 plan", "3 Mar 09:00", "plan"},
	{"5/6/2027 at 9 plan", refused, ""},
	{"30 february at 9 plan", refused, ""},
	{"24 december 2020 at 9 plan", refused, ""},

	// Repeated.
	{"every friday at 16 write the report", "27 Nov 16:00, 4 Dec 16:00", "write the report"},
	{"write the report every friday at 16", "27 Nov 16:00, 4 Dec 16:00", "write the report"},
	{"every day at 9 except weekends gym", "26 Nov 09:00, 27 Nov 09:00, 30 Nov 09:00", "gym"},
	{"alternate mondays at 9 bins", "30 Nov 09:00, 14 Dec 09:00", "bins"},
	{"every alternate monday at 9 bins", "30 Nov 09:00, 14 Dec 09:00", "bins"},
	{"every other monday at 9 bins", "30 Nov 09:00, 14 Dec 09:00", "bins"},
	{"weekdays at 9am and 5pm take the pill", "25 Nov 17:00, 26 Nov 09:00", "take the pill"},
	{"weekdays at 0730 run", "26 Nov 07:30, 27 Nov 07:30", "run"},
	{"weekdays at quarter to nine stand-up", "26 Nov 08:45, 27 Nov 08:45", "stand-up"},
	{"every day at 24:00 lock up", "26 Nov 00:00, 27 Nov 00:00", "lock up"},
	{"every month at the end of month at 17 invoice", refused, ""},
	{"every end of month at 17 invoice", "30 Nov 17:00, 31 Dec 17:00", "invoice"},
	{"every monday at 9 until january standup", "30 Nov 09:00, 7 Dec 09:00, 14 Dec 09:00, 21 Dec 09:00, 28 Dec 09:00", "standup"},
	{"every monday at 9 until 14 december standup", "30 Nov 09:00, 7 Dec 09:00, 14 Dec 09:00", "standup"},
	{"every monday until 14 december at 9 standup", "30 Nov 09:00, 7 Dec 09:00, 14 Dec 09:00", "standup"},
	{"every day at 9 until friday standup", "26 Nov 09:00, 27 Nov 09:00", "standup"},
	{"every day at 9 until tomorrow standup", "26 Nov 09:00", "standup"},
	{"every day at 9 until the end of the month standup",
		"26 Nov 09:00, 27 Nov 09:00, 28 Nov 09:00, 29 Nov 09:00, 30 Nov 09:00", "standup"},
	{"every day at 9 starting tomorrow stretch", "26 Nov 09:00, 27 Nov 09:00", "stretch"},
	{"every day at 9 starting saturday stretch", "28 Nov 09:00, 29 Nov 09:00", "stretch"},
	{"starting saturday every day at 9 stretch", "28 Nov 09:00, 29 Nov 09:00", "stretch"},
	{"every day at 9 from saturday stretch", "28 Nov 09:00, 29 Nov 09:00", "stretch"},
	{"every day at 9 from 1 december stretch", "1 Dec 09:00, 2 Dec 09:00", "stretch"},
	{"every day at 9 from monday to friday stretch", refused, ""},
	{"every monday at 9 from january plan", "4 Jan 09:00, 11 Jan 09:00", "plan"},
	{"every other tuesday at 9 starting 24 november plan", refused, ""},
	{"every other tuesday at 9 starting 24 november 2026 plan", "8 Dec 09:00, 22 Dec 09:00", "plan"},
	{"every other tuesday at 9 starting 1 december plan", "1 Dec 09:00, 15 Dec 09:00", "plan"},
	{"every day at 9 starting tomorrow until friday stretch", "26 Nov 09:00, 27 Nov 09:00", "stretch"},
	{"on weekdays check the mail at 9", "26 Nov 09:00, 27 Nov 09:00", "check the mail"},
	{"every monday call Bob at 9", "30 Nov 09:00, 7 Dec 09:00", "call Bob"},
	{"daily at 18:00 walk 2 dogs", "25 Nov 18:00, 26 Nov 18:00", "walk 2 dogs"},
	{"every 2 hours drink water", "25 Nov 14:00, 25 Nov 16:00", "drink water"},
	{"every hour from 9am to 5 drink water", "25 Nov 13:00, 25 Nov 14:00", "drink water"},
	{"mondays at 9 plan", "30 Nov 09:00, 7 Dec 09:00", "plan"},
	{"once a week on monday at 9 plan", "30 Nov 09:00, 7 Dec 09:00", "plan"},
	{"quarterly on the 1st at 9 file taxes", "1 Jan 09:00, 1 Apr 09:00", "file taxes"},
	{"every year on 24 december at 18:00 call home", "24 Dec 18:00, 24 Dec 18:00", "call home"},
	{"every monday at 9 until christmas standup", refused, ""},
	{"every monday at 9 for three weeks standup", refused, ""},
	{"weekdays at 9am and 5 take the pill", refused, ""},
	{"weekdays at 9am and 5:30 take the pill", refused, ""},
	{"weekdays at 8 and 5pm take the pill", refused, ""},
	{"every day 2 pills", refused, ""},
	{"every day two pills", refused, ""},
	{"every monday or tuesday at 9 run", refused, ""},
	{"weekdays at 24:00 lock up", refused, ""},
	{"every week at 9 run", refused, ""},
	{"every monday week at 9 run", refused, ""},
	{"every a week on monday at 9 run", refused, ""},
	{"every day at 9 between monday and friday run", refused, ""},
	{"every day at 9 until yesterday run", refused, ""},
	{"every day at 9 starting monday until sunday before run", refused, ""},
	{"every 7 hours run", refused, ""},
	{"biweekly on monday at 9 run", refused, ""},
	{"every day at 9 and 2 eggs", refused, ""},
	{"every friday at 16 and monday write", refused, ""},
	{"weekdays at 9 in two weeks write", refused, ""},
	{"in march at 9 call", refused, ""},
	{"every day at 9 only on workdays run", refused, ""},
	{"every day at 9 unless it rains run", refused, ""},
	{"every day at 9 not on mondays run", "26 Nov 09:00, 27 Nov 09:00, 28 Nov 09:00, 29 Nov 09:00, 1 Dec 09:00", "run"},
	{"tomorrow at 9 EST call", refused, ""},
	{"on the weekend at 9 run", refused, ""},
	{"last friday at 9 run", refused, ""},
	{"friday the 4th at 9 run", "4 Dec 09:00", "run"},
	{"thursday, 24 december 2026 at 18:00 run", "24 Dec 18:00", "run"},
	{"monday the 4th at 9 run", refused, ""},
	{"in twenty-five minutes run", "25 Nov 12:25", "run"},
	{"in two and a half hours run", "25 Nov 14:30", "run"},
	{"march to the store at 17:00", "25 Nov 17:00", "march to the store"},
	{"every friday at 16 weekly report", "27 Nov 16:00, 4 Dec 16:00", "weekly report"},
	{"friday at 16 weekly report", refused, ""},
	{"every day at 9 daily stand-up", "26 Nov 09:00, 27 Nov 09:00", "daily stand-up"},
	{"mon-fri at 9 stand-up", "26 Nov 09:00, 27 Nov 09:00, 30 Nov 09:00", "stand-up"},
	{"stand-up monday to thursday at 9", "26 Nov 09:00, 30 Nov 09:00", "stand-up"},
	{"monday and friday at 9 stand-up", refused, ""},
	{"write it soon", refused, ""},
	{"call 2 friends", refused, ""},
}

func TestSplitRequest_UnderstoodWholeOrRefused(t *testing.T) {
	oslo, err := time.LoadLocation("Europe/Oslo")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 11, 25, 12, 0, 0, 0, oslo)
	for _, c := range requests {
		w, text, err := splitRequest(c.words, oslo, now)
		if err != nil || c.due == refused {
			if err == nil || c.due != refused {
				t.Errorf("%q is %v, %q (%v), want %s", c.words, dueTimes(t, w, now, 1), text, err, c.due)
			}
			continue
		}
		if got := dueTimes(t, w, now, 5); !strings.HasPrefix(got+", ", c.due+", ") || text != c.text {
			t.Errorf("%q is %s, text %q, want %s, %q", c.words, got, text, c.due, c.text)
		}
	}
}

// dueTimes returns the next n times of a request.
func dueTimes(t *testing.T, w when, now time.Time, n int) string {
	t.Helper()
	if w.zone == "" {
		return ""
	}
	plan, err := Job{At: w.at, Schedule: w.schedule, Timezone: w.zone}.when()
	if err != nil {
		t.Fatalf("%+v: %v", w, err)
	}
	var list []string
	for after := now; len(list) < n; {
		next, ok := plan.Next(after)
		if !ok {
			break
		}
		list, after = append(list, next.In(now.Location()).Format("2 Jan 15:04")), next
	}
	return strings.Join(list, ", ")
}
