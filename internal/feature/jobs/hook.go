package jobs

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"text/template"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/origin"
	"ravenbot/internal/core/text"
	"ravenbot/internal/news/feed"
	"ravenbot/internal/ops/config"
	"ravenbot/internal/store"
)

// deliveryKind is the kind of the stored items that hold when a delivery came, by the id of its job.
const deliveryKind = "hook delivery"

const (
	// keepDeliveries is how long a delivery is known that comes again. GitHub can send one again for three days
	// (webhooks documentation, read 2026-11-22).
	keepDeliveries = 7 * 24 * time.Hour
	// maxDeliveries bounds them; the oldest are forgotten first.
	maxDeliveries = 100_000
	pruneInterval = time.Hour
	// maxPayload is the largest body of a delivery, in bytes; larger ones are refused with status 413.
	maxPayload = 1 << 20
	// maxForeign is how much of a payload a task is shown.
	maxForeign = 3500
	// hookTimeout is how long a delivery may take to be stored.
	hookTimeout = 10 * time.Second
	// maxKeyBytes bounds what a sender names a delivery.
	maxKeyBytes = 500
	hookIDBytes = 12
	// fullRetry is when a sender may try again for whose delivery a digest had no room.
	fullRetry = time.Hour
)

// errBusy is returned while the posts of an earlier process are not queued yet.
var errBusy = errors.New("the bot is starting")

// ServeHTTP handles a delivery at /hooks/{name}. It responds with 202 once the job or the posts are stored, 401 to an
// unsigned delivery, 404 if there is no such webhook or it has no secret, 413 to a too large body, 429 to too many
// deliveries, and 500 or 503 if the sender should retry. It needs no other authentication.
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, "/hooks/")
	hook, ok := s.o.Config().Webhooks[name]
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		refuseDelivery(w, http.StatusMethodNotAllowed, "method_not_allowed", r.Method+" is not possible here", "use POST")
		return
	}
	// The signature covers the body, so the body must be read before the sender is known.
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxPayload))
	if err != nil {
		refuseDelivery(w, http.StatusRequestEntityTooLarge, "too_large", "the delivery is too large or incomplete",
			fmt.Sprintf("send at most %d bytes", maxPayload))
		return
	}
	// Anybody can sign with an empty secret, so that a webhook without one must not take anything. Who does not know the
	// secret does not learn which webhooks there are.
	if !ok || hook.Secret == "" || !isSigned(hook.Secret.Reveal(), r.Header, body) {
		refuseDelivery(w, http.StatusUnauthorized, "unauthorized",
			"there is no such webhook, or the delivery is not signed with its secret",
			"webhooks in config.json names them; send X-Hub-Signature-256 (sha256=HMAC of the body) or Authorization: Bearer SECRET")
		return
	}
	// Only those who know the secret can use up the rate.
	if wait := s.hooks.reserve(name, hook.PerMinute, s.o.Now()); wait > 0 {
		w.Header().Set("Retry-After", fmt.Sprint(int(wait.Seconds())+1))
		refuseDelivery(w, http.StatusTooManyRequests, "too_many", "too many deliveries in a minute", "send it again later")
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), hookTimeout)
	defer cancel()
	var full interface{ Full() bool }
	var system *store.SystemError
	id, err := s.deliver(ctx, name, hook, r.Header, body)
	switch {
	case errors.Is(err, errBusy):
		w.Header().Set("Retry-After", "5")
		refuseDelivery(w, http.StatusServiceUnavailable, "starting", "the bot is starting", "send it again in some seconds")
	case errors.As(err, &full) && full.Full():
		s.o.Log.Warn("refused a webhook delivery", "hook", name, "error", err)
		w.Header().Set("Retry-After", fmt.Sprint(int(fullRetry.Seconds())))
		refuseDelivery(w, http.StatusTooManyRequests, "too_many", "too many deliveries wait for the digest",
			"send it again after the digest's next run")
	case errors.As(err, &system): // it may pass, such as a full disk
		s.o.Log.Error("failed to store a webhook delivery", "hook", name, "error", err)
		w.Header().Set("Retry-After", "60")
		refuseDelivery(w, http.StatusServiceUnavailable, "unavailable", "the delivery was not stored",
			"send it again in a minute; the bot's log has the reason")
	case err != nil:
		s.o.Log.Error("failed to store a webhook delivery", "hook", name, "error", err)
		refuseDelivery(w, http.StatusInternalServerError, "internal", "the delivery was not stored",
			"send it again; the bot's log has the reason")
	default:
		answer(w, http.StatusAccepted, map[string]string{"id": id})
	}
}

// Webhook is a webhook of the configuration.
type Webhook struct {
	Name string
	config.Webhook
}

// Webhooks returns the webhooks of the configuration, by name.
func (s *Service) Webhooks() []Webhook {
	hooks := s.o.Config().Webhooks
	list := make([]Webhook, 0, len(hooks))
	for _, name := range slices.Sorted(maps.Keys(hooks)) {
		list = append(list, Webhook{name, hooks[name]})
	}
	return list
}

// refuseDelivery answers the sender with an error in the form of the API.
func refuseDelivery(w http.ResponseWriter, status int, code, message, hint string) {
	answer(w, status, map[string]any{"error": map[string]string{"code": code, "message": message, "hint": hint}})
}

// answer writes v as JSON. It panics for a value that has no JSON form.
func answer(w http.ResponseWriter, status int, v any) {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Errorf("write an answer as JSON: %w", err))
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(raw, '\n')) // the sender is gone when this fails
}

// isSigned reports whether a delivery was sent by somebody who knows the secret: by an HMAC over the body as GitHub
// sends it (X-Hub-Signature-256), or by the secret itself. Both are compared in constant time.
func isSigned(secret string, header http.Header, body []byte) bool {
	if signature, ok := strings.CutPrefix(header.Get("X-Hub-Signature-256"), "sha256="); ok {
		sent, err := hex.DecodeString(signature)
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write(body)
		return err == nil && hmac.Equal(sent, mac.Sum(nil))
	}
	token, ok := strings.CutPrefix(header.Get("Authorization"), "Bearer ")
	if !ok {
		token = header.Get("X-Gitlab-Token") // GitLab's way to send a secret
	}
	// Compare hashes, because the comparison takes constant time only for equal lengths.
	sent, want := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(secret))
	return token != "" && subtle.ConstantTimeCompare(sent[:], want[:]) == 1
}

// deliver stores what a delivery asks for and returns the id of its job. One that came before changes nothing.
func (s *Service) deliver(
	ctx context.Context,
	name string,
	hook config.Webhook,
	header http.Header,
	body []byte,
) (id string, err error) {
	id = jobID(name, header, body)
	// Of two that come at the same time one waits for the other, and for the end of its job if that is being stored.
	defer s.lock(id)()
	// Also what came from GitHub before and is sent again without its headers, by somebody who has seen it.
	if s.wasDelivered(id) || s.wasDelivered(hashID(name, string(body))) {
		return id, nil
	}
	// A post that is stored before would be sent twice, by delivery's recovery and by Deliver.
	select {
	case <-s.o.Delivery.Ready():
	default:
		return "", errBusy
	}
	now := s.o.Now().UTC()
	j := Job{
		ID:       id,
		At:       now,
		Timezone: "UTC",
		Post:     hook.Post,
		Agent:    hook.Agent,
		Source:   FromHook,
		Created:  now,
		Since:    now,
		Hook:     name,
	}
	words := writeText(hook.Template, header, body)
	if hook.Digest != "" {
		// The event first: a delivery that is known is not looked at again.
		if err := s.o.Digests.AddEvent(ctx, hook.Digest, name, newEvent(id, words, now)); err != nil {
			return id, err
		}
		return id, s.saveDelivery(ctx, id, nil)
	}
	if hook.Prompt != "" {
		j.Prompt, j.Tools, j.Foreign = hook.Prompt, hook.Tools, text.Cut(words+"\n\n"+payloadText(body), maxForeign)
		_, err := s.save(ctx, j)
		return id, err
	}
	from := origin.Foreign("the webhook " + name)
	// A text needs no further work: its posts are stored with the delivery.
	return id, s.saveDelivery(ctx, id, j.buildPosts(now, chat.Draft{Text: words, Origin: &from, News: true}, now))
}

var (
	markdownLink = text.Pattern(`\[((?:[^\[\]\\]|\\.)*)\]\(([^()\s]*)\)`)
	// markup matches what the texts of webhooks are marked up with.
	markup      = text.Pattern("\\*\\*|__|`")
	escapedSign = text.Pattern(`\\([[:punct:]])`)
)

// newEvent returns a delivery as an item of a digest: the first line of its text is the title, the first address the
// link.
func newEvent(id, words string, at time.Time) feed.Item {
	it := feed.Item{ID: id, Published: at}
	if found := markdownLink().FindStringSubmatch(words); found != nil {
		it.Link = found[2]
	}
	plain := markup().ReplaceAllString(markdownLink().ReplaceAllString(words, "$1"), "")
	plain = strings.TrimSpace(escapedSign().ReplaceAllString(plain, "$1"))
	title, rest, _ := strings.Cut(plain, "\n")
	it.Title, it.Summary = text.Shorten(strings.TrimSpace(title), maxValueChars), strings.TrimSpace(rest)
	return it
}

// jobID returns the id of the job of a delivery: the same whenever its sender says that it is the same, by one of the
// headers in use for that, else a random one.
func jobID(name string, header http.Header, body []byte) string {
	// Its signature covers the body alone, in which every event has its time.
	if header.Get("X-GitHub-Delivery") != "" {
		return hashID(name, string(body))
	}
	for _, key := range []string{"Idempotency-Key", "X-Gitlab-Event-UUID", "Webhook-Id"} {
		if value := header.Get(key); value != "" && len(value) <= maxKeyBytes {
			return hashID(name, value)
		}
	}
	return text.RandomID(hookIDBytes)
}

// hashID returns an id that follows from a key of a webhook, whose name is part of it: senders choose their keys
// independently of one another.
func hashID(name, key string) string {
	sum := sha256.Sum256([]byte(name + "\x00" + key))
	return hex.EncodeToString(sum[:hookIDBytes])
}

// wasDelivered reports whether the job of a delivery is known, done or not.
func (s *Service) wasDelivered(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, done := s.deliveries[id]
	_, waits := s.jobs[id]
	return done || waits
}

// saveDelivery stores that a delivery came, with its posts. One that is stored already changes nothing.
func (s *Service) saveDelivery(ctx context.Context, id string, posts []store.Post) error {
	at := s.o.Now().UTC()
	raw, err := json.Marshal(at)
	if err != nil {
		return err
	}
	isNew, err := s.storeDelivery(ctx, id, at, raw, posts)
	if err != nil {
		return err
	}
	if isNew && len(posts) > 0 {
		s.o.Delivery.Deliver(posts)
	}
	return nil
}

// storeDelivery returns false if the delivery is already stored.
func (s *Service) storeDelivery(
	ctx context.Context,
	id string,
	at time.Time,
	raw json.RawMessage,
	posts []store.Post,
) (bool, error) {
	s.reloading.RLock()
	defer s.reloading.RUnlock()
	isNew, err := s.o.Store.SwapItem(ctx, deliveryKind, id, nil, raw, posts)
	if err == nil {
		s.mu.Lock()
		s.deliveries[id] = at
		s.mu.Unlock()
	}
	return isNew, err
}

// loadDeliveries returns when the deliveries that are still known came, by job id.
func (s *Service) loadDeliveries(ctx context.Context) (map[string]time.Time, error) {
	items, err := s.o.Store.Items(ctx, deliveryKind)
	if err != nil {
		return nil, fmt.Errorf("read the deliveries of webhooks: %w", err)
	}
	list := map[string]time.Time{}
	for id, raw := range items {
		var at time.Time
		// One that cannot be read must not keep all jobs from being carried out; its sender may send it again.
		if err := json.Unmarshal(raw, &at); err != nil {
			s.o.Log.Error("failed to read a webhook delivery; skipping it", "job", id, "error", err)
			continue
		}
		list[id] = at
	}
	return list, nil
}

// pruneDeliveries forgets deliveries that will not come again.
func (s *Service) pruneDeliveries(ctx context.Context) {
	since := s.o.Now().Add(-keepDeliveries)
	var old []string
	s.mu.Lock()
	times := slices.SortedFunc(maps.Values(s.deliveries), time.Time.Compare)
	if n := len(times) - maxDeliveries; n > 0 && times[n-1].After(since) {
		since = times[n-1]
	}
	for id, at := range s.deliveries {
		if !at.After(since) {
			old = append(old, id)
		}
	}
	s.mu.Unlock()
	for _, id := range old {
		if err := s.o.Store.DeleteItem(ctx, deliveryKind, id); err != nil && !errors.Is(err, store.ErrNotFound) {
			s.o.Log.Error("failed to delete an old webhook delivery; retrying", "job", id, "error", err)
			return
		}
		s.mu.Lock()
		delete(s.deliveries, id)
		s.mu.Unlock()
	}
}

// hookLimits counts the deliveries of the present minute.
type hookLimits struct {
	mu     sync.Mutex
	minute time.Time
	counts map[string]int
}

// reserve counts a delivery, and returns the sender's wait if there were too many, otherwise 0.
func (l *hookLimits) reserve(name string, perMinute int, now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	minute := now.Truncate(time.Minute)
	if !minute.Equal(l.minute) {
		l.minute, l.counts = minute, map[string]int{}
	}
	if l.counts[name] >= perMinute {
		return minute.Add(time.Minute).Sub(now)
	}
	l.counts[name]++
	return 0
}

// ParseTemplate reads the template of a webhook's text. The error is one of its syntax; a field that a payload lacks is
// no error.
func ParseTemplate(words string) (*template.Template, error) {
	return template.New("webhook").Option("missingkey=zero").Parse(words)
}

// writeText returns the text that is posted of a delivery.
func writeText(layout string, header http.Header, body []byte) string {
	body = formPayload(header, body)
	var payload any
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber() // ids are kept unchanged
	if err := d.Decode(&payload); err != nil {
		return text.EscapeMarkdown(text.Shorten(text.Clean(string(body)), maxSummaryChars))
	}
	if layout == "" {
		return describePayload(header, payload)
	}
	t, err := ParseTemplate(layout)
	if err != nil {
		return describePayload(header, payload) // it was checked when the configuration was read
	}
	out := limitedWriter{left: maxTextBytes}
	// What does not fit is cut, and a template that fails in the middle has written what comes before.
	_ = t.Execute(&out, payload)
	if strings.TrimSpace(out.String()) == "" {
		return describePayload(header, payload)
	}
	return strings.ToValidUTF8(out.String(), "")
}

// formPayload returns the JSON of a delivery that GitHub sends as a form.
func formPayload(header http.Header, body []byte) []byte {
	if !strings.HasPrefix(header.Get("Content-Type"), "application/x-www-form-urlencoded") {
		return body
	}
	if values, err := url.ParseQuery(string(body)); err == nil && values.Get("payload") != "" {
		return []byte(values.Get("payload"))
	}
	return body
}

// limitedWriter keeps what fits and refuses the rest, which ends a template that writes without end.
type limitedWriter struct {
	strings.Builder
	left int
}

// Write keeps the part that fits, and returns io.ErrShortWrite if the rest is lost.
func (w *limitedWriter) Write(p []byte) (int, error) {
	n := min(len(p), w.left)
	w.left -= n
	_, _ = w.Builder.Write(p[:n])
	if n < len(p) {
		return n, io.ErrShortWrite
	}
	return n, nil
}
