package audit

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"ravenbot/internal/store"
)

// maxLine is the longest line of an export, in bytes.
const maxLine = 1 << 20

// computeHash returns the SHA-256 of the entry's JSON without its hash, in hex. Keys are in the order of Entry,
// there is no white space, and only the characters that JSON demands are escaped.
func (e Entry) computeHash() string {
	e.Hash = ""
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(e); err != nil {
		panic(fmt.Errorf("write an audit entry as JSON: %w", err)) // texts, a number and a valid time
	}
	sum := sha256.Sum256(bytes.TrimSuffix(b.Bytes(), []byte("\n")))
	return hex.EncodeToString(sum[:])
}

// Report is what Verify found.
type Report struct {
	Entries int    `json:"entries"`           // that are in order
	First   uint64 `json:"first,omitempty"`   // number of the first of them
	Before  uint64 `json:"before,omitempty"`  // how many came before the first, and are not among them
	Head    Link   `json:"head"`              // the newest of them
	Problem string `json:"problem,omitempty"` // the first that is wrong; empty: none
}

// errFault is the first fault of a chain.
type errFault string

func (e errFault) Error() string { return string(e) }

// chain checks entries one after another.
type chain struct {
	report  Report
	anchor  Link // has to be one of the entries; zero: none has to
	started bool
}

// ParseLink reads a Link that is written as SEQ:HASH. An empty text is the zero Link. The error says what is wanted.
func ParseLink(s string) (Link, error) {
	if s == "" {
		return Link{}, nil
	}
	number, hash, _ := strings.Cut(s, ":")
	seq, err := strconv.ParseUint(number, 10, 64)
	if raw, hexErr := hex.DecodeString(hash); err != nil || hexErr != nil || len(raw) != sha256.Size {
		return Link{}, fmt.Errorf(
			"%q is not an entry's number and hash: want SEQ:HASH as in the log line \"newest audit entry\"",
			s,
		)
	}
	return Link{Seq: seq, Hash: hash}, nil
}

// follow checks the next entry against the one before it. The error is an errFault, in words for the operator; the
// report then ends before the entry.
func (c *chain) follow(e Entry) error {
	want := c.report.Head.Seq + 1
	switch {
	case !c.started:
	case e.Seq > want+1:
		return errFault(fmt.Sprintf("entries %d to %d were removed", want, e.Seq-1))
	case e.Seq > want:
		return errFault(fmt.Sprintf("entry %d was removed", want))
	case e.Seq < want:
		return errFault(fmt.Sprintf("entry %d was added, or moved behind entry %d", e.Seq, c.report.Head.Seq))
	}
	if e.Hash != e.computeHash() || e.ID != formatID(e.Seq) {
		return errFault(fmt.Sprintf("entry %d was changed", e.Seq))
	}
	if c.started && e.Prev != c.report.Head.Hash {
		if c.report.Entries == 0 {
			return errFault(fmt.Sprintf("entry %d was replaced: it does not follow what came before", e.Seq))
		}
		return errFault(fmt.Sprintf("entry %d was replaced: entry %d follows another one", e.Seq-1, e.Seq))
	}
	if e.Seq == c.anchor.Seq && e.Hash != c.anchor.Hash {
		return errFault(fmt.Sprintf("entry %d has another hash than the one named: the chain was made again", e.Seq))
	}
	if c.report.Entries == 0 {
		c.report.First = e.Seq
		// A chain may begin behind entries that have no hash.
		if e.Prev != "" {
			c.report.Before = e.Seq - 1
		}
	}
	c.started = true
	c.report.Entries++
	c.report.Head = e.link()
	return nil
}

// end returns the report, with the fault of an anchor that is not among the entries.
func (c *chain) end() Report {
	if at := c.anchor.Seq; c.report.Problem == "" && at > 0 {
		switch {
		case at > c.report.Head.Seq:
			c.report.Problem = fmt.Sprintf("the entries behind %d were removed", c.report.Head.Seq)
		case at < c.report.First:
			c.report.Problem = fmt.Sprintf("entry %d is older than the first of these, which is %d", at, c.report.First)
		}
	}
	return c.report
}

// Verify reads the stored entries again and checks their chain. Unless anchor is zero, it has to be one of them. What
// is wrong stands in Report.Problem; the error is that of reading. Nothing is recorded while it reads.
func (l *Log) Verify(ctx context.Context, anchor Link) (Report, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	list, base, err := readAtRest(ctx, l.store)
	if err != nil {
		return Report{}, err
	}
	c := chain{report: Report{Head: base}, anchor: anchor, started: true}
	for _, e := range list {
		// What is older than the base waits to be deleted, or is from before the chain.
		if e.Seq <= base.Seq {
			continue
		}
		err := c.follow(e)
		if err == nil && e.Seq == l.head.Seq && e.Hash != l.head.Hash {
			err = errFault(fmt.Sprintf("entry %d was replaced", e.Seq))
		}
		if err != nil {
			c.report.Problem = err.Error()
			return c.report, nil
		}
	}
	switch {
	case base != l.base && !l.wasMovedByOthers(base, c.report.Entries):
		c.report.Problem = "entries up to " + fmt.Sprint(base.Seq) + " were removed"
	// What is behind the newest entry that is known here, other processes have stored.
	case c.report.Head.Seq < l.head.Seq:
		c.report.Problem = fmt.Sprintf("the entries behind %d were removed", c.report.Head.Seq)
	}
	return c.end(), nil
}

// wasMovedByOthers reports whether another process can have moved the base: it does so only where too many entries are
// kept, and the base is one of the entries.
func (l *Log) wasMovedByOthers(base Link, kept int) bool {
	return kept >= MaxEntries && l.find(base) >= 0
}

// readAtRest is read while no other process moves the base.
func readAtRest(ctx context.Context, store store.Items) ([]Entry, Link, error) {
	for range maxTries {
		list, base, err := read(ctx, store)
		if err != nil {
			return nil, base, err
		}
		now, _, err := readBase(ctx, store)
		if err != nil || now == base {
			return list, base, err
		}
	}
	return nil, Link{}, errors.New("read the audit: other processes change it all the time")
}

// Export records that it was made, and writes all entries with a hash as JSON lines, oldest first. The last one is the
// export itself, by which a file that lost its end is known. It fails when the record cannot be stored, and then writes
// nothing, or when w does.
func (l *Log) Export(ctx context.Context, w io.Writer) error {
	l.mu.Lock()
	err := l.storeWaiting(ctx)
	if err == nil {
		err = l.add(ctx, l.complete(ctx, Entry{Action: ActionExport, Target: "audit"}))
	}
	// Under the same lock, so that the export is the last entry, by which VerifyExport knows the end.
	list := slices.Clone(l.list)
	l.mu.Unlock()
	if err != nil {
		return fmt.Errorf("export the audit: record the export: %w", err)
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	for _, e := range list {
		if e.Hash == "" {
			continue
		}
		if err := enc.Encode(e); err != nil {
			return err
		}
	}
	return nil
}

// VerifyExport checks the entries of an export. Unless anchor is zero, it has to be one of them. The error is that of
// reading.
func VerifyExport(r io.Reader, anchor Link) (Report, error) {
	c := chain{anchor: anchor}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	last := ""
	for n := 1; lines.Scan(); n++ {
		var e Entry
		dec := json.NewDecoder(bytes.NewReader(lines.Bytes()))
		dec.DisallowUnknownFields()
		err := dec.Decode(&e)
		if err == nil {
			err = c.follow(e)
		} else {
			err = errFault(fmt.Sprintf("line %d is not an audit entry: it was changed or added", n))
		}
		if err != nil {
			c.report.Problem = err.Error()
			return c.report, nil
		}
		last = e.Action
	}
	if err := lines.Err(); err != nil {
		return c.report, fmt.Errorf("read the export: %w", err)
	}
	switch {
	case c.report.Entries == 0:
		c.report.Problem = "the file has no entry"
	case last != ActionExport:
		c.report.Problem = fmt.Sprintf("the entries behind %d were removed: the last one of an export is the export itself",
			c.report.Head.Seq)
	// The bot deletes none of the newest MaxEntries, and an export has them all.
	case c.report.Before > 0 && c.report.Entries < MaxEntries:
		c.report.Problem = fmt.Sprintf("the entries before %d were removed: an export begins with the first entry, or has "+
			"the newest %d", c.report.First, MaxEntries)
	}
	return c.end(), nil
}
