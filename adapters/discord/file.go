package discord

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"ravenbot/adapters/kit"
	"ravenbot/internal/core/chat"
)

// Limits of reading a file, whatever the caller allows.
const (
	fetchTimeout = time.Minute // a second attempt included
	maxFetch     = 64 << 20
)

// attachment is a file with a message of Discord.
type attachment struct {
	ID   string `json:"id"`
	Name string `json:"filename"`
	Type string `json:"content_type"`
	Size int64  `json:"size"`
	URL  string `json:"url"`
	// Seconds is how long a voice message lasts.
	Seconds float64 `json:"duration_secs"`
}

// fileHandle is the handle of a message's file. The address is good for a day or
// so; the message names a new one.
type fileHandle struct {
	Channel string `json:"channel"`
	Message string `json:"message"`
	ID      string `json:"id"`
	URL     string `json:"url"`
}

// mediaType returns the media type of what models see, hear or read: images, sounds, documents and
// texts; empty for other files.
func (a attachment) mediaType() string {
	name := strings.ToLower(path.Ext(a.Name))
	kind, _, err := mime.ParseMediaType(a.Type)
	switch {
	case err != nil || kind == "application/octet-stream": // Discord knows no better
		return typesByExtension[name]
	case strings.HasPrefix(kind, "text/"), strings.HasPrefix(kind, "audio/"),
		strings.HasPrefix(kind, "application/vnd.openxmlformats-officedocument."), slices.Contains(readableTypes, kind):
		return a.Type
	}
	return ""
}

// readableTypes are media types that are used although they are not text or Office documents.
var readableTypes = []string{
	"image/png",
	"image/jpeg",
	"image/gif",
	"image/webp",
	"application/json",
	"application/xml",
	"application/yaml",
	"application/x-yaml",
	"application/toml",
	"application/javascript",
	"application/x-sh",
	"application/sql",
	"application/pdf",
	"application/msword",
	"application/vnd.ms-excel",
	"application/vnd.ms-powerpoint",
}

// typesByExtension are media types by the extensions of file names.
var typesByExtension = map[string]string{
	".pdf":  "application/pdf",
	".docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
	".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
	".pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
	".html": "text/html",
	".ogg":  "audio/ogg",
	".mp3":  "audio/mpeg",
	".wav":  "audio/wav",
	".png":  "image/png",
	".jpg":  "image/jpeg",
	".jpeg": "image/jpeg",
	".gif":  "image/gif",
	".webp": "image/webp",
	".csv":  "text/csv",
	".json": "application/json",
	".md":   "text/markdown",
	".xml":  "application/xml",
	".yaml": "application/yaml",
	".yml":  "application/yaml",
	".toml": "application/toml",
	".txt":  "text/plain",
	".log":  "text/plain",
	".ini":  "text/plain",
	".go":   "text/plain",
	".py":   "text/plain",
	".rs":   "text/plain",
	".sh":   "text/plain",
	".sql":  "text/plain",
	".ts":   "text/plain",
}

// parseFiles returns the attachments that can be read.
func (w wireMessage) parseFiles() []chat.File {
	var files []chat.File
	for _, a := range w.Attachments {
		kind := a.mediaType()
		if kind == "" {
			continue
		}
		at, err := json.Marshal(fileHandle{Channel: w.ChannelID, Message: w.ID, ID: a.ID, URL: a.URL})
		if err != nil {
			continue // strings alone always have a form in JSON
		}
		lasts := time.Duration(a.Seconds * float64(time.Second))
		files = append(files, chat.File{Name: a.Name, Type: kind, Size: a.Size, Handle: at, Duration: lasts})
	}
	return files
}

// errExpired says that there is no file, or no longer, at an address.
var errExpired = errors.New("the file is not at this address, or no longer")

// Fetch reads a file of a message, of limit bytes at most and never more than maxFetch. Once an address has expired the
// message is asked for a new one; nothing else is repeated.
func (d *Discord) Fetch(ctx context.Context, f chat.File, limit int64) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	var at fileHandle
	if err := json.Unmarshal(f.Handle, &at); err != nil {
		return nil, fmt.Errorf("fetch file %s: it has no address of Discord's: %w", f.Name, err)
	}
	if limit = min(limit, maxFetch); f.Size > limit {
		return nil, fmt.Errorf("fetch file %s: it has %d bytes, %d are allowed", f.Name, f.Size, limit)
	}
	data, err := d.download(ctx, at.URL, limit)
	if errors.Is(err, errExpired) {
		if at.URL, err = d.renewURL(ctx, at); err == nil {
			data, err = d.download(ctx, at.URL, limit)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("fetch file %s: %w", f.Name, err)
	}
	return data, nil
}

// renewURL asks the message for the present address of its file.
func (d *Discord) renewURL(ctx context.Context, at fileHandle) (string, error) {
	messages := "/channels/" + url.PathEscape(at.Channel) + "/messages/"
	var w struct {
		Attachments []attachment `json:"attachments"`
	}
	one := request{method: "GET", path: messages + url.PathEscape(at.Message), route: "GET" + messages + "one"}
	if err := d.api.do(ctx, one, &w); err != nil {
		return "", fmt.Errorf("ask the message for its files: %w", err)
	}
	i := slices.IndexFunc(w.Attachments, func(a attachment) bool { return a.ID == at.ID })
	if i < 0 {
		return "", errors.New("the message has this file no longer")
	}
	return w.Attachments[i].URL, nil
}

// download reads a file of Discord's own hosts, without the token and without
// following redirects.
func (d *Discord) download(ctx context.Context, address string, limit int64) ([]byte, error) {
	u, err := url.Parse(address)
	if err != nil || !d.isFileHost(u) {
		return nil, errors.New("its address is not Discord's")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, stripURL(err)
	}
	req.Header.Set("User-Agent", userAgent)
	resp, err := d.api.client.Do(req)
	if err != nil {
		return nil, stripURL(err)
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusNotFound:
		return nil, errExpired
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("HTTP %d", resp.StatusCode)
	}
	data, err := kit.ReadLimited(resp.Body, limit)
	if err != nil {
		return nil, stripURL(err)
	}
	return data, nil
}

// isFileHost reports whether a host is Discord's content delivery, or stands in for
// all of Discord.
func (d *Discord) isFileHost(u *url.URL) bool {
	if u.Scheme == "https" && (u.Host == "cdn.discordapp.com" || u.Host == "media.discordapp.net") {
		return true
	}
	return d.base != nil && d.base.Host != officialHost && u.Scheme == d.base.Scheme && u.Host == d.base.Host
}

// officialHost serves the API and keeps no files.
const officialHost = "discord.com"
