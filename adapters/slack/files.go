package slack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"

	slackgo "github.com/slack-go/slack"

	"ravenbot/adapters/kit"
	"ravenbot/internal/chat"
	"ravenbot/internal/markdown"
)

// wireFile is a file as Slack tells of it.
type wireFile struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Type string `json:"mimetype"`
	Size int64  `json:"size"`
	URL  string `json:"url_private"`
	Load string `json:"url_private_download"`
}

// files reads a message's files; one of an unexpected form is left out.
func files(raw []json.RawMessage) []chat.File {
	var list []chat.File
	for _, r := range raw {
		var w wireFile
		if json.Unmarshal(r, &w) != nil || w.ID == "" {
			continue
		}
		handle, err := json.Marshal(fileHandle{w.ID, w.URL, w.Load})
		if err != nil {
			continue
		}
		list = append(list, chat.File{Name: w.Name, Type: w.Type, Size: w.Size, Handle: handle})
	}
	return list
}

// fileHandle is what is kept of a file to read it later.
type fileHandle struct {
	ID   string `json:"id"`
	URL  string `json:"url"`
	Load string `json:"load,omitempty"` // another address of it, which gives the bytes alone
}

var (
	errNoPlace = errors.New("slack told no address for it; files of other workspaces cannot be read")
	errForeign = errors.New("its address is not one of Slack's, so the token is not sent there")
	errLogin   = errors.New("slack answered with a page to sign in on: the bot token lacks the scope files:read; add it to the app and reinstall it")
)

// Fetch reads a file of a message. The bot's token goes to Slack alone.
func (s *Slack) Fetch(ctx context.Context, f chat.File, limit int64) ([]byte, error) {
	data, err := s.fetch(ctx, f, limit)
	if err != nil {
		return nil, fmt.Errorf("read the file %q from slack: %w", f.Name, err)
	}
	return data, nil
}

func (s *Slack) fetch(ctx context.Context, f chat.File, limit int64) ([]byte, error) {
	var h fileHandle
	if err := json.Unmarshal(f.Handle, &h); err != nil {
		return nil, fmt.Errorf("read where it is: %w", err)
	}
	if f.Size > limit {
		return nil, &kit.TooLargeError{Limit: limit}
	}
	ctx, cancel := context.WithTimeout(ctx, fileTimeout)
	defer cancel()
	err := errNoPlace
	for _, address := range []string{h.URL, h.Load} {
		if address == "" {
			continue
		}
		var data []byte
		data, err = s.load(ctx, address, f.Type, limit)
		var tooLarge *kit.TooLargeError
		if err == nil || errors.As(err, &tooLarge) || ctx.Err() != nil {
			return data, err
		}
	}
	return nil, err
}

// load reads a file of a kind at one address.
func (s *Slack) load(ctx context.Context, address, fileType string, limit int64) ([]byte, error) {
	if !s.keeps(address) {
		return nil, errForeign
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, errForeign
	}
	r.Header.Set("Authorization", "Bearer "+s.o.BotToken)
	res, err := s.bytes.Do(r)
	if err != nil {
		return nil, redacted(err)
	}
	defer func() { _ = res.Body.Close() }()
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	switch {
	case res.StatusCode/100 == 3, kind == "text/html" && fileType != "text/html", res.StatusCode == http.StatusForbidden:
		return nil, errLogin
	case res.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("slack answers %s", res.Status)
	}
	data, err := kit.ReadLimited(res.Body, limit)
	var tooLarge *kit.TooLargeError
	if err != nil && !errors.As(err, &tooLarge) {
		err = redacted(err)
	}
	return data, err
}

// keeps reports whether an address is where Slack keeps files, or where its API is
// configured to be.
func (s *Slack) keeps(address string) bool {
	u, err := url.Parse(address)
	if err != nil || u.User != nil {
		return false
	}
	base, err := url.Parse(s.o.APIBaseURL)
	if err != nil {
		return false
	}
	return u.Scheme == base.Scheme && u.Host == base.Host || u.Scheme == "https" && (u.Host == "files.slack.com" || u.Host == "files."+base.Host)
}

// attachments are the files of a draft that can be shown, and the draft that goes
// with them. A text that is too long for messages becomes a file, too.
func attachments(d chat.Draft, private bool) (chat.Draft, []chat.File) {
	var list []chat.File
	for _, f := range d.Files {
		if len(f.Data) > 0 {
			list = append(list, f)
		}
	}
	switch {
	case private && len(list) > 0:
		d.Footer = joined(d.Footer, "its files are left out: Slack cannot show them to one person alone")
		return d, nil
	case private || len(d.Cards) > 0:
		return d, list
	}
	if texts := markdown.Split(d.Text, textLimit); len(texts) > mostPieces {
		list = append(list, chat.File{Name: wholeAnswer, Type: "text/markdown", Data: []byte(d.Text)})
		d.Text, d.Footer = texts[0], joined(d.Footer, "this is the beginning; all of it is in "+wholeAnswer)
	}
	return d, list
}

// wholeAnswer is the file of an answer that is too long for messages.
const wholeAnswer = "answer.md"

// upload posts the files below the text, all in one message. An earlier attempt that
// may have done so is looked for.
func (p *posting) upload(ctx context.Context) error {
	if len(p.files) == 0 {
		return nil
	}
	if p.again && !p.looked {
		if _, err := p.search(ctx); err != nil && !forGood(err) {
			return p.unclear(err)
		}
	}
	if p.uploaded {
		return nil
	}
	var done []map[string]string
	for _, f := range p.files {
		id, err := p.deposit(ctx, f)
		if err != nil {
			return p.withoutFiles(ctx, err)
		}
		done = append(done, map[string]string{"id": id, "title": f.Name})
	}
	raw, err := json.Marshal(done)
	if err != nil {
		return p.withoutFiles(ctx, err)
	}
	form := url.Values{"files": {string(raw)}, "channel_id": {p.to.Channel}}
	if p.to.Thread != "" {
		form.Set("thread_ts", p.to.Thread)
	}
	if err := p.request(ctx, "files.completeUploadExternal", form, nil); err != nil {
		return p.withoutFiles(ctx, err)
	}
	return nil
}

// withoutFiles ends a post whose files Slack refuses: the text that was to be a file
// is posted as messages, and other files are told of.
func (p *posting) withoutFiles(ctx context.Context, err error) error {
	if word := code(err); word == "" || passing[word] {
		return p.failure(err)
	}
	remedy := remedies[code(err)]
	p.o.Log.Warn("slack refuses the files of a post", "post", p.d.Key, "error", err, "remedy", remedy)
	p.d, p.files = p.asked, nil
	var lost []string
	for _, f := range p.d.Files {
		lost = append(lost, f.Name)
	}
	if len(lost) > 0 {
		p.d.Footer = joined(p.d.Footer, "not attached, as Slack refuses it ("+code(err)+"): "+strings.Join(lost, ", "))
	}
	p.pieces, p.old = render(p.d), nil
	if len(p.ids) > 0 && stamp(p.ids[0]) != "" {
		p.old, p.ids = p.ids, nil
	}
	return p.run(ctx)
}

// deposit brings the bytes of a file to Slack, where nobody sees them yet.
func (p *posting) deposit(ctx context.Context, f chat.File) (id string, err error) {
	var place struct {
		URL string `json:"upload_url"`
		ID  string `json:"file_id"`
	}
	form := url.Values{"filename": {f.Name}, "length": {fmt.Sprint(len(f.Data))}}
	if err := p.request(ctx, "files.getUploadURLExternal", form, &place); err != nil {
		return "", err
	}
	if !p.keeps(place.URL) {
		return "", errForeign
	}
	ctx, cancel := context.WithTimeout(ctx, fileTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, place.URL, strings.NewReader(string(f.Data)))
	if err != nil {
		return "", errForeign
	}
	r.Header.Set("Content-Type", "application/octet-stream")
	res, err := p.bytes.Do(r)
	if err != nil {
		return "", fmt.Errorf("upload the file %q: %w", f.Name, redacted(err))
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return "", fmt.Errorf("upload the file %q: %w", f.Name, slackgo.StatusCodeError{Code: res.StatusCode, Status: res.Status})
	}
	return place.ID, nil
}

// request calls a method about files at the pace that Slack takes; answer may be
// nil.
func (p *posting) request(ctx context.Context, method string, form url.Values, answer any) error {
	return p.paced(ctx, method, func() error { return p.ask(ctx, method, form, answer) })
}

// carries reports that a message of the bot holds the draft's files.
func (p *posting) carries(m inner) bool {
	if len(p.files) == 0 {
		return false
	}
	there := files(m.Files)
	return !slices.ContainsFunc(p.files, func(f chat.File) bool {
		return !slices.ContainsFunc(there, func(t chat.File) bool { return t.Name == f.Name && t.Size == int64(len(f.Data)) })
	})
}
