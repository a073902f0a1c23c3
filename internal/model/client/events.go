package client

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"iter"
)

// Done is the data of the last event in OpenAI's API.
const Done = "[DONE]"

// Events returns the JSON values of an answer in order. They are the data of server-sent events, or plain JSON values,
// one after another or in a list, because some endpoints ignore the request for events. Done and events that are not
// JSON are returned unchanged. The sequence ends after the first error: a read error, or io.ErrUnexpectedEOF if the
// answer is cut.
//
// Lines may end in LF, CR LF or CR, and a byte order mark may come first (WHATWG HTML, 9.2.5). Some endpoints omit the
// empty line between events, or send spaces first.
func Events(body io.Reader) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		lines := bufio.NewScanner(body)
		lines.Buffer(make([]byte, 0, 4<<10), MaxAnswerBytes) // one event may hold a whole answer
		lines.Split(splitLines())
		r := eventReader{yield: yield}
		for lines.Scan() {
			if !r.readLine(bytes.TrimPrefix(lines.Bytes(), []byte("\ufeff"))) {
				return
			}
		}
		switch err := lines.Err(); {
		case err != nil: // more precise than the error of a cut event
			yield(nil, err)
		case !r.isWhole() && len(r.event) > 0:
			yield(nil, io.ErrUnexpectedEOF)
		case r.send():
			r.readValues(r.plain)
		}
	}
}

type eventReader struct {
	yield func([]byte, error) bool
	event []byte // the data of the current event
	plain []byte // lines of JSON outside of events
}

// readLine reads a line. It returns false if the caller has left.
func (r *eventReader) readLine(line []byte) bool {
	data, isData := bytes.CutPrefix(line, []byte("data:"))
	text := bytes.TrimLeft(line, " \t")
	isPlain := bytes.HasPrefix(text, []byte("{")) || bytes.HasPrefix(text, []byte("["))
	switch {
	case isPlain && len(r.plain) == 0 && json.Valid(text): // the connection may stay open after it
		return r.readValues(text)
	// Google ends a failed stream with the JSON of the error, perhaps in several lines and not as an event
	// (googleapis/js-genai, src/_api_client.ts, seen 2026-11).
	case isPlain || len(r.plain) > 0:
		r.plain = append(append(r.plain, line...), '\n')
	case isData:
		if r.isWhole() && !r.send() {
			return false
		}
		r.event = append(r.event, bytes.TrimSpace(data)...)
	case len(line) == 0: // all other lines are comments and names of events
		return r.send()
	}
	return true
}

func (r *eventReader) isWhole() bool { return string(r.event) == Done || json.Valid(r.event) }

// send returns the current event, if there is one, to the caller. It returns false if the caller has left.
func (r *eventReader) send() bool {
	event := r.event
	r.event = nil
	return len(event) == 0 || r.yield(event, nil)
}

// readValues returns JSON values, or the elements of one list, to the caller. It returns false if the caller has left.
func (r *eventReader) readValues(text []byte) bool {
	values := json.NewDecoder(bytes.NewReader(text))
	for {
		var value json.RawMessage
		if err := values.Decode(&value); err != nil {
			if err != io.EOF {
				r.yield(nil, err)
			}
			return err == io.EOF
		}
		list := []json.RawMessage{value}
		if value[0] == '[' {
			_ = json.Unmarshal(value, &list) // cannot fail: it was decoded
		}
		for _, v := range list {
			if !r.yield(v, nil) {
				return false
			}
		}
	}
}

// splitLines returns a split function for lines that end in LF, CR LF or CR. It does not wait for the byte after a CR.
func splitLines() bufio.SplitFunc {
	endedInCR := false
	return func(data []byte, atEOF bool) (advance int, line []byte, err error) {
		if endedInCR && len(data) > 0 && data[0] == '\n' {
			advance, data = 1, data[1:]
		}
		i := bytes.IndexAny(data, "\r\n")
		switch {
		case i >= 0:
			endedInCR = data[i] == '\r'
			return advance + i + 1, data[:i], nil
		case !atEOF || len(data) == 0:
			return 0, nil, nil
		}
		return advance + len(data), data, nil
	}
}
