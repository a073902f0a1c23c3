package mcp

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// TestMain turns the test binary into a server if the environment asks for it.
func TestMain(m *testing.M) {
	mode := os.Getenv("FAKE_MCP")
	if len(os.Args) > 2 && os.Args[1] == "fake" {
		mode = os.Args[2]
	}
	switch mode {
	case "":
		os.Exit(runTests(m))
	case "host":
		fakeHost()
	case "child":
		signal.Ignore(syscall.SIGTERM)
		select {}
	default:
		(&fake{mode: mode, out: bufio.NewWriter(os.Stdout)}).serve()
	}
}

// maxParallel is how many tests that wait run side by side, whatever the number of processors.
const maxParallel = 16

// runTests runs the tests, and looks for leftovers of parallel ones.
func runTests(m *testing.M) int {
	flag.Parse()
	if err := flag.Set("test.parallel", strconv.Itoa(maxParallel)); err != nil {
		panic(err)
	}
	code := m.Run()
	if code != 0 {
		return code
	}
	if err := goleak.Find(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if left := zombies(); len(left) > 0 {
		fmt.Fprintln(os.Stderr, "zombies were left behind:", left)
		return 1
	}
	return 0
}

// fake is a server on standard streams that misbehaves as its mode and the tools
// called say.
type fake struct {
	mode    string
	out     *bufio.Writer
	tools   string // more tools, as JSON, each after a comma
	visited bool
	asked   map[string]fakeRequest // the calls that wait for an answer of the client, by id
}

type fakeRequest struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		ProtocolVersion string          `json:"protocolVersion"`
		Cursor          string          `json:"cursor"`
		Name            string          `json:"name"`
		Arguments       json.RawMessage `json:"arguments"`
		InputResponses  json.RawMessage `json:"inputResponses"`
		RequestState    string          `json:"requestState"`
		RequestID       json.RawMessage `json:"requestId"`
		Level           string          `json:"level"`
		Meta            struct {
			ProgressToken json.RawMessage `json:"progressToken"`
		} `json:"_meta"`
	} `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

const allOf = `{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","allOf":[{"required":["a"]}],` +
	`"if":{"properties":{"a":{"const":1}}},"then":{"required":["b"]},"x-own":{"Deep":[1.50]}}`

func (f *fake) serve() {
	switch f.mode {
	case "hang":
		select {}
	case "crash":
		fmt.Fprintln(os.Stderr, "cannot start: the token "+os.Getenv("API_TOKEN")+" is bad")
		os.Exit(3)
	case "indented":
		f.line("{\n  \"jsonrpc\": \"2.0\"\n}")
		select {}
	case "UTF-16":
		f.line("\xFF\xFE{\x00\"\x00j\x00")
		select {}
	case "usage":
		f.line("Usage: server FOLDER\n  FOLDER  what to serve")
		fmt.Fprintln(os.Stderr, "one argument is missing")
		os.Exit(2)
	case "slow":
		<-time.After(400 * time.Millisecond)
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), "FAKE_MCP=child")
		child.Stdout, child.Stderr = os.Stdout, os.Stderr
		if child.Start() != nil {
			os.Exit(4)
		}
	case "noise":
		f.line("npm warn something is old")
		f.line(`{"jsonrpc":"2.0"`)
		f.line(`{"Method":"notifications/tools/list_changed","JSONRPC":"2.0"}`)
	case "slow modern":
		<-time.After(500 * time.Millisecond)
		f.mode = "modern"
	}
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 32<<20)
	for in.Scan() {
		var r fakeRequest
		if json.Unmarshal(in.Bytes(), &r) == nil {
			f.answer(r)
		}
	}
	if f.mode == "stubborn" {
		select {}
	}
	os.Exit(0)
}

func (f *fake) line(text string) {
	f.out.WriteString(text + "\n")
	f.out.Flush()
}

func (f *fake) result(r fakeRequest, result string) {
	f.line(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, r.ID, result))
}

func (f *fake) failure(r fakeRequest, code int, message string) {
	f.line(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%q}}`, r.ID, code, message))
}

func (f *fake) answer(r fakeRequest) {
	switch r.Method {
	case "":
		if waiting, ok := f.asked[string(r.ID)]; ok {
			f.say(waiting, string(r.Result)+string(r.Error))
		}
	case "notifications/cancelled":
		fmt.Fprintf(os.Stderr, "cancelled %s\n", r.Params.RequestID)
	case "logging/setLevel":
		fmt.Fprintf(os.Stderr, "level %s\n", r.Params.Level)
		f.result(r, `{}`)
	case "server/discover":
		f.discover(r)
	case "initialize":
		if f.mode == "modern" {
			f.failure(r, -32601, "no such method")
			return
		}
		version := r.Params.ProtocolVersion
		if old := os.Getenv("FAKE_VERSION"); old != "" {
			version = old
		}
		f.result(r, fmt.Sprintf(`{"protocolVersion":%q,"capabilities":{"tools":{"listChanged":true},"logging":{}},`+
			`"serverInfo":{"name":"fake","version":"7"},"instructions":%q}`, version, os.Getenv("FAKE_INSTRUCTIONS")))
	case "tools/list":
		f.list(r)
	case "tools/call":
		f.call(r)
	case "ping":
		f.result(r, `{}`)
	}
}

func (f *fake) discover(r fakeRequest) {
	switch f.mode {
	case "silent":
		fmt.Fprintln(os.Stderr, "asked for versions")
	case "dies on the unknown":
		os.Exit(1)
	case "empty":
		f.result(r, `{}`)
	case "old versions":
		f.result(r, `{"supportedVersions":["2025-11-25"],"capabilities":{}}`)
	case "modern":
		f.result(r, `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}`)
	default:
		f.failure(r, -32601, "no such method")
	}
}

func (f *fake) list(r fakeRequest) {
	simple := func(name, more string) string {
		return fmt.Sprintf(`{"name":%q,"description":"does %s","inputSchema":{"type":"object"}%s}`, name, name, more)
	}
	switch f.mode {
	case "no list":
		f.result(r, `{}`)
	case "none":
		f.result(r, `{"tools":[]}`)
	case "no tools":
		f.failure(r, -32601, "no such method")
	case "pages":
		next := map[string]string{"": "b", "b": "c"}[r.Params.Cursor]
		name := "tool_" + r.Params.Cursor
		f.result(r, fmt.Sprintf(`{"tools":[%s],"nextCursor":%q}`, simple(name, ""), next))
	case "endless pages":
		f.result(r, fmt.Sprintf(`{"tools":[%s],"nextCursor":%q}`, simple("tool_"+r.Params.Cursor, ""), r.Params.Cursor+"x"))
	case "tasks":
		task := func(support string) string { return `,"execution":{"taskSupport":"` + support + `"}` }
		f.result(r, `{"tools":[`+simple("always", task("required"))+","+simple("also", task("optional"))+","+
			simple("never", task("forbidden"))+`]}`)
	case "shaped": // its tools are what a file says
		tools, err := os.ReadFile(os.Args[3])
		if err != nil {
			os.Exit(8)
		}
		f.result(r, `{"tools":[`+string(tools)+`]}`)
	case "odd tools":
		f.result(r, `{"tools":[5,{"name":""},{"name":7},{"name":"odd","inputSchema":[]},{"NAME":"shouted"},`+
			`{"name":"twice","title":"first","inputSchema":{"type":"object","type":"object"}},{"name":"twice",`+
			`"title":"second"}]}`)
	default:
		tools := []string{simple("echo", `,"annotations":{"readOnlyHint":true,"destructiveHint":false,"READONLYHINT":false}`),
			`{"name":"strict","inputSchema":` + allOf + `}`}
		for _, name := range strings.Fields("die hang held next pid secret env cwd garbage big flood twice impostor grow " +
			"logs sample fail reject huge ask take_back notify progress input visit") {
			tools = append(tools, simple(name, ""))
		}
		tools = append(tools, simple("return", `,"outputSchema":{"type":"object","properties":{"n":{"type":"integer"}},`+
			`"required":["n"]}`), simple("die_once", `,"annotations":{"idempotentHint":true}`), simple("die_once_writing", ""),
			simple("die_always", `,"annotations":{"idempotentHint":true}`))
		f.result(r, `{"tools":[`+strings.Join(tools, ",")+f.tools+`]}`)
	}
}

func (f *fake) say(r fakeRequest, text string) {
	quoted, _ := json.Marshal(text)
	f.result(r, fmt.Sprintf(`{"content":[{"type":"text","text":%s}]}`, quoted))
}

// ask sends the client a request; its answer becomes the result of the call.
func (f *fake) ask(r fakeRequest, id, method, params string) {
	if f.asked == nil {
		f.asked = map[string]fakeRequest{}
	}
	f.asked[fmt.Sprintf("%q", id)] = r
	f.line(fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"method":%q,"params":%s}`, id, method, params))
}

func (f *fake) call(r fakeRequest) {
	say := func(text string) { f.say(r, text) }
	var own struct {
		ID, Method, State, Error string
		Params, Requests, Result json.RawMessage
	}
	if json.Unmarshal(r.Params.Arguments, &own) != nil {
		os.Exit(10)
	}
	switch r.Params.Name {
	case "die":
		os.Exit(5)
	case "die_once", "die_once_writing":
		file, err := os.OpenFile(os.Getenv("FAKE_FILE"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			os.Exit(6)
		}
		file.WriteString("x")
		if info, err := file.Stat(); err != nil || info.Size() < 2 {
			os.Exit(5)
		}
		say("alive")
	case "die_always":
		file, err := os.OpenFile(os.Getenv("FAKE_FILE"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			os.Exit(6)
		}
		file.WriteString("x")
		os.Exit(5)
	case "hang":
		select {}
	case "held": // until somebody writes into the pipe
		word, err := os.ReadFile(os.Getenv("FAKE_FILE"))
		if err != nil {
			os.Exit(7)
		}
		say(string(word))
	case "next": // one character of a pipe that stays open
		fmt.Fprintln(os.Stderr, "waits for the next")
		pipe, err := os.Open(os.Getenv("FAKE_FILE"))
		if err != nil {
			os.Exit(8)
		}
		word := make([]byte, 1)
		n, _ := pipe.Read(word)
		pipe.Close()
		say(string(word[:n]))
	case "env":
		say(strings.Join(os.Environ(), "\n"))
	case "secret":
		fmt.Fprintln(os.Stderr, "the token is "+os.Getenv("API_TOKEN"))
		say("said")
	case "pid":
		say(strconv.Itoa(os.Getpid()))
	case "cwd":
		dir, _ := os.Getwd()
		say(dir)
	case "garbage":
		f.line("\x1b[31mnot json\x1b[0m")
		say("after garbage")
	case "big":
		for range 100 {
			f.out.WriteString(strings.Repeat("x", 1<<20))
		}
		f.out.Flush()
	case "flood":
		line := strings.Repeat("y", 1<<10) + "\n"
		for range 100 << 10 {
			os.Stderr.WriteString(line)
		}
		say("after flood")
	case "tell":
		f.line(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
		say("told")
	case "twice":
		say("first")
		say("second")
	case "impostor": // a request of the server under the id of the call
		f.line(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"ping"}`, r.ID))
		say("the answer")
	case "ask":
		f.ask(r, own.ID, own.Method, string(own.Params))
	case "take_back":
		f.line(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%q}}`, own.ID))
		say("taken back")
	case "notify":
		f.line(fmt.Sprintf(`{"jsonrpc":"2.0","method":%q,"params":%s}`, own.Method, own.Params))
		say("notified")
	case "progress":
		f.line(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":3,`+
			`"total":10,"message":"copying\u202e"}}`, r.Params.Meta.ProgressToken))
		say("done")
	case "input":
		if len(r.Params.InputResponses) == 0 {
			f.result(r, fmt.Sprintf(`{"resultType":"input_required","inputRequests":%s,"requestState":%q}`,
				own.Requests, own.State))
			return
		}
		say(string(r.Params.InputResponses) + r.Params.RequestState)
	case "visit":
		if f.visited {
			say("visited")
			return
		}
		f.visited = true
		f.line(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32042,"message":"sign in first",`+
			`"data":{"elicitations":[{"mode":"url","elicitationId":"v1","url":"https://sign.in/x","message":"Sign in"}]}}}`,
			r.ID))
	case "return":
		f.result(r, string(own.Result))
	case "grow":
		f.tools += `,{"name":"grown","inputSchema":{"type":"object"}}`
		for range 50 {
			f.line(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
		}
		say("grown")
	case "logs":
		f.line(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"a log line"}}`)
		f.line(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":0.5}}`)
		say("logged")
	case "sample":
		f.line(`{"jsonrpc":"2.0","id":"s1","method":"sampling/createMessage","params":{"messages":[],"maxTokens":1}}`)
		say("asked")
	case "fail":
		f.result(r, `{"content":[{"type":"text","text":"it went wrong"}],"isError":true}`)
	case "reject":
		f.failure(r, -32602, "unknown argument zz")
	case "huge":
		say(strings.Repeat("z", 8<<20))
	default:
		say(string(r.Params.Arguments))
	}
}
