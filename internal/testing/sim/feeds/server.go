// Package simfeeds is a web server for feeds and pages on a real socket of 127.0.0.1. It is well behaved, with
// validators and conditional GET, or hostile in the ways of the open web. Serve, ServeDir and the like put pages at
// paths, where a later page replaces an earlier one. Fail adds faults that apply to any request.
package simfeeds

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/xml"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"path"
	"strconv"
	"strings"
	"time"

	"ravenbot/internal/testing/sim"
)

// Server is the simulated web.
type Server struct {
	*sim.HTTPServer
	state sim.Watch // guards all below
	pages map[string]*page
	feeds map[string]*feed
}

// page is the answer of a path.
type page struct {
	body    []byte
	header  http.Header
	changed time.Time
	status  int // 0: 200
	quiet   bool
	act     func(http.ResponseWriter, *http.Request) // replaces all other fields
	hits    Hits
}

// Hits counts the answers of a path.
type Hits struct {
	Full        int // with a body, status 200
	NotModified int // 304
	Other       int
}

// New starts an empty server; every path answers 404.
func New() (*Server, error) {
	s := &Server{pages: map[string]*page{}, feeds: map[string]*feed{}}
	door, err := sim.NewHTTPServer(http.HandlerFunc(s.serve))
	if err != nil {
		return nil, err
	}
	s.HTTPServer = door
	return s, nil
}

// Option changes how a page is answered.
type Option func(*page)

// Header sets a header of the answer.
func Header(key, value string) Option {
	return func(p *page) { p.header.Set(key, value) }
}

// Status answers with a status other than 200.
func Status(code int) Option { return func(p *page) { p.status = code } }

// RetryAfter answers 429 or another status with the seconds to wait.
func RetryAfter(code int, wait time.Duration) Option {
	return func(p *page) {
		p.status = code
		p.header.Set("Retry-After", strconv.Itoa(int(wait.Seconds())))
	}
}

// NoValidators leaves out ETag and Last-Modified.
func NoValidators() Option { return func(p *page) { p.quiet = true } }

// Serve puts a page at a path and returns its URL.
func (s *Server) Serve(path string, body []byte, contentType string, opts ...Option) string {
	p := &page{body: body, header: http.Header{}}
	if contentType != "" {
		p.header.Set("Content-Type", contentType)
	}
	for _, opt := range opts {
		opt(p)
	}
	return s.put(path, p)
}

// put keeps the counters of the page that was there.
func (s *Server) put(at string, p *page) string {
	s.state.Lock()
	defer s.state.Release()
	if old := s.pages[at]; old != nil {
		p.hits = old.hits
	}
	p.changed = time.Now().Truncate(time.Second)
	s.pages[at] = p
	return s.URL() + at
}

// ServeDir puts every file of a folder under a prefix. Types are guessed by
// name: feeds for .xml, .rss and .atom, JSON and HTML.
func (s *Server) ServeDir(prefix string, dir fs.FS) error {
	return fs.WalkDir(dir, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return fmt.Errorf("serve folder: %w", err)
		}
		if entry.IsDir() {
			return nil
		}
		body, err := fs.ReadFile(dir, name)
		if err != nil {
			return fmt.Errorf("serve folder: %w", err)
		}
		s.Serve(path.Join("/", prefix, name), body, typeOf(name))
		return nil
	})
}

// typeOf returns the media type of a page by its name.
func typeOf(name string) string {
	switch path.Ext(name) {
	case ".xml":
		return "application/xml"
	case ".rss":
		return "application/rss+xml"
	case ".atom":
		return "application/atom+xml"
	case ".json":
		return "application/feed+json"
	case ".html", ".htm":
		return "text/html; charset=utf-8"
	}
	return "text/plain; charset=utf-8"
}

// Redirect sends a path on to another place with a 3xx status.
func (s *Server) Redirect(from, to string, status int) string {
	return s.put(from, &page{status: status, quiet: true, header: http.Header{"Location": {to}}})
}

// RedirectChain leads from a path over n hops to a target.
func (s *Server) RedirectChain(from, to string, n int) string {
	for i := n; i > 1; i-- {
		hop := fmt.Sprintf("%s/hop%d", from, i)
		to = s.Redirect(hop, to, http.StatusFound)
	}
	return s.Redirect(from, to, http.StatusFound)
}

// RedirectLoop leads from a path to itself for ever.
func (s *Server) RedirectLoop(at string) string { return s.Redirect(at, at, http.StatusFound) }

// Gzip serves a body compressed, whatever the client accepts.
func (s *Server) Gzip(at string, body []byte, contentType string) (string, error) {
	packed, err := pack(func(w *gzip.Writer) error {
		_, err := w.Write(body)
		return err
	})
	if err != nil {
		return "", err
	}
	return s.Serve(at, packed, contentType, Header("Content-Encoding", "gzip")), nil
}

// GzipBomb serves zeros that unpack to size bytes.
func (s *Server) GzipBomb(at string, size int64) (string, error) {
	packed, err := pack(func(w *gzip.Writer) error {
		zeros := make([]byte, 1<<16)
		for left := size; left > 0; left -= int64(len(zeros)) {
			if _, err := w.Write(zeros[:min(left, int64(len(zeros)))]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	return s.Serve(at, packed, "application/rss+xml", Header("Content-Encoding", "gzip")), nil
}

// pack returns what fill writes, compressed.
func pack(fill func(*gzip.Writer) error) ([]byte, error) {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if err := fill(w); err != nil {
		return nil, fmt.Errorf("compress page: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("compress page: %w", err)
	}
	return packed.Bytes(), nil
}

// Endless serves a body that never ends, repeating a piece.
func (s *Server) Endless(at string, piece []byte, contentType string) string {
	return s.put(at, &page{act: func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", contentType)
		for r.Context().Err() == nil {
			select {
			case <-s.Closing():
				return
			default:
			}
			if _, err := w.Write(piece); err != nil {
				return
			}
		}
	}})
}

// Slow serves a body byte by byte with a pause before each.
func (s *Server) Slow(at string, body []byte, contentType string, pause time.Duration) string {
	return s.put(at, &page{act: func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", contentType)
		flusher := http.NewResponseController(w)
		for i := range body {
			if !s.Pause(r.Context(), pause) {
				return
			}
			if _, err := w.Write(body[i : i+1]); err != nil || flusher.Flush() != nil {
				return
			}
		}
	}})
}

// Hang takes requests and never answers.
func (s *Server) Hang(at string) string {
	return s.put(at, &page{act: func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-s.Closing():
		}
		panic(http.ErrAbortHandler)
	}})
}

// Remove makes a path answer 404 again.
func (s *Server) Remove(at string) {
	s.state.Lock()
	defer s.state.Release()
	delete(s.pages, at)
	delete(s.feeds, at)
}

// Hits counts the answers of a path.
func (s *Server) Hits(at string) Hits {
	s.state.Lock()
	defer s.state.Unlock()
	if p := s.pages[at]; p != nil {
		return p.hits
	}
	return Hits{}
}

// serve answers with a page, with 304 where the client has it as it is, or with whatever the page was told to do.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	s.state.Lock()
	p := s.pages[r.URL.Path]
	if p == nil {
		s.state.Unlock()
		http.NotFound(w, r)
		return
	}
	maps.Copy(w.Header(), p.header)
	fresh := p.validate(w.Header(), r)
	status := p.status
	if status == 0 {
		status = http.StatusOK
	}
	body, act := p.body, p.act
	switch {
	case fresh:
		p.hits.NotModified++
	case status == http.StatusOK:
		p.hits.Full++
	default:
		p.hits.Other++
	}
	s.state.Release()
	if act != nil {
		act(w, r)
		return
	}
	if fresh {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) // the caller may have hung up
	}
}

// validate sets the validators and reports whether the client's copy is good.
// A wrong If-None-Match counts even if the date would do.
func (p *page) validate(h http.Header, r *http.Request) bool {
	if p.quiet || p.act != nil || p.status != 0 {
		return false
	}
	etag := h.Get("ETag")
	if etag == "" {
		etag = fmt.Sprintf(`"%x"`, sha256.Sum256(p.body))[:19] + `"`
		h.Set("ETag", etag)
	}
	if h.Get("Last-Modified") == "" {
		h.Set("Last-Modified", p.changed.UTC().Format(http.TimeFormat))
	}
	if match := r.Header.Get("If-None-Match"); match != "" {
		return match == "*" || strings.Contains(match, strings.TrimPrefix(etag, "W/"))
	}
	since, err := http.ParseTime(r.Header.Get("If-Modified-Since"))
	modified, _ := http.ParseTime(h.Get("Last-Modified"))
	return err == nil && !modified.After(since)
}

// escape makes text safe inside XML.
func escape(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a builder takes everything
	return b.String()
}
