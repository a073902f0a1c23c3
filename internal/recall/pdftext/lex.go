package pdftext

import (
	"bytes"
	"encoding/hex"
	"strconv"
	"strings"
)

// operand is what stands before an operator on a page: a number, a name, a string, or
// a list of these.
type operand struct {
	kind kind
	n    float64
	s    string
	list []operand
}

type kind int

const (
	aNumber kind = iota
	aName
	aString
	aList
)

// Bounds of one operator.
const (
	maxOperands  = 1000
	maxListItems = 100_000
)

// lexer takes what a page shows apart. It is our own because that of the library does
// not end where a list is not closed, and takes the pictures within a page for words.
type lexer struct {
	data   []byte
	at     int
	inList bool
}

const (
	blank   = "\x00\t\n\f\r "
	special = blank + "()<>[]{}/%"
)

// each calls do with every operator and its operands. What is no operator ends with the data.
func (l *lexer) each(do func(op string, args []operand)) {
	var args []operand
	for {
		o, op, ok := l.next()
		switch {
		case !ok:
			return
		case op == "ID":
			l.skipImage()
			args = nil
		case op != "":
			do(op, args)
			args = nil
		case len(args) < maxOperands:
			args = append(args, o)
		}
	}
}

// next returns an operand, or an operator as op; ok is false where there is no more.
func (l *lexer) next() (o operand, op string, ok bool) {
	for l.at < len(l.data) {
		c := l.data[l.at]
		switch {
		case strings.IndexByte(blank, c) >= 0:
			l.at++
		case c == '%':
			l.until("\r\n")
		case c == '/':
			l.at++
			return operand{kind: aName, s: unescaped(l.until(special))}, "", true
		case c == '(':
			return operand{kind: aString, s: l.literal()}, "", true
		case c == '<' && l.peek() != '<':
			digits := l.until(">")
			l.at++
			return operand{kind: aString, s: unhex(digits)}, "", true
		case c == '[' && !l.inList:
			l.at++
			return l.listed(), "", true
		case strings.IndexByte(special, c) >= 0: // of a dictionary, or by mistake
			l.at++
			if c == ']' {
				return operand{}, "]", true
			}
		default:
			word := l.until(special)
			if strings.IndexByte("+-.0123456789", c) >= 0 {
				n, _ := strconv.ParseFloat(word, 64) // what is no number counts as 0
				return operand{n: n}, "", true
			}
			return operand{}, word, true
		}
	}
	return operand{}, "", false
}

// peek returns the byte behind the present one; 0 at the end.
func (l *lexer) peek() byte {
	if l.at+1 < len(l.data) {
		return l.data[l.at+1]
	}
	return 0
}

// until reads up to one of some characters, or the end.
func (l *lexer) until(stops string) string {
	n := bytes.IndexAny(l.data[l.at:], stops)
	if n < 0 {
		n = len(l.data) - l.at
	}
	word := string(l.data[l.at : l.at+n])
	l.at += n
	return word
}

// listed reads a list up to its end, or that of all. There are none within lists.
func (l *lexer) listed() operand {
	list := operand{kind: aList}
	l.inList = true
	defer func() { l.inList = false }()
	for {
		o, op, ok := l.next()
		switch {
		case !ok, op == "]":
			return list
		case op == "" && len(list.list) < maxListItems:
			list.list = append(list.list, o)
		}
	}
}

// literal reads a string in parentheses.
func (l *lexer) literal() string {
	var b strings.Builder
	depth := 0
	for ; l.at < len(l.data); l.at++ {
		c := l.data[l.at]
		switch {
		case c == '\\':
			l.escape(&b)
			continue
		// Parentheses in pairs need no backslash within a string (ISO 32000-1, 7.3.4.2).
		case c == '(':
			if depth++; depth == 1 {
				continue
			}
		case c == ')':
			if depth--; depth == 0 {
				l.at++
				return b.String()
			}
		}
		b.WriteByte(c)
	}
	return b.String()
}

// escape reads what is behind a backslash, and stops at its last character.
func (l *lexer) escape(b *strings.Builder) {
	c := l.peek()
	l.at++
	switch {
	case c >= '0' && c <= '7':
		n := 0
		for i := 0; i < 3 && l.at < len(l.data) && l.data[l.at] >= '0' && l.data[l.at] <= '7'; i++ {
			n = n<<3 | int(l.data[l.at]-'0')
			l.at++
		}
		l.at--
		b.WriteByte(byte(n))
	case c == '\r':
		if l.peek() == '\n' {
			l.at++
		}
	case c == '\n': // the line goes on
	default:
		if at := strings.IndexByte("nrtbf", c); at >= 0 {
			c = "\n\r\t\b\f"[at]
		}
		b.WriteByte(c)
	}
}

// skipImage passes over the bytes of a picture within a page.
func (l *lexer) skipImage() {
	for {
		n := bytes.Index(l.data[l.at:], []byte("EI"))
		if n < 0 {
			l.at = len(l.data)
			return
		}
		// The bytes of a picture may hold the letters EI, too. Only between blanks do they end it.
		before := l.at + n - 1
		l.at += n + 2
		if strings.IndexByte(blank, l.data[before]) >= 0 && (l.at == len(l.data) ||
			strings.IndexByte(blank, l.data[l.at]) >= 0) {
			return
		}
	}
}

// unescaped returns a name in which #20 stands for a blank.
func unescaped(name string) string {
	for at := strings.IndexByte(name, '#'); at >= 0 && at+2 < len(name); {
		if raw, err := hex.DecodeString(name[at+1 : at+3]); err == nil {
			name = name[:at] + string(raw) + name[at+3:]
		}
		next := strings.IndexByte(name[at+1:], '#')
		if next < 0 {
			break
		}
		at += 1 + next
	}
	return name
}
