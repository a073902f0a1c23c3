package gemini

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"ravenbot/internal/llm"
)

// piece is a piece of an answer (https://ai.google.dev/api/generate-content#generatecontentresponse).
type piece struct {
	Candidates []struct {
		Content struct {
			Parts []json.RawMessage `json:"parts"`
		} `json:"content"`
		FinishReason string `json:"finishReason"`
	} `json:"candidates"`
	Feedback struct {
		BlockReason string `json:"blockReason"`
	} `json:"promptFeedback"`
	Usage        *usage    `json:"usageMetadata"`
	ModelVersion string    `json:"modelVersion"`
	Error        *apiError `json:"error"`
}

// usage counts the tokens of a request so far.
type usage struct {
	Prompt     int `json:"promptTokenCount"`
	ToolPrompt int `json:"toolUsePromptTokenCount"`
	Cached     int `json:"cachedContentTokenCount"`
	Candidates int `json:"candidatesTokenCount"`
	Thoughts   int `json:"thoughtsTokenCount"`
}

// answerPart is what is read of a part.
type answerPart struct {
	Text      string        `json:"text"`
	Thought   bool          `json:"thought"`
	Call      *functionCall `json:"functionCall"`
	Signature string        `json:"thoughtSignature"`
}

// readPieces reads an answer and hands its pieces to handle, until that fails. It reads server-sent events, and the
// JSON that gateways send which ignore that events were asked for: a list of pieces, or one piece.
func readPieces(answer io.Reader, handle func(piece) error) error {
	first := [1]byte{' '}
	for first[0] == ' ' || first[0] == '\n' || first[0] == '\r' {
		if _, err := io.ReadFull(answer, first[:]); err == io.EOF { // an empty answer has no pieces
			return nil
		} else if err != nil {
			return err
		}
	}
	body := io.MultiReader(bytes.NewReader(first[:]), answer)
	if first[0] == '{' || first[0] == '[' {
		return readJSON(body, first[0] == '[', handle)
	}
	lines := bufio.NewScanner(body)
	// One event may hold a whole answer.
	lines.Buffer(make([]byte, 0, 4<<10), maxAnswerBytes)
	var event, stray []byte
	for lines.Scan() {
		data, isData := bytes.CutPrefix(lines.Bytes(), []byte("data:"))
		switch {
		// Google ends a stream that fails with the JSON of the error, perhaps in several lines and not as an event: its
		// SDK for JavaScript reads it there (googleapis/js-genai, src/_api_client.ts, seen 2026-11).
		case len(stray) > 0 || bytes.HasPrefix(lines.Bytes(), []byte("{")) || bytes.HasPrefix(lines.Bytes(), []byte("[")):
			stray = append(append(stray, lines.Bytes()...), '\n')
		case isData:
			event = append(event, data...)
		case len(lines.Bytes()) == 0 && len(event) > 0:
			if err := readPiece(event, handle); err != nil {
				return err
			}
			event = event[:0]
		}
	}
	if err := lines.Err(); err != nil { // says more than a line that is cut
		return err
	}
	if len(event) > 0 {
		if err := readPiece(event, handle); err != nil {
			return err
		}
	}
	if len(stray) > 0 {
		return readJSON(bytes.NewReader(stray), stray[0] == '[', handle)
	}
	return nil
}

// readPiece hands on a piece.
func readPiece(data []byte, handle func(piece) error) error {
	var p piece
	if err := json.Unmarshal(data, &p); err != nil {
		return fmt.Errorf("read a piece of an answer: %w", err)
	}
	return handle(p)
}

// readJSON reads an answer that is one piece, or a list of them.
func readJSON(body io.Reader, isList bool, handle func(piece) error) error {
	pieces := json.NewDecoder(body)
	if isList {
		_, _ = pieces.Token() // the "[" that was seen
	}
	for pieces.More() {
		var p piece
		if err := pieces.Decode(&p); err != nil {
			return fmt.Errorf("read an answer: %w", err)
		}
		if err := handle(p); err != nil {
			return err
		}
	}
	if !isList {
		return nil
	}
	_, err := pieces.Token() // the "]", without which the answer is cut
	return err
}

// chunk converts a piece, or returns the error that it reports.
func (p piece) chunk(names originalNames) (llm.Chunk, error) {
	if p.Error != nil {
		return llm.Chunk{}, *p.Error
	}
	var c llm.Chunk
	if p.ModelVersion != "" {
		c.ServedBy = "gemini/" + p.ModelVersion // in the form of Message.Origin
	}
	if u := p.Usage; u != nil {
		c.Usage = &llm.Usage{Input: u.Prompt + u.ToolPrompt, Cached: u.Cached, Output: u.Candidates + u.Thoughts}
	}
	// A blocked prompt has feedback and no candidate; a piece with usage alone has neither.
	if len(p.Candidates) == 0 {
		if reason := p.Feedback.BlockReason; reason != "" {
			return c, &llm.Error{Kind: llm.Blocked, Provider: "gemini", Reason: describeBlock(reason)}
		}
		return c, nil
	}
	// Only one candidate is ever requested.
	candidate := p.Candidates[0]
	for _, raw := range candidate.Content.Parts {
		one, err := readPart(raw, names)
		if err != nil {
			return c, err
		}
		c.Parts = append(c.Parts, one)
	}
	var err error
	c.Finish, err = readFinish(candidate.FinishReason)
	return c, err
}

// readPart converts a part of an answer. It keeps the raw form of calls and signatures, which must go back unchanged.
func readPart(raw json.RawMessage, names originalNames) (llm.Part, error) {
	var p answerPart
	if err := json.Unmarshal(raw, &p); err != nil {
		return llm.Part{}, fmt.Errorf("read a part: %w", err)
	}
	out := llm.Part{Text: p.Text, Thought: p.Thought}
	if p.Call != nil {
		args, err := names.restore(p.Call.Name, p.Call.Args)
		if err != nil {
			return out, fmt.Errorf("read a call: %w", err)
		}
		out.Call = &llm.Call{ID: p.Call.ID, Name: p.Call.Name, Args: args}
	}
	if p.Call != nil || p.Signature != "" {
		out.Raw = raw
	}
	return out, nil
}

// readFinish converts a finish reason. It returns an error for a blocked answer.
func readFinish(reason string) (llm.Finish, error) {
	switch reason {
	case "", "FINISH_REASON_UNSPECIFIED":
		return "", nil
	case "STOP":
		return llm.FinishStop, nil
	case "MAX_TOKENS", "CONTINUATION":
		return llm.FinishLength, nil
	case "MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS":
		return llm.FinishMalformed, nil
	case "OTHER", "LANGUAGE":
		return llm.FinishOther, nil
	}
	// A reason that describeBlock does not know is not a block as far as we can tell.
	if words := describeBlock(reason); words != "" {
		return llm.FinishBlocked, &llm.Error{Kind: llm.Blocked, Provider: "gemini", Reason: words}
	}
	return llm.FinishOther, nil
}

// describeBlock returns a block reason in words for the reader, or "" where the reason is not a block.
func describeBlock(reason string) string {
	switch {
	case strings.HasSuffix(reason, "SAFETY"):
		return "its safety filter objects"
	case strings.HasSuffix(reason, "BLOCKLIST"):
		return "it holds a word that is on the provider's list"
	case strings.HasSuffix(reason, "PROHIBITED_CONTENT"):
		return "its provider prohibits such content"
	case strings.HasSuffix(reason, "RECITATION"):
		return "the answer would repeat a protected text"
	case reason == "SPII":
		return "the answer would hold personal data"
	case reason == "JAILBREAK":
		return "it is taken for an attempt to get round the provider's rules"
	case reason == "MODEL_ARMOR":
		return "the project's own filter objects"
	case reason == "OTHER" || reason == "BLOCKED_REASON_UNSPECIFIED":
		return "its provider gives no reason"
	}
	return ""
}
