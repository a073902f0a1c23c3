package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"ravenbot/adapters/slack"
	"ravenbot/internal/testing/pgtest"
	simdiscord "ravenbot/internal/testing/sim/discord"
	simmodel "ravenbot/internal/testing/sim/model"
	simslack "ravenbot/internal/testing/sim/slack"
)

// TestCommands plays the stories of testdata: each in a folder of its own, with
// no variable set but those that a script sets.
func TestCommands(t *testing.T) { playScripts(t, "testdata", nil) }

// TestCommands_WithADatabase plays the stories that need PostgreSQL.
func TestCommands_WithADatabase(t *testing.T) {
	playScripts(t, filepath.Join("testdata", "postgres"),
		map[string]string{"DATABASE": pgtest.Start(t), "OTHER": pgtest.Start(t)})
}

// playScripts plays the stories of a folder, which find some variables set.
func playScripts(t *testing.T, dir string, variables map[string]string) {
	schema, err := filepath.Abs("../../deploy/config.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 dir,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       *update,
		Setup: func(e *testscript.Env) error {
			e.Setenv("SCHEMA", schema)
			for name, value := range variables {
				e.Setenv(name, value)
			}
			e.Setenv("GORACE", "atexit_sleep_ms=0") // else every command of a binary with -race ends a second late
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits, "freeport": freePort, "waitready": waitReady, "terminate": terminate,
			"serve": serve, "model": model, "post": post, "field": field, "keys": keys, "platforms": platforms, "mode": mode,
			"fill": fill, "inmanual": inManual, "htmlsite": htmlSite, "waitanswer": waitAnswer,
		},
	})
}

func usage(ts *testscript.TestScript, neg, right bool, text string) {
	if neg || !right {
		ts.Fatalf("usage: %s", text)
	}
}

// exits runs a command that must end with a status within 30 seconds. The daemon
// waits one second for a store; the rest is for a machine that has much to do.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) > 1, "exits STATUS PROGRAM [ARGUMENT…]")
	began := time.Now()
	got := 0
	var exit *exec.ExitError
	if err := ts.Exec(args[1], args[2:]...); errors.As(err, &exit) {
		got = exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if strconv.Itoa(got) != args[0] {
		ts.Fatalf("it ended with status %d", got)
	}
	if took := time.Since(began); took > 30*time.Second {
		ts.Fatalf("it took %v", took)
	}
}

// freePort sets a variable to the number of a port that nobody listens on.
func freePort(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) == 1, "freeport VAR")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	_, port, err := net.SplitHostPort(l.Addr().String())
	ts.Check(cmp.Or(err, l.Close()))
	ts.Setenv(args[0], port)
}

// waitReady waits until an address answers with status 200.
func waitReady(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) == 1, "waitready URL")
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	ts.Check(untilReady(ctx, args[0]))
}

func untilReady(ctx context.Context, url string) error {
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		if res, err := http.DefaultClient.Do(req); err == nil {
			_ = res.Body.Close()
			if res.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-again.C:
		}
	}
}

// terminate sends SIGTERM to the background commands, as init systems do.
func terminate(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) == 0, "terminate")
	for _, c := range ts.BackgroundCmds() {
		ts.Check(c.Process.Signal(syscall.SIGTERM))
	}
}

// serve serves the folder of the script and sets a variable to its address.
func serve(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) == 1, "serve VAR")
	s := httptest.NewServer(http.FileServer(http.Dir(ts.MkAbs("."))))
	ts.Defer(s.Close)
	ts.Setenv(args[0], s.URL)
}

// htmlSite starts a web server that knows nothing but pages, and sets a variable to its address: GET finds none, and
// other methods are refused.
func htmlSite(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) == 1, "htmlsite VAR")
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		status := http.StatusNotImplemented
		switch {
		case r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, ".html"):
			status = http.StatusOK
		case r.Method == http.MethodGet:
			status = http.StatusNotFound
		}
		w.WriteHeader(status)
		fmt.Fprint(w, "<!DOCTYPE HTML>\n<html>\n<head><title>No such thing</title></head>\n<body><h1>Error</h1></body></html>\n")
	}))
	ts.Defer(s.Close)
	ts.Setenv(args[0], s.URL)
}

// model starts a language model that repeats all it was told by the user, or with
// a second word fails, and sets a variable to its address for OpenAI clients.
func model(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) == 1 || len(args) == 2 && args[1] == "broken", "model VAR [broken]")
	s, err := simmodel.New(simmodel.Options{Script: func(r simmodel.Request) simmodel.Reply {
		if len(args) == 2 {
			return simmodel.Reply{Status: http.StatusForbidden, Message: "UPSTREAM-WORDS"}
		}
		var said []string
		for _, m := range r.Messages {
			if m.Role == simmodel.RoleUser {
				// The words alone: who speaks and when differs from run to run.
				said = append(said, simmodel.Request{Messages: []simmodel.Message{m}}.Asked())
			}
		}
		return simmodel.Say("You said: " + strings.Join(said, " | "))
	}})
	ts.Check(err)
	ts.Defer(s.Close)
	ts.Setenv(args[0], s.OpenAIURL())
}

// platforms starts a Discord, a Slack and a model that take the tokens
// "token-CANARY", "xoxb-token", "xapp-token" and "key-CANARY", and sets variables to their addresses.
func platforms(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) == 4, "platforms DISCORD SLACK GEMINI OPENAI")
	d, err := simdiscord.New(simdiscord.Options{Token: "token-CANARY"})
	ts.Check(err)
	ts.Defer(d.Close)
	d.Grant(d.AddGuild("narrow").ID, 0)
	s, err := simslack.New(simslack.Options{Scopes: slack.Scopes()})
	ts.Check(err)
	ts.Defer(s.Close)
	m, err := simmodel.New(simmodel.Options{APIKey: "key-CANARY"})
	ts.Check(err)
	ts.Defer(m.Close)
	for i, address := range []string{d.URL(), s.APIURL(), m.GeminiURL(), m.OpenAIURL()} {
		ts.Setenv(args[i], address)
	}
}

// inManual wants each file of a folder to be named by the manual page.
func inManual(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) == 1, "inmanual DIR")
	found, err := os.ReadDir(ts.MkAbs(args[0]))
	ts.Check(err)
	for _, f := range found {
		name := path.Join(args[0], f.Name())
		if !slices.ContainsFunc(manualFiles, func(e entry) bool { return e.name == name }) {
			ts.Fatalf("the manual page does not name %s", name)
		}
	}
	if len(found) == 0 {
		ts.Fatalf("%s is empty", args[0])
	}
}

// fill replaces ${NAME} in a file by a variable of the script.
func fill(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) == 1, "fill FILE")
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(os.Expand(ts.ReadFile(args[0]), ts.Getenv)), 0o600))
}

// mode compares who may read and write a file.
func mode(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) == 2, "mode FILE OCTAL")
	info, err := os.Stat(ts.MkAbs(args[0]))
	ts.Check(err)
	if got := strconv.FormatUint(uint64(info.Mode().Perm()), 8); got != args[1] {
		ts.Fatalf("%s has the mode %s", args[0], got)
	}
}

// post makes a request of the API with a token file's token, and puts the answer
// on standard output.
func post(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) == 3 || len(args) == 4, "post METHOD URL TOKENFILE [BODY]")
	req, err := http.NewRequest(args[0], args[1], strings.NewReader(strings.Join(args[3:], "")))
	ts.Check(err)
	req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(ts.ReadFile(args[2])))
	res, err := http.DefaultClient.Do(req)
	ts.Check(err)
	defer res.Body.Close()
	_, err = io.Copy(ts.Stdout(), res.Body)
	ts.Check(err)
	if res.StatusCode != http.StatusOK {
		ts.Fatalf("status %s", res.Status)
	}
}

// waitAnswer waits until the answer of an address of the API matches a pattern, 15 seconds at most.
func waitAnswer(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) == 3, "waitanswer URL TOKENFILE PATTERN")
	want := regexp.MustCompile(args[2])
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	for again := time.NewTicker(10 * time.Millisecond); ; {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, args[0], nil)
		ts.Check(err)
		req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(ts.ReadFile(args[1])))
		res, err := http.DefaultClient.Do(req)
		ts.Check(err)
		got, err := io.ReadAll(res.Body)
		ts.Check(errors.Join(err, res.Body.Close()))
		if want.Match(got) {
			return
		}
		select {
		case <-ctx.Done():
			ts.Fatalf("it does not match: %s", got)
		case <-again.C:
		}
	}
}

// field compares a value in JSON, and keys the names of an object's members. The
// path is made of names and numbers with dots between; several documents in one
// file are a list, and . is all of it.
func field(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) == 3, "field FILE PATH VALUE")
	got, ok := find(ts, args[0], args[1]).(string)
	if !ok {
		b, err := json.Marshal(find(ts, args[0], args[1]))
		ts.Check(err)
		got = string(b)
	}
	if got != args[2] {
		ts.Fatalf("%s is %s", args[1], got)
	}
}

func keys(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) >= 2, "keys FILE PATH [NAME…]")
	object, ok := find(ts, args[0], args[1]).(map[string]any)
	if got := slices.Sorted(maps.Keys(object)); !ok || !slices.Equal(got, slices.Sorted(slices.Values(args[2:]))) {
		ts.Fatalf("%s has %q", args[1], got)
	}
}

func find(ts *testscript.TestScript, file, path string) any {
	var documents []any
	d := json.NewDecoder(bytes.NewBufferString(ts.ReadFile(file)))
	for {
		var v any
		if err := d.Decode(&v); err == io.EOF {
			break
		} else if err != nil {
			ts.Fatalf("%s is no JSON: %v", file, err)
		}
		documents = append(documents, v)
	}
	var v any = documents
	if len(documents) == 1 {
		v = documents[0]
	}
	if path == "." {
		return v
	}
	for _, name := range strings.Split(path, ".") {
		switch in := v.(type) {
		case map[string]any:
			member, ok := in[name]
			if !ok {
				ts.Fatalf("%s: there is no %s among %q", path, name, slices.Sorted(maps.Keys(in)))
			}
			v = member
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i < 0 || i >= len(in) {
				ts.Fatalf("%s: there is no %s in a list of %d", path, name, len(in))
			}
			v = in[i]
		default:
			ts.Fatalf("%s: %s is no object or list", path, name)
		}
	}
	return v
}
