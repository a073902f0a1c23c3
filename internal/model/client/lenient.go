package client

import (
	"encoding/json"
	"strconv"
	"strings"
)

// Count is a number for counting and comparing. Endpoints send 10, 10.0 or "10"; anything else is 0.
type Count int

// UnmarshalJSON never fails.
func (c *Count) UnmarshalJSON(raw []byte) error {
	*c = 0
	if n, err := strconv.ParseFloat(strings.Trim(string(raw), `" `), 64); err == nil && n > -1e15 && n < 1e15 {
		*c = Count(n)
	}
	return nil
}

// Word is a text for comparing and repeating, such as an id. A number becomes its text, any other type "".
type Word string

// UnmarshalJSON never fails.
func (w *Word) UnmarshalJSON(raw []byte) error {
	*w = ""
	var n json.Number
	if json.Unmarshal(raw, (*string)(w)) != nil && json.Unmarshal(raw, &n) == nil {
		*w = Word(n)
	}
	return nil
}

// Maybe is a value that may be missing. A value of another type counts as missing.
type Maybe[T any] struct {
	V  T
	Ok bool
}

// UnmarshalJSON never fails.
func (m *Maybe[T]) UnmarshalJSON(raw []byte) error {
	var v T
	m.Ok = string(raw) != "null" && json.Unmarshal(raw, &v) == nil
	m.V = v
	return nil
}

// Arguments returns the arguments of a call as JSON. An empty text becomes {}. Text that is not JSON becomes a JSON
// string, which can be stored and shown to the model.
func Arguments(text string) json.RawMessage {
	switch {
	case strings.TrimSpace(text) == "":
		return json.RawMessage("{}")
	case json.Valid([]byte(text)):
		return json.RawMessage(text)
	}
	quoted, _ := json.Marshal(text) // a string can always be written
	return quoted
}
