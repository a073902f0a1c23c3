package client

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"iter"
)

// Done is the data of the event that ends an answer of OpenAI's API.
const Done = "[DONE]"

// Events returns the JSON values of an answer in order. They are the data of server-sent events; endpoints that ignore
// the request for events send plain JSON values, one after another or in a list. Done is returned as it is. The
// sequence ends after the first error: a read error, or io.ErrUnexpectedEOF if the answer is cut.
//
// Lines may end in LF, CR LF or CR, and a byte order mark may come first (WHATWG HTML, 9.2.5). Some endpoints leave out
// the empty line between events, or send spaces first to keep the connection alive.
func Events(body io.Reader) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		in := bufio.NewReaderSize(body, 4<<10)
		first, err := in.Peek(3)
		if bytes.Equal(first, []byte("\ufeff")) {
			_, _ = in.Discard(3)
		}
		if err == nil || err == io.EOF {
			first, err = in.Peek(1)
		}
		for ; err == nil && bytes.ContainsAny(first, " \r\n\t"); first, err = in.Peek(1) {
			_, _ = in.Discard(1)
		}
		switch {
		case err == io.EOF: // an empty answer has no events
		case err != nil:
			yield(nil, err)
		case first[0] == '{' || first[0] == '[':
			readValues(in, yield)
		default:
			r := eventReader{yield: yield}
			r.read(in)
		}
	}
}

// readValues reads JSON values that follow one another, or one list of them.
func readValues(in io.Reader, yield func([]byte, error) bool) {
	values := json.NewDecoder(in)
	var value json.RawMessage
	for {
		err := values.Decode(&value)
		switch {
		case err == io.EOF:
			return
		case err != nil:
			yield(nil, err)
			return
		}
		list := []json.RawMessage{value}
		if value[0] == '[' {
			_ = json.Unmarshal(value, &list) // cannot fail: it was decoded
		}
		for _, v := range list {
			if !yield(bytes.Clone(v), nil) {
				return
			}
		}
	}
}

// eventReader reads server-sent events.
type eventReader struct {
	yield func([]byte, error) bool
	event []byte // the data of the event that is being read
	lines int    // of data in event
	stray []byte // lines of JSON outside of events
}

// read reads events to their end.
func (r *eventReader) read(in io.Reader) {
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 0, 4<<10), MaxAnswerBytes) // one event may hold a whole answer
	lines.Split(splitLines())
	for lines.Scan() {
		if !r.readLine(lines.Bytes()) {
			return
		}
	}
	if err := lines.Err(); err != nil { // more precise than the error of a cut event
		r.yield(nil, err)
		return
	}
	if !r.isWhole() && len(r.event) > 0 {
		r.yield(nil, io.ErrUnexpectedEOF)
		return
	}
	if r.send() && len(r.stray) > 0 {
		readValues(bytes.NewReader(r.stray), r.yield)
	}
}

// readLine reads a line. It returns false if the caller wants no more.
func (r *eventReader) readLine(line []byte) bool {
	data, isData := bytes.CutPrefix(line, []byte("data:"))
	switch {
	// Google ends a stream that fails with the JSON of the error, perhaps in several lines and not as an event: its SDK
	// for JavaScript reads it there (googleapis/js-genai, src/_api_client.ts, seen 2026-11).
	case len(r.stray) > 0 || !isData && len(line) > 0 && (line[0] == '{' || line[0] == '['):
		r.stray = append(append(r.stray, line...), '\n')
	case isData:
		if r.lines > 0 && r.isWhole() && !r.send() {
			return false
		}
		r.event = append(r.event, bytes.TrimSpace(data)...)
		r.lines++
	case len(line) == 0: // all other lines are comments and names of events
		return r.send()
	}
	return true
}

// isWhole reports whether the current event is complete.
func (r *eventReader) isWhole() bool { return string(r.event) == Done || json.Valid(r.event) }

// send passes on the current event, if there is one. It returns false if the caller wants no more.
func (r *eventReader) send() bool {
	event := r.event
	r.event, r.lines = nil, 0
	return len(event) == 0 || r.yield(event, nil)
}

// splitLines returns a split function for lines that end in LF, CR LF or CR.
func splitLines() bufio.SplitFunc {
	endedInCR := false // the data so far ended in CR: an LF that follows belongs to it
	return func(data []byte, atEOF bool) (advance int, token []byte, err error) {
		skipped := 0
		if endedInCR && len(data) > 0 {
			endedInCR = false
			if data[0] == '\n' {
				skipped, data = 1, data[1:]
			}
		}
		i := bytes.IndexAny(data, "\r\n")
		switch {
		case i < 0 && (!atEOF || len(data) == 0):
			return skipped, nil, nil
		case i < 0:
			return skipped + len(data), data, nil
		case data[i] == '\r' && i+1 == len(data):
			endedInCR = !atEOF
		case data[i] == '\r' && data[i+1] == '\n':
			return skipped + i + 2, data[:i], nil
		}
		return skipped + i + 1, data[:i], nil
	}
}
