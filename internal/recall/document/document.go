// Package document reads the text of common files: PDF, Word, Excel and PowerPoint files, tables, HTML and text. It
// promises that every file, even a damaged or hostile one, costs bounded time and memory, that it runs no content, and
// that an error names the reason in words. It does not read text in pictures. The caller passes a function that reads
// PDFs, because a PDF can make any parser loop.
//
// The file name's extension decides the kind of a file, or the media type if there is none. An Office file is a zip
// archive of parts that refer to each other by relations (office.go). Each kind has its own reader (word.go,
// sheets.go, slides.go), and all readers share the limits of one file. A document is returned as sections with the
// names that people see: pages, sheets and slides.
package document

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"ravenbot/internal/core/text"
	"ravenbot/internal/recall/page"
)

// Form is how the text of a section is written.
type Form string

// The forms of sections.
const (
	Plain    Form = "plain"
	Markdown Form = "markdown"
	Table    Form = "table" // cells separated by commas (CSV)
	TabTable Form = "tabs"  // cells separated by tabs
)

// Section is a part of a document: a page, a sheet, a slide, or the whole of a document without such parts.
type Section struct {
	Where string // "p. 3", "sheet Prices", "slide 2"; empty: the section is the document
	Text  string
	Form  Form
}

// Limits of reading one file.
const (
	maxText = 8 << 20 // bytes of text
	// maxUnzipped is how many bytes are read of all parts of a file: some files of 1 MB hold terabytes.
	maxUnzipped = 64 << 20
)

// Errors say in words why a file is not read.
var (
	ErrKind = errors.New(
		"files of this kind are not read: PDF, Word, Excel, PowerPoint, HTML, Markdown, text and CSV are",
	)
	errOldForm = errors.New("it is in the form that Office used before 2007; save it as .docx, .xlsx or .pptx")
	errNoText  = errors.New("it holds no text")
	errBinary  = errors.New("it is not text")
	errDamaged = errors.New("it is damaged, or not what its name says")
	errTooMuch = fmt.Errorf("it unpacks to more than %d MiB, or has more than %d MiB of text",
		maxUnzipped>>20, maxText>>20)
)

// PDF returns the text of each page of a PDF.
type PDF func(ctx context.Context, data []byte) ([]string, error)

// Reader reads documents. It is safe for concurrent use.
type Reader struct {
	pdf PDF
	// busy has a place for the PDF or Office file that is being read: each may take much memory.
	busy chan struct{}
}

// NewReader returns a Reader that has PDFs read by pdf. It reads PDFs and Office files one at a time.
func NewReader(pdf PDF) *Reader { return &Reader{pdf, make(chan struct{}, 1)} }

// kind is how a file is read.
type kind string

const (
	// The kinds of files; kindOld are those that are recognized and not read.
	kindPDF    kind = "pdf"
	kindWord   kind = "word"
	kindSheets kind = "sheets"
	kindSlides kind = "slides"
	kindHTML   kind = "html"
	kindTable  kind = "table"
	kindTabs   kind = "tabs"
	kindText   kind = "text"
	kindOld    kind = "old"
)

// kindsByEnding and kindsByType are the kinds of files that are more than text.
var kindsByEnding = map[string]kind{
	".pdf": kindPDF, ".docx": kindWord, ".docm": kindWord, ".dotx": kindWord, ".xlsx": kindSheets, ".xlsm": kindSheets,
	".pptx": kindSlides, ".pptm": kindSlides, ".ppsx": kindSlides, ".doc": kindOld, ".xls": kindOld, ".ppt": kindOld,
	".html": kindHTML, ".htm": kindHTML, ".xhtml": kindHTML, ".csv": kindTable, ".tsv": kindTabs,
}

var kindsByType = map[string]kind{
	"application/pdf": kindPDF,
	"application/vnd.openxmlformats-officedocument.wordprocessingml.document":   kindWord,
	"application/vnd.openxmlformats-officedocument.spreadsheetml.sheet":         kindSheets,
	"application/vnd.openxmlformats-officedocument.presentationml.presentation": kindSlides,
	"application/msword": kindOld, "application/vnd.ms-excel": kindOld, "application/vnd.ms-powerpoint": kindOld,
	"text/html": kindHTML, "application/xhtml+xml": kindHTML, "text/csv": kindTable, "text/tab-separated-values": kindTabs,
}

// textEndings and textTypes are of files that are text, beside all types that begin with text/.
var (
	textEndings = []string{".md", ".markdown", ".txt", ".text", ".rst", ".adoc", ".log", ".json", ".jsonl",
		".yaml", ".yml",
		".toml", ".ini", ".conf", ".xml", ".sql", ".go", ".py", ".js", ".ts", ".java", ".c", ".h", ".cpp",
		".cs", ".rs", ".rb",
		".php", ".sh", ".css", ".diff", ".patch", ".srt", ".vtt", ".tex", ".ics", ".vcf", ".eml"}
	textTypes = []string{"application/json", "application/xml", "application/x-yaml", "application/yaml",
		"application/toml",
		"application/javascript", "application/sql", "application/x-ndjson"}
)

// kindOf returns how a file is read, by the ending of its name, else by its media type; empty: it is not.
func kindOf(name, mediaType string) kind {
	ending := strings.ToLower(path.Ext(name))
	media, _, _ := strings.Cut(mediaType, ";")
	media = strings.ToLower(strings.TrimSpace(media))
	// The name first: platforms and browsers often call a file of a known name application/octet-stream.
	switch {
	case kindsByEnding[ending] != "":
		return kindsByEnding[ending]
	case slices.Contains(textEndings, ending):
		return kindText
	case kindsByType[media] != "":
		return kindsByType[media]
	case strings.HasPrefix(media, "text/"), slices.Contains(textTypes, media):
		return kindText
	}
	return ""
}

// Reads reports whether files of a name or media type are read at all.
func Reads(name, mediaType string) bool {
	k := kindOf(name, mediaType)
	return k != "" && k != kindOld
}

// blankLines matches more than one blank line.
var blankLines = text.Pattern(`\n{3,}`)

// Reads reports whether files of a name or media type are read at all.
func (r *Reader) Reads(name, mediaType string) bool { return Reads(name, mediaType) }

// Read returns the sections of a document; at least one, none of them empty. The error is a reason in words for whoever
// sent the file, and may be shown: it holds nothing of the file. It is that of ctx where that ends first.
func (r *Reader) Read(ctx context.Context, name, mediaType string, data []byte) ([]Section, error) {
	list, err := r.readKind(ctx, kindOf(name, mediaType), data)
	if err != nil {
		return nil, err
	}
	// Empty parts go before they are counted: a scan without a text layer has as many pages as any other.
	size := 0
	list = slices.DeleteFunc(list, func(s Section) bool { return strings.TrimSpace(s.Text) == "" })
	for i := range list {
		list[i].Text = blankLines().ReplaceAllString(text.Clean(list[i].Text), "\n\n")
		size += len(list[i].Text)
	}
	switch {
	case size > maxText:
		return nil, errTooMuch
	case len(list) == 0:
		return nil, errNoText
	}
	return list, nil
}

// readKind returns the sections of a file of a kind. It returns errOldForm and ErrKind for what is not read at all, the
// error of ctx where that ends before another file was read, and else the fault of the file.
func (r *Reader) readKind(ctx context.Context, k kind, data []byte) ([]Section, error) {
	switch k {
	case kindPDF, kindWord, kindSheets, kindSlides:
		select {
		case r.busy <- struct{}{}:
			defer func() { <-r.busy }()
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	switch k {
	case kindPDF:
		return r.readPDF(ctx, data)
	case kindWord:
		return readOffice(data, readWord)
	case kindSheets:
		return readOffice(data, readSheets)
	case kindSlides:
		return readOffice(data, readSlides)
	case kindHTML:
		p := page.Read(data, "", "")
		if p.Title != "" {
			p.Text = "# " + p.Title + "\n\n" + p.Text
		}
		return []Section{{Text: p.Text, Form: Markdown}}, nil
	case kindTable:
		table, err := decodeText(data)
		return []Section{{Text: table, Form: Table}}, err
	case kindTabs:
		table, err := decodeText(data)
		return []Section{{Text: table, Form: TabTable}}, err
	case kindText:
		plain, err := decodeText(data)
		return []Section{{Text: strings.ReplaceAll(plain, "\r\n", "\n"), Form: Plain}}, err
	case kindOld:
		return nil, errOldForm
	}
	return nil, ErrKind
}

// decodeText returns a text in UTF-8. It fails where the file is no text.
func decodeText(data []byte) (string, error) {
	if utf8.Valid(data) && !slices.Contains(data[:min(len(data), 8<<10)], 0) {
		return strings.TrimPrefix(string(data), "\uFEFF"), nil
	}
	// Windows writes UTF-16, with a mark at the beginning, or the code page of the country.
	isUTF16 := bytes.HasPrefix(data, []byte{0xFF, 0xFE}) || bytes.HasPrefix(data, []byte{0xFE, 0xFF})
	if !isUTF16 && slices.Contains(data[:min(len(data), 8<<10)], 0) {
		return "", errBinary
	}
	return strings.TrimPrefix(page.Decode(data, "text/plain"), "\uFEFF"), nil
}

// readPDF returns one section for each page.
func (r *Reader) readPDF(ctx context.Context, data []byte) ([]Section, error) {
	pages, err := r.pdf(ctx, data)
	if err != nil {
		return nil, err
	}
	// Numbered before empty pages are dropped, so that the numbers are those that a viewer shows.
	var list []Section
	for n, words := range pages {
		list = append(list, Section{fmt.Sprintf("p. %d", n+1), words, Plain})
	}
	return list, nil
}

// Text returns the text of a document in one piece, with a heading such as [p. 3] above every part. Errors are those of
// Read.
func (r *Reader) Text(ctx context.Context, name, mediaType string, data []byte) (string, error) {
	list, err := r.Read(ctx, name, mediaType, data)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, s := range list {
		if s.Where != "" {
			fmt.Fprintf(&b, "[%s]\n", s.Where)
		}
		b.WriteString(strings.TrimSpace(s.Text) + "\n\n")
	}
	return strings.TrimSpace(b.String()), nil
}
