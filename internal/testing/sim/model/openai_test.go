package simmodel_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	simmodel "ravenbot/internal/testing/sim/model"
)

const askTool = `{"model":"gpt-sim","messages":[{"role":"system","content":"be brief"},{"role":"user","content":"go"}%s],
	"tools":[{"type":"function","function":{"name":"add","parameters":{"type":"object","properties":{}}}}]%s}`

func body(messages, extra string) string {
	return strings.Replace(strings.Replace(askTool, "%s", messages, 1), "%s", extra, 1)
}

type completion struct {
	Choices []struct {
		Message struct {
			Content *string           `json:"content"`
			Calls   []json.RawMessage `json:"tool_calls"`
		} `json:"message"`
		Finish string `json:"finish_reason"`
	} `json:"choices"`
	Usage struct {
		Total int `json:"total_tokens"`
	} `json:"usage"`
}

func TestOpenAIRoundTrip(t *testing.T) {
	for _, base := range []string{"/v1", "/v1beta/openai"} {
		s := open(t, simmodel.CallTool("add", `{"a":1}`))
		url := s.URL() + base + "/chat/completions"
		status, text := send(t, url, "Authorization", "Bearer key", body("", ""))
		var first completion
		if err := json.Unmarshal([]byte(text), &first); err != nil || status != 200 ||
			first.Choices[0].Finish != "tool_calls" || first.Usage.Total == 0 {
			t.Fatalf("%s: %d %s", base, status, text)
		}
		call := string(first.Choices[0].Message.Calls[0])
		answer := `,{"role":"assistant","content":null,"tool_calls":[` + call +
			`]},{"role":"tool","tool_call_id":"call-1","content":"three"}`
		status, text = send(t, url, "Authorization", "Bearer key", body(answer, ""))
		if status != 200 || !strings.Contains(text, "result: three") {
			t.Errorf("%s: %d %s", base, status, text)
		}
		if last := s.Asked()[1]; last.System != "be brief" || last.Last().Results[0].ID != "call-1" || last.Asked() != "go" {
			t.Errorf("neutral view %+v", last)
		}
		stripped := `,{"role":"assistant","tool_calls":[{"id":"call-1","type":"function","function":{"name":"add",` +
			`"arguments":"{}"}}]},{"role":"tool","tool_call_id":"call-1","content":"x"}`
		status, text = send(t, url, "Authorization", "Bearer key", body(stripped, ""))
		if lenient := base == "/v1"; (status == 200) != lenient {
			t.Errorf("%s without signature: %d %s", base, status, text)
		}
	}
}

func TestOpenAIStream(t *testing.T) {
	s := open(t, simmodel.Sequence(simmodel.Reply{Text: []string{"a", "b"},
		Calls: []simmodel.Call{{Name: "add", Args: json.RawMessage(`{"a":1}`)}}}))
	status, text := send(t, s.OpenAIURL()+"/chat/completions", "Authorization", "Bearer key",
		body("", `,"stream":true,"stream_options":{"include_usage":true}`))
	if status != 200 || !strings.HasSuffix(text, "data: [DONE]\n\n") {
		t.Fatalf("%d %s", status, text)
	}
	var content, args, finish string
	usage := 0
	for line := range strings.Lines(text) {
		data, ok := strings.CutPrefix(strings.TrimSpace(line), "data: ")
		if !ok || data == "[DONE]" {
			continue
		}
		var chunk struct {
			Choices []struct {
				Delta struct {
					Content string `json:"content"`
					Calls   []struct {
						Function struct {
							Arguments string `json:"arguments"`
						} `json:"function"`
					} `json:"tool_calls"`
				} `json:"delta"`
				Finish string `json:"finish_reason"`
			} `json:"choices"`
			Usage *struct{} `json:"usage"`
		}
		if err := json.Unmarshal([]byte(data), &chunk); err != nil {
			t.Fatal(err)
		}
		if chunk.Usage != nil {
			usage++
		}
		for _, c := range chunk.Choices {
			content, finish = content+c.Delta.Content, finish+c.Finish
			for _, call := range c.Delta.Calls {
				args += call.Function.Arguments
			}
		}
	}
	if content != "ab" || args != `{"a":1}` || finish != "tool_calls" || usage != 1 {
		t.Errorf("content %q args %q finish %q usage %d", content, args, finish, usage)
	}
}

func TestOpenAIRules(t *testing.T) {
	call := `{"id":"c1","type":"function","function":{"name":"add","arguments":"{}"}}`
	tool := func(name string) string {
		return `{"model":"gpt-sim","messages":[{"role":"user","content":"x"}],"tools":[{"type":"function",` +
			`"function":{"name":"` + name + `"}}]}`
	}
	schema := func(parameters string) string {
		return strings.Replace(tool("f"), `"name":"f"`, `"name":"f","parameters":`+parameters, 1)
	}
	cases := []struct{ name, body, want string }{
		{"plain", body("", ""), ""},
		{"no properties", schema(`{"type":"object"}`), "missing properties"},
		{"no type", schema(`{"properties":{}}`), "type: "},
		{"a choice at the top", schema(`{"type":"object","properties":{},"oneOf":[{}]}`), "at the top level"},
		{"no items", schema(`{"type":"object","properties":{"a":{"type":"array"}}}`), "missing items"},
		{"no messages", `{"model":"gpt-sim","messages":[]}`, "empty array"},
		{"unanswered", body(`,{"role":"assistant","tool_calls":[`+call+`]}`, ""), "must be followed"},
		{"overtaken", body(`,{"role":"assistant","tool_calls":[`+call+`]},{"role":"user","content":"x"}`, ""), "must be followed"},
		{"answer to nothing", body(`,{"role":"tool","tool_call_id":"c9","content":"x"}`, ""), "must be a response"},
		{"arguments are an object", body(`,{"role":"assistant","tool_calls":[`+strings.Replace(call, `"{}"`, `{}`, 1)+`]},{"role":"tool","tool_call_id":"c1","content":"x"}`, ""), "string of JSON"},
		{"empty assistant", body(`,{"role":"assistant"}`, ""), "needs content"},
		{"bad role", body(`,{"role":"model","content":"x"}`, ""), "role"},
		{"bad name", tool("a.b"), "does not match pattern"},
		{"long name", tool(strings.Repeat("a", 65)), "does not match pattern"},
	}
	s := open(t, nil)
	for _, c := range cases {
		status, text := send(t, s.OpenAIURL()+"/chat/completions", "Authorization", "Bearer key", c.body)
		if (c.want == "") != (status == 200) || c.want != "" && (status != 400 || !strings.Contains(text, c.want)) {
			t.Errorf("%s: %d %s", c.name, status, text)
		}
	}
	if status, _ := send(t, s.OpenAIURL()+"/chat/completions", "Authorization", "Bearer no", body("", "")); status != 401 {
		t.Errorf("wrong key: %d", status)
	}
	s.SetScript(simmodel.Sequence(simmodel.Reply{Status: 429, RetryAfter: 2 * time.Second}))
	if status, text := send(t, s.OpenAIURL()+"/chat/completions", "Authorization", "Bearer key",
		body("", "")); status != 429 || !strings.Contains(text, "rate_limit") {
		t.Errorf("429: %d %s", status, text)
	}
}
