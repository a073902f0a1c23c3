package simslack

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// View is a modal or home tab the bot opened, as it stands now.
type View struct {
	ID, User string // User is set for home tabs
	Raw      json.RawMessage
	Updates  int
}

// AssistantThread is what the bot set on a thread of the agent view; without a
// thread, on the view as it opens.
type AssistantThread struct {
	Status  []string // every status in order; an empty one clears it
	Title   string
	Prompts json.RawMessage
}

// splitBlocks yields lists of at most maxBlocks blocks: a view may have more of them than a message.
func splitBlocks(list []json.RawMessage) func(func(string) bool) {
	return func(yield func(string) bool) {
		for start := 0; start < len(list); start += maxBlocks {
			part, err := json.Marshal(list[start:min(len(list), start+maxBlocks)])
			if err != nil || !yield(string(part)) {
				return
			}
		}
	}
}

// openView serves views.open with a trigger id, which is good once and for a few seconds.
func (s *Server) openView(a args) (map[string]any, *slackError) {
	born, ok := s.triggers[a["trigger_id"]]
	switch {
	case !ok:
		return nil, refuse("invalid_trigger_id")
	case time.Since(born) > s.opts.TriggerLife:
		return nil, refuse("expired_trigger_id")
	}
	if err := checkView(a["view"]); err != nil {
		return nil, err
	}
	delete(s.triggers, a["trigger_id"]) // good once
	return s.keepView(View{ID: s.newID("V"), Raw: json.RawMessage(a["view"])}), nil
}

// keepView stores a new view and returns it as Slack does. The lock is held.
func (s *Server) keepView(v View) map[string]any {
	s.views = append(s.views, v)
	return map[string]any{"view": viewWire(v)}
}

// viewWire returns a view as Slack sends one. Its hash changes with each update.
func viewWire(v View) map[string]any {
	wire := map[string]any{}
	_ = json.Unmarshal(v.Raw, &wire) // checked on the way in
	wire["id"] = v.ID
	wire["team_id"] = TeamID
	wire["app_id"] = AppID
	wire["bot_id"] = BotID
	wire["hash"] = v.ID + "." + strconv.Itoa(v.Updates)
	return wire
}

// updateView serves views.update.
func (s *Server) updateView(a args) (map[string]any, *slackError) {
	if err := checkView(a["view"]); err != nil {
		return nil, err
	}
	for i := range s.views {
		if v := &s.views[i]; v.ID == a["view_id"] {
			v.Raw = json.RawMessage(a["view"])
			v.Updates++
			return map[string]any{"view": viewWire(*v)}, nil
		}
	}
	return nil, refuse("not_found")
}

// publishView serves views.publish, which shows a view on a user's home tab.
func (s *Server) publishView(a args) (map[string]any, *slackError) {
	if _, ok := s.user(a["user_id"]); !ok {
		return nil, refuse("user_not_found")
	}
	if err := checkView(a["view"]); err != nil {
		return nil, err
	}
	return s.keepView(View{ID: s.newID("V"), User: a["user_id"], Raw: json.RawMessage(a["view"])}), nil
}

// assistant returns the assistant thread that arguments name, made when it is named first. The lock is held.
func (s *Server) assistant(a args) (*AssistantThread, *slackError) {
	if s.channel(a["channel_id"]) == nil {
		return nil, refuse("channel_not_found")
	}
	key := a["channel_id"] + " " + a["thread_ts"]
	if s.threads[key] == nil {
		s.threads[key] = &AssistantThread{}
	}
	return s.threads[key], nil
}

// titledAssistant is assistant for calls that must name a thread.
func (s *Server) titledAssistant(a args) (*AssistantThread, *slackError) {
	if a["thread_ts"] == "" {
		return nil, refuse("invalid_thread_ts")
	}
	return s.assistant(a)
}

// setStatus serves assistant.threads.setStatus; an empty status removes it.
func (s *Server) setStatus(a args) (map[string]any, *slackError) {
	t, err := s.titledAssistant(a)
	if err == nil {
		t.Status = append(t.Status, a["status"])
	}
	return nil, err
}

// setTitle serves assistant.threads.setTitle.
func (s *Server) setTitle(a args) (map[string]any, *slackError) {
	t, err := s.titledAssistant(a)
	if err == nil {
		t.Title = a["title"]
	}
	return nil, err
}

// setPrompts serves assistant.threads.setSuggestedPrompts.
func (s *Server) setPrompts(a args) (map[string]any, *slackError) {
	t, err := s.assistant(a)
	if err != nil {
		return nil, err
	}
	var prompts []struct{ Title, Message string }
	if json.Unmarshal([]byte(a["prompts"]), &prompts) != nil || len(prompts) == 0 || len(prompts) > 4 {
		return nil, refuse("invalid_arguments")
	}
	t.Prompts = json.RawMessage(a["prompts"])
	return nil, nil
}

func (s *Server) uploadURL(a args) (map[string]any, *slackError) {
	if n, err := strconv.Atoi(a["length"]); err != nil || n <= 0 || a["filename"] == "" {
		return nil, refuse("invalid_arguments")
	}
	f := &File{ID: s.newID("F"), Name: a["filename"]}
	s.files[f.ID] = f
	return map[string]any{"upload_url": s.URL() + "/upload/" + f.ID, "file_id": f.ID}, nil
}

func (s *Server) serveUpload(w http.ResponseWriter, r *http.Request) {
	body, name, err := uploadBody(r)
	s.state.Lock()
	defer s.state.Release()
	f := s.files[r.PathValue("file")]
	if f == nil || err != nil {
		http.Error(w, "no such upload", http.StatusNotFound)
		return
	}
	f.Body = body
	if name != "" {
		f.Name = name
	}
	w.WriteHeader(http.StatusOK)
}

// pathFiles is where files are read.
const pathFiles = "/files-pri/"

// serveFile answers whoever may not read a file with a page to sign in on, as Slack
// does.
func (s *Server) serveFile(w http.ResponseWriter, r *http.Request) {
	bearer, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	s.state.Lock()
	f := s.files[r.PathValue("file")]
	s.state.Unlock()
	switch {
	case f == nil:
		http.NotFound(w, r)
	case bearer != s.opts.BotToken, s.checkScope("files:read") != nil:
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write([]byte("<!DOCTYPE html><title>Sign in</title>")) // the caller may have hung up
	default:
		w.Header().Set("Content-Type", f.Type)
		_, _ = w.Write(f.Body)
	}
}

func (s *Server) completeUpload(a args) (map[string]any, *slackError) {
	var list []struct{ ID, Title string }
	if json.Unmarshal([]byte(a["files"]), &list) != nil || len(list) == 0 {
		return nil, refuse("invalid_arguments")
	}
	var files []File
	for _, entry := range list {
		f := s.files[entry.ID]
		if f == nil || f.Body == nil {
			return nil, refuse("file_not_found")
		}
		f.Title = entry.Title
		files = append(files, *f)
	}
	channel := a["channel_id"]
	if channel == "" {
		channel = a["channels"]
	}
	if channel != "" {
		c, err := s.postChannel(channel)
		if err != nil {
			return nil, err
		}
		p := compose(c, args{"text": a["initial_comment"], "thread_ts": a["thread_ts"]})
		p.Files = files
		s.storePost(p)
		s.emitMessage(p)
	}
	return map[string]any{"files": s.filesWire(files)}, nil
}

// response is a response URL.
type response struct {
	channel string
	user    string
	born    time.Time
	uses    int
	source  *Post // the message a click came from
	answers []Answer
}

// Answer is one use of a response URL.
type Answer struct {
	At        time.Time
	Text      string
	Blocks    json.RawMessage
	InChannel bool
	Replaces  bool // replace_original
	Deletes   bool // delete_original
	Pings     Pings
}

const maxResponses = 5

func (s *Server) serveResponse(w http.ResponseWriter, r *http.Request) {
	a, err := readArgs(r)
	s.state.Lock()
	defer s.state.Release()
	resp := s.responses[r.PathValue("token")]
	refused := func(code string) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		_ = json.NewEncoder(w).Encode(map[string]any{"ok": false, "error": code})
	}
	switch {
	case err != nil:
		http.Error(w, "invalid_payload", http.StatusBadRequest)
		return
	case resp == nil:
		refused("invalid_url")
		return
	case time.Since(resp.born) > s.opts.ResponseLife:
		refused("expired_url")
		return
	case resp.uses >= maxResponses:
		refused("used_url")
		return
	}
	if refusal := checkContent(a); refusal != nil && !a.isSet("delete_original") {
		http.Error(w, refusal.code, http.StatusBadRequest)
		return
	}
	resp.uses++
	s.respond(resp, a)
	_, _ = w.Write([]byte("ok")) // the caller may have hung up
}

// respond does what a POST to a response_url asks for: it adds an answer, or replaces or deletes the message that was
// acted on. The lock is held.
func (s *Server) respond(resp *response, a args) {
	ans := Answer{
		At:        time.Now(),
		Text:      a["text"],
		Blocks:    rawOrNil(a["blocks"]),
		InChannel: a["response_type"] == "in_channel",
		Replaces:  a.isSet("replace_original"),
		Deletes:   a.isSet("delete_original"),
		Pings:     pingsOf(a),
	}
	resp.answers = append(resp.answers, ans)
	switch {
	case ans.Deletes && resp.source != nil:
		s.deletePost(resp.source)
	case ans.Replaces && resp.source != nil:
		s.changePost(resp.source, func() { resp.source.Text, resp.source.Blocks = ans.Text, ans.Blocks })
	case ans.InChannel:
		p := compose(s.mustChannel(resp.channel), a)
		p.Response = true
		s.storePost(p)
		s.emitMessage(p)
	}
}
