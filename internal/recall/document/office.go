package document

import (
	"archive/zip"
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
)

const (
	// maxParts bounds the files within a file. A presentation of 500 slides has about 3,000.
	maxParts = 20_000
	// maxElements bounds the elements of a part that is read into memory, and their attributes, maxDepth how deep they
	// are nested.
	maxElements = 500_000
	maxDepth    = 300
	// maxToken bounds the bytes of one tag, and of one text between two tags.
	maxToken = 1 << 20
)

// archive is an Office file: parts in a zip archive, which refer to each other.
type archive struct {
	parts map[string]*zip.File
	left  int64 // bytes that may still be unpacked
}

// readOffice reads an Office file with a function for its kind. The error is errTooMuch, errDamaged, or says that the
// file is protected.
func readOffice(data []byte, read func(*archive) ([]Section, error)) ([]Section, error) {
	// A protected file is an archive of the older kind around the encrypted one.
	if bytes.HasPrefix(data, []byte{0xD0, 0xCF, 0x11, 0xE0}) {
		return nil, errors.New(
			"it is protected with a password, or in the form that Office used before 2007; save it without " +
				"a password as .docx, .xlsx or .pptx",
		)
	}
	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil || len(z.File) > maxParts {
		return nil, errDamaged
	}
	a := &archive{parts: map[string]*zip.File{}, left: maxUnzipped}
	for _, f := range z.File {
		a.parts[strings.TrimPrefix(f.Name, "/")] = f
	}
	list, err := read(a)
	if err != nil && !errors.Is(err, errTooMuch) {
		return nil, errDamaged // what the decoders say of it may hold its bytes
	}
	return list, err
}

// open returns the decoder of a part, and a function that closes it. It fails where there is no such part. What it
// reads counts towards maxUnzipped.
func (a *archive) open(name string) (*xml.Decoder, func(), error) {
	f := a.parts[name]
	if f == nil {
		return nil, nil, fmt.Errorf("there is no part %s", name)
	}
	r, err := f.Open()
	if err != nil {
		return nil, nil, err
	}
	in := &limitedReader{r: r, left: &a.left}
	return xml.NewTokenDecoder(&tokenReader{xml.NewDecoder(in), in}), func() { _ = r.Close() }, nil
}

// limitedReader returns errTooMuch, rather than the end, where too much was read.
type limitedReader struct {
	r     io.Reader
	left  *int64
	token int64 // bytes that may still be read for the present token
}

// Read returns errTooMuch once a token, or all parts of the file together, are longer than their limit: a small archive
// may hold very much.
func (l *limitedReader) Read(p []byte) (int, error) {
	n, err := l.r.Read(p)
	*l.left -= int64(n)
	l.token -= int64(n)
	if *l.left < 0 || l.token < 0 {
		return 0, errTooMuch
	}
	return n, err
}

// tokenReader returns the tokens of a part, each of maxToken bytes at most: the decoder keeps all attributes of a tag
// in memory before any can be counted.
type tokenReader struct {
	raw *xml.Decoder
	in  *limitedReader
}

// Token implements xml.TokenReader.
func (t *tokenReader) Token() (xml.Token, error) {
	t.in.token = maxToken
	return t.raw.RawToken()
}

// element is an XML element, or a text, whose name is empty.
type element struct {
	name     string // without its name space
	attrs    []xml.Attr
	text     string
	children []*element
}

// tree returns a part as a tree. Entities that the part declares are not expanded but refused, by encoding/xml. It
// returns errTooMuch for more elements or attributes than maxElements, or deeper ones than maxDepth.
func (a *archive) tree(name string) (*element, error) {
	d, done, err := a.open(name)
	if err != nil {
		return nil, err
	}
	defer done()
	root := &element{}
	stack := []*element{root}
	for count, attributes := 0, 0; ; {
		token, err := d.Token()
		switch {
		case errors.Is(err, io.EOF):
			return root, nil
		case err != nil:
			return nil, err
		case max(count, attributes) > maxElements || len(stack) > maxDepth:
			return nil, errTooMuch
		}
		top := stack[len(stack)-1]
		switch t := token.(type) {
		case xml.StartElement:
			count++
			attributes += len(t.Attr)
			e := &element{name: t.Name.Local, attrs: t.Attr}
			top.children = append(top.children, e)
			stack = append(stack, e)
		case xml.EndElement:
			stack = stack[:len(stack)-1]
		case xml.CharData:
			top.children = append(top.children, &element{text: string(t)})
		}
	}
}

// attr returns an attribute by its name without name space; empty: there is none.
func (e *element) attr(name string) string { return attrOf(e.attrs, name) }

// attrOf returns the value of an attribute by its name without its namespace, or "" where it is missing.
func attrOf(attrs []xml.Attr, name string) string {
	for _, a := range attrs {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}

// referenceOf returns the id by which an element refers to another part.
func (e *element) referenceOf() string {
	for _, a := range e.attrs {
		if a.Name.Local == "id" && strings.HasSuffix(a.Name.Space, "/relationships") {
			return a.Value
		}
	}
	return ""
}

// child returns the first child along a path of names, or an element without content.
func (e *element) child(names ...string) *element {
	for _, name := range names {
		i := slices.IndexFunc(e.children, func(c *element) bool { return c.name == name })
		if i < 0 {
			return &element{}
		}
		e = e.children[i]
	}
	return e
}

// has reports whether an element has a child.
func (e *element) has(name string) bool {
	return slices.ContainsFunc(e.children, func(c *element) bool { return c.name == name })
}

// content returns the text within an element.
func (e *element) content() string {
	if e.name == "" && e.children == nil {
		return e.text
	}
	var b strings.Builder
	for _, c := range e.children {
		b.WriteString(c.content())
	}
	return b.String()
}

// relation is what a part refers to.
type relation struct {
	target string // path of a part, or an address
	kind   string // last part of its type, such as "notesSlide"
	web    bool   // target is an address
}

// relations returns what a part, or with an empty name the whole file, refers to, by id.
func (a *archive) relations(part string) (map[string]relation, error) {
	folder, base := path.Split(part)
	name := path.Join(folder, "_rels", base+".rels")
	list := map[string]relation{}
	if a.parts[name] == nil {
		return list, nil
	}
	root, err := a.tree(name)
	if err != nil {
		return nil, err
	}
	for _, e := range root.child("Relationships").children {
		r := relation{target: e.attr("Target"), kind: path.Base(e.attr("Type")), web: e.attr("TargetMode") == "External"}
		switch {
		case r.web:
		case strings.HasPrefix(r.target, "/"):
			r.target = strings.TrimPrefix(r.target, "/")
		default:
			r.target = path.Join(path.Dir(part), r.target)
		}
		list[e.attr("Id")] = r
	}
	return list, nil
}

// mainPart returns the part that a file begins with, and what it refers to.
func (a *archive) mainPart() (string, map[string]relation, error) {
	begin, err := a.relations("")
	if err != nil {
		return "", nil, err
	}
	for _, r := range begin {
		if r.kind == "officeDocument" {
			refers, err := a.relations(r.target)
			return r.target, refers, err
		}
	}
	return "", nil, errors.New("there is no main part")
}

// partOf returns the first part of a kind that another refers to; empty: none.
func partOf(refers map[string]relation, kind string) string {
	for _, r := range refers {
		if r.kind == kind && !r.web {
			return r.target
		}
	}
	return ""
}

// markdownTable returns rows as a Markdown table, the first as its head.
func markdownTable(rows [][]string) string {
	columns := 0
	for _, row := range rows {
		columns = max(columns, len(row))
	}
	if columns == 0 {
		return ""
	}
	var b strings.Builder
	escape := strings.NewReplacer("|", `\|`, "\n", "<br>")
	for n, row := range rows {
		b.WriteString("|")
		for i := range columns {
			cell := ""
			if i < len(row) {
				cell = escape.Replace(strings.TrimSpace(row[i]))
			}
			b.WriteString(" " + cell + " |")
		}
		b.WriteString("\n")
		if n == 0 {
			b.WriteString("|" + strings.Repeat("---|", columns) + "\n")
		}
	}
	return b.String()
}
