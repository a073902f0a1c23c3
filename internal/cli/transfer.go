package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/ops/admin"
	"ravenbot/internal/ops/transfer"
)

func exportFlags(c *invocation) {
	overwriteFlag(c)
	c.flags.String("conversation", "", "export only one channel or thread, by its `ADDRESS`")
}

// exportStore writes what is kept to a file, which must not exist without --overwrite, or with - to standard output, as
// JSON lines. Where records cannot be decrypted the others are exported all the same, and the error names the missing
// ones.
func exportStore(ctx context.Context, c *invocation) error {
	path := "/api/v1/export"
	if written := c.flagText("conversation"); written != "" {
		if _, err := chat.ParseAddress(written); err != nil {
			return usageErrorf("--conversation: %v", err)
		}
		path += "?" + url.Values{"conversation": {written}}.Encode()
	}
	// Before the bot begins to send, which would log that nobody reads.
	cfg, err := c.checkOutput(c.args[0])
	if err != nil {
		return err
	}
	d, release, err := c.apiOf(ctx, cfg)
	if err != nil {
		return err
	}
	res, err := d.do(ctx, http.MethodGet, path, nil)
	if err == nil {
		if err = c.writeOutput(c.args[0], exportBody{res.Body}); err == nil {
			err = checkMissing(c.args[0], res.Header)
		}
		err = errors.Join(err, res.Body.Close())
	}
	return errors.Join(err, release())
}

// exportBody says of an answer that ends too early what that means.
type exportBody struct{ io.Reader }

// Read returns the end of a whole answer as it is.
func (b exportBody) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = fmt.Errorf("the export was cut off (%w): the bot's log has the reason; export again", err)
	}
	return n, err
}

// checkMissing returns an error that names the records which an export lacks, or nil.
func checkMissing(file string, h http.Header) error {
	listed := h.Get(admin.MissingHeader)
	if listed == "" {
		return nil
	}
	var records []string
	if err := json.Unmarshal([]byte(listed), &records); err != nil {
		return fmt.Errorf("read which records the export lacks: %w", err)
	}
	named := strings.Join(records[:min(len(records), maxNamed)], ", ")
	if more := len(records) - maxNamed; more > 0 {
		named += fmt.Sprintf(" and %d more", more)
	}
	return fmt.Errorf("%s lacks records that cannot be decrypted (%d): %s. "+
		"Restore the key that they were stored with (storeKey, or the file beside the store), or add them again", file,
		len(records), named)
}

// maxNamed is how many missing records are named.
const maxNamed = 20

// importBatch is how many bytes of a file are sent at once, with what the last line has beyond them, and importLines how
// many lines.
const (
	importBatch = 4 << 20
	importLines = 2000
)

// importStore adds the records of a file, or with - of standard input, that are not there. It goes on after a line that
// cannot be imported, prints those at the end and returns an error. Because records that are there are skipped, an
// import that was cut off can be repeated.
func importStore(ctx context.Context, c *invocation) error {
	records := c.In
	if c.args[0] != "-" {
		f, err := os.Open(c.args[0])
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }() // it was only read
		records = f
	}
	d, release, err := c.api(ctx)
	if err != nil {
		return err
	}
	return errors.Join(importRecords(ctx, c, d, records), release())
}

// withoutMark returns what r holds behind the byte order mark that some editors put first.
func withoutMark(r io.Reader) io.Reader {
	in := bufio.NewReader(r)
	if first, err := in.Peek(3); err == nil && string(first) == "\uFEFF" {
		_, _ = in.Discard(3) // they were read
	}
	return in
}

// importRecords sends records to a daemon and prints what was added, also where it fails in the middle: the batches
// before are there then.
func importRecords(ctx context.Context, c *invocation, d *client, records io.Reader) error {
	total := transfer.Result{Added: map[string]int{}}
	refuse := func(line int) {
		fault := fmt.Sprintf("the line is longer than %d bytes", transfer.MaxLine)
		total.Errors = append(total.Errors, transfer.LineError{Line: line, Error: fault})
	}
	err := sendLines(ctx, withoutMark(records), refuse, func(batch []byte, first int) error {
		var r transfer.Result
		path := "/api/v1/import?line=" + strconv.Itoa(first)
		res, err := d.send(ctx, http.MethodPost, path, "application/x-ndjson", bytes.NewReader(batch))
		if lost, ok := errors.AsType[*url.Error](err); ok && ctx.Err() == nil {
			return fmt.Errorf("the daemon is gone (%w): import the file again when it runs; records that are there are skipped",
				lost.Err)
		}
		if err != nil {
			return err
		}
		err = json.NewDecoder(io.LimitReader(res.Body, maxAnswer)).Decode(&r)
		total.Skipped += r.Skipped
		total.Expired += r.Expired
		total.Errors = append(total.Errors, r.Errors...)
		for kind, n := range r.Added {
			total.Added[kind] += n
		}
		return errors.Join(err, res.Body.Close())
	})
	var parts []string
	for _, kind := range slices.Sorted(maps.Keys(total.Added)) {
		parts = append(parts, fmt.Sprintf("%s %d", kind, total.Added[kind]))
	}
	if len(parts) == 0 {
		parts = []string{"nothing"}
	}
	fmt.Fprintf(c.Out, "added: %s; %d were there already\n", strings.Join(parts, ", "), total.Skipped)
	if total.Expired > 0 {
		fmt.Fprintf(c.Out, "%d messages are older than `retention` in config.json keeps them, and were left out\n", total.Expired)
	}
	for _, e := range total.Errors {
		fmt.Fprintf(c.Err, "%s:%d: %s\n", c.args[0], e.Line, e.Error)
	}
	if len(total.Errors) > 0 {
		err = errors.Join(err, fmt.Errorf("%d lines were not imported", len(total.Errors)))
	}
	return err
}

// sendLines calls send with whole lines of a file, as many as one request takes, and the number of the first, from 1.
// For a line of more than transfer.MaxLine bytes it calls refuse with its number, and sends an empty one, so that the
// numbers of the others stay right. It ends at the first error of send.
func sendLines(ctx context.Context, r io.Reader, refuse func(line int), send func(batch []byte, first int) error) error {
	in := bufio.NewReaderSize(interruptibleReader{ctx, r}, 64<<10)
	var batch []byte
	for first, n := 1, 0; ; {
		began := len(batch)
		var isWhole bool
		var err error
		batch, isWhole, err = appendLine(batch, in)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if !isWhole {
			batch = append(batch[:began], '\n')
			refuse(first + n)
		}
		n++
		if err != nil || n == importLines || len(batch) > importBatch {
			if sendErr := send(batch, first); sendErr != nil || err != nil {
				return sendErr
			}
			first, n, batch = first+n, 0, nil
		}
	}
}

// appendLine appends the next line to batch. isWhole is false where it has more than transfer.MaxLine bytes: the rest of
// it is read, but not kept. The error is that of in.
func appendLine(batch []byte, in *bufio.Reader) (longer []byte, isWhole bool, err error) {
	began := len(batch)
	for isWhole = true; ; {
		piece, err := in.ReadSlice('\n')
		if isWhole = isWhole && len(batch)-began+len(piece) <= transfer.MaxLine; isWhole {
			batch = append(batch, piece...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return batch, isWhole, err
		}
	}
}
