package slack

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	slackgo "github.com/slack-go/slack"

	"ravenbot/adapters/kit"
	"ravenbot/internal/core/chat"
	"ravenbot/internal/turn/markdown"
)

// wireFile is a file as Slack tells of it.
type wireFile struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Type    string `json:"mimetype"`
	Subtype string `json:"subtype"`
	// Millis is how long a clip lasts; 0 for other files.
	Millis int64 `json:"duration_ms"`
	// Size is in bytes; 0 for files that Slack does not show to the app.
	Size int64  `json:"size"`
	URL  string `json:"url_private"`
	Load string `json:"url_private_download"`
	// Access is fileHidden for a file of which the rest is not told.
	Access string `json:"file_access"`
}

// fileHidden marks a file that has to be asked for, such as one that a person of another company shares
// (https://docs.slack.dev/reference/objects/file-object, 2026-11).
const fileHidden = "check_file_info"

// parseWireFiles returns the files of a message. One of an unexpected form is left out.
func parseWireFiles(raw []json.RawMessage) []wireFile {
	var list []wireFile
	for _, r := range raw {
		var w wireFile
		if json.Unmarshal(r, &w) == nil && w.ID != "" {
			list = append(list, w)
		}
	}
	return list
}

// describe returns in words what file it is. Clips that people record in Slack have names that say
// nothing.
func (w wireFile) describe() string {
	seconds := (w.Millis + 500) / 1000
	switch w.Subtype {
	case "slack_audio":
		return fmt.Sprintf("attached: voice message, %d s", seconds)
	case "slack_video":
		return fmt.Sprintf("attached: video clip, %d s", seconds)
	}
	return "attached file: " + cmp.Or(w.Name, w.ID)
}

// parseFiles returns the files of a message as they can be read by Fetch.
func parseFiles(raw []json.RawMessage) []chat.File {
	var list []chat.File
	for _, w := range parseWireFiles(raw) {
		if f, err := w.file(); err == nil {
			list = append(list, f)
		}
	}
	return list
}

// file returns a file as it can be read by Fetch.
func (w wireFile) file() (chat.File, error) {
	handle, err := json.Marshal(fileHandle{ID: w.ID, URL: w.URL, Load: w.Load, Hidden: w.Access == fileHidden})
	lasts := time.Duration(w.Millis) * time.Millisecond
	return chat.File{Name: w.Name, Type: w.Type, Size: w.Size, Handle: handle, Duration: lasts}, err
}

// describeFiles asks Slack, within adminTimeout, for the files of a message to the bot of which the message tells
// nothing but the ids. What it does not learn stays as it is.
func (s *Slack) describeFiles(ctx context.Context, m *chat.Message) {
	if m.Reach == chat.Overheard {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	for i, f := range m.Files {
		var h fileHandle
		if json.Unmarshal(f.Handle, &h) != nil || !h.Hidden {
			continue
		}
		var answer struct {
			File wireFile `json:"file"`
		}
		if err := s.callAPI(ctx, "files.info", url.Values{"file": {h.ID}}, &answer); err != nil {
			s.o.Log.Warn("failed to look up a slack file", "file", h.ID, "error", redact(err))
			continue
		}
		if told, err := answer.File.file(); err == nil {
			m.Files[i] = told
		}
	}
}

// fileHandle is what is kept of a file to read it later.
type fileHandle struct {
	ID   string `json:"id"`
	URL  string `json:"url"`
	Load string `json:"load,omitempty"` // another address of it, which gives the bytes alone
	// Hidden: the message told the ID alone.
	Hidden bool `json:"hidden,omitempty"`
}

var (
	// Reasons why a file cannot be read, in words that the model passes on.
	errNoPlace = errors.New("slack told no address for it; files of other workspaces cannot be read")
	errForeign = errors.New("its address is not one of Slack's, so the token is not sent there")
	errLogin   = errors.New(
		"slack answered with a page to sign in on: the bot token lacks the scope files:read; add it to the app and " +
			"reinstall it",
	)
)

// Fetch reads a file of a message, within fileTimeout. The bot's token is sent to Slack and to nobody else. The error
// says why it cannot be read; a file of more than limit bytes is a *kit.TooLargeError.
func (s *Slack) Fetch(ctx context.Context, f chat.File, limit int64) ([]byte, error) {
	data, err := s.fetch(ctx, f, limit)
	if err != nil {
		return nil, fmt.Errorf("read the file %q from slack: %w", f.Name, err)
	}
	return data, nil
}

// fetch tries the addresses of a file in turn: either may be missing, and either may be refused while the other is not.
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
		data, err = s.download(ctx, address, f.Type, limit)
		var tooLarge *kit.TooLargeError
		if err == nil || errors.As(err, &tooLarge) || ctx.Err() != nil {
			return data, err
		}
	}
	return nil, err
}

// download reads a file from one address. It returns a *kit.TooLargeError where the file has more than limit bytes, and
// errForeign without a request where the address is not Slack's.
func (s *Slack) download(ctx context.Context, address, fileType string, limit int64) ([]byte, error) {
	if !s.isFileAddress(address) {
		return nil, errForeign
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, errForeign
	}
	r.Header.Set("Authorization", "Bearer "+s.o.BotToken)
	res, err := s.fileClient.Do(r)
	if err != nil {
		return nil, redact(err)
	}
	defer func() { _ = res.Body.Close() }()
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	switch {
	// To a token without files:read Slack shows its page to sign in on, or redirects to it.
	case res.StatusCode/100 == 3,
		kind == "text/html" && fileType != "text/html",
		res.StatusCode == http.StatusForbidden:
		return nil, errLogin
	case res.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("slack answers %s", res.Status)
	}
	data, err := kit.ReadLimited(res.Body, limit)
	var tooLarge *kit.TooLargeError
	if err != nil && !errors.As(err, &tooLarge) {
		err = redact(err)
	}
	return data, err
}

// isFileAddress reports whether an address is where Slack keeps files, or where its API is
// configured to be.
func (s *Slack) isFileAddress(address string) bool {
	u, err := url.Parse(address)
	if err != nil || u.User != nil {
		return false
	}
	base, err := url.Parse(s.o.APIBaseURL)
	if err != nil {
		return false
	}
	return u.Scheme == base.Scheme && u.Host == base.Host ||
		u.Scheme == "https" && (u.Host == "files.slack.com" || u.Host == "files."+base.Host)
}

// planFiles returns a draft with the files that can be shown with it. A text that is too long for maxPieces messages
// becomes a file, and its beginning the text. private: the post is for one person alone, for whom Slack has no files.
func planFiles(d chat.Draft, private bool) (chat.Draft, []chat.File) {
	var list []chat.File
	for _, f := range d.Files {
		if len(f.Data) > 0 {
			list = append(list, f)
		}
	}
	switch {
	case private && len(list) > 0:
		d.Footer = joinFooter(d.Footer, "without its files: Slack cannot show files to one person only")
		return d, nil
	case private || len(d.Cards) > 0:
		return d, list
	}
	if texts := markdown.Split(d.Text, maxText); len(texts) > maxPieces {
		list = append(list, chat.File{Name: answerFile, Type: "text/markdown", Data: []byte(d.Text)})
		d.Text, d.Footer = texts[0], joinFooter(d.Footer, "this is the beginning, the whole answer is in "+answerFile)
	}
	return d, list
}

// answerFile is the name of the file for an answer that is too long for messages.
const answerFile = "answer.md"

// uploadFiles posts the files below the text, all in one message, unless an earlier attempt did so.
func (p *postJob) uploadFiles(ctx context.Context) error {
	if len(p.files) == 0 {
		return nil
	}
	// Pieces may all have been known already, so that nothing has looked for the files yet.
	if p.mayRepeat && !p.searched {
		whole, err := p.searchEarlier(ctx)
		if err != nil && !isFinal(err) {
			return p.lookError(err)
		}
		p.searched, p.blind = true, err != nil || !whole
	}
	if p.uploaded {
		return nil
	}
	form := url.Values{"channel_id": {p.to.Channel}}
	if p.to.Thread != "" {
		form.Set("thread_ts", p.to.Thread)
	}
	if p.mayRepeat && p.blind {
		if p.repeated {
			return &chat.PostError{Permanent: true, Err: errSentTwice}
		}
		// The text above may have been posted long ago, so that the files say it themselves.
		p.marked = true
		form.Set("initial_comment", "_"+chat.MayRepeat+"_")
	}
	var done []map[string]string
	for _, f := range p.files {
		id, err := p.uploadFile(ctx, f)
		if isRefusal(err) {
			return p.postWithoutFiles(ctx, err)
		}
		if err != nil {
			// Nobody sees a file before its upload is completed: trying again repeats nothing.
			return unseen(p.postError(err))
		}
		done = append(done, map[string]string{"id": id, "title": f.Name})
	}
	raw, err := json.Marshal(done)
	if err != nil {
		return &chat.PostError{Permanent: true, Err: fmt.Errorf("name the files of a post: %w", err)}
	}
	form.Set("files", string(raw))
	if err := p.callPaced(ctx, "files.completeUploadExternal", form, nil); isRefusal(err) {
		return p.postWithoutFiles(ctx, err)
	} else if err != nil {
		return p.postError(err)
	}
	return nil
}

// isRefusal reports whether Slack will refuse the files of a post again, too.
func isRefusal(err error) bool {
	word := errorCode(err)
	return word != "" && !transientCodes[word]
}

// unseen returns an error of posting as one after which nothing new is there.
func unseen(err error) error {
	var failed *chat.PostError
	if !errors.As(err, &failed) {
		return err
	}
	return &chat.PostError{Permanent: failed.Permanent, After: failed.After, Err: failed.Err}
}

// postWithoutFiles ends a post whose files Slack refuses: a text that was to be a file is posted as
// messages, and other files are named in the footer.
func (p *postJob) postWithoutFiles(ctx context.Context, err error) error {
	remedy := remedies[errorCode(err)]
	p.o.Log.Warn("slack refuses the files of a post; posting without them", "post", p.draft.Key, "error", err,
		"remedy", remedy)
	p.draft, p.files = p.original, nil
	var lost []string
	for _, f := range p.draft.Files {
		lost = append(lost, f.Name)
	}
	if len(lost) > 0 {
		p.draft.Footer = joinFooter(
			p.draft.Footer,
			"Slack refused these files ("+errorCode(err)+"): "+strings.Join(lost, ", "),
		)
	}
	p.pieces, p.replaced = render(p.draft), nil
	// What is posted may refer to the files, so that it is edited.
	if len(p.ids) > 0 && timestampOf(p.ids[0]) != "" {
		p.replaced, p.ids = p.ids, nil
	}
	return p.postAll(ctx)
}

// uploadFile sends the bytes of a file to Slack, where nobody sees them yet, and returns the file's id. A file that is
// uploaded and never completed is not shown to anybody, so that an attempt may be repeated freely.
func (p *postJob) uploadFile(ctx context.Context, f chat.File) (id string, err error) {
	var place struct {
		URL string `json:"upload_url"`
		ID  string `json:"file_id"`
	}
	form := url.Values{"filename": {f.Name}, "length": {fmt.Sprint(len(f.Data))}}
	if err := p.callPaced(ctx, "files.getUploadURLExternal", form, &place); err != nil {
		return "", err
	}
	if !p.isFileAddress(place.URL) {
		return "", errForeign
	}
	ctx, cancel := context.WithTimeout(ctx, fileTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, place.URL, strings.NewReader(string(f.Data)))
	if err != nil {
		return "", errForeign
	}
	r.Header.Set("Content-Type", "application/octet-stream")
	res, err := p.fileClient.Do(r)
	if err != nil {
		return "", fmt.Errorf("upload the file %q: %w", f.Name, redact(err))
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return "", fmt.Errorf(
			"upload the file %q: %w",
			f.Name,
			slackgo.StatusCodeError{Code: res.StatusCode, Status: res.Status},
		)
	}
	return place.ID, nil
}

// callPaced calls a method about files at the pace that Slack takes. Answer may be nil.
func (p *postJob) callPaced(ctx context.Context, method string, form url.Values, answer any) error {
	return p.repeatPaced(ctx, method, func() error { return p.callAPI(ctx, method, form, answer) })
}

// hasFiles reports whether a message of the bot holds all files of the draft, by name and size; false if the draft has
// none.
func (p *postJob) hasFiles(m *wireMessage) bool {
	if len(p.files) == 0 {
		return false
	}
	there := parseFiles(m.Files)
	return !slices.ContainsFunc(p.files, func(f chat.File) bool {
		return !slices.ContainsFunc(
			there,
			func(t chat.File) bool { return t.Name == f.Name && t.Size == int64(len(f.Data)) },
		)
	})
}
