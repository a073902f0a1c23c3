package simmodel

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
)

// newEndpoints returns the endpoints. What each does is from its documents, and from reports of its answers, seen
// 2026-11. Where neither says in which words a field is refused, the words are those of a similar refusal.
func newEndpoints() []*endpoint {
	return slices.Concat(newProviders(), newGateways(), newServers())
}

// newProviders returns the providers that serve their own models.
func newProviders() []*endpoint {
	return []*endpoint{
		// https://platform.openai.com/docs/api-reference/chat. Thoughts stay hidden. Models that reason take
		// max_completion_tokens in place of max_tokens.
		{name: OpenAI, path: "/v1", fields: openAIFields, unknown: unknownParameter, optional: newLimit},
		// https://ai.google.dev/gemini-api/docs/openai and …/thought-signatures. Errors are in a list.
		{name: GoogleOpenAI, path: "/v1beta/openai", check: checkGoogle, fault: func(r refusal) any {
			return []any{map[string]any{"error": map[string]any{"code": 400, "message": r.said, "status": "INVALID_ARGUMENT"}}}
		}, optional: refusal{field: "temperature",
			said: "Unable to submit request because it has a temperature value of 0.5 but the supported range is from 1 " +
				"(inclusive) to 1 (inclusive). Update the value and try again."}},
		// https://api-docs.deepseek.com/guides/thinking_mode: reasoning_content of messages with calls has to come back in
		// all later requests; an empty one is enough (deepseek-ai/deepseek-harness#739). 400 for it: crewAIInc/crewAI#5878.
		{name: "deepseek", path: "/deepseek", callID: "call_00_{9}", think: inField("reasoning_content"),
			usageWithFinish: true, check: checkDeepSeek, optional: refusal{field: "max_tokens",
				said: "Invalid max_tokens value, the valid range of max_tokens is [1, 8192]"}},
		// https://platform.kimi.ai/docs/guide/use-kimi-k2-thinking-model. The 400: mastra-ai/mastra#12592,
		// labring/FastGPT#6357; that empty text is missing: anomalyco/opencode#10996. Temperature: MoonshotAI/Kimi-K2#124.
		{name: "kimi", path: "/kimi/v1", callID: "functions.{name}:{n}", think: inField("reasoning_content"),
			check: checkKimi, optional: refusal{field: "temperature",
				said: "invalid temperature: only 1 is allowed for this model"}},
		// https://docs.z.ai/guides/capabilities/thinking-mode: reasoning has to come back complete and unmodified with the
		// results; nothing is refused without it. Codes: docs.z.ai/api-reference/api-code; words: one-api#1141.
		{name: "glm", path: "/glm/api/paas/v4", callID: "call_{9}", think: inField("reasoning_content"), wholeCalls: true,
			usageWithFinish: true, check: noteLost("reasoning_content"), fault: func(r refusal) any {
				return map[string]any{"error": map[string]any{"code": "1214", "message": r.said}}
			}, optional: refusal{field: "temperature", said: "temperature参数非法。请检查文档。"}},
		// https://platform.minimax.io/docs/api-reference/text-openai-api: the content has the reasoning in <think> tags and
		// has to come back complete; nothing is refused without it. Errors: MiniMax-AI/MiniMax-M2#76, pi#5468,
		// qwen-code#11834. Temperature is above 0 and up to 1; the words are unverified.
		{name: "minimax", path: "/minimax/v1", callID: "call_function_{9}_1", think: inTags, check: checkMiniMax,
			objects: "invalid params, invalid function arguments json string, tool_call_id: %s (2013)",
			fault: func(r refusal) any {
				return map[string]any{"type": "error", "request_id": "sim",
					"error": map[string]any{"type": "bad_request_error", "message": r.said, "http_code": "400"}}
			}, optional: refusal{field: "temperature", said: "invalid params, invalid temperature: 0.5 (allowed: 1) (2013)"}},
		// https://help.aliyun.com/zh/model-studio/deep-thinking and …/qwen-function-calling: later pieces of a call have an
		// empty id and no name.
		{name: "qwen", path: "/qwen/compatible-mode/v1", callID: "call_{9}", think: inField("reasoning_content"),
			emptyNames: true, objects: "<400> InternalError.Algo.InvalidParameter: The \"function.arguments\" parameter of " +
				"the code model must be in JSON format.",
			optional: refusal{field: "max_tokens",
				said: "<400> InternalError.Algo.InvalidParameter: Range of max_tokens should be [1, 8192]"}},
		// https://docs.mistral.ai/api and …/capabilities/reasoning; mistralai/client-python docs/models/assistantmessage.md.
		// Extra fields: crush#1590, anon-kode#53. Ids: langchain#24668. Whether stream_options is still refused is unknown.
		{name: "mistral", path: "/mistral/v1", callID: "{9}", think: inChunks, wholeCalls: true, usageWithFinish: true,
			check: checkMistral, fault: mistralFault,
			fields: map[string]string{"assistant": "tool_calls prefix", "tool": "tool_call_id name"},
			unknown: func(i int, role, field string) refusal {
				return refusal{status: 422, field: fmt.Sprintf("messages.%d.%s.%s", i, role, field),
					said: "Extra inputs are not permitted"}
			}, optional: refusal{status: 422, field: "stream_options", said: "Extra inputs are not permitted"}},
		// https://console.groq.com/docs/reasoning and …/tool-use; groq-python chat_completion_assistant_message_param.py.
		// Unknown fields: janhq/jan#8136. tool_use_failed: picoclaw#748, pydantic-ai#2774.
		{name: "groq", path: "/groq/openai/v1", callID: "fc_{9}", think: inField("reasoning"), wholeCalls: true,
			breakCall: failToolUse, decorate: with(map[string]any{"x_groq": map[string]any{"id": "req_sim"}}, nil),
			fields: map[string]string{"assistant": "tool_calls reasoning name function_call",
				"user": "name", "system": "name", "tool": "tool_call_id name"},
			unknown: func(i int, role, field string) refusal {
				return refusal{said: fmt.Sprintf("'messages.%[1]d' : for 'role:%[2]s' the following must be "+
					"satisfied[('messages.%[1]d' : property '%[3]s' is unsupported)]", i, role, field)}
			}, noTools: "`tool calling` is not supported with this model",
			optional: refusal{field: "stream_options", said: "property 'stream_options' is unsupported"}},
		// https://docs.x.ai/developers/advanced-api-usage/troubleshooting-reasoning: lost reasoning is not refused, and calls
		// come whole. Refused fields: cline#2764, BerriAI/litellm#11563.
		{name: "xai", path: "/xai/v1", callID: "call_{9}", think: inField("reasoning_content"), wholeCalls: true,
			usageWithFinish: true, fault: func(r refusal) any {
				return map[string]any{"code": "Client specified an invalid argument", "error": r.said}
			}, optional: refusal{field: "stream_options", said: "Argument not supported: stream_options"}},
	}
}

// newGateways returns those that serve models of others.
func newGateways() []*endpoint {
	return []*endpoint{
		// https://openrouter.ai/docs/guides/best-practices/reasoning-tokens#preserving-reasoning-blocks. The 400:
		// LibreChat-AI/agents#37. Calls of other models: one element with the id of the first call (Roo-Code#10640).
		// A call that cannot be read: openrouter-examples#67.
		{name: "openrouter-gemini", path: "/openrouter-gemini/api/v1", callID: "tool_0_{name}_{9}", think: inGeminiDetails,
			wholeCalls: true, usageWithFinish: true, before: openRouterComment, check: checkRouterGemini,
			fault: openRouterFault("Google AI Studio"), breakCall: endWithError, decorate: nameNativeFinish,
			noTools: "No endpoints found that support tool use", optional: newLimit},
		{name: "openrouter-claude", path: "/openrouter-claude/api/v1", callID: "toolu_{9}", think: inClaudeDetails,
			usageWithFinish: true, before: openRouterComment, check: checkRouterClaude, fault: openRouterFault("Anthropic"),
			optional: refusal{field: "temperature", said: `{"type":"error","error":{"type":"invalid_request_error",` +
				`"message":"` + "`temperature` is deprecated for this model." + `"}}`}},
		// https://learn.microsoft.com/azure/ai-foundry/openai/api-version-lifecycle (v1 takes keys as bearer tokens) and
		// …/concepts/content-filter; the first piece has no choices: autogen#6465.
		{name: "azure", path: "/azure/openai/v1", fields: openAIFields, unknown: unknownParameter, optional: newLimit,
			before: []string{`data: {"choices":[],"created":0,"id":"","model":"","object":"","prompt_filter_results":` +
				`[{"prompt_index":0,"content_filter_results":{"hate":{"filtered":false,"severity":"safe"}}}]}`},
			decorate: with(nil, map[string]any{
				"content_filter_results": map[string]any{"hate": map[string]any{"filtered": false, "severity": "safe"}},
			})},
	}
}

// newServers returns the servers of one's own machine.
func newServers() []*endpoint {
	return []*endpoint{
		// https://docs.ollama.com/api/openai-compatibility, ollama/ollama openai/openai.go.
		{name: "ollama", path: "/ollama/v1", isOpen: true, callID: "call_{9}", think: inField("reasoning"),
			wholeCalls: true, decorate: with(map[string]any{"system_fingerprint": "fp_ollama"}, nil),
			objects: "invalid tool call arguments", noTools: "registry.ollama.ai/library/sim:latest does not support tools",
			optional: refusal{field: "max_tokens",
				said: "json: cannot unmarshal number into Go struct field ChatCompletionRequest.max_tokens of type int"}},
		// https://docs.vllm.ai/en/stable/features/reasoning_outputs and …/tool_calling; the 400: langchain4j#3475.
		{name: "vllm", path: "/vllm/v1", isOpen: true, callID: "chatcmpl-tool-{9}", think: inField("reasoning"),
			decorate: with(nil, map[string]any{"logprobs": nil, "stop_reason": nil, "token_ids": nil}),
			noTools:  `"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set`,
			fault: func(r refusal) any {
				return map[string]any{"object": "error", "message": r.said, "type": "BadRequestError", "param": nil, "code": 400}
			}, optional: refusal{field: "stream_options", said: "[{'type': 'extra_forbidden', 'loc': ('body', " +
				"'stream_options'), 'msg': 'Extra inputs are not permitted', 'input': {'include_usage': True}}]"}},
		// ggml-org/llama.cpp tools/server/README.md. Arguments that are no JSON: nibor1896/Crow#203.
		{name: "llamacpp", path: "/llamacpp/v1", isOpen: true, callID: "{9}{9}", think: inField("reasoning_content"),
			decorate:  with(map[string]any{"timings": map[string]any{"prompt_n": 1}}, nil),
			breakCall: failToParse, objects: "Failed to parse tool call arguments as JSON", fault: llamaFault,
			noTools: "tools param requires --jinja flag", optional: refusal{field: "stream_options",
				said: "Unsupported param: stream_options"}},
		// https://lmstudio.ai/docs/app/api/tools: a call that cannot be read is the content. The words are unverified.
		{name: "lmstudio", path: "/lmstudio/v1", isOpen: true, callID: "{9}", think: inField("reasoning"),
			usageWithFinish: true, breakCall: callAsText, decorate: with(map[string]any{"stats": map[string]any{}}, nil),
			fault:    func(r refusal) any { return map[string]any{"error": r.said} },
			optional: refusal{field: "temperature", said: "Invalid 'temperature': not supported by this model"}},
	}
}

// openAIFields are the fields of messages at OpenAI.
var openAIFields = map[string]string{"assistant": "tool_calls name refusal audio function_call", "user": "name",
	"system": "name", "developer": "name", "tool": "tool_call_id"}

// newLimit refuses the limit of an answer under its old name.
var newLimit = refusal{field: "max_tokens", said: "Unsupported parameter: 'max_tokens' is not supported with this " +
	"model. Use 'max_completion_tokens' instead."}

var openRouterComment = []string{": OPENROUTER PROCESSING"}

// unknownParameter refuses a field as OpenAI does.
func unknownParameter(i int, _, field string) refusal {
	at := fmt.Sprintf("messages[%d].%s", i, field)
	return refusal{field: at, said: "Unknown parameter: '" + at + "'."}
}

// with returns a function that adds fields to an answer, or to a piece of one, and to its choice.
func with(inBody, inChoice map[string]any) func(body, choice map[string]any) {
	return func(body, choice map[string]any) {
		for k, v := range inBody {
			body[k] = v
		}
		for k, v := range inChoice {
			choice[k] = v
		}
	}
}

// inField returns a function that puts thoughts into a field of the message.
func inField(name string) func(*Server, string, Reply, map[string]any) {
	return func(_ *Server, _ string, reply Reply, m map[string]any) {
		if reply.Thoughts != "" {
			m[name] = reply.Thoughts
		}
	}
}

// inTags puts thoughts into tags before the text.
func inTags(_ *Server, _ string, reply Reply, m map[string]any) {
	if reply.Thoughts != "" {
		m["content"] = "<think>\n" + reply.Thoughts + "\n</think>\n\n" + strings.Join(reply.Text, "")
	}
}

// newThinking returns a thought as Mistral has it in the content.
func newThinking(text string) map[string]any {
	return map[string]any{"type": "thinking", "thinking": []any{map[string]any{"type": "text", "text": text}}}
}

// inChunks puts thoughts before the text as an element of the content.
func inChunks(_ *Server, _ string, reply Reply, m map[string]any) {
	if reply.Thoughts == "" {
		return
	}
	content := []any{newThinking(reply.Thoughts)}
	if text := strings.Join(reply.Text, ""); text != "" {
		content = append(content, map[string]any{"type": "text", "text": text})
	}
	m["content"] = content
}

// addDetail adds an element to reasoning_details.
func addDetail(m, detail map[string]any) {
	list, _ := m["reasoning_details"].([]any)
	detail["index"] = len(list)
	m["reasoning_details"] = append(list, detail)
}

// inGeminiDetails puts thoughts, and the signature of the first call, into reasoning_details.
func inGeminiDetails(s *Server, signer string, reply Reply, m map[string]any) {
	const format = "google-gemini-v1"
	if reply.Thoughts != "" {
		m["reasoning"] = reply.Thoughts
		addDetail(m, map[string]any{"type": "reasoning.text", "text": reply.Thoughts, "format": format})
	}
	if len(reply.Calls) > 0 {
		addDetail(m, map[string]any{"type": "reasoning.encrypted", "data": s.sign(signer, ""), "id": reply.Calls[0].ID,
			"format": format})
	}
}

// inClaudeDetails puts thoughts and their signature into reasoning_details.
func inClaudeDetails(s *Server, signer string, reply Reply, m map[string]any) {
	if reply.Thoughts != "" {
		m["reasoning"] = reply.Thoughts
		addDetail(m, map[string]any{"type": "reasoning.text", "text": reply.Thoughts, "format": "anthropic-claude-v1",
			"signature": s.sign(signer, reply.Thoughts)})
	}
}

func checkDeepSeek(s *Server, e *endpoint, o oRequest) refusal {
	isText := func(v any) bool { _, ok := v.(string); return ok }
	if s.findLost(e, o.Messages, 0, "reasoning_content", isText) >= 0 {
		return refusal{said: "The `reasoning_content` in the thinking mode must be passed back to the API."}
	}
	return refusal{}
}

func checkKimi(s *Server, e *endpoint, o oRequest) refusal {
	isFilled := func(v any) bool { text, _ := v.(string); return text != "" }
	if i := s.findLost(e, o.Messages, 0, "reasoning_content", isFilled); i >= 0 {
		return refusal{said: fmt.Sprintf("thinking is enabled but reasoning_content is missing in assistant tool call message "+
			"at index %d", i)}
	}
	return refusal{}
}

func accept(any) bool { return true }

// noteLost returns a check that records thoughts that did not come back, and refuses nothing.
func noteLost(field string) func(*Server, *endpoint, oRequest) refusal {
	return func(s *Server, e *endpoint, o oRequest) refusal {
		if i := s.findLost(e, o.Messages, currentTurn(o.Messages), field, accept); i >= 0 {
			s.reject(e.name, fmt.Sprintf("messages[%d] lacks the thoughts of its calls in %s", i, field), nil)
		}
		return refusal{}
	}
}

func checkMiniMax(s *Server, e *endpoint, o oRequest) refusal {
	for _, t := range o.Tools {
		if len(t.Function.Parameters) == 0 {
			return refusal{said: "invalid params, function parameters is empty (2013)"}
		}
	}
	return noteLost("content")(s, e, o)
}

var mistralFields = strings.Fields("model messages temperature top_p max_tokens stream stop random_seed metadata " +
	"response_format tools tool_choice presence_penalty frequency_penalty n prediction parallel_tool_calls prompt_mode " +
	"reasoning_effort guardrails prompt_cache_key safe_prompt stream_options")

func checkMistral(s *Server, e *endpoint, o oRequest) refusal {
	for name := range o.fields {
		if !slices.Contains(mistralFields, name) {
			return refusal{status: 422, field: name, said: "Extra inputs are not permitted"}
		}
	}
	for _, m := range o.Messages {
		for _, c := range m.Calls {
			if len(c.ID) != 9 || strings.Trim(c.ID, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" {
				return refusal{said: "Tool call id was " + c.ID + " but must be a-z, A-Z, 0-9, with a length of 9."}
			}
		}
	}
	if last := o.Messages[len(o.Messages)-1].Role; last != "user" && last != "tool" {
		return refusal{said: "Expected last role User or Tool (or Assistant with prefix True) for serving but got " + last}
	}
	return noteLost("content")(s, e, o)
}

func mistralFault(r refusal) any {
	if r.status != 422 {
		return map[string]any{"object": "error", "message": r.said, "type": "invalid_request_error", "code": "3280"}
	}
	loc := []any{"body"}
	for _, word := range strings.Split(r.field, ".") {
		loc = append(loc, word)
	}
	return map[string]any{"object": "error", "type": "invalid_request_error", "param": nil, "code": nil,
		"message": map[string]any{"detail": []any{map[string]any{"type": "extra_forbidden", "loc": loc, "msg": r.said}}}}
}

// openRouterFault returns the form of errors of a provider behind OpenRouter.
func openRouterFault(provider string) func(refusal) any {
	return func(r refusal) any {
		return map[string]any{"user_id": "user_sim", "error": map[string]any{"message": "Provider returned error",
			"code": cmp.Or(r.status, 400), "metadata": map[string]any{"raw": r.said, "provider_name": provider}}}
	}
}

// isSigned reports whether reasoning_details of another model's call have the sentinel in place of a signature.
func isSigned(details any) bool {
	list, _ := details.([]any)
	return slices.ContainsFunc(list, func(v any) bool {
		d, _ := v.(map[string]any)
		return d["type"] == "reasoning.encrypted" && d["data"] == Sentinel
	})
}

func checkRouterGemini(s *Server, e *endpoint, o oRequest) refusal {
	i := s.findLost(e, o.Messages, currentTurn(o.Messages), "reasoning_details", isSigned)
	if i < 0 {
		return refusal{}
	}
	return refusal{said: "Gemini models require OpenRouter reasoning details to be preserved in each request. Please refer " +
		"to our docs: https://openrouter.ai/docs/guides/best-practices/reasoning-tokens#preserving-reasoning-blocks. " +
		"Upstream error: " + mustJSON(map[string]any{"error": map[string]any{"code": 400, "status": "INVALID_ARGUMENT",
		"message": "Function call is missing a thought_signature in functionCall parts. This is required for tools to work " +
			"correctly, and missing thought_signature may lead to degraded model performance."}})}
}

func checkRouterClaude(s *Server, e *endpoint, o oRequest) refusal {
	isEmpty := func(v any) bool { return v == nil } // signatures of others are not valid
	i := s.findLost(e, o.Messages, currentTurn(o.Messages), "reasoning_details", isEmpty)
	if i < 0 {
		return refusal{}
	}
	return refusal{said: mustJSON(map[string]any{"type": "error", "error": map[string]any{"type": "invalid_request_error",
		"message": fmt.Sprintf("messages.%d.content.0: Invalid `signature` in `thinking` block", i)}})}
}

// failToolUse plays a call that Groq cannot read: as an error of a stream if text has come before.
func failToolUse(w http.ResponseWriter, out *pipe, reply *Reply, isStream bool) bool {
	body := mustJSON(map[string]any{"error": map[string]any{"type": "invalid_request_error", "code": "tool_use_failed",
		"message":           "Failed to call a function. Please adjust your prompt. See 'failed_generation' for more details.",
		"failed_generation": "<function=" + reply.Calls[0].Name + ">" + string(reply.Calls[0].Args)}})
	if isStream && len(reply.Text) > 0 {
		w.Header().Set("Content-Type", "text/event-stream")
		out.put(`data: {"choices":[{"index":0,"delta":{"content":` + mustJSON(reply.Text[0]) + `}}]}` + "\n\n")
		out.put("event: error\ndata: " + body + "\n\n")
		return true
	}
	w.WriteHeader(http.StatusBadRequest)
	out.put(body)
	return true
}

// failToParse plays a call that llama.cpp cannot read.
func failToParse(w http.ResponseWriter, _ *pipe, reply *Reply, _ bool) bool {
	w.WriteHeader(http.StatusInternalServerError)
	r := refusal{status: 500, said: "Failed to parse tool call arguments as JSON: [json.exception.parse_error.101] parse " +
		"error at line 1, column 6: syntax error while parsing value; last read: '" + string(reply.Calls[0].Args) + "'"}
	_, _ = io.WriteString(w, mustJSON(llamaFault(r)))
	return true
}

func llamaFault(r refusal) any {
	return map[string]any{"error": map[string]any{"code": cmp.Or(r.status, 400), "message": r.said,
		"type": map[int]string{0: "invalid_request_error", 500: "server_error"}[r.status]}}
}

// endWithError plays a call that Gemini behind OpenRouter cannot read.
func endWithError(_ http.ResponseWriter, _ *pipe, reply *Reply, _ bool) bool {
	reply.Calls, reply.Finish = nil, "ERROR"
	return false
}

// nameNativeFinish adds why the provider behind OpenRouter has ended an answer.
func nameNativeFinish(_, choice map[string]any) {
	if choice["native_finish_reason"] = nil; choice["finish_reason"] == "error" {
		choice["native_finish_reason"] = "MALFORMED_FUNCTION_CALL"
	}
}

// callAsText plays a call that LM Studio cannot read.
func callAsText(_ http.ResponseWriter, _ *pipe, reply *Reply, _ bool) bool {
	name, _ := json.Marshal(reply.Calls[0].Name) // a string can always be written
	reply.Text = []string{"<tool_call>\n" + `{"name": ` + string(name) + `, "arguments": ` + string(reply.Calls[0].Args) +
		"\n</tool_call>"}
	reply.Calls = nil
	return false
}
