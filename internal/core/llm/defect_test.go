package llm_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	anthropicsdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
	openaisdk "github.com/openai/openai-go/v3"
	openaioption "github.com/openai/openai-go/v3/option"
	"google.golang.org/genai"
)

// The providers' own SDKs would take the place of our clients but for what these tests show. One that fails says that
// the SDK was fixed, and its client may be used.

// answerWith returns the address of an endpoint that answers every request with a body.
func answerWith(t *testing.T, contentType, body string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// A tool whose arguments are all optional would be run with its defaults (AstrBot#6883).
func TestDefect_AnthropicSDK_BrokenArgumentsBecomeNone(t *testing.T) {
	var body strings.Builder
	for _, event := range []string{
		`{"type":"message_start","message":{"id":"m","type":"message","role":"assistant","model":"c","content":[],"usage":{"input_tokens":1,"output_tokens":1}}}`,
		`{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"a","name":"delete","input":{}}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"x\": \"1\""}}`,
		`{"type":"content_block_stop","index":0}`,
		`{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":9}}`,
		`{"type":"message_stop"}`,
	} {
		var kind struct{ Type string }
		if err := json.Unmarshal([]byte(event), &kind); err != nil {
			t.Fatal(err)
		}
		body.WriteString("event: " + kind.Type + "\ndata: " + event + "\n\n")
	}
	client := anthropicsdk.NewClient(option.WithBaseURL(answerWith(t, "text/event-stream", body.String())), option.WithAPIKey("key"))
	stream := client.Messages.NewStreaming(t.Context(), anthropicsdk.MessageNewParams{Model: "c", MaxTokens: 9,
		Messages: []anthropicsdk.MessageParam{anthropicsdk.NewUserMessage(anthropicsdk.NewTextBlock("hi"))}})
	var answer anthropicsdk.Message
	for stream.Next() {
		if err := answer.Accumulate(stream.Current()); err != nil {
			t.Fatalf("the SDK reports the arguments now: %v", err)
		}
	}
	if err := stream.Err(); err != nil {
		t.Fatalf("the SDK reports the arguments now: %v", err)
	}
	if got := string(answer.Content[0].Input); strings.Contains(got, `"x": "1"`) {
		t.Errorf("the SDK keeps the arguments now: %s", got)
	}
}

// What a model adds to a message has to go back with it, and the accumulator of the SDK drops it.
func TestDefect_OpenAISDK_AdditionsToStreamedMessagesAreLost(t *testing.T) {
	const body = `data: {"choices":[{"index":0,"delta":{"role":"assistant","reasoning_content":"hm","content":"yes"}}]}` + "\n\n" +
		`data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n"
	client := openaisdk.NewClient(openaioption.WithBaseURL(answerWith(t, "text/event-stream", body)), openaioption.WithAPIKey("key"))
	stream := client.Chat.Completions.NewStreaming(t.Context(), openaisdk.ChatCompletionNewParams{Model: "m",
		Messages: []openaisdk.ChatCompletionMessageParamUnion{openaisdk.UserMessage("hi")}})
	var answer openaisdk.ChatCompletionAccumulator
	for stream.Next() {
		answer.AddChunk(stream.Current())
	}
	if err := stream.Err(); err != nil || len(answer.Choices) != 1 {
		t.Fatalf("%v, %+v", err, answer)
	}
	message := answer.Choices[0].Message
	sent, err := json.Marshal(message.ToParam())
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(sent), "reasoning_content") {
		t.Errorf("the SDK sends it back now: %s", sent)
	}
}

// Endpoints that ignore that a stream was asked for answer with one JSON object.
func TestDefect_OpenAISDK_WholeAnswerInPlaceOfAStreamIsEmpty(t *testing.T) {
	const body = `{"choices":[{"index":0,"message":{"role":"assistant","content":"yes"},"finish_reason":"stop"}]}`
	client := openaisdk.NewClient(openaioption.WithBaseURL(answerWith(t, "application/json", body)), openaioption.WithAPIKey("key"))
	stream := client.Chat.Completions.NewStreaming(t.Context(), openaisdk.ChatCompletionNewParams{Model: "m",
		Messages: []openaisdk.ChatCompletionMessageParamUnion{openaisdk.UserMessage("hi")}})
	if stream.Next() || stream.Err() != nil {
		t.Errorf("the SDK reads it now, or reports it: %v", stream.Err())
	}
}

// A part goes back as it came, or the API may refuse its signature; ids in arguments may have more than 53 bits.
func TestDefect_GenAI_UnknownFieldsAndLargeNumbersAreLost(t *testing.T) {
	const body = `{"candidates":[{"content":{"role":"model","parts":[{"functionCall":{"name":"look","args":{"id":12345678901234567890}},` +
		`"thoughtSignature":"YQ==","later":{"a":1}}]},"finishReason":"STOP"}]}`
	client, err := genai.NewClient(t.Context(), &genai.ClientConfig{APIKey: "key", Backend: genai.BackendGeminiAPI,
		HTTPOptions: genai.HTTPOptions{BaseURL: answerWith(t, "application/json", body)}})
	if err != nil {
		t.Fatal(err)
	}
	answer, err := client.Models.GenerateContent(t.Context(), "gemini-3.8-flash", genai.Text("hi"), nil)
	if err != nil {
		t.Fatal(err)
	}
	sent, err := json.Marshal(answer.Candidates[0].Content.Parts[0])
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(sent), "later") {
		t.Errorf("the SDK keeps fields that it does not know now: %s", sent)
	}
	if strings.Contains(string(sent), "12345678901234567890") {
		t.Errorf("the SDK keeps large numbers now: %s", sent)
	}
}
