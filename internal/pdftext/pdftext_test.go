package pdftext_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ravenbot/internal/pdftext"
)

// TestMain lets this binary stand for the program that reads.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == pdftext.Word {
		os.Exit(pdftext.Main(os.Stdin, os.Stdout))
	}
	os.Exit(m.Run())
}

// pdfOf writes a PDF with a page for each text, a line of it a line.
func pdfOf(pages ...string) []byte {
	var b bytes.Buffer
	var offsets []int
	object := func(body string) {
		offsets = append(offsets, b.Len())
		fmt.Fprintf(&b, "%d 0 obj\n%s\nendobj\n", len(offsets), body)
	}
	b.WriteString("%PDF-1.4\n")
	var kids []string
	for i := range pages {
		kids = append(kids, fmt.Sprintf("%d 0 R", 4+2*i))
	}
	object("<< /Type /Catalog /Pages 2 0 R >>")
	object(fmt.Sprintf("<< /Type /Pages /Kids [%s] /Count %d >>", strings.Join(kids, " "), len(pages)))
	object("<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>")
	for i, text := range pages {
		content := "BT /F1 12 Tf 72 720 Td\n"
		for _, line := range strings.Split(text, "\n") {
			content += "(" + strings.NewReplacer("(", "\\(", ")", "\\)").Replace(line) + ") Tj 0 -14 Td\n"
		}
		content += "ET"
		object(fmt.Sprintf("<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Resources << /Font << /F1 3 0 R >> >> /Contents %d 0 R >>", 5+2*i))
		object(fmt.Sprintf("<< /Length %d >>\nstream\n%s\nendstream", len(content), content))
	}
	start := b.Len()
	fmt.Fprintf(&b, "xref\n0 %d\n0000000000 65535 f \n", len(offsets)+1)
	for _, at := range offsets {
		fmt.Fprintf(&b, "%010d 00000 n \n", at)
	}
	fmt.Fprintf(&b, "trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n", len(offsets)+1, start)
	return b.Bytes()
}

func TestTheTextOfPagesIsRead(t *testing.T) {
	data := pdfOf("Ravens cache food.\nThey remember (where).", "Page two")
	want := []string{"Ravens cache food.\nThey remember (where).", "Page two"}
	read := map[string]func() ([]string, error){
		"here": func() ([]string, error) { return pdftext.Pages(data) },
		"apart": func() ([]string, error) {
			return pdftext.Separate(t.Context(), os.Args[0], os.Args[0], data)
		},
	}
	for name, pages := range read {
		got, err := pages()
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v\n%s", name, err, diff)
		}
	}
}

func TestWhatIsNoPDFIsToldOf(t *testing.T) {
	for name, data := range map[string][]byte{
		"nothing": nil, "text": []byte("hello"), "a header alone": []byte("%PDF-1.4\n"), "cut": pdfOf("hello")[:300],
		"a page tree that turns in a circle": bytes.Replace(pdfOf("hello"), []byte("/Kids [4 0 R] /Count 1"), []byte("/Kids [2 0 R] /Count 9"), 1),
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second) // the library never ends on the last
		if pages, err := pdftext.Separate(ctx, os.Args[0], os.Args[0], data); err == nil {
			t.Errorf("%s: read %q", name, pages)
		}
		cancel()
	}
	if _, err := pdftext.Pages(pdfOf("")); !errors.Is(err, pdftext.ErrNoText) {
		t.Errorf("a page without text: %v", err)
	}
}

// TestDamagedPDFsEnd has the bytes of a PDF changed one after the other.
func TestDamagedPDFsEnd(t *testing.T) {
	whole := pdfOf("Ravens cache food.")
	for at := 0; at < len(whole); at += 7 {
		damaged := bytes.Clone(whole)
		damaged[at] ^= 0x15
		pages, err := pdftext.Separate(t.Context(), os.Args[0], os.Args[0], damaged)
		if (err == nil) == (len(pages) == 0) {
			t.Errorf("byte %d: %d pages and the error %v", at, len(pages), err)
		}
		if at > 350 {
			break // a process for each takes time
		}
	}
}
