package egress

import (
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"strings"
)

// decode returns the body of an answer without its content encoding, limited to limit bytes where it is compressed.
// Some servers name an encoding that the body does not have, a character set in its place, or none for a file that is
// stored compressed; the first bytes decide. deflate is not asked for, but some servers send nothing else.
func decode(wire io.Reader, label string, limit int64) (io.Reader, error) {
	label = strings.ToLower(strings.TrimSpace(label))
	body := bufio.NewReader(wire)
	head, err := body.Peek(2)
	if errors.Is(err, io.EOF) { // one byte, or none as with 304
		return body, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read body: %w", err)
	}
	var plain io.Reader
	switch isDeflate := label == "deflate"; {
	case head[0] == 0x1f && head[1] == 0x8b:
		plain, err = gzip.NewReader(body)
	case label == "" || label == "identity" || startsText(body):
		return body, nil
	// By RFC 9110, 8.4.1.2, deflate has the header of zlib (RFC 1950), which some servers leave out.
	case isDeflate && head[0]&0x0f == 8 && (int(head[0])<<8|int(head[1]))%31 == 0:
		plain, err = zlib.NewReader(body)
	case isDeflate:
		plain = flate.NewReader(body)
	default:
		return nil, fmt.Errorf("the server sent content encoding %q, which was not requested", label)
	}
	if err != nil {
		return nil, fmt.Errorf("read body of encoding %q: %w", label, err)
	}
	return &cappedReader{r: plain, left: limit, limit: limit}, nil
}

// startsText reports whether a body begins as XML, HTML, JSON or a text with a byte order mark does.
func startsText(body *bufio.Reader) bool {
	head, _ := body.Peek(64) // fewer where the body is shorter
	for _, mark := range []string{"\xef\xbb\xbf", "\xfe\xff", "\xff\xfe"} {
		if bytes.HasPrefix(head, []byte(mark)) {
			return true
		}
	}
	head = bytes.TrimSpace(head)
	return len(head) > 0 && strings.IndexByte("<{[", head[0]) >= 0
}
