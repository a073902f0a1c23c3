package mcp

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestMain turns the test binary into a server when the environment says so.
func TestMain(m *testing.M) {
	mode := os.Getenv("FAKE_MCP")
	if len(os.Args) > 2 && os.Args[1] == "fake" {
		mode = os.Args[2]
	}
	switch mode {
	case "":
		os.Exit(m.Run())
	case "host":
		fakeHost()
	case "child":
		signal.Ignore(syscall.SIGTERM)
		select {}
	default:
		(&fake{mode: mode, out: bufio.NewWriter(os.Stdout)}).serve()
	}
}

// fake is a server on standard streams that misbehaves as its mode and the tools
// called say.
type fake struct {
	mode  string
	out   *bufio.Writer
	tools string       // more tools, as JSON, each after a comma
	asked *fakeRequest // the call that waits for an answer of the client
}

type fakeRequest struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		ProtocolVersion string          `json:"protocolVersion"`
		Cursor          string          `json:"cursor"`
		Name            string          `json:"name"`
		Arguments       json.RawMessage `json:"arguments"`
	} `json:"params"`
}

const allOf = `{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","allOf":[{"required":["a"]}],"if":{"properties":{"a":{"const":1}}},"then":{"required":["b"]},"x-own":{"Deep":[1.50]}}`

func (f *fake) serve() {
	switch f.mode {
	case "hang":
		select {}
	case "crash":
		fmt.Fprintln(os.Stderr, "cannot start: the token "+os.Getenv("API_TOKEN")+" is bad")
		os.Exit(3)
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
		if f.asked != nil && string(r.ID) == `"p1"` {
			f.result(*f.asked, `{"content":[{"type":"text","text":"the client lives"}]}`)
		}
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
		f.result(r, fmt.Sprintf(`{"protocolVersion":%q,"capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"fake","version":"7"},"instructions":%q}`, version, os.Getenv("FAKE_INSTRUCTIONS")))
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
	case "shaped": // its tools are what a file says
		tools, err := os.ReadFile(os.Args[3])
		if err != nil {
			os.Exit(8)
		}
		f.result(r, `{"tools":[`+string(tools)+`]}`)
	case "odd tools":
		f.result(r, `{"tools":[5,{"name":""},{"name":7},{"name":"odd","inputSchema":[]},{"NAME":"shouted"},{"name":"twice","title":"first","inputSchema":{"type":"object","type":"object"}},{"name":"twice","title":"second"}]}`)
	default:
		tools := []string{simple("echo", `,"annotations":{"readOnlyHint":true,"destructiveHint":false,"READONLYHINT":false}`),
			`{"name":"strict","inputSchema":` + allOf + `}`}
		for _, name := range strings.Fields("die hang held pid env cwd garbage big flood twice impostor grow logs sample fail reject huge ask") {
			tools = append(tools, simple(name, ""))
		}
		tools = append(tools, simple("die_once", `,"annotations":{"idempotentHint":true}`), simple("die_once_writing", ""))
		f.result(r, `{"tools":[`+strings.Join(tools, ",")+f.tools+`]}`)
	}
}

func (f *fake) call(r fakeRequest) {
	say := func(text string) {
		quoted, _ := json.Marshal(text)
		f.result(r, fmt.Sprintf(`{"content":[{"type":"text","text":%s}]}`, quoted))
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
	case "hang":
		select {}
	case "held": // until somebody writes into the pipe
		word, err := os.ReadFile(os.Getenv("FAKE_FILE"))
		if err != nil {
			os.Exit(7)
		}
		say(string(word))
	case "env":
		say(strings.Join(os.Environ(), "\n"))
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
		f.asked = &r
		f.line(`{"jsonrpc":"2.0","id":"p1","method":"ping"}`)
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
