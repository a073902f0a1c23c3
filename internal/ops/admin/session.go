package admin

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"
)

const (
	linkLifetime    = 15 * time.Minute
	sessionLifetime = 30 * 24 * time.Hour
	// renewAfter is the age at which a session in use gets a new date.
	renewAfter = 24 * time.Hour
)

// sessions manages the sessions of browsers. They are cookies signed with a key that is derived from the
// admin token: they survive a restart, and end when the token changes. The same holds for one-time links; which of them
// were used is stored, and so are logouts.
type sessions struct {
	token  [sha256.Size]byte // hash of the admin token
	usable bool              // there is an admin token
	key    []byte
	links  []byte // the key of one-time links
	cookie string // its name; it differs between bots on different ports of one host
	now    func() time.Time

	mu    sync.Mutex
	ended map[string]time.Time // logged out sessions by their numbers, until their cookies end
	since time.Time            // older sessions have ended
}

// newSessions returns the sessions of the page. Their key comes from the admin token, so that a new token ends them
// all.
func newSessions(token string, now func() time.Time) *sessions {
	secret := []byte(token)
	if token == "" {
		// Without an admin token the key is random, and sessions end with the process.
		secret = make([]byte, 32)
		_, _ = rand.Read(secret) // never fails
	}
	key := sign(secret, []byte("ravenbot dashboard session, version 2"))
	// Cookies ignore the port, so two bots on one host need different names.
	name := sha256.Sum256(key)
	return &sessions{
		token:  sha256.Sum256([]byte(token)),
		usable: token != "",
		key:    key,
		links:  sign(secret, []byte("ravenbot login link, version 1")),
		cookie: "ravenbot_" + hex.EncodeToString(name[:4]),
		now:    now,
		ended:  map[string]time.Time{},
	}
}

// isToken reports whether given is the admin token.
func (s *sessions) isToken(given string) bool { return s.usable && isHashOf(s.token, given) }

// isHashOf reports whether a token has a hash. It compares in constant time.
func isHashOf(hash [sha256.Size]byte, token string) bool {
	sum := sha256.Sum256([]byte(token))
	// Hashes have equal lengths, so the comparison does not reveal that of the token.
	return subtle.ConstantTimeCompare(sum[:], hash[:]) == 1
}

// bearer returns the bearer token of a request.
func bearer(r *http.Request) (string, bool) {
	kind, token, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	if !ok || !strings.EqualFold(kind, "Bearer") {
		return "", false
	}
	return strings.TrimSpace(token), true
}

// LoginLink returns a link that opens the dashboard once, within 15 minutes. base is the bot's address as the
// browser knows it.
func (s *Server) LoginLink(base string) string {
	return strings.TrimRight(base, "/") + "/login?token=" + s.sessions.newLink()
}

// newLink returns the secret of a new one-time link: a number, its end, and a signature. So it is good in another process
// with the same admin token, too: after a restart, and where another replica leads by then.
func (s *sessions) newLink() string {
	body := make([]byte, idSize)
	_, _ = rand.Read(body) // never fails
	body = binary.BigEndian.AppendUint64(body, uint64(s.now().Add(linkLifetime).UnixNano()))
	return base64.RawURLEncoding.EncodeToString(append(body, sign(s.links, body)...))
}

// readLink returns the number of a one-time link and its end; false: it is none of ours, or has expired.
func (s *sessions) readLink(token string) (id string, end time.Time, ok bool) {
	body, ok := readSigned(s.links, token)
	if !ok {
		return "", time.Time{}, false
	}
	end = time.Unix(0, int64(binary.BigEndian.Uint64(body[idSize:])))
	return hex.EncodeToString(body[:idSize]), end, s.now().Before(end)
}

// redeem reports whether token is that of an unused link, and uses the link up. With an error it is not known.
func (s *Server) redeem(ctx context.Context, token string) (bool, error) {
	id, end, ok := s.sessions.readLink(token)
	if !ok {
		return false, nil
	}
	ok, err := s.o.Logouts.UseLink(ctx, id, end, s.o.Now())
	if err != nil {
		return false, fmt.Errorf("find out whether a login link was used: %w", err)
	}
	return ok, nil
}

// dropExpired forgets what has ended.
func dropExpired[K comparable](m map[K]time.Time, now time.Time) {
	for k, end := range m {
		if !now.Before(end) {
			delete(m, k)
		}
	}
}

const idSize = 32

// start starts a session for the browser.
func (s *sessions) start(w http.ResponseWriter, secure bool) {
	id := make([]byte, idSize)
	_, _ = rand.Read(id) // never fails
	s.writeCookie(w, id, secure)
}

// writeCookie sends the cookie: the session's id, when it was written, and a signature.
func (s *sessions) writeCookie(w http.ResponseWriter, id []byte, secure bool) {
	// Where all sessions were ended while the clock was ahead, nobody could begin one until it comes by that time.
	s.mu.Lock()
	written := s.now()
	if !written.After(s.since) {
		written = s.since.Add(1)
	}
	s.mu.Unlock()
	body := binary.BigEndian.AppendUint64(id, uint64(written.UnixNano()))
	value := base64.RawURLEncoding.EncodeToString(append(body, sign(s.key, body)...))
	http.SetCookie(w, &http.Cookie{Name: s.cookie, Value: value, Path: "/", MaxAge: int(sessionLifetime.Seconds()),
		HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: secure})
}

// sign returns the code that proves that bytes are ours.
func sign(key, body []byte) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write(body)
	return mac.Sum(nil)
}

// readSigned returns the bytes that a text holds, a number and a time, without the signature behind them; false: the text
// was not signed with the key.
func readSigned(key []byte, text string) (body []byte, ok bool) {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(raw) != idSize+8+sha256.Size {
		return nil, false
	}
	body, sum := raw[:idSize+8], raw[idSize+8:]
	return body, hmac.Equal(sum, sign(key, body))
}

// readCookie returns the id of the request's session and when its cookie was written. ok is false when there
// is no valid session.
func (s *sessions) readCookie(r *http.Request) (id []byte, written time.Time, ok bool) {
	c, err := r.Cookie(s.cookie)
	if err != nil {
		return nil, time.Time{}, false
	}
	// The signature first: nothing of an unsigned cookie is used.
	body, ok := readSigned(s.key, c.Value)
	if !ok {
		return nil, time.Time{}, false
	}
	// The id's capacity is cut, because writeCookie appends to it and would overwrite body.
	id, written = body[:idSize:idSize], time.Unix(0, int64(binary.BigEndian.Uint64(body[idSize:])))
	s.mu.Lock()
	defer s.mu.Unlock()
	_, over := s.ended[hex.EncodeToString(id)]
	return id, written, !over && written.After(s.since) && s.now().Sub(written) < sessionLifetime
}

// check reports whether a request belongs to a session, and renews the cookie of one in use.
func (s *sessions) check(w http.ResponseWriter, r *http.Request, secure bool) bool {
	id, written, ok := s.readCookie(r)
	if ok && s.now().Sub(written) > renewAfter {
		s.writeCookie(w, id, secure)
	}
	return ok
}

// endAll ends the sessions that were started until an instant.
func (s *sessions) endAll(at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at.After(s.since) {
		s.since = at
	}
}

// end ends sessions that were logged out, each until its cookie ends.
func (s *sessions) end(ended map[string]time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	dropExpired(s.ended, s.now())
	maps.Copy(s.ended, ended)
}

// logOut ends the session of a request, and returns its number and when its cookie ends; false: there is none.
func (s *sessions) logOut(w http.ResponseWriter, r *http.Request) (id string, until time.Time, ok bool) {
	raw, _, ok := s.readCookie(r)
	if ok {
		// The cookie itself stays valid until then, wherever a copy of it is.
		id, until = hex.EncodeToString(raw), s.now().Add(sessionLifetime)
		s.end(map[string]time.Time{id: until})
	}
	http.SetCookie(w, &http.Cookie{Name: s.cookie, Path: "/", MaxAge: -1, HttpOnly: true, SameSite: http.SameSiteLaxMode})
	return id, until, ok
}
