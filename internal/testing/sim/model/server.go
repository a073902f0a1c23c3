// Package simmodel is a simulated language model for tests of clients, on a real socket of 127.0.0.1: Gemini's
// generateContent at Google AI and Vertex AI, Anthropic's Messages API, and OpenAI's chat completions in the dialects
// of OpenAI and a dozen other providers and servers. A Script decides the model's answers and failures.
//
// It enforces the documented rules of the providers: thought signatures and call ids come back as issued, every call
// is answered, roles alternate, names and schemas use only supported features, keys are valid. A request that breaks a
// rule gets the provider's error and is kept for Rejected. Images, files and caching are left out.
package simmodel

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"ravenbot/internal/testing/sim"
)

// Options configures a server. The zero value of a field means the default given.
type Options struct {
	APIKey string   // default "key"
	Models []string // default gemini-3.8-flash, gpt-sim and claude-sim
	Script Script   // default Echo
	// RefuseTools are the names of tools for whose schemas every request is refused, though nothing is wrong with them.
	RefuseTools []string
	// RefuseOptional says that each endpoint refuses the optional field of a request that it is known to refuse.
	RefuseOptional bool
	// NoTools says that the endpoints that have models without tools serve such a model.
	NoTools bool
}

// Rejection is a request that broke a rule of its protocol.
type Rejection struct {
	API     string
	Problem string
	Raw     json.RawMessage
}

// Server is the simulated model.
type Server struct {
	*sim.HTTPServer
	opts  Options
	state sim.Watch // guards all below

	script     Script
	embedding  Embedding
	asked      []Request
	rejected   []Rejection
	signatures map[string]issued
	thoughts   map[string]map[string]any // that came with a call, by endpoint and id of the call
	serial     int
	endpoints  []*endpoint // fixed
}

// issued is what a thought signature was issued for.
type issued struct{ model, call string }

// New starts a server.
func New(opts Options) (*Server, error) {
	if opts.APIKey == "" {
		opts.APIKey = "key"
	}
	if opts.Models == nil {
		opts.Models = []string{"gemini-3.8-flash", "gpt-sim", "claude-sim"}
	}
	if opts.Script == nil {
		opts.Script = Echo
	}
	s := &Server{
		opts:       opts,
		script:     opts.Script,
		signatures: map[string]issued{},
		thoughts:   map[string]map[string]any{},
		endpoints:  newEndpoints(),
	}
	door, err := sim.NewHTTPServer(s.routes())
	if err != nil {
		return nil, err
	}
	s.HTTPServer = door
	return s, nil
}

// routes returns the APIs of all providers side by side; their paths do not meet, but for the list of models.
func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	for _, version := range []string{"/v1beta", "/v1"} {
		mux.HandleFunc("POST "+version+"/models/{action}", s.serveGemini)
		mux.HandleFunc("GET "+version+"/models/{model}", s.serveModels)
	}
	mux.HandleFunc("GET /v1beta/models", s.serveModels)
	mux.HandleFunc("GET /v1/models", s.serveModels)
	mux.HandleFunc("GET /v1beta/openai/models", s.listOpenAI)
	mux.HandleFunc("POST /v1/embeddings", s.embedOpenAI)
	mux.HandleFunc("POST /v1/messages", s.serveAnthropic)
	for _, e := range s.endpoints {
		mux.HandleFunc("POST "+e.path+"/chat/completions", func(w http.ResponseWriter, r *http.Request) {
			s.serveOpenAI(w, r, e)
		})
	}
	s.addVertex(mux)
	return mux
}

// GeminiURL returns the base for Gemini clients, OpenAIURL and GoogleOpenAIURL
// those for OpenAI clients.
func (s *Server) GeminiURL() string { return s.URL() + "/" }

// OpenAIURL returns the base for OpenAI clients.
func (s *Server) OpenAIURL() string { return s.URL() + "/v1" }

// AnthropicURL returns the base for clients of the Messages API.
func (s *Server) AnthropicURL() string { return s.URL() }

// EndpointURL returns the base for OpenAI clients of an endpoint, such as "deepseek". It panics if there is none.
func (s *Server) EndpointURL(name string) string { return s.URL() + s.endpoint(name).path }

// Endpoints returns the names of the endpoints that speak OpenAI's API.
func (s *Server) Endpoints() (names []string) {
	for _, e := range s.endpoints {
		names = append(names, e.name)
	}
	return names
}

// GoogleOpenAIURL returns Google's OpenAI-compatible base.
func (s *Server) GoogleOpenAIURL() string { return s.URL() + "/v1beta/openai" }

// SetScript replaces the script for future requests.
func (s *Server) SetScript(script Script) {
	s.state.Lock()
	defer s.state.Release()
	s.script = script
}

// Asked returns the requests that were accepted, oldest first.
func (s *Server) Asked() []Request {
	s.state.Lock()
	defer s.state.Unlock()
	return slices.Clone(s.asked)
}

// WaitAsked returns the accepted requests once there are at least n.
func (s *Server) WaitAsked(ctx context.Context, n int) ([]Request, error) {
	err := s.state.Wait(ctx, func() bool { return len(s.asked) >= n })
	if err != nil {
		return s.Asked(), fmt.Errorf("wait for %d requests: %w", n, err)
	}
	return s.Asked(), nil
}

// Rejected returns the requests that broke a rule.
func (s *Server) Rejected() []Rejection {
	s.state.Lock()
	defer s.state.Unlock()
	return slices.Clone(s.rejected)
}

// reject records a request that breaks a rule of its API.
func (s *Server) reject(api, problem string, raw []byte) {
	s.state.Lock()
	defer s.state.Release()
	s.rejected = append(s.rejected, Rejection{API: api, Problem: problem, Raw: raw})
}

// reply records a request and asks the script; calls get ids.
func (s *Server) reply(r Request) Reply {
	r.At = time.Now()
	s.state.Lock()
	s.asked = append(s.asked, r)
	script := s.script
	s.state.Release()
	reply := script(r)
	s.state.Lock()
	defer s.state.Unlock()
	reply.Calls = slices.Clone(reply.Calls)
	for i := range reply.Calls {
		if reply.Calls[i].ID == "" {
			s.serial++
			reply.Calls[i].ID = s.newCallID(r.API, reply.Calls[i].Name)
		}
		if len(reply.Calls[i].Args) == 0 {
			reply.Calls[i].Args = json.RawMessage("{}")
		}
	}
	if reply.Usage == nil {
		reply.Usage = &Usage{
			Prompt:   len(r.Raw)/4 + 1,
			Output:   len(strings.Join(reply.Text, ""))/4 + 1,
			Thoughts: len(reply.Thoughts) / 4,
		}
	}
	if reply.Served == "" {
		reply.Served = r.Model
	}
	return reply
}

// sign issues a thought signature.
func (s *Server) sign(model, call string) string {
	s.state.Lock()
	defer s.state.Unlock()
	s.serial++
	signature := base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "thought %d of %s \xff", s.serial, model))
	s.signatures[signature] = issued{model: model, call: call}
	return signature
}

// Sentinel is accepted in place of any signature.
const Sentinel = "skip_thought_signature_validator"

// isGenuine reports whether a signature was issued for that call by that model.
func (s *Server) isGenuine(signature, model, call string) bool {
	if plain, err := base64.StdEncoding.DecodeString(signature); signature == Sentinel ||
		err == nil && string(plain) == Sentinel {
		return true
	}
	s.state.Lock()
	defer s.state.Unlock()
	return s.signatures[signature] == issued{model: model, call: call}
}

// prepareReply does what comes before an answer, and reports whether there is to be one.
func (s *Server) prepareReply(w http.ResponseWriter, r *http.Request, reply Reply) bool {
	if reply.Hang {
		select {
		case <-r.Context().Done():
		case <-s.Closing():
		}
		panic(http.ErrAbortHandler)
	}
	if reply.Delay > 0 && !s.Pause(r.Context(), reply.Delay) {
		panic(http.ErrAbortHandler)
	}
	if reply.Malformed && reply.Status == 0 {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"candidates": [{"content": {"parts": [`)) // the caller may have hung up
		return false
	}
	return true
}

// pipe writes the pieces of an answer, cutting it where the reply says.
type pipe struct {
	s       *Server
	w       http.ResponseWriter
	ctx     context.Context
	left    int // bytes until the cut; negative: none
	between time.Duration
	wrote   bool
	clean   bool // the cut ends the body as if it were whole
	ended   bool // it was cut
}

// pipe returns the writer of a stream, which pauses between pieces and ends early as the script asks.
func (s *Server) pipe(w http.ResponseWriter, r *http.Request, reply Reply) *pipe {
	p := &pipe{s: s, w: w, ctx: r.Context(), left: -1, between: reply.ChunkDelay, clean: reply.CutClean}
	if reply.CutAfter > 0 {
		p.left = reply.CutAfter
	}
	return p
}

// put writes a piece and sends it off.
func (p *pipe) put(piece string) {
	if p.wrote && p.between > 0 && !p.s.Pause(p.ctx, p.between) {
		panic(http.ErrAbortHandler)
	}
	if p.ctx.Err() != nil { // an endless reply ends here
		panic(http.ErrAbortHandler)
	}
	p.wrote = true
	if p.ended {
		return
	}
	cut := p.left >= 0 && len(piece) >= p.left
	if cut {
		piece = piece[:p.left]
	} else if p.left >= 0 {
		p.left -= len(piece)
	}
	_, _ = p.w.Write([]byte(piece)) // a caller that hung up ends the request's context
	if f, ok := p.w.(http.Flusher); ok {
		f.Flush()
	}
	if cut && p.clean {
		p.ended = true
	} else if cut {
		panic(http.ErrAbortHandler)
	}
}

// mustJSON encodes a value of the simulator or the script.
func mustJSON(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // a script's Args that are no JSON
	}
	return string(data)
}

func (s *Server) hasModel(model string) bool { return slices.Contains(s.opts.Models, model) }
