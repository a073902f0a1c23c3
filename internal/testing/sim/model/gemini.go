package simmodel

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// The wire form of Gemini's requests, as far as it is looked into.
type (
	gContent struct {
		Role  string  `json:"role"`
		Parts []gPart `json:"parts"`
	}
	gPart struct {
		Text      *string         `json:"text"`
		Thought   bool            `json:"thought"`
		Signature string          `json:"thoughtSignature"`
		Call      *gCall          `json:"functionCall"`
		Response  *gResponse      `json:"functionResponse"`
		Inline    json.RawMessage `json:"inlineData"`
		File      json.RawMessage `json:"fileData"`
	}
	gCall struct {
		ID   string          `json:"id"`
		Name string          `json:"name"`
		Args json.RawMessage `json:"args"`
	}
	gResponse struct {
		ID       string          `json:"id"`
		Name     string          `json:"name"`
		Response json.RawMessage `json:"response"`
	}
	gDeclaration struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
		JSONSchema  json.RawMessage `json:"parametersJsonSchema"`
	}
	gRequest struct {
		Contents []gContent `json:"contents"`
		System   *gContent  `json:"systemInstruction"`
		Tools    []struct {
			Functions []gDeclaration `json:"functionDeclarations"`
		} `json:"tools"`
		ToolConfig struct {
			Calling struct {
				Mode    string   `json:"mode"`
				Allowed []string `json:"allowedFunctionNames"`
			} `json:"functionCallingConfig"`
		} `json:"toolConfig"`
		Store  *bool `json:"store"`
		Config struct {
			Temperature *float64 `json:"temperature"`
		} `json:"generationConfig"`
	}
)

var statusNames = map[int]string{
	400: "INVALID_ARGUMENT",
	401: "UNAUTHENTICATED",
	403: "PERMISSION_DENIED",
	404: "NOT_FOUND",
	429: "RESOURCE_EXHAUSTED",
	499: "CANCELLED",
	500: "INTERNAL",
	501: "UNIMPLEMENTED",
	503: "UNAVAILABLE",
	504: "DEADLINE_EXCEEDED",
}

// geminiError answers with an error as Google's APIs word it.
func geminiError(w http.ResponseWriter, status int, message string, details ...any) {
	body := map[string]any{"code": status, "message": message, "status": statusNames[status]}
	if len(details) > 0 {
		body["details"] = details
	}
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, mustJSON(map[string]any{"error": body})) // the caller may have hung up
}

// geminiKey checks the key; one in the URL is refused, so that no client that
// leaks it there passes.
func (s *Server) geminiKey(w http.ResponseWriter, r *http.Request) bool {
	switch key := r.Header.Get("x-goog-api-key"); key {
	case s.opts.APIKey:
		return true
	case "":
		geminiError(w, 403, "Method doesn't allow unregistered callers (callers without established identity).")
	default:
		geminiError(w, 400, "API key not valid. Please pass a valid API key.", map[string]any{
			"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID", "domain": "googleapis.com"})
	}
	return false
}

// serveModels lists the models or describes one. The OpenAI-compatible API has the same path; its requests carry a
// bearer token.
func (s *Server) serveModels(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.Header.Get("Authorization"), "Bearer ") {
		s.listOpenAI(w, r)
		return
	}
	if !s.geminiKey(w, r) {
		return
	}
	describe := func(name string) map[string]any {
		return map[string]any{"name": "models/" + name, "version": "1", "displayName": name, "inputTokenLimit": 1 << 20,
			"outputTokenLimit": 1 << 16, "supportedGenerationMethods": []string{"generateContent", "countTokens"}}
	}
	w.Header().Set("Content-Type", "application/json")
	if name := r.PathValue("model"); name != "" {
		if !s.hasModel(name) {
			geminiError(w, 404, "models/"+name+" is not found for API version v1beta")
			return
		}
		_, _ = io.WriteString(w, mustJSON(describe(name)))
		return
	}
	list := []any{}
	for _, name := range s.opts.Models {
		list = append(list, describe(name))
	}
	_, _ = io.WriteString(w, mustJSON(map[string]any{"models": list}))
}

// serveGemini serves generateContent, streamGenerateContent, countTokens and the embeddings of a model of Google AI.
func (s *Server) serveGemini(w http.ResponseWriter, r *http.Request) {
	if s.geminiKey(w, r) {
		s.generate(w, r, Gemini)
	}
}

// generate serves a method of a model. What its rules do not allow is recorded as rejected, and answered with 400.
func (s *Server) generate(w http.ResponseWriter, r *http.Request, api string) {
	model, action, _ := strings.Cut(r.PathValue("action"), ":")
	stream := action == "streamGenerateContent"
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	switch {
	case !s.hasModel(model):
		geminiError(w, 404, "models/"+model+" is not found for API version v1beta, or is not supported for generateContent.")
		return
	case action == "countTokens":
		_, _ = io.WriteString(w, mustJSON(map[string]any{"totalTokens": len(raw)/4 + 1}))
		return
	case action == "batchEmbedContents":
		s.embedGemini(w, raw)
		return
	case !stream && action != "generateContent":
		geminiError(w, 404, "Method not found.")
		return
	}
	req, problem := s.readGemini(raw, api, model)
	if problem != "" {
		s.reject(api, problem, raw)
		geminiError(w, 400, problem)
		return
	}
	if s.opts.RefuseOptional && req.Temperature != nil {
		geminiError(w, 400, fmt.Sprintf("Unable to submit request because it has a temperature value of %g but the "+
			"supported range is from 1 (inclusive) to 1 (inclusive). Update the value and try again.", *req.Temperature))
		return
	}
	req.Stream = stream
	reply := s.reply(req)
	if !s.prepareReply(w, r, reply) {
		return
	}
	if reply.Status != 0 {
		failGemini(w, reply)
		return
	}
	if hasBrokenCall(reply) { // Google reads what its models write
		reply.Calls, reply.Finish = nil, "MALFORMED_FUNCTION_CALL"
	}
	out := s.pipe(w, r, reply)
	signer := signerOf(api, model)
	if !stream || reply.Whole {
		w.Header().Set("Content-Type", "application/json; charset=UTF-8")
		whole := s.geminiPieces(
			Reply{Thoughts: reply.Thoughts, Text: []string{strings.Join(reply.Text, "")}, Calls: reply.Calls,
				Usage: reply.Usage, Finish: reply.Finish, Block: reply.Block, Served: reply.Served},
			signer,
			false,
		)
		out.put(mustJSON(whole[0]))
		return
	}
	pieces := s.geminiPieces(reply, signer, true)
	for reply.Endless {
		putStream(out, w, true, pieces[:1])
	}
	putStream(out, w, r.URL.Query().Get("alt") == "sse", pieces)
}

// signerOf returns for what a model of Google signs: a signature of one API means nothing to the other.
func signerOf(api, model string) string {
	if api == Gemini {
		return model
	}
	return api + "/" + model
}

// putStream writes the pieces of a stream: as server-sent events, or without alt=sse as one JSON array that grows.
func putStream(out *pipe, w http.ResponseWriter, sse bool, pieces []map[string]any) {
	if sse {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, piece := range pieces {
			out.put("data: " + mustJSON(piece) + "\r\n\r\n")
		}
		return
	}
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	for i, piece := range pieces {
		lead := ",\r\n"
		if i == 0 {
			lead = "["
		}
		out.put(lead + mustJSON(piece))
	}
	out.put("]")
}

// failGemini answers with the error that the script asks for. How long to wait stands in the body, as Google has it,
// not in a header.
func failGemini(w http.ResponseWriter, reply Reply) {
	if reply.Body != "" {
		w.WriteHeader(reply.Status)
		_, _ = io.WriteString(w, reply.Body)
		return
	}
	var details []any
	if reply.RetryAfter > 0 {
		details = append(
			details,
			map[string]any{
				"@type":      "type.googleapis.com/google.rpc.RetryInfo",
				"retryDelay": fmt.Sprintf("%gs", reply.RetryAfter.Seconds()),
			},
		)
	}
	message := reply.Message
	if message == "" {
		message = "simulated " + http.StatusText(reply.Status)
	}
	geminiError(w, reply.Status, message, details...)
}

// geminiPieces returns the answers of a stream, or the one answer.
func (s *Server) geminiPieces(reply Reply, model string, stream bool) []map[string]any {
	usage := map[string]any{
		"promptTokenCount":        reply.Usage.Prompt,
		"candidatesTokenCount":    reply.Usage.Output,
		"thoughtsTokenCount":      reply.Usage.Thoughts,
		"cachedContentTokenCount": reply.Usage.Cached,
		"totalTokenCount":         reply.Usage.Prompt + reply.Usage.Output + reply.Usage.Thoughts,
	}
	if reply.Block != "" {
		return []map[string]any{
			{"promptFeedback": map[string]any{"blockReason": reply.Block}, "usageMetadata": usage, "modelVersion": reply.Served},
		}
	}
	groups := s.geminiParts(reply, model, stream)
	if !stream {
		var all []any
		for _, g := range groups {
			all = append(all, g...)
		}
		groups = [][]any{all}
	}
	finish := reply.Finish
	if finish == "" {
		finish = "STOP"
	}
	id := rand.Text()
	var pieces []map[string]any
	for i, parts := range groups {
		candidate := map[string]any{"index": 0, "content": map[string]any{"role": "model", "parts": parts}}
		piece := map[string]any{"candidates": []any{candidate}, "modelVersion": reply.Served, "responseId": id}
		if i == len(groups)-1 {
			candidate["finishReason"], piece["usageMetadata"] = finish, usage
		}
		pieces = append(pieces, piece)
	}
	return pieces
}

// geminiParts groups the parts by chunk. The first call of a group carries
// the signature; a stream of text alone ends with an empty part that does.
func (s *Server) geminiParts(reply Reply, model string, stream bool) [][]any {
	var groups [][]any
	if reply.Thoughts != "" {
		groups = append(groups, []any{map[string]any{"text": reply.Thoughts, "thought": true}})
	}
	for _, text := range reply.Text {
		if text != "" {
			groups = append(groups, []any{map[string]any{"text": text}})
		}
	}
	var calls []any
	for i, c := range reply.Calls {
		part := map[string]any{"functionCall": map[string]any{"id": c.ID, "name": c.Name, "args": c.Args}}
		if i == 0 {
			part["thoughtSignature"] = s.sign(model, c.Name)
		}
		calls = append(calls, part)
	}
	if calls != nil {
		return append(groups, calls)
	}
	if stream || len(groups) == 0 {
		groups = append(groups, []any{map[string]any{"text": "", "thoughtSignature": s.sign(model, "")}})
	}
	return groups
}
