package discord

import (
	"bytes"
	"encoding/json"
	"fmt"
	"mime/multipart"
	"net/textproto"
	"strconv"
	"strings"

	"ravenbot/internal/core/chat"
)

// What Discord takes with one message.
const (
	maxUpload      = 10 << 20 // bytes of all files together
	maxAttachments = 10
)

// maxPieces is how many messages an answer may have. A longer one is shown as its beginning and a
// file.
const maxPieces = 6

// answerFile is the name of the file for an answer that is too long to be shown.
const answerFile = "answer.md"

// chooseFiles returns the files that fit into one message, and the names of the others.
func chooseFiles(files []chat.File) (fit []chat.File, left []string) {
	room := maxUpload
	for _, f := range files {
		if len(f.Data) > room || len(fit) == maxAttachments {
			left = append(left, f.Name)
			continue
		}
		fit, room = append(fit, f), room-len(f.Data)
	}
	return fit, left
}

// attachmentRef refers to a file of the same request by its number.
type attachmentRef struct {
	ID   string `json:"id"`
	Name string `json:"filename"`
}

// attachmentRefs returns all files that a message has from now on: the ones that are sent with it.
func attachmentRefs(files []chat.File) []attachmentRef {
	list := []attachmentRef{}
	for i, f := range files {
		list = append(list, attachmentRef{ID: strconv.Itoa(i), Name: f.Name})
	}
	return list
}

// multipartBody returns the body of a request with files, and its media type, in the form of Discord's reference on
// uploading files: payload_json first, then files[0], files[1] and so on.
func multipartBody(body any, files []chat.File) (data []byte, kind string, err error) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	payload, err := json.Marshal(body)
	if err != nil {
		return nil, "", err
	}
	if err := writePart(w, `form-data; name="payload_json"`, "application/json", payload); err != nil {
		return nil, "", err
	}
	for i, f := range files {
		kind := f.Type
		if kind == "" || strings.ContainsAny(kind, "\r\n") {
			kind = "application/octet-stream"
		}
		disposition := fmt.Sprintf(`form-data; name="files[%d]"; filename="%s"`, i, fileNameReplacer.Replace(f.Name))
		if err := writePart(w, disposition, kind, f.Data); err != nil {
			return nil, "", err
		}
	}
	if err := w.Close(); err != nil {
		return nil, "", err
	}
	return b.Bytes(), w.FormDataContentType(), nil
}

// fileNameReplacer replaces in a file's name what a header cannot hold.
var fileNameReplacer = strings.NewReplacer("\\", "_", `"`, "_", "/", "_", "\r", "_", "\n", "_")

// writePart writes one part of a multipart body.
func writePart(w *multipart.Writer, disposition, kind string, data []byte) error {
	p, err := w.CreatePart(textproto.MIMEHeader{"Content-Disposition": {disposition}, "Content-Type": {kind}})
	if err != nil {
		return err
	}
	_, err = p.Write(data)
	return err
}
