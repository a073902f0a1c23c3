package admin

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/feature/settings"
)

// settingsPage is the page of a layer: a form, with the values that hold where the layer sets nothing.
type settingsPage struct {
	Scope           settingsPlace
	Layer, Below    settings.Layer
	Models          []string
	Tools           bool // as they are with this layer
	Steps, Prompt   string
	Saved           bool
	Problem         string
	Channels, Users []string
}

// settingsPlace names whose settings a page shows: those of the whole bot when both are empty.
type settingsPlace struct{ Channel, User string }

// parsePlace reads the place from a request, with its scope.
func parsePlace(r *http.Request) (settingsPlace, settings.Scope, error) {
	p := settingsPlace{strings.TrimSpace(r.FormValue("channel")), strings.TrimSpace(r.FormValue("user"))}
	switch platform, id, ok := strings.Cut(p.User, "/"); {
	case p.Channel != "" && p.User != "":
		return settingsPlace{}, "", fmt.Errorf("these are settings of a channel or of a user, not of both")
	case p.Channel != "":
		a, err := chat.ParseAddress(p.Channel)
		return settingsPlace{Channel: a.Base().String()}, settings.Channel(a), err
	case p.User == "":
		return settingsPlace{}, settings.Instance, nil
	case !ok || platform == "" || id == "":
		return settingsPlace{}, "", fmt.Errorf("user %.80q is not written platform/id", p.User)
	default:
		return p, settings.User(platform, id), nil
	}
}

// Whole reports whether the place is the whole bot.
func (p settingsPlace) Whole() bool { return p == settingsPlace{} }

// settingsForm shows the settings of the instance or of one channel.
func (s *Server) settingsForm(w http.ResponseWriter, r *http.Request) {
	at, scope, err := parsePlace(r)
	if err != nil {
		s.page(w, http.StatusBadRequest, "note-page", "No settings are shown: "+err.Error()+".")
		return
	}
	s.page(w, http.StatusOK, "settings", s.newSettingsPage(at, s.o.Settings.Layer(scope)))
}

// inheritedLayer returns the layer that holds where a layer sets nothing.
func (s *Server) inheritedLayer(at settingsPlace) settings.Layer {
	if at.Whole() {
		return settings.Layer{}
	}
	return s.o.Settings.Layer(settings.Instance)
}

// toolsEnabled reports whether tools are enabled where l or, without a value in it, the configuration
// decides.
func (s *Server) toolsEnabled(l settings.Layer) bool {
	if l.Tools.Enabled != nil {
		return *l.Tools.Enabled
	}
	return s.o.Instance.ToolsEnabled()
}

// newSettingsPage returns the page of a layer.
func (s *Server) newSettingsPage(at settingsPlace, l settings.Layer) settingsPage {
	v := s.settingsView()
	below := s.inheritedLayer(at)
	p := settingsPage{Scope: at, Layer: l, Below: below, Models: s.o.Settings.Models(), Tools: s.toolsEnabled(below),
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

// saveSettings stores the form of the page.
func (s *Server) saveSettings(w http.ResponseWriter, r *http.Request) {
	at, scope, err := parsePlace(r)
	if err != nil {
		s.page(w, http.StatusBadRequest, "note-page", "Nothing is saved: "+err.Error()+".")
		return
	}
	l, err := s.parseLayer(r, at)
	if err == nil {
		err = s.o.Settings.Check(scope, l)
	}
	// The page shows what was entered also when it is refused, so that nobody types it again.
	p, status := s.newSettingsPage(at, l), http.StatusUnprocessableEntity
	if err != nil {
		p.Problem = err.Error()
	} else if err := s.o.Settings.Change(r.Context(), scope, func(was *settings.Layer) error {
		// The page has no field for the time zone, and must not take it away.
		l.Timezone = was.Timezone
		*was = l
		return nil
	}); err != nil {
		ref := newReference()
		s.o.Log.Error("failed to save settings", "reference", ref, "error", err)
		status = http.StatusInternalServerError
		p.Problem = "The settings could not be saved (reference " + ref + "); the bot's log has the reason."
	} else {
		p.Saved, status = true, http.StatusOK
	}
	s.page(w, status, "settings", p)
}

// parseLayer reads the form. A switch in its inherited position sets nothing, so that it follows the layer
// below.
func (s *Server) parseLayer(r *http.Request, at settingsPlace) (settings.Layer, error) {
	l := settings.Layer{Model: r.PostFormValue("model"), Language: strings.TrimSpace(r.PostFormValue("language"))}
	if on := r.PostFormValue("tools") != ""; on != s.toolsEnabled(s.inheritedLayer(at)) {
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
