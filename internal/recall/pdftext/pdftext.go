// Package pdftext reads the text of PDF files, page by page. It promises that every file, even a damaged or hostile
// one, costs bounded time and memory. The PDF library may loop or request any amount of memory, so Separate runs it in
// a separate process, which is ended afterwards. Scripts, forms and attachments are ignored, and text in pictures is
// not read.
//
// The library finds the objects of a file. This package reads the contents of a page: lexer splits them into operators
// (lex.go), shower executes these and records each string with its position (show.go), using fonts for the meaning and
// the width of codes (font.go), and lay joins the strings into lines and paragraphs (lay.go).
package pdftext

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"os/exec"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"time"

	"github.com/ledongthuc/pdf"
)

// Word is the argument with which the program reads one PDF from its standard input
// (Main).
const Word = "read-pdf-from-input"

// Limits of reading one file.
const (
	MaxPages = 3000
	maxText  = 16 << 20 // bytes of text
	maxTime  = 30 * time.Second
	maxMem   = 512 << 20 // bytes of memory of the process that reads
	maxStack = 64 << 20
	// maxDepth is that of the tree of pages.
	maxDepth = 50
)

// What may be said of a PDF whose text is not given.
var (
	ErrNoText    = errors.New("it holds no text that can be read; was it scanned?")
	errDamaged   = errors.New("it is damaged, or no PDF")
	ErrEncrypted = errors.New("it is encrypted; save it without a password")
	ErrTooMuch   = fmt.Errorf("it has more than %d pages or %d MiB of text; cut it into several files",
		MaxPages, maxText>>20)
)

// Pages returns the text of the pages, in their order; a page without text is empty. It may take any time and memory:
// see Separate. Errors are ErrNoText, ErrEncrypted, ErrTooMuch, or say that the file is damaged.
func Pages(data []byte) (pages []string, err error) {
	defer func() {
		if p := recover(); p != nil {
			pages, err = nil, errDamaged
		}
	}()
	data = repairEnds(data)
	file, err := pdf.NewReader(bytes.NewReader(data), int64(len(data)))
	switch {
	case errors.Is(err, pdf.ErrInvalidPassword), err != nil && strings.Contains(err.Error(), "encryption"):
		return nil, ErrEncrypted
	case err != nil:
		return nil, errDamaged // what the library says of it may hold its bytes
	}
	r, some := &reader{fonts: map[string]*font{}, room: maxText}, false
	for content, resources := range leaves(file.Trailer().Key("Root").Key("Pages")) {
		text := lay(r.show(content, resources))
		some = some || text != ""
		if pages = append(pages, text); r.room < 0 || len(pages) > MaxPages {
			return nil, ErrTooMuch
		}
	}
	if !some {
		return nil, ErrNoText
	}
	return pages, nil
}

// maxMargin is how many bytes before the header and behind the end of a PDF other readers
// pass over (ISO 32000-1, implementation notes 13 and 18).
const maxMargin = 1024

// repairEnds returns a file as the library wants it. The library refuses versions above 1.7,
// blanks behind the version, and whatever stands before the header or behind the end; no
// reader of files needs any of these to be as they are.
func repairEnds(data []byte) []byte {
	begin := bytes.Index(data[:min(len(data), maxMargin)], []byte("%PDF-"))
	const header = "%PDF-1.7\n"
	if begin < 0 || len(data)-begin < len(header) {
		return data
	}
	data = bytes.Clone(data[begin:])
	copy(data, header)
	const end = "%%EOF"
	if at := bytes.LastIndex(data, []byte(end)) + len(end); at > len(end) && len(data)-at <= maxMargin {
		data = data[:at]
	}
	return data
}

// leaves yields what the pages of a tree show and by what. The library would go
// through the tree anew for each page.
func leaves(root pdf.Value) iter.Seq2[pdf.Value, pdf.Value] {
	return func(yield func(content, resources pdf.Value) bool) {
		visits := 0
		var walk func(node, resources pdf.Value, depth int) bool
		walk = func(node, resources pdf.Value, depth int) bool {
			// Nodes of a damaged tree may refer back to their parents, and do not show that they were visited before.
			if visits++; visits > 4*MaxPages || depth > maxDepth {
				return false
			}
			if own := node.Key("Resources"); own.Kind() == pdf.Dict {
				resources = own
			}
			kids := node.Key("Kids")
			if kids.Kind() != pdf.Array {
				return yield(node.Key("Contents"), resources)
			}
			for i := range kids.Len() {
				if !walk(kids.Index(i), resources, depth+1) {
					return false
				}
			}
			return true
		}
		walk(root, pdf.Value{}, 0)
	}
}

// answer is what Main writes.
type answer struct {
	Pages []string `json:"pages,omitempty"`
	Error string   `json:"error,omitempty"`
	Empty bool     `json:"empty,omitempty"`
}

// Main reads a PDF from in and writes what Separate reads, and returns the exit status of the process. It ends the
// process when that takes too much memory or time.
func Main(in io.Reader, out io.Writer) int {
	// Where the machine runs out of memory, this process is to be ended before others;
	// elsewhere than on Linux there is no such file.
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0)
	debug.SetMaxStack(maxStack)
	// The garbage collector works harder from half of the limit on, so that garbage alone does not end the process.
	soft := min(debug.SetMemoryLimit(-1), maxMem/2)
	debug.SetMemoryLimit(soft)
	go watch(2 * uint64(soft))
	data, err := io.ReadAll(in)
	var a answer
	if err == nil {
		a.Pages, err = Pages(data)
	}
	if err != nil {
		a.Error, a.Empty = err.Error(), errors.Is(err, ErrNoText)
	}
	if json.NewEncoder(out).Encode(a) != nil {
		return 1
	}
	return 0
}

// watch ends the process when it takes more than some bytes of memory, or too long. It lives as long as the process.
func watch(most uint64) {
	sample := []metrics.Sample{{Name: "/memory/classes/total:bytes"}}
	tick := time.NewTicker(20 * time.Millisecond)
	end := time.NewTimer(maxTime)
	for {
		select {
		case <-tick.C:
			if metrics.Read(sample); sample[0].Value.Uint64() > most {
				os.Exit(1)
			}
		case <-end.C:
			os.Exit(1)
		}
	}
}

// Separate has a program read a PDF by Main, with nothing of this one's environment, and returns what Pages returns
// there. name is what the program is to think it is called by. It may be called concurrently; each call is a process of
// up to maxMem, or half of the memory limit of this one (GOMEMLIMIT). The error is in words that may be shown.
func Separate(ctx context.Context, program, name string, data []byte) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, maxTime)
	defer cancel()
	c := exec.CommandContext(ctx, program)
	c.Args = []string{name, Word}
	most := min(debug.SetMemoryLimit(-1)/2, maxMem)
	c.Env = []string{"GOMAXPROCS=1", fmt.Sprint("GOMEMLIMIT=", most/2)}
	c.Stdin = bytes.NewReader(data)
	c.WaitDelay = time.Second
	var out limited
	c.Stdout = &out
	if err := c.Run(); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return nil, fmt.Errorf("it could not be read within %v and %d MiB of memory: %w", maxTime, most>>20, err)
	}
	var a answer
	if err := json.Unmarshal(out.Bytes(), &a); err != nil {
		return nil, fmt.Errorf("read what was found in the PDF: %w", err)
	}
	switch {
	case a.Empty:
		return nil, ErrNoText
	case a.Error != "":
		return nil, errors.New(a.Error)
	}
	return a.Pages, nil
}

// limited keeps no more than a PDF may hold.
type limited struct{ bytes.Buffer }

// Write keeps what is written.
func (l *limited) Write(p []byte) (int, error) {
	// In JSON, characters that are escaped take more room than in the text.
	if l.Len()+len(p) > 2*maxText {
		return 0, errors.New("there is too much text in the PDF")
	}
	return l.Buffer.Write(p)
}
