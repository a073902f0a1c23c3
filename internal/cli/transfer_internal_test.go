package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/spf13/pflag"

	"ravenbot/internal/ops/transfer"
)

// What was added before a request failed is there, and said.
func TestImportRecords_LaterBatchFails_SaysWhatWasAdded(t *testing.T) {
	batches := 0
	daemon := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if batches++; batches > 1 {
			w.WriteHeader(http.StatusInternalServerError)
			fmt.Fprint(w, `{"error":{"message":"the disk is full"}}`)
			return
		}
		fmt.Fprint(w, `{"added":{"memory":1998},"skipped":1,"errors":[{"line":7,"error":"no record"}]}`)
	}))
	defer daemon.Close()
	var out, faults bytes.Buffer
	c := &invocation{World: World{Out: &out, Err: &faults}, args: []string{"records"}}
	err := importRecords(t.Context(), c, &client{daemon.URL, "admin", daemon.Client()},
		strings.NewReader(strings.Repeat("{}\n", importLines+1)))
	if err == nil || !strings.Contains(err.Error(), "the disk is full") ||
		!strings.Contains(err.Error(), "1 lines were not imported") {
		t.Errorf("the error is %v", err)
	}
	if got := out.String(); got != "added: memory 1998; 1 were there already\n" {
		t.Errorf("printed %q", got)
	}
	if got := faults.String(); got != "records:7: no record\n" {
		t.Errorf("printed the faults %q", got)
	}
}

// A line that is too long keeps no other from being imported, whether it is before or behind it.
func TestImportRecords_LineTooLong_IsNamedAndTheOthersAreSent(t *testing.T) {
	var sent []string
	daemon := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		sent = append(sent, r.URL.Query().Get("line")+":"+string(body))
		fmt.Fprint(w, `{"added":{"memory":1}}`)
	}))
	defer daemon.Close()
	var out, faults bytes.Buffer
	c := &invocation{World: World{Out: &out, Err: &faults}, args: []string{"records"}}
	long := strings.Repeat("x", transfer.MaxLine+1)
	err := importRecords(t.Context(), c, &client{daemon.URL, "admin", daemon.Client()},
		strings.NewReader("{}\n"+long+"\n{}\n"+long))
	if err == nil || err.Error() != "2 lines were not imported" {
		t.Errorf("the error is %v", err)
	}
	if len(sent) != 1 || sent[0] != "1:{}\n\n{}\n\n" {
		t.Errorf("sent %.200q", sent)
	}
	if got := faults.String(); !strings.HasPrefix(got, "records:2: the line is longer") || !strings.Contains(got, "records:4: ") {
		t.Errorf("printed the faults %q", got)
	}
}

// A file that came to be there while the export was under way stays, and nothing is left beside it.
func TestWriteOutput_NameTakenMeanwhile_KeepsTheFile(t *testing.T) {
	folder := t.TempDir()
	file := filepath.Join(folder, "kept.jsonl")
	if err := os.WriteFile(file, []byte("of somebody else"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := &invocation{flags: pflag.NewFlagSet("", pflag.ContinueOnError)}
	overwriteFlag(c)
	if err := c.writeOutput(file, strings.NewReader("{}")); !errors.Is(err, fs.ErrExist) {
		t.Errorf("the error is %v, want one that the file exists", err)
	}
	if text, err := os.ReadFile(file); string(text) != "of somebody else" {
		t.Errorf("the file holds %q (%v)", text, err)
	}
	if list, err := os.ReadDir(folder); len(list) != 1 {
		t.Errorf("the folder holds %v (%v), want the file alone", list, err)
	}
}

// A stream that breaks off leaves neither the file nor a part of it.
func TestWriteOutput_StreamBreaksOff_LeavesNothing(t *testing.T) {
	folder := t.TempDir()
	c := &invocation{flags: pflag.NewFlagSet("", pflag.ContinueOnError)}
	overwriteFlag(c)
	cutOff := io.MultiReader(strings.NewReader("{}"), iotest.ErrReader(io.ErrUnexpectedEOF))
	if err := c.writeOutput(filepath.Join(folder, "new.jsonl"), cutOff); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("the error is %v, want that of the stream", err)
	}
	if list, err := os.ReadDir(folder); len(list) != 0 {
		t.Errorf("the folder holds %v (%v), want nothing", list, err)
	}
}
