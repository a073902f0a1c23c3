package agent

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/conversation"
	"ravenbot/internal/core/llm"
	"ravenbot/internal/core/text"
	"ravenbot/internal/turn/prompt"
)

// Limits of reading the files of a message.
const (
	maxDocuments    = 8
	maxFileBytes    = 20 << 20
	maxFileText     = 48 << 10  // bytes of text of each
	maxAllFilesText = 128 << 10 // bytes of text of all
	filesTimeout    = 45 * time.Second
	// Reading the text of a file takes documentMemory bytes of memory for each byte of the file, and documentText for the
	// text (measured 2026-11-27 with text files).
	documentMemory = 5
	documentText   = 8 << 20
)

// Documents reads the text of files.
type Documents interface {
	// Reads reports whether files of a name or media type are read at all.
	Reads(name, mediaType string) bool
	// Text returns the text of a file. The error is a reason in words, for people and for the
	// model.
	Text(ctx context.Context, name, mediaType string, data []byte) (string, error)
}

// The types that models take. All providers take these images; sounds are given to models that hear alone.
var (
	imageTypes = []string{"image/png", "image/jpeg", "image/webp", "image/gif"}
	soundTypes = []string{"audio/ogg", "audio/mpeg", "audio/mp3", "audio/wav", "audio/x-wav", "audio/flac", "audio/aac",
		"audio/aiff", "audio/mp4", "audio/m4a", "audio/x-m4a", "audio/webm"}
)

// mediaType returns the type of a file in lower case and without parameters, as its platform names
// it.
func mediaType(f chat.File) string {
	media, _, _ := strings.Cut(f.Type, ";")
	return strings.ToLower(strings.TrimSpace(media))
}

// isImage and isSound report whether a file is of a type that models take.
func isImage(f chat.File) bool { return slices.Contains(imageTypes, mediaType(f)) }
func isSound(f chat.File) bool { return slices.Contains(soundTypes, mediaType(f)) }

// readFiles returns the text of a message's files as parts, and the names of the others, in their
// order: each file has a part, so that the model never takes one for missing. It takes up to
// filesTimeout.
func (e *Engine) readFiles(ctx context.Context, m chat.Message) []llm.Part {
	ctx, cancel := context.WithTimeout(ctx, filesTimeout)
	defer cancel()
	var parts []llm.Part
	room, read := maxAllFilesText, 0
	for _, f := range m.Files {
		note := "[attached: " + describeFile(f) + "]"
		if isSound(f) {
			note = "[attached: " + describeFile(f) + "; only models that hear are given it]"
		}
		if !isImage(f) && !isSound(f) {
			words, why := e.readFile(ctx, m, f, read < maxDocuments && room > 0)
			switch {
			case why != "":
				note = fmt.Sprintf("[attached: %s, which could not be read: %s]", describeFile(f), why)
			default:
				read++
				words = conversation.Cut(words, min(maxFileText, room))
				room -= len(words)
				note = prompt.Enclose("attached file "+text.OneLine(f.Name), words)
			}
		}
		parts = append(parts, llm.Part{Text: "\n" + note, Source: llm.SourceFile})
	}
	return parts
}

// describeFile returns the name and kind of a file, and its duration if known.
func describeFile(f chat.File) string {
	words := text.OneLine(f.Name)
	if f.Type != "" {
		words += ", " + text.OneLine(f.Type)
	}
	if f.Duration > 0 {
		words += ", " + f.Duration.Round(time.Second).String()
	}
	return words
}

// readFile returns the text of a file, or the reason why it has none.
func (e *Engine) readFile(ctx context.Context, m chat.Message, f chat.File, hasRoom bool) (words, why string) {
	limit := min(maxFileBytes, e.o.FileMemory.Size()/documentMemory)
	switch {
	case e.o.Documents == nil || !e.o.Documents.Reads(f.Name, f.Type):
		return "", "files of this kind are not read"
	case !hasRoom:
		return "", "the files before it have all the room that there is"
	case f.Size > limit:
		return "", fmt.Sprintf("it is larger than %d MiB", limit>>20)
	}
	release, err := e.o.FileMemory.Take(ctx, documentMemory*sizeWithin(f, limit)+documentText)
	if err != nil {
		return "", "too many others are being read"
	}
	defer release()
	data, err := e.o.Files.Fetch(ctx, m.Conversation.Platform, f, limit)
	if err != nil {
		e.o.Log.Warn("failed to fetch an attached file", "message", m.Key(), "file", f.Name, "error", err)
		return "", "it could not be fetched from " + m.Conversation.Platform
	}
	words, err = e.o.Documents.Text(ctx, f.Name, f.Type, data)
	switch {
	case ctx.Err() != nil:
		return "", "it took too long to read"
	case err != nil:
		e.o.Log.Info("failed to read an attached file", "message", m.Key(), "file", f.Name, "error", err)
		return "", err.Error()
	}
	return words, ""
}
