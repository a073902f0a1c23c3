package cli

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
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
