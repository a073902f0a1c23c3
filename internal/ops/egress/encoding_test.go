package egress

import (
	"bytes"
	"compress/flate"
	"compress/zlib"
	"errors"
	"io"
	"net/http"
	"testing"
)

// deflated returns data in the form of zlib, or without its header.
func deflated(t *testing.T, data []byte, hasHeader bool) []byte {
	t.Helper()
	var b bytes.Buffer
	var w io.WriteCloser = zlib.NewWriter(&b)
	if !hasHeader {
		w, _ = flate.NewWriter(&b, flate.BestCompression) // a level that there is
	}
	if _, err := w.Write(data); err != nil {
		t.Error(err)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	return b.Bytes()
}

func TestGet_ContentEncodingIsWrong_TheBytesDecide(t *testing.T) {
	page := []byte("<?xml version=\"1.0\"?><rss>" + string(bytes.Repeat([]byte("words "), 2000)) + "</rss>")
	for name, c := range map[string]struct {
		label string
		body  []byte
		fails bool
	}{
		"deflate":                        {"deflate", deflated(t, page, true), false},
		"deflate without a header":       {"deflate", deflated(t, page, false), false},
		"deflate that is gzip":           {"deflate", gzipped(t, page), false},
		"gzip that is none":              {"gzip", page, false},
		"brotli that is none":            {"br", page, false},
		"brotli that is gzip":            {"BR", gzipped(t, page), false},
		"gzip without a label":           {"", gzipped(t, page), false},
		"gzip called identity":           {"identity", gzipped(t, page), false},
		"no encoding":                    {"", page, false},
		"a character set":                {"utf-8", page, false},
		"a byte order mark":              {"utf-8", append([]byte("\xef\xbb\xbf"), page...), false},
		"brotli":                         {"br", []byte{0x0b, 0x02, 0x80, 'x', 0x03}, true},
		"gzip that is neither":           {"gzip", []byte("plain words"), true},
		"deflate that is cut":            {"deflate", deflated(t, page, true)[:40], true},
		"deflate that is cut, no header": {"deflate", deflated(t, page, false)[:20], true},
	} {
		server := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", c.label)
			_, _ = w.Write(c.body)
		})
		client := newClient(t, Options{AllowPrivateHosts: []string{hostPort(server)}})
		res, err := client.Get(t.Context(), server.URL, GetOptions{})
		if c.fails {
			if err == nil {
				t.Errorf("%s: read %q", name, res.Body)
			}
			continue
		}
		if err != nil || !bytes.Equal(bytes.TrimPrefix(res.Body, []byte("\xef\xbb\xbf")), page) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestGet_DeflateBomb_StopsAtTheLimit(t *testing.T) {
	server := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "deflate")
		_, _ = w.Write(deflated(t, bytes.Repeat([]byte{0}, 16<<20), true))
	})
	client := newClient(t, Options{AllowPrivateHosts: []string{hostPort(server)}})
	if _, err := client.Get(t.Context(), server.URL, GetOptions{MaxBytes: 1 << 20}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("error %v, want ErrTooLarge", err)
	}
}
