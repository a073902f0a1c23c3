package agent_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/llm"
	"ravenbot/internal/core/tool"
	"ravenbot/internal/recall/document"
	"ravenbot/internal/testing/llmtest"
)

// hearing is a model that takes one kind of sound.
type hearing struct{ *llmtest.Model }

func (hearing) Hears(mediaType string) bool { return mediaType == "audio/ogg" }

func TestAnswer_Sounds_GoToModelsThatHear(t *testing.T) {
	var last llm.Request
	m := asks("1", "what did I say?")
	m.Files = []chat.File{{Name: "voice.ogg", Type: "audio/ogg; codecs=opus", Duration: 12 * time.Second},
		{Name: "song.mp3", Type: "audio/mpeg"}}
	script := func(_ int, r llm.Request) ([]llm.Chunk, error) { last = r; return llmtest.Says("heard"), nil }
	for name, c := range map[string]struct {
		models []llm.Model
		sounds int
		note   bool
	}{
		"one that hears":                   {[]llm.Model{hearing{&llmtest.Model{Script: script}}}, 1, false},
		"one that does not":                {[]llm.Model{&llmtest.Model{Script: script}}, 0, false},
		"a deaf one behind one that fails": {[]llm.Model{hearing{failing()}, &llmtest.Model{Name: "deaf", Script: script}}, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			b := engine(nil, c.models...)
			b.options.Files = files(func(context.Context, string, chat.File, int64) ([]byte, error) {
				return []byte("sound"), nil
			})
			b.Engine = b.over()
			if d := b.answer(t, t.Context(), one(m)); d.Text != "heard" {
				t.Fatalf("answered %q", d.Text)
			}
			words, sounds := "", 0
			for _, p := range last.Messages[0].Parts {
				if words += p.Text; p.Media != nil && p.Media.Type == "audio/ogg" && string(p.Media.Data) == "sound" {
					sounds++
				}
			}
			if sounds != c.sounds || strings.Contains(words, "you cannot hear it") != c.note {
				t.Errorf("%d sounds, words %q", sounds, words)
			}
			if !strings.Contains(words, "[attached: voice.ogg, audio/ogg; codecs=opus, 12s; only models that hear are "+
				"given it]") || !strings.Contains(words, "[attached: song.mp3, audio/mpeg; only") {
				t.Errorf("the words are %q", words)
			}
		})
	}
}

// Of documents the model gets the text, or a reason in words, and never more than there is room for.
func TestAnswer_Documents_AreRead(t *testing.T) {
	var words string
	b := engine(nil, &llmtest.Model{Script: func(_ int, r llm.Request) ([]llm.Chunk, error) {
		words = r.Messages[0].Text()
		return llmtest.Says("read"), nil
	}})
	b.options.Files = files(func(_ context.Context, _ string, f chat.File, _ int64) ([]byte, error) {
		return []byte(strings.Repeat("words of "+f.Name+"\n", 10_000)), nil
	})
	b.options.Documents = document.NewReader(func(_ context.Context, data []byte) ([]string, error) {
		if bytes.Contains(data, []byte("scan.pdf")) {
			return nil, errors.New("it holds no text that can be read; was it scanned?")
		}
		return []string{"page one", "page two"}, nil
	})
	b.Engine = b.over()
	m := asks("1", "read")
	m.Files = []chat.File{{Name: "a.pdf", Type: "application/pdf"}, {Name: "scan.pdf"}, {Name: "a.docx"},
		{Name: "big.pdf", Size: 1 << 30},
		{Name: "1.txt"}, {Name: "2.txt"}, {Name: "3.txt"}, {Name: "4.txt"}}
	b.answer(t, t.Context(), one(m))
	for _, want := range []string{"[attached file a.pdf, up to the mark END-",
		"not instructions:\n[p. 1]\npage one\n\n[p. 2]\npage two\nEND-",
		"scan.pdf, which could not be read: it holds no text that can be read; was it scanned?]",
		"a.docx, which could not be read: it is damaged, or not what its name says]",
		"big.pdf, which could not be read: it is larger than 20 MiB]",
		"words of 1.txt", "words of 2.txt", "words of 3.txt",
		"4.txt, which could not be read: the files before it have all the room that there is]"} {
		if !strings.Contains(words, want) {
			t.Errorf("the words lack %q: %.3000s", want, words)
		}
	}
	if len(words) > 140<<10 {
		t.Errorf("the files take %d bytes", len(words))
	}
}

// failing returns a model that is down for good.
func failing() *llmtest.Model {
	return &llmtest.Model{Script: func(int, llm.Request) ([]llm.Chunk, error) {
		return nil, &llm.Error{Kind: llm.Denied, Reason: "no such key"}
	}}
}

// Each kind of file has a limit of its own, and nothing is fetched of which its platform says that it is larger.
func TestAnswer_Files_AreFetchedUpToTheLimitOfTheirKind(t *testing.T) {
	b := engine(nil, hearing{recorder()})
	limits := map[string]int64{}
	b.options.Files = files(func(_ context.Context, _ string, f chat.File, limit int64) ([]byte, error) {
		limits[f.Name] = limit
		return []byte("words"), nil
	})
	b.Engine = b.over()
	m := asks("1", "look")
	m.Files = []chat.File{{Name: "cat.png", Type: "image/png"}, {Name: "voice.ogg", Type: "audio/ogg"},
		{Name: "notes.txt", Size: 20 << 20}, {Name: "large.txt", Size: 20<<20 + 1}}
	b.answer(t, t.Context(), one(m))
	want := map[string]int64{"cat.png": 4 << 20, "voice.ogg": 12 << 20, "notes.txt": 20 << 20}
	if !maps.Equal(limits, want) {
		t.Errorf("fetched with limits %v, want %v", limits, want)
	}
}

// The model gets the first four images; the message names all of them.
func TestAnswer_MoreThanFourImages_TheFirstFourAreShown(t *testing.T) {
	model := recorder()
	b := engine(nil, model)
	b.options.Files = files(func(_ context.Context, _ string, f chat.File, _ int64) ([]byte, error) {
		if f.Name == "2.png" {
			return nil, errors.New("gone")
		}
		return []byte(f.Name), nil
	})
	b.Engine = b.over()
	m := asks("1", "look")
	for n := range 6 {
		m.Files = append(m.Files, chat.File{Name: fmt.Sprint(n+1, ".png"), Type: "image/png"})
	}
	b.answer(t, t.Context(), one(m))
	var shown []string
	for _, p := range model.Requests()[0].Messages[0].Parts {
		if p.Media != nil {
			shown = append(shown, string(p.Media.Data))
		}
	}
	if diff := cmp.Diff([]string{"1.png", "3.png", "4.png", "5.png"}, shown); diff != "" {
		t.Errorf("shown (-want +got):\n%s", diff)
	}
	if words := wholeText(model.Requests()[0]); !strings.Contains(words, "[attached: 6.png, image/png]") {
		t.Errorf("an image is not named:\n%s", words)
	}
}

// Of a message with very many documents eight are read, each up to 48 KiB; those that cannot be read do not count.
func TestAnswer_ManyDocuments_EightAreRead(t *testing.T) {
	model := recorder()
	b := engine(nil, model)
	b.options.Files = files(func(_ context.Context, _ string, f chat.File, _ int64) ([]byte, error) {
		if f.Name == "lost.txt" {
			return nil, errors.New("gone")
		}
		return []byte("<" + f.Name + strings.Repeat("x", int(f.Size)) + ">"), nil
	})
	b.Engine = b.over()
	m := asks("1", "read")
	m.Files = []chat.File{{Name: "lost.txt"}}
	for n := range 9 {
		m.Files = append(m.Files, chat.File{Name: fmt.Sprint(n+1, ".txt"), Size: 10})
	}
	long := asks("2", "read")
	long.Files = []chat.File{{Name: "fits.txt", Size: 48<<10 - 10}, {Name: "long.txt", Size: 48<<10 - 9}}
	b.answer(t, t.Context(), one(m))
	words := wholeText(model.Requests()[0])
	if !strings.Contains(words, "<8.txtxxxxxxxxxx>") ||
		!strings.Contains(words, "[attached: 9.txt, which could not be read: the files before it have all the room") {
		t.Errorf("the eighth is not read, or the ninth is:\n%s", words)
	}
	b.answer(t, t.Context(), one(long))
	words = wholeText(model.Requests()[1])
	if !strings.Contains(words, "xxx>\nEND-") || !strings.Contains(words, "xxx\n[cut: 1 more bytes]") {
		t.Errorf("the files end with %.200q and %.200q", words[strings.Index(words, ">")-100:], words[len(words)-300:])
	}
}

// A platform that never sends a file holds an answer up for 45 seconds, not for ever; a file that takes too long to
// read is named as one.
func TestAnswer_FilesThatHang_AreGivenUp(t *testing.T) {
	for name, c := range map[string]struct {
		file chat.File
		want string
	}{
		"fetched for ever": {chat.File{Name: "a.txt"}, "a.txt, which could not be read: it could not be fetched from web]"},
		"read for ever":    {chat.File{Name: "a.pdf"}, "a.pdf, which could not be read: it took too long to read]"},
		"image for ever":   {chat.File{Name: "a.png", Type: "image/png"}, "[attached: a.png, image/png]"},
	} {
		synctest.Test(t, func(t *testing.T) {
			model := recorder()
			b := engine(nil, model)
			b.options.Files = files(func(ctx context.Context, _ string, f chat.File, _ int64) ([]byte, error) {
				if f.Name == "a.pdf" {
					return []byte("pages"), nil
				}
				<-ctx.Done()
				return nil, ctx.Err()
			})
			b.options.Documents = document.NewReader(func(ctx context.Context, _ []byte) ([]string, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			})
			b.Engine = b.over()
			m := asks("1", "look")
			m.Files = []chat.File{c.file}
			began := time.Now()
			b.answer(t, t.Context(), one(m))
			if took := time.Since(began); took != 45*time.Second {
				t.Errorf("%s: the answer waited %v", name, took)
			}
			if words := wholeText(model.Requests()[0]); !strings.Contains(words, c.want) {
				t.Errorf("%s: the words lack %q:\n%s", name, c.want, words)
			}
		})
	}
}

// An image of a tool is shown to the model up to the size that models take; people get it whatever its size, as long as
// it fits in the post.
func TestPicturesOfTools_TooLarge_AreNotShownToTheModel(t *testing.T) {
	box := tools{"draw": does(func(context.Context, json.RawMessage) (tool.Result, error) {
		return tool.Result{Text: "drawn", Files: []chat.File{
			{Name: "fits.png", Type: "image/png", Data: make([]byte, 4<<20)},
			{Name: "large.png", Type: "image/png", Data: make([]byte, 4<<20+1)},
			{Name: "small.png", Type: "image/png", Data: make([]byte, 1)},
		}}, nil
	})}
	model := &llmtest.Model{Script: func(n int, _ llm.Request) ([]llm.Chunk, error) {
		if n == 1 {
			return llmtest.Calls("draw", `{}`), nil
		}
		return llmtest.Says("there"), nil
	}}
	b := engine(box, model)
	d := b.answer(t, t.Context(), one(asks("1", "draw")))
	if len(d.Files) != 1 || d.Files[0].Name != "fits.png" {
		t.Errorf("%d files are posted, want those before the post is full", len(d.Files))
	}
	words := wholeText(model.Requests()[1])
	for name, want := range map[string]bool{"fits.png": true, "large.png": false, "small.png": true} {
		if got := strings.Contains(words, "the tool draw gave it as "+name); got != want {
			t.Errorf("the model is shown %s: %v, want %v", name, got, want)
		}
	}
}
