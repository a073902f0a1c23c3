package admin

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"ravenbot/internal/chat"
	"ravenbot/internal/settings"
)

// settingsPage shows a layer as a form, with what holds where it sets nothing.
type settingsPage struct {
	Scope           place
	Layer, Below    settings.Layer
	Models          []string
	Tools           bool // as they are with this layer
	Steps, Prompt   string
	Saved           bool
	Problem         string
	Channels, Users []string
}

// place is whose settings a page is about: the bot's where both are empty.
type place struct{ Channel, User string }

// placeOf reads it from a request, with the scope that it stands for.
func placeOf(r *http.Request) (place, settings.Scope, error) {
	p := place{strings.TrimSpace(r.FormValue("channel")), strings.TrimSpace(r.FormValue("user"))}
	switch platform, id, ok := strings.Cut(p.User, "/"); {
	case p.Channel != "" && p.User != "":
		return place{}, "", fmt.Errorf("these are settings of a channel or of a user, not of both")
	case p.Channel != "":
		a, err := chat.ParseAddress(p.Channel)
		return place{Channel: a.Base().String()}, settings.Channel(a), err
	case p.User == "":
		return place{}, settings.Instance, nil
	case !ok || platform == "" || id == "":
		return place{}, "", fmt.Errorf("user %.80q is not written platform/id", p.User)
	default:
		return p, settings.User(platform, id), nil
	}
}

// Whole reports that it is the bot as a whole.
func (p place) Whole() bool { return p == place{} }

func (s *Server) settingsForm(w http.ResponseWriter, r *http.Request) {
	at, scope, err := placeOf(r)
	if err != nil {
		s.page(w, http.StatusBadRequest, "note-page", "No settings are shown: "+err.Error()+".")
		return
	}
	s.page(w, http.StatusOK, "settings", s.formOf(at, s.o.Settings.Layer(scope)))
}

// below is what holds where a layer sets nothing.
func (s *Server) below(at place) settings.Layer {
	if at.Whole() {
		return settings.Layer{}
	}
	return s.o.Settings.Layer(settings.Instance)
}

// toolsOn says whether tools are on where no layer from l down says so.
func (s *Server) toolsOn(l settings.Layer) bool {
	if l.Tools.Enabled != nil {
		return *l.Tools.Enabled
	}
	return s.o.Instance.ToolsEnabled()
}

func (s *Server) formOf(at place, l settings.Layer) settingsPage {
	v := s.settingsView()
	below := s.below(at)
	p := settingsPage{Scope: at, Layer: l, Below: below, Models: s.o.Settings.Models(), Tools: s.toolsOn(below),
		Channels: slices.Sorted(maps.Keys(v.Channels)), Users: slices.Sorted(maps.Keys(v.Users))}
	if l.Tools.Enabled != nil {
		p.Tools = *l.Tools.Enabled
	}
	if l.Tools.MaxSteps != nil {
		p.Steps = strconv.Itoa(*l.Tools.MaxSteps)
	}
	if l.Tools.SystemPrompt != nil {
		p.Prompt = *l.Tools.SystemPrompt
	}
	return p
}

func (s *Server) saveSettings(w http.ResponseWriter, r *http.Request) {
	at, scope, err := placeOf(r)
	if err != nil {
		s.page(w, http.StatusBadRequest, "note-page", "Nothing is saved: "+err.Error()+".")
		return
	}
	l, err := s.layerOf(r, at)
	if err == nil {
		err = s.o.Settings.Check(l)
	}
	p, status := s.formOf(at, l), http.StatusUnprocessableEntity
	if err != nil {
		p.Problem = err.Error()
	} else if err := s.o.Settings.Set(r.Context(), scope, l); err != nil {
		ref := reference()
		s.o.Log.Error("settings not kept", "reference", ref, "error", err)
		p.Problem, status = "The settings could not be kept (reference "+ref+"); the bot's log has the reason.", http.StatusInternalServerError
	} else {
		p.Saved, status = true, http.StatusOK
	}
	s.page(w, status, "settings", p)
}

// layerOf reads the form. A switch that stands as it would without this layer sets
// nothing, so that it follows what is below it.
func (s *Server) layerOf(r *http.Request, at place) (settings.Layer, error) {
	l := settings.Layer{Model: r.PostFormValue("model"), Language: strings.TrimSpace(r.PostFormValue("language"))}
	if on := r.PostFormValue("tools") != ""; on != s.toolsOn(s.below(at)) {
		l.Tools.Enabled = &on
	}
	if prompt := strings.TrimSpace(r.PostFormValue("prompt")); prompt != "" {
		l.Tools.SystemPrompt = &prompt
	}
	if steps := strings.TrimSpace(r.PostFormValue("steps")); steps != "" {
		n, err := strconv.Atoi(steps)
		if err != nil {
			return l, fmt.Errorf("the number of steps is %.40q, want a number", steps)
		}
		l.Tools.MaxSteps = &n
	}
	return l, nil
}
