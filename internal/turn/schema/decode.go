package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

const (
	maxDepth = 512
	// maxDigits and maxExponent limit the cost of exact arithmetic on numbers.
	maxDigits   = 400
	maxExponent = 400
)

// read decodes one JSON value, with numbers as they are written. It refuses what decoders treat differently: duplicate
// keys and text after the value.
func read(data []byte) (any, error) {
	if err := scan(data); err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var value any
	if err := d.Decode(&value); err != nil {
		return nil, fmt.Errorf("not valid JSON: %w", err)
	}
	return value, nil
}

// level is an object or array that is being scanned.
type level struct {
	keys map[string]bool // nil: an array
	next bool            // a value comes next
}

// scan reads data without recursion, so that deep nesting needs no stack.
func scan(data []byte) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var levels []level
	for values := 0; ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) && len(levels) == 0 && values == 1 {
			return nil
		}
		if err != nil {
			return fmt.Errorf("not valid JSON: %w", unexpected(err))
		}
		if len(levels) == 0 {
			values++
		}
		if values > 1 {
			return errors.New("not valid JSON: there is text after the value")
		}
		if levels, err = step(levels, token); err != nil {
			return err
		}
	}
}

// unexpected returns an error as it is, but for the end of the text in the middle of a value.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// step returns the open objects and lists after a token. It fails for a key that is there twice, and for values nested
// deeper than maxDepth.
func step(levels []level, token json.Token) ([]level, error) {
	top := len(levels) - 1
	switch t := token.(type) {
	case json.Delim:
		switch t {
		case '{', '[':
			if len(levels) == maxDepth {
				return nil, fmt.Errorf("the value is nested more than %d levels deep", maxDepth)
			}
			inner := level{}
			if t == '{' {
				inner.keys = map[string]bool{}
			}
			return append(levels, inner), nil
		}
		levels = levels[:top]
	case string:
		if top >= 0 && levels[top].keys != nil && !levels[top].next {
			if levels[top].keys[t] {
				return nil, fmt.Errorf("the key %q is given twice", shorten(t))
			}
			levels[top].keys[t], levels[top].next = true, true
			return levels, nil
		}
	case json.Number:
		if err := checkNumber(t.String()); err != nil {
			return nil, err
		}
	}
	if top = len(levels) - 1; top >= 0 {
		levels[top].next = false
	}
	return levels, nil
}

// checkNumber refuses numbers that would be expensive to calculate with.
func checkNumber(number string) error {
	digits, exponent, _ := strings.Cut(strings.ToLower(number), "e")
	e := 0
	if exponent != "" {
		var err error
		if e, err = strconv.Atoi(exponent); err != nil {
			e = maxExponent + 1
		}
	}
	if len(digits) > maxDigits || e > maxExponent || e < -maxExponent {
		return fmt.Errorf("the number %s is too large or too exact", shorten(number))
	}
	return nil
}
