package kit

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func newTestRecent() *Recent[string] {
	r := &Recent[string]{MaxMessages: 4, MaxBytes: 10 * placeSize, Life: time.Hour, Now: time.Now}
	r.SetLive(true)
	return r
}

func message(id string) RecentMessage[string] {
	return RecentMessage[string]{ID: id, Value: "text " + id, Size: 10}
}

// window returns what is known before a message, as "since: values"; "?" where nothing is.
func window(r *Recent[string], place, before string) string {
	w, ok := r.Window(place, before)
	if !ok {
		return "?"
	}
	return fmt.Sprintf("%s: %v", w.Since, w.Values)
}

func TestRecent_Window(t *testing.T) {
	cases := map[string]struct {
		do   func(r *Recent[string])
		want string // before message 50
	}{
		"nothing came": {func(r *Recent[string]) {}, "?"},
		"the message itself did not come": {func(r *Recent[string]) {
			r.Add("p", message("30"))
		}, "?"},
		"since the first event": {func(r *Recent[string]) {
			for _, id := range []string{"30", "50", "40", "9", "60"} {
				r.Add("p", message(id))
			}
		}, "30: [text 30 text 40]"},
		"the newest messages": {func(r *Recent[string]) {
			for _, id := range []string{"10", "20", "30", "40", "50"} {
				r.Add("p", message(id))
			}
		}, "20: [text 20 text 30 text 40]"},
		"an edit and a deletion": {func(r *Recent[string]) {
			for _, id := range []string{"20", "30", "50"} {
				r.Add("p", message(id))
			}
			r.Replace("p", RecentMessage[string]{ID: "20", Value: "edited"})
			r.Delete("p", "30", nil)
		}, "20: [edited]"},
		"a deletion of what belongs to it": {func(r *Recent[string]) {
			for _, id := range []string{"20", "30", "50"} {
				r.Add("p", message(id))
			}
			r.Delete("p", "5", func(text string) bool { return text == "text 30" })
		}, "20: [text 20]"},
		"the edit of a message that should be there": {func(r *Recent[string]) {
			r.Add("p", message("20"))
			r.Add("p", message("50"))
			r.Replace("p", message("30"))
		}, "?"},
		"the edit of an older one": {func(r *Recent[string]) {
			r.Add("p", message("20"))
			r.Add("p", message("50"))
			r.Replace("p", message("10"))
		}, "20: [text 20]"},
		"what was read": {func(r *Recent[string]) {
			reading := r.BeginReading("p")
			r.Add("p", message("50"))
			r.EndReading(reading, "30", "50", []RecentMessage[string]{message("30"), message("40")})
		}, "30: [text 30 text 40]"},
		"all was read": {func(r *Recent[string]) {
			r.Add("p", message("50"))
			r.EndReading(r.BeginReading("p"), "", "50", nil)
		}, ": []"},
		"what was read, but not up to the message": {func(r *Recent[string]) {
			r.Add("p", message("50"))
			r.EndReading(r.BeginReading("p"), "20", "30", []RecentMessage[string]{message("20")})
		}, "50: []"},
		"what was read while a message was deleted": {func(r *Recent[string]) {
			reading := r.BeginReading("p")
			r.Delete("p", "30", nil)
			r.Add("p", message("50"))
			r.EndReading(reading, "30", "50", []RecentMessage[string]{message("30")})
		}, "50: []"},
		"events are missing": {func(r *Recent[string]) {
			r.Add("p", message("50"))
			r.SetLive(false)
		}, "?"},
		"events were missing": {func(r *Recent[string]) {
			r.Add("p", message("20"))
			r.SetLive(true)
			r.Add("p", message("30"))
			r.Add("p", message("50"))
		}, "30: [text 30]"},
		"a late event after what was forgotten": {func(r *Recent[string]) {
			r.Add("p", message("40"))
			r.Drop(func(place string) bool { return place == "p" })
			r.Add("p", message("30"))
			r.Add("p", message("50"))
		}, "40: []"},
		"other places": {func(r *Recent[string]) {
			r.Add("p", message("20"))
			r.Add("q", message("30"))
			r.Drop(func(place string) bool { return place == "q" })
			r.Delete("q", "20", nil)
			r.Add("p", message("50"))
		}, "20: [text 20]"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := newTestRecent()
			c.do(r)
			if got := window(r, "p", "50"); got != c.want {
				t.Errorf("window %q, want %q", got, c.want)
			}
		})
	}
}

func TestRecent_Bounds_ForgetWhatWasUsedLeastRecently(t *testing.T) {
	r := newTestRecent()
	for n := range 100 {
		r.Add("kept", message(fmt.Sprint(1000+n)))
		r.Add(fmt.Sprint("place ", n), message(fmt.Sprint(1000+n)))
		if r.bytes > r.MaxBytes || len(r.places) != r.used.Len() {
			t.Fatalf("%d bytes, %d places, %d used", r.bytes, len(r.places), r.used.Len())
		}
	}
	if got := window(r, "kept", "1099"); got != "1096: [text 1096 text 1097 text 1098]" {
		t.Errorf("kept %q", got)
	}
	if got := window(r, "place 1", "1001"); got != "?" {
		t.Errorf("the first is still known: %q", got)
	}
	r.SetLive(false)
	if r.bytes != 0 || len(r.places) != 0 {
		t.Errorf("%d bytes are left in %d places", r.bytes, len(r.places))
	}
}

func TestRecent_Life_EndsTrust(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTestRecent()
		r.Add("p", message("20"))
		r.Add("p", message("50"))
		time.Sleep(time.Hour)
		before := window(r, "p", "50")
		time.Sleep(time.Second)
		if after := window(r, "p", "50"); before == "?" || after != "?" {
			t.Errorf("after an hour %q, then %q", before, after)
		}
		r.Pause(time.Minute)
		r.Add("p", message("60"))
		r.Add("p", message("70"))
		time.Sleep(time.Minute)
		r.Add("p", message("80"))
		r.Add("p", message("90"))
		if got := window(r, "p", "70") + " " + window(r, "p", "90"); got != "? 80: [text 80]" {
			t.Errorf("after a pause %q", got)
		}
	})
}

func TestRecent_Await_EndsWithTheEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTestRecent()
		r.Await(t.Context(), "p", "50") // nothing is known of the place
		r.Add("p", message("40"))
		var came []string
		go func() {
			r.Await(t.Context(), "p", "50")
			came = append(came, window(r, "p", "50"))
		}()
		synctest.Wait()
		r.Add("p", message("45"))
		synctest.Wait()
		r.Add("p", message("50"))
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		r.Await(ctx, "p", "99")
		if !slices.Equal(came, []string{"40: [text 40 text 45]"}) || time.Since(began) != time.Second {
			t.Errorf("came %q, then %v", came, time.Since(began))
		}
	})
}
