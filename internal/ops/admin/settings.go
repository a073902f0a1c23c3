package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/feature/settings"
)

// settingsView holds every layer of settings: channels by address, users by platform/id.
type settingsView struct {
	Instance  settings.Layer            `json:"instance"`
	Channels  map[string]settings.Layer `json:"channels"`
	Users     map[string]settings.Layer `json:"users"`
	Effective *settings.Layer           `json:"effective,omitempty"` // with ?channel=ADDRESS&user=ID
}

// getSettings serves GET /api/v1/settings: every layer, and with channel (and user) what is in effect there.
func (s *Server) getSettings(w http.ResponseWriter, r *http.Request) {
	v := s.settingsView()
	if at := r.URL.Query().Get("channel"); at != "" {
		a, err := chat.ParseAddress(at)
		if err != nil {
			writeError(w, http.StatusBadRequest, "bad_address", err.Error(), "write platform:workspace/channel")
			return
		}
		l := s.o.Settings.Effective(a, r.URL.Query().Get("user"))
		v.Effective = &l
	}
	writeJSON(w, http.StatusOK, v)
}

// settingsView returns the layers of settings by what they are for.
func (s *Server) settingsView() settingsView {
	v := settingsView{Channels: map[string]settings.Layer{}, Users: map[string]settings.Layer{}}
	for scope, l := range s.o.Settings.All() {
		kind, name, _ := strings.Cut(string(scope), "/")
		switch kind {
		case "channel":
			v.Channels[name] = l
		case "user":
			v.Users[name] = l
		default:
			v.Instance = l
		}
	}
	return v
}

// putSettings replaces the layers that it is given, each as a whole; an empty one clears the layer. Other
// layers stay. Nothing changes when anything is wrong.
func (s *Server) putSettings(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Instance *settings.Layer           `json:"instance"`
		Channels map[string]settings.Layer `json:"channels"`
		Users    map[string]settings.Layer `json:"users"`
	}
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		writeHints(w, http.StatusBadRequest, "bad_json", err.Error(),
			`send {"instance":{"model","language","tools":{"enabled","maxSteps","systemPrompt"}},`+
				`"channels":{ADDRESS:{…}},"users":{"platform/id":{…}}}`, "")
		return
	}
	set := map[settings.Scope]settings.Layer{}
	if in.Instance != nil {
		set[settings.Instance] = *in.Instance
	}
	var faults []error
	for at, l := range in.Channels {
		a, err := chat.ParseAddress(at)
		faults = append(faults, err)
		set[settings.Channel(a)] = l
	}
	for name, l := range in.Users {
		platform, id, ok := strings.Cut(name, "/")
		if !ok || platform == "" || id == "" {
			faults = append(faults, fmt.Errorf("user %q is not written platform/id", name))
		}
		set[settings.User(platform, id)] = l
	}
	// All layers are checked before the first is stored.
	for scope, l := range set {
		faults = append(faults, s.o.Settings.Check(scope, l))
	}
	if err := errors.Join(faults...); err != nil {
		writeError(w, http.StatusBadRequest, "bad_settings", err.Error(), "nothing was set")
		return
	}
	for scope, l := range set {
		if err := s.o.Settings.Set(r.Context(), scope, l); err != nil {
			s.writeFailure(w, r, "the settings could not be saved", err)
			return
		}
	}
	writeJSON(w, http.StatusOK, s.settingsView())
}
