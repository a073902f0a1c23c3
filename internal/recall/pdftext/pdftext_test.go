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
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"ravenbot/internal/recall/pdftext"
)

// TestMain lets this binary stand for the program that reads.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == pdftext.Word {
		os.Exit(pdftext.Main(os.Stdin, os.Stdout))
	}
	os.Exit(m.Run())
}

// fileOf writes a PDF of objects, the first of which is its catalog.
func fileOf(objects ...string) []byte {
	var b bytes.Buffer
	var offsets []int
	b.WriteString("%PDF-1.4\n")
	for i, body := range objects {
		offsets = append(offsets, b.Len())
		fmt.Fprintf(&b, "%d 0 obj\n%s\nendobj\n", i+1, body)
	}
	start := b.Len()
	fmt.Fprintf(&b, "xref\n0 %d\n0000000000 65535 f \n", len(offsets)+1)
	for _, at := range offsets {
		fmt.Fprintf(&b, "%010d 00000 n \n", at)
	}
	fmt.Fprintf(&b, "trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n", len(offsets)+1, start)
	return b.Bytes()
}

// stream writes a stream with what else its dictionary says.
func stream(content, also string) string {
	return fmt.Sprintf("<< /Length %d %s >>\nstream\n%s\nendstream", len(content), also, content)
}

// pdfOf writes a PDF with a page for each text, a line of it a line.
func pdfOf(pages ...string) []byte {
	var kids []string
	for i := range pages {
		kids = append(kids, fmt.Sprintf("%d 0 R", 4+2*i))
	}
	objects := []string{"<< /Type /Catalog /Pages 2 0 R >>",
		fmt.Sprintf("<< /Type /Pages /Kids [%s] /Count %d >>", strings.Join(kids, " "), len(pages)),
		"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>"}
	for i, text := range pages {
		content := "BT /F1 12 Tf 72 720 Td\n"
		for _, line := range strings.Split(text, "\n") {
			content += "(" + strings.NewReplacer("(", "\\(", ")", "\\)").Replace(line) + ") Tj 0 -14 Td\n"
		}
		objects = append(objects, fmt.Sprintf("<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Resources << /Font "+
			"<< /F1 3 0 R >> >> /Contents %d 0 R >>", 5+2*i),
			stream(content+"ET", ""))
	}
	return fileOf(objects...)
}

// shown writes a PDF of one page, which gets its resources from the tree: the fonts
// A, in WinAnsi with differences, and B, of two bytes a code with a table of its own,
// and the form X.
func shown(content, table, form string) []byte {
	return fileOf("<< /Type /Catalog /Pages 2 0 R >>",
		"<< /Type /Pages /Kids [3 0 R] /Count 1 /Resources << /Font << /A 5 0 R /B 6 0 R >> /XObject << /X 9 0 R >> >> >>",
		"<< /Type /Page /Parent 2 0 R /Contents 4 0 R >>", stream(content, ""),
		"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /FirstChar 32 /LastChar 34 /Widths [250 300 300] /Encoding "+
			"<< /Type /Encoding /BaseEncoding /WinAnsiEncoding /Differences [1 /fi /uni20AC /eacute] >> >>",
		"<< /Type /Font /Subtype /Type0 /BaseFont /Own /Encoding /Identity-H /DescendantFonts [7 0 R] /ToUnicode 8 0 R >>",
		"<< /Type /Font /Subtype /CIDFontType2 /DW 600 /W [1 [500 500] 3 9 700] >>", stream(table, ""),
		stream(form, "/Type /XObject /Subtype /Form /Matrix [1 0 0 1 0 -100] /BBox [0 0 1 1]"))
}

const (
	ownTable = "/CIDInit /ProcSet findresource begin 12 dict begin begincmap 1 begincodespacerange <0000> <FFFF> " +
		"endcodespacerange\n" +
		"2 beginbfchar <0001> <0041> <0002> <D83DDC26> endbfchar 2 beginbfrange <0003> <0005> <0062> <0006> <0007> " +
		"[<0078> <00660066>] endbfrange endcmap"
	ownForm = "BT /A 10 Tf 50 700 Td (from a form) Tj ET"
)

func TestTextIsPutTogetherAsItIsShown(t *testing.T) {
	for _, c := range []struct{ name, content, want string }{
		{"gaps are blanks", "BT /A 10 Tf 10 700 Td [(One) -300 (two) 20 (three)] TJ ET", "One twothree"},
		{"lines and paragraphs", "BT /A 10 Tf 12 TL 10 700 Td (One) Tj T* (two) Tj T* (three) Tj 0 -30 Td (four) Tj (five) ' ET", "One\ntwo\nthree\n\nfour\nfive"},
		{"a word that a line ends within", "BT /A 10 Tf 12 TL 10 700 Td (infor-) Tj T* (mation, Spring-) Tj T* (Cloud) Tj ET", "information, Spring-\nCloud"},
		{"names of characters", "BT /A 10 Tf (\\001eld \\002 caf\\003 \\226) Tj ET", "field € café –"},
		{"codes of two bytes", "BT /B 10 Tf <0001000200030004000500060007> Tj ET", "A🐦bcdxff"},
		{"a form", "BT /A 10 Tf 50 700 Td (the page) Tj ET /X Do q /X Do Q", "the page\n\nfrom a form from a form"},
		{"a column beside another", "BT /A 10 Tf 12 TL 10 700 Td (a1) Tj T* (a2) Tj ET BT /A 10 Tf 12 TL 300 700 Td (b1) Tj T* (b2) Tj ET", "a1\na2\n\nb1\nb2"},
		{"upright text", "BT /A 10 Tf 0 1 -1 0 300 100 Tm (up) Tj 0 -12 Td (wards) Tj ET", "up\nwards"},
		{"damage behind it", "BT /A 10 Tf (kept) Tj ET Q Q Q ] >> 1 2 Tf Tj /Y Do", "kept"},
		{"a picture within the page", "BT /A 10 Tf (before) Tj ET BI /W 2 /H 2 ID (\x00[EI<< EI BT /A 10 Tf 0 -12 Td (behind) Tj ET", "before\nbehind"},
		{"a list that does not end", "BT /A 10 Tf (kept) Tj [(lost", "kept"},
		{"strings", "BT /A 10 Tf (\\(a\\) (b) \\\n\\101\\7) Tj /A#20 <</X (y)>> BDC <2 04 > Tj %(c) Tj\n<4a> Tj ET", "(a) (b) A\a @J"},
		{"operators that want more", "BT /A 10 Tf Tm Td (kept) Tj cm Tz (too) \" ET", "kepttoo"},
	} {
		got, err := pdftext.Pages(shown(c.content, ownTable, ownForm))
		if diff := cmp.Diff([]string{c.want}, got); diff != "" || err != nil {
			t.Errorf("%s: %v\n%s", c.name, err, diff)
		}
	}
}

// A page in several parts, of which one cannot be read, in a font that is drawn in a
// space of its own.
func TestWhatCanBeReadOfAPageIs(t *testing.T) {
	data := fileOf("<< /Type /Catalog /Pages 2 0 R >>", "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
		"<< /Type /Page /Parent 2 0 R /Contents [4 0 R 5 0 R 6 0 R] /Resources << /Font << /T 7 0 R >> >> >>",
		stream("BT /T 10 Tf 10 700 Td", ""), stream("(lost) Tj", "/Filter /Secret"),
		stream("(ab) Tj 10 0 Td (cd) Tj 20 0 Td (ef) Tj ET", ""),
		"<< /Type /Font /Subtype /Type3 /FontMatrix [0.1 0 0 0.1 0 0] /FirstChar 97 /LastChar 102 /Widths [5 5 5 5 5 5] "+
			"/Encoding << /Differences [97 /a /b /c /d /e /f] >> >>")
	if got, err := pdftext.Pages(data); err != nil || len(got) != 1 || got[0] != "abcd ef" {
		t.Errorf("read %q, %v", got, err)
	}
}

// FuzzPages has a page show, and a font mean, anything.
func FuzzPages(f *testing.F) {
	f.Add("BT /A 10 Tf (x) Tj /B 1 Tf <0001> Tj ET /X Do", ownTable, ownForm)
	f.Add("BT /B \x100 Tf [<0001> 1e9\"BT /B \\", "beginbfchar <", "BI ID EI")
	f.Add("BT /B 10 Tf [<0001> 1e999 <ffff>] TJ ET", "beginbfrange <00> <ffffffff> <00> endbfrange", "/X Do /X Do")
	f.Fuzz(func(t *testing.T, content, table, form string) {
		if pages, err := pdftext.Pages(shown(content, table, form)); err == nil &&
			(len(pages) != 1 || !utf8.ValidString(pages[0])) {
			t.Errorf("read %q", pages)
		}
	})
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

// Other readers take all of these; the library does not.
func TestPages_HeadersAndEndsThatDiffer_AreRead(t *testing.T) {
	plain := pdfOf("Ravens cache food.")
	header := plain[:9]
	for name, data := range map[string][]byte{
		"version 2.0":              bytes.Replace(plain, header, []byte("%PDF-2.0\n"), 1),
		"a blank behind it":        bytes.Replace(plain, []byte("\n"), []byte(" \n"), 1),
		"a return behind it":       bytes.Replace(plain, header, []byte("%PDF-1.7\r"), 1),
		"a line before it":         append([]byte("\xEF\xBB\xBF\r\n"), plain...),
		"blanks behind the end":    append(bytes.Clone(plain), " \t \r\n"...),
		"zeroes behind the end":    append(bytes.Clone(plain), make([]byte, 500)...),
		"a page behind the end":    append(bytes.Clone(plain), "\n<!-- sent by a proxy -->\n"...),
		"nothing, as it should be": plain,
	} {
		if pages, err := pdftext.Pages(data); err != nil || len(pages) != 1 || pages[0] != "Ravens cache food." {
			t.Errorf("%s: %q, %v", name, pages, err)
		}
	}
}

func TestWhatIsNoPDFIsToldOf(t *testing.T) {
	for name, data := range map[string][]byte{
		"nothing": nil, "text": []byte("hello"), "a header alone": []byte("%PDF-1.4\n"), "cut": pdfOf("hello")[:300],
		"a page tree that turns in a circle": bytes.Replace(pdfOf("hello"), []byte("/Kids [4 0 R] /Count 1"),
			[]byte("/Kids [2 0 R] /Count 9"), 1),
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second) // the library never ends on the last
		if pages, err := pdftext.Separate(ctx, os.Args[0], os.Args[0], data); err == nil {
			t.Errorf("%s: read %q", name, pages)
		}
		cancel()
	}
	locked := bytes.Replace(pdfOf("hello"), []byte("/Root 1 0 R"),
		[]byte("/Root 1 0 R /ID [<00> <00>] /Encrypt << /Filter /Standard /V 5 /R 6 /Length 256 /O (x) /U (y) /P -4 >>"), 1)
	for want, data := range map[error][]byte{
		pdftext.ErrNoText: pdfOf(""), pdftext.ErrEncrypted: locked,
		pdftext.ErrTooMuch: pdfOf(make([]string, pdftext.MaxPages+1)...),
	} {
		if _, err := pdftext.Pages(data); !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
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
