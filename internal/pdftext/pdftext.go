// Package pdftext reads the text of PDF files, page by page. It promises that a file,
// however damaged or hostile, costs no more than time and memory that are bounded and
// given back: the library that reads them may loop, or ask for any memory, so that
// Separate has it read in a process of its own, which is ended. Nothing in a file is
// run: scripts, forms and attachments are not looked at. Text in pictures is not read.
package pdftext

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/ledongthuc/pdf"
)

// Word is the argument with which the program reads one PDF from its standard input
// (Main).
const Word = "read-pdf-from-input"

// Limits of reading one file.
const (
	MaxPages = 3000
	MaxText  = 16 << 20 // bytes of text
	maxTime  = 30 * time.Second
	maxMem   = 768 << 20 // bytes of memory of the process that reads
	maxStack = 64 << 20
)

// ErrNoText says that a PDF holds no text, as one that was scanned.
var ErrNoText = errors.New("it holds no text that can be read; was it scanned?")

// Pages gives the text of the pages. It may take any time and memory: see Separate.
func Pages(data []byte) (pages []string, err error) {
	defer func() {
		if p := recover(); p != nil {
			pages, err = nil, fmt.Errorf("the PDF is damaged: %.200v", p)
		}
	}()
	r, err := pdf.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return nil, fmt.Errorf("the PDF cannot be read: %.200w", err)
	}
	size, some := 0, false
	for n := 1; n <= min(r.NumPage(), MaxPages); n++ {
		text := page(r, n)
		if size += len(text); size > MaxText {
			break
		}
		some = some || text != ""
		pages = append(pages, text)
	}
	if !some {
		return nil, ErrNoText
	}
	return pages, nil
}

// page is the text of one page. A page that is damaged is empty.
func page(r *pdf.Reader, n int) (text string) {
	defer func() { _ = recover() }() // what the library cannot read it panics at
	p := r.Page(n)
	if p.V.IsNull() {
		return ""
	}
	if text = placed(p.Content().Text); text == "" {
		text, _ = p.GetPlainText(nil) // of a damaged page: nothing
	}
	return strings.TrimSpace(strings.ToValidUTF8(text, "\uFFFD"))
}

// placed puts the pieces of a page together: a step down or back begins a line, a gap
// stands for a blank.
func placed(pieces []pdf.Text) string {
	var b strings.Builder
	var last pdf.Text
	for i, t := range pieces {
		size := max(math.Abs(t.FontSize), 1)
		if t.W <= 0 {
			t.W = size / 2 * float64(utf8.RuneCountInString(t.S))
		}
		if i > 0 {
			down, gap := last.Y-t.Y, t.X-(last.X+last.W)
			switch {
			case math.Abs(down) > 1.8*size:
				b.WriteString("\n\n")
			case math.Abs(down) > size/2:
				b.WriteByte('\n')
			case (gap > size/5 || gap < -2*size) && !strings.HasSuffix(b.String()[max(0, b.Len()-1):], " "):
				b.WriteByte(' ')
			}
		}
		b.WriteString(t.S)
		last = t
	}
	return b.String()
}

// answer is what Main writes.
type answer struct {
	Pages []string `json:"pages,omitempty"`
	Error string   `json:"error,omitempty"`
	Empty bool     `json:"empty,omitempty"`
}

// Main reads a PDF from in and writes what Separate reads. It ends the process when
// that takes too much memory or time.
func Main(in io.Reader, out io.Writer) int {
	debug.SetMaxStack(maxStack)
	debug.SetMemoryLimit(maxMem / 2)
	go watch()
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

// watch ends the process when it takes too much. It lives as long as the process.
func watch() {
	sample := []metrics.Sample{{Name: "/memory/classes/total:bytes"}}
	tick := time.NewTicker(20 * time.Millisecond)
	end := time.NewTimer(maxTime)
	for {
		select {
		case <-tick.C:
			if metrics.Read(sample); sample[0].Value.Uint64() > maxMem {
				os.Exit(1)
			}
		case <-end.C:
			os.Exit(1)
		}
	}
}

// Separate has a program read a PDF by Main, with nothing of this one's environment.
// name is what the program is to think it is called by.
func Separate(ctx context.Context, program, name string, data []byte) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, maxTime)
	defer cancel()
	c := exec.CommandContext(ctx, program)
	c.Args = []string{name, Word}
	c.Env = []string{"GOMAXPROCS=1"}
	c.Stdin = bytes.NewReader(data)
	c.WaitDelay = time.Second
	var out limited
	c.Stdout = &out
	if err := c.Run(); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return nil, fmt.Errorf("the PDF could not be read within %v and %d MiB of memory: %w", maxTime, maxMem>>20, err)
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
	if l.Len()+len(p) > 2*MaxText {
		return 0, errors.New("there is too much text in the PDF")
	}
	return l.Buffer.Write(p)
}
