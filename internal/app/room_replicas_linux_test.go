package app_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"ravenbot/internal/testing/browsertest"
	simmodel "ravenbot/internal/testing/sim/model"
)

// TestChatPage_AtTwoReplicas_LeaderIsKilled has a room open in two tabs at two replicas that do not lead. Both show what
// is written, edited, answered again, uploaded and deleted at either, also when the leader is killed before it has
// answered, and neither is loaded again.
func TestChatPage_AtTwoReplicas_LeaderIsKilled(t *testing.T) {
	t.Parallel()
	browser := browsertest.Start(t)
	r := newReplicas(t, 3, 1, nil)
	r.model.SetScript(echo)
	leader := r.leader()
	for n := range r.all {
		within(t, "all replicas are connected", func() bool { return r.isReady(n) })
	}
	at := []int{(leader + 1) % 3, (leader + 2) % 3}
	var tabs []*browsertest.Page
	var forms []roomPage
	for _, n := range at {
		p := browser.Page()
		p.Go("http://" + r.hosts[n] + "/login")
		p.Eval(`document.querySelector("input[name=token]").value = "admin-token"; document.querySelector("form").submit()`)
		p.Wait(`document.querySelector("#text")`)
		p.Eval(`window.isLoadedOnce = true`)
		tabs = append(tabs, p)
		forms = append(forms, roomPage{t, func() string { return r.hosts[n] }, "general"})
	}
	show := func(text, not string) {
		t.Helper()
		for _, p := range tabs {
			log := `document.querySelector("#log").innerText`
			p.Wait(log + ".includes(" + strconv.Quote(text) + ") && !" + log + ".includes(" + strconv.Quote(not) + ") && isLoadedOnce")
		}
	}
	say := func(tab int, text string) {
		tabs[tab].Type("#text", text)
		tabs[tab].Enter(false)
	}
	say(0, "the word is apricot")
	show("you said: the word is apricot", "nothing else")
	forms[1].send("/lines/1/edit", url.Values{"one:words": {"the word is banana"}})
	show("you said: the word is banana", "apricot")
	again := againButton.FindStringSubmatch(forms[0].shows(nil))
	if again == nil {
		t.Fatal("no answer can be had again")
	}
	r.model.SetScript(func(simmodel.Request) simmodel.Reply { return simmodel.Say("banana indeed") })
	forms[0].send("/press", url.Values{"post": {again[1]}, "value": {again[2]}})
	show("banana indeed", "you said")
	r.model.SetScript(func(simmodel.Request) simmodel.Reply { return simmodel.Reply{Hang: true} })
	asked := len(r.model.Asked())
	say(1, "the word is cherry")
	must(r.model.WaitAsked(deadline(t), asked+1))
	r.model.SetScript(echo)
	r.all[leader].kill()
	show("you said: the word is cherry", "apricot")
	// The request was answered as well, by whoever leads now.
	tabs[1].Wait(`document.querySelector("#text").value === "" && !document.querySelector("#problem .problem")`)
	forms[0].send("/lines/1/delete", nil)
	show("Message deleted", "banana")
	tabs[1].Eval(`(() => {
		const files = new DataTransfer();
		files.items.add(new File(["a fig"], "fig.txt", {type: "text/plain"}));
		document.querySelector("#files").files = files.files;
	})()`)
	say(1, "look at the fig")
	show("you said: look at the fig", "banana")
	show("fig.txt", "banana")
	if n := tabs[0].Eval(`document.querySelectorAll("#log article.person").length`); n != 3.0 {
		t.Errorf("%v messages are shown, want the three that were sent", n)
	}
	for _, n := range at {
		var found json.RawMessage
		r.api(n, http.MethodGet, "/api/v1/conversations/web%3A%2Fgeneral/search?q=cherry+banana", "", &found)
		if !strings.Contains(string(found), "cherry") || strings.Contains(string(found), "banana") {
			t.Errorf("a replica finds %s", found)
		}
	}
}
