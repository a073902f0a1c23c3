package pdftext

import (
	"io"
	"math"

	"github.com/ledongthuc/pdf"
)

// piece is some text where a page shows it. along and across are in the direction of
// the text, from left to right and from the bottom up.
type piece struct {
	text          string
	along, across float64
	width, size   float64
	turned        float64 // the direction, in radians
}

// Bounds of what is looked at on one page.
const (
	maxContentBytes = 64 << 20 // of what it is written in
	maxForms        = 2000     // uses of them
	maxFormDepth    = 8        // forms within forms
	maxSavedStates  = 512      // states
)

// matrix is a transformation: a b c d e f as a PDF writes them.
type matrix [6]float64

// times returns the transformation that does m before n.
func (m matrix) times(n matrix) matrix {
	return matrix{m[0]*n[0] + m[1]*n[2], m[0]*n[1] + m[1]*n[3], m[2]*n[0] + m[3]*n[2], m[2]*n[1] + m[3]*n[3],
		m[4]*n[0] + m[5]*n[2] + n[4], m[4]*n[1] + m[5]*n[3] + n[5]}
}

// state is what the operators of a page change.
type state struct {
	ctm                            matrix
	font                           *font
	size, chars, words, wide, rise float64 // wide: 1 is as wide as the font
	leading                        float64
}

// reader reads the pages of one file.
type reader struct {
	fonts map[string]*font // by what their dictionary says
	room  int              // bytes of text that there is room for
}

// shower follows what a page shows.
type shower struct {
	*reader
	state
	text, line matrix // where the text, and its line, stand
	saved      []state
	pieces     []piece
	forms      int
	left       int // bytes that may be read still
}

// show returns the pieces of a page as they are shown; where it is damaged, those before the damage.
func (r *reader) show(content, resources pdf.Value) (pieces []piece) {
	s := &shower{reader: r, state: state{ctm: matrix{1, 0, 0, 1, 0, 0}, wide: 1}, left: maxContentBytes}
	defer func() {
		_ = recover() // what the library cannot read it panics at
		pieces = s.pieces
	}()
	s.run(content, resources, 0)
	return nil
}

// run follows a page, or a form within it.
func (s *shower) run(content, resources pdf.Value, depth int) {
	if content.IsNull() {
		return
	}
	named := map[string]*font{}
	l := lexer{data: s.bytes(content)}
	l.each(func(op string, args []operand) {
		switch {
		case op == "Tf" && len(args) == 2:
			name := args[0].s
			// fontOf writes out the whole dictionary to find a font, which is too slow for every use of it.
			if named[name] == nil {
				named[name] = s.fontOf(resources.Key("Font").Key(name))
			}
			s.font, s.size = named[name], args[1].n
		case op == "Do" && len(args) == 1:
			s.form(resources.Key("XObject").Key(args[0].s), resources, depth)
		default:
			s.do(op, args)
		}
	})
}

// bytes returns what a page or a form is written in, which may be in several parts; of a damaged part what is before
// the damage.
func (s *shower) bytes(content pdf.Value) (data []byte) {
	if content.Kind() == pdf.Array {
		for i := range min(content.Len(), maxForms) {
			data = append(append(data, s.bytes(content.Index(i))...), '\n')
		}
		return data
	}
	defer func() { _ = recover() }() // at a filter that it does not know, the library panics
	data, _ = io.ReadAll(io.LimitReader(content.Reader(), int64(s.left)))
	s.left -= len(data)
	return data
}

// fontOf returns a font, read once for all pages.
func (r *reader) fontOf(v pdf.Value) *font {
	key := v.String()
	if r.fonts[key] == nil {
		r.fonts[key] = readFont(v)
	}
	return r.fonts[key]
}

// form shows what several pages may have in common.
func (s *shower) form(v, resources pdf.Value, depth int) {
	if s.forms++; v.Key("Subtype").Name() != "Form" || depth >= maxFormDepth || s.forms > maxForms {
		return
	}
	if own := v.Key("Resources"); own.Kind() == pdf.Dict {
		resources = own
	}
	before, n := s.state, len(s.saved)
	if m, ok := numbers(v.Key("Matrix")); ok {
		s.ctm = m.times(s.ctm)
	}
	s.run(v, resources, depth+1)
	// A form may save states that it does not restore, and must not change those of the page.
	s.state, s.saved = before, s.saved[:min(n, len(s.saved))]
}

// numbers returns a list of six numbers as a matrix; false where there are not six.
func numbers(list pdf.Value) (m matrix, ok bool) {
	for i := range m {
		m[i] = list.Index(i).Float64()
	}
	return m, list.Len() == len(m)
}

// wants returns how many numbers an operator needs; 0 for those that are not listed.
func wants(op string) int {
	switch op {
	case "cm", "Tm":
		return 6
	case "TD", "Td":
		return 2
	case "Tc", "Tw", "Tz", "TL", "Ts":
		return 1
	}
	return 0
}

// do does what an operator says. One with less than it needs is left out.
func (s *shower) do(op string, args []operand) {
	if len(args) < wants(op) {
		return
	}
	at := func(i int) float64 { return args[i].n }
	switch op {
	case "q":
		if len(s.saved) < maxSavedStates {
			s.saved = append(s.saved, s.state)
		}
	case "Q":
		if n := len(s.saved); n > 0 {
			s.state, s.saved = s.saved[n-1], s.saved[:n-1]
		}
	case "cm":
		s.ctm = matrix{at(0), at(1), at(2), at(3), at(4), at(5)}.times(s.ctm)
	case "BT":
		s.stand(matrix{1, 0, 0, 1, 0, 0})
	case "Tm":
		s.stand(matrix{at(0), at(1), at(2), at(3), at(4), at(5)})
	case "TD":
		s.leading = -at(1)
		s.move(at(0), at(1))
	case "Td":
		s.move(at(0), at(1))
	case "T*":
		s.move(0, -s.leading)
	case "Tc":
		s.chars = at(0)
	case "Tw":
		s.words = at(0)
	case "Tz":
		s.wide = at(0) / 100
	case "TL":
		s.leading = at(0)
	case "Ts":
		s.rise = at(0)
	default:
		s.write(op, args)
	}
}

// stand sets where the text and its line are, move moves both from the beginning of the line.
func (s *shower) stand(m matrix) { s.text, s.line = m, m }

func (s *shower) move(x, y float64) { s.stand(matrix{1, 0, 0, 1, x, y}.times(s.line)) }

// write does the operators that show text.
func (s *shower) write(op string, args []operand) {
	n := len(args)
	if n == 0 || s.font == nil {
		return
	}
	switch op {
	case "\"":
		if n == 3 {
			s.words, s.chars = args[0].n, args[1].n
		}
		fallthrough
	case "'":
		s.move(0, -s.leading)
		fallthrough
	case "Tj":
		s.put(args[n-1].s)
	case "TJ":
		for _, x := range args[0].list {
			if x.kind == aString {
				s.put(x.s)
			} else {
				s.advance(-x.n / 1000 * s.size)
			}
		}
	}
}

// advance moves the text on along its line, in units of text space.
func (s *shower) advance(by float64) { s.text = matrix{1, 0, 0, 1, by * s.wide, 0}.times(s.text) }

// put shows a string.
func (s *shower) put(raw string) {
	text, width, chars, blanks := s.font.read(raw)
	if s.room -= len(text); s.room < 0 {
		panic("there is more text than is taken") // show keeps what there is
	}
	m := matrix{s.size * s.wide, 0, 0, s.size, 0, s.rise}.times(s.text).times(s.ctm)
	by := width/1000*s.size + float64(chars)*s.chars + float64(blanks)*s.words
	turned := math.Atan2(m[1], m[0])
	sin, cos := math.Sincos(turned)
	p := piece{text: text, turned: turned, along: m[4]*cos + m[5]*sin, across: m[5]*cos - m[4]*sin,
		size: math.Abs(m[3]*cos - m[2]*sin)}
	if s.size != 0 {
		p.width = by / s.size * math.Hypot(m[0], m[1])
	}
	if text != "" {
		s.pieces = append(s.pieces, p)
	}
	s.advance(by)
}
