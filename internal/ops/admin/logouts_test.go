package admin

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"ravenbot/internal/store"
)

// otherItems are the methods of a store that are not used.
type otherItems interface{ store.Items }

// items are those of a store in memory.
type items struct {
	otherItems
	mu     sync.Mutex
	stored map[string]json.RawMessage // by kind and name
	failed error
}

func (i *items) SaveItem(_ context.Context, kind, name string, item json.RawMessage, overwrite bool) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if _, ok := i.stored[kind+"/"+name]; ok && !overwrite {
		return store.ErrExists
	}
	if i.stored == nil {
		i.stored = map[string]json.RawMessage{}
	}
	i.stored[kind+"/"+name] = item
	return i.failed
}

func (i *items) Items(_ context.Context, kind string) (map[string]json.RawMessage, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	list := map[string]json.RawMessage{}
	for key, item := range maps.All(i.stored) {
		if name, ok := strings.CutPrefix(key, kind+"/"); ok {
			list[name] = item
		}
	}
	return list, i.failed
}

func (i *items) DeleteItem(_ context.Context, kind, name string) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.stored, kind+"/"+name)
	return i.failed
}

// A link that one process has made opens the page of another one with the same store and admin token, as after a restart
// or where another replica leads, once for all of them.
func TestALinkOpensOnceInAnotherProcess(t *testing.T) {
	shared := &items{}
	same := func(o *Options) { o.Logouts = StoredLogouts{shared} }
	_, first, firstServer, firstClient := start(t, same)
	b, second, secondServer, secondClient := start(t, same)
	link := first.LoginLink("")
	enterBy := func(client *http.Client, base, link string) int { return do(t, client, "GET", base+link, nil).status }
	if got := enterBy(secondClient, secondServer.URL, link); got != http.StatusSeeOther ||
		!inside(t, secondClient, secondServer.URL) {
		t.Errorf("a link of another process: %d", got)
	}
	if got := enterBy(firstClient, firstServer.URL, link); got != http.StatusUnauthorized {
		t.Errorf("the link where it was made, when it was used elsewhere: %d", got)
	}
	if len(shared.stored) != 1 {
		t.Errorf("%d links are stored, want the one that was used", len(shared.stored))
	}
	b.later(linkLifetime)
	if got := enterBy(secondClient, secondServer.URL, second.LoginLink("")); got != http.StatusSeeOther ||
		len(shared.stored) != 1 {
		t.Errorf("a later link: %d, %d links are stored", got, len(shared.stored))
	}
	for i := range link[len("/login?token="):] {
		at := len("/login?token=") + i
		changed := []byte(link)
		if changed[at]++; changed[at] > 'z' {
			changed[at] = 'a'
		}
		if _, _, ok := first.sessions.readLink(string(changed[len("/login?token="):])); ok {
			t.Errorf("byte %d of a link can be changed", i)
		}
	}
}

// A clock that was ahead when all sessions were ended keeps nobody out when it is right again, and lets no former one in.
func TestAllSessionsEndedWhileTheClockWasAhead(t *testing.T) {
	b, s, server, client := start(t, nil)
	enter := func() {
		t.Helper()
		if r := do(t, client, "GET", s.LoginLink(server.URL), nil); r.status != http.StatusSeeOther {
			t.Fatalf("a link: %d", r.status)
		}
	}
	enter()
	b.later(2 * time.Hour)
	s.sessions.endAll(b.time())
	b.later(-2 * time.Hour)
	if inside(t, client, server.URL) {
		t.Error("a session that was ended goes on")
	}
	enter()
	if !inside(t, client, server.URL) {
		t.Error("a session that began afterwards is none")
	}
}

func TestALinkOfAnotherTokenOpensNothing(t *testing.T) {
	_, _, server, client := start(t, nil)
	_, other, _, _ := start(t, func(o *Options) { o.Token = "another admin token" })
	if r := do(t, client, "GET", other.LoginLink(server.URL), nil); r.status != http.StatusUnauthorized {
		t.Errorf("a link of another bot: %d", r.status)
	}
	// Neither is a cookie a link.
	_, s, server, client := start(t, nil)
	enter(t, s, client, server.URL)
	cookie := client.Jar.Cookies(mustParse(t, server.URL))[0].Value
	if r := do(t, client, "GET", server.URL+"/login?token="+cookie, nil); r.status != http.StatusUnauthorized {
		t.Errorf("a cookie as a link: %d", r.status)
	}
}

func TestALinkThatCannotBeCheckedIsGoodLater(t *testing.T) {
	kept := &items{failed: errors.New("no database")}
	_, s, server, client := start(t, func(o *Options) { o.Logouts = StoredLogouts{kept} })
	link := s.LoginLink(server.URL)
	if r := do(t, client, "GET", link, nil); r.status != http.StatusServiceUnavailable ||
		!strings.Contains(r.body, "in a minute") {
		t.Errorf("without a store: %d %s", r.status, r.body)
	}
	kept.failed = nil
	if r := do(t, client, "GET", link, nil); r.status != http.StatusSeeOther {
		t.Errorf("with it again: %d", r.status)
	}
}

func TestUseLink_ManyAtOnce_OneSucceeds(t *testing.T) {
	l, used := StoredLogouts{&items{}}, make(chan bool, 20)
	var all sync.WaitGroup
	for range cap(used) {
		all.Go(func() {
			ok, err := l.UseLink(t.Context(), "17", time.Unix(100, 0), time.Unix(1, 0))
			used <- ok && err == nil
		})
	}
	all.Wait()
	close(used)
	n := 0
	for ok := range used {
		if ok {
			n++
		}
	}
	if n != 1 {
		t.Errorf("a link was used %d times", n)
	}
}

// A browser that was logged out stays so in another process with the same store and admin token, where a copy of its cookie
// was good before: in one that takes up what changed, and in one that begins later. Other sessions go on, and what has
// expired is not stored for ever.
func TestLogout_CountsInOtherProcesses(t *testing.T) {
	shared := &items{}
	same := func(o *Options) { o.Logouts = StoredLogouts{shared} }
	b, first, firstServer, firstClient := start(t, same)
	_, second, secondServer, _ := start(t, same)
	enter(t, first, firstClient, firstServer.URL)
	cookie := firstClient.Jar.Cookies(mustParse(t, firstServer.URL))[0]
	isInside := func(base string) bool {
		browser := &http.Client{CheckRedirect: firstClient.CheckRedirect}
		r := do(t, browser, "GET", base+"/chat/general", nil, "Cookie", cookie.Name+"="+cookie.Value)
		return r.status == http.StatusOK
	}
	if !isInside(secondServer.URL) {
		t.Fatal("the session is unknown to the other process")
	}
	_, _, otherServer, otherClient := start(t, same)
	enter(t, second, otherClient, otherServer.URL)
	do(t, firstClient, "POST", firstServer.URL+"/logout", nil, "Sec-Fetch-Site", "same-origin")
	_, third, thirdServer, _ := start(t, same)
	for _, s := range []*Server{second, third} {
		if err := s.Reload(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for name, base := range map[string]string{"which ran": secondServer.URL, "which began later": thirdServer.URL} {
		if isInside(base) {
			t.Errorf("a kept cookie is good in a process %s", name)
		}
	}
	if !inside(t, otherClient, secondServer.URL) {
		t.Error("another session ended, too")
	}
	b.later(sessionLifetime)
	enter(t, first, firstClient, firstServer.URL)
	do(t, firstClient, "POST", firstServer.URL+"/logout", nil, "Sec-Fetch-Site", "same-origin")
	if ended, err := (StoredLogouts{shared}).EndedSessions(t.Context()); err != nil || len(ended) != 1 {
		t.Errorf("%d sessions are stored (%v), want the one that was logged out last", len(ended), err)
	}
}

func TestLogout_NotStored_CountsHereAndIsLogged(t *testing.T) {
	kept := &items{}
	var log strings.Builder
	_, s, server, client := start(t, func(o *Options) {
		o.Logouts, o.Log = StoredLogouts{kept}, slog.New(slog.NewTextHandler(&log, nil))
	})
	enter(t, s, client, server.URL)
	cookie := client.Jar.Cookies(mustParse(t, server.URL))[0]
	kept.failed = errors.New("no database")
	r := do(t, client, "POST", server.URL+"/logout", nil, "Sec-Fetch-Site", "same-origin")
	again := do(t, client, "GET", server.URL+"/chat/general", nil, "Cookie", cookie.Name+"="+cookie.Value)
	if r.status != http.StatusSeeOther || again.status == http.StatusOK || !strings.Contains(log.String(), "failed to store a logout") {
		t.Errorf("the logout was answered %d, the cookie afterwards %d; the log says %q", r.status, again.status, log.String())
	}
}
