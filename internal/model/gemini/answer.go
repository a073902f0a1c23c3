package gemini

import (
	"encoding/json"
	"fmt"
	"strings"

	"ravenbot/internal/core/llm"
	"ravenbot/internal/model/client"
	"ravenbot/internal/model/toolschema"
)

// piece is a piece of an answer (https://ai.google.dev/api/generate-content#generatecontentresponse).
type piece struct {
	Candidates []struct {
		Content client.Maybe[struct {
			Parts []json.RawMessage `json:"parts"`
		}] `json:"content"`
		FinishReason client.Word `json:"finishReason"`
	} `json:"candidates"`
	Feedback client.Maybe[struct {
		BlockReason client.Word `json:"blockReason"`
	}] `json:"promptFeedback"`
	Usage        client.Maybe[usage] `json:"usageMetadata"`
	ModelVersion client.Word         `json:"modelVersion"`
	Error        json.RawMessage     `json:"error"`
}

// usage counts the tokens of a request so far.
type usage struct {
	Prompt     client.Count `json:"promptTokenCount"`
	ToolPrompt client.Count `json:"toolUsePromptTokenCount"`
	Cached     client.Count `json:"cachedContentTokenCount"`
	Candidates client.Count `json:"candidatesTokenCount"`
	Thoughts   client.Count `json:"thoughtsTokenCount"`
}

type answerPart struct {
	Text      string             `json:"text"`
	Thought   client.Maybe[bool] `json:"thought"`
	Signature client.Word        `json:"thoughtSignature"`
	Call      *struct {
		ID   client.Word     `json:"id"`
		Name client.Word     `json:"name"`
		Args json.RawMessage `json:"args"`
	} `json:"functionCall"`
}

// readPiece converts a piece of an answer. It may return usage with an error.
func (m *Model) readPiece(data []byte, names toolschema.Names) (c llm.Chunk, err error) {
	var p piece
	if err := json.Unmarshal(data, &p); err != nil {
		return c, fmt.Errorf("read a piece of an answer: %w", err)
	}
	if err := m.client.StreamError(p.Error); err != nil {
		return c, err
	}
	if p.ModelVersion != "" {
		c.ServedBy = m.provider() + "/" + string(p.ModelVersion) // in the form of ID
	}
	if u := p.Usage.V; p.Usage.Ok {
		c.Usage = &llm.Usage{
			Input:  int(u.Prompt + u.ToolPrompt),
			Cached: int(u.Cached),
			Output: int(u.Candidates + u.Thoughts),
		}
	}
	// A blocked prompt has feedback and no candidate; a piece with only usage has neither.
	if len(p.Candidates) == 0 {
		if reason := string(p.Feedback.V.BlockReason); reason != "" {
			return c, &llm.Error{Kind: llm.Blocked, Provider: m.provider(), Reason: describeBlock(reason)}
		}
		return c, nil
	}
	candidate := p.Candidates[0] // requests ask for one
	for _, raw := range candidate.Content.V.Parts {
		one, err := readPart(raw, names)
		if err != nil {
			return c, err
		}
		c.Parts = append(c.Parts, one)
	}
	reason := string(candidate.FinishReason)
	if c.Finish = readFinish(reason); c.Finish == llm.FinishBlocked {
		reason = describeBlock(reason)
		return c, &llm.Error{Kind: llm.Blocked, Provider: m.provider(), Reason: reason}
	}
	return c, nil
}

// readPart converts a part of an answer. It keeps the raw form of calls and signatures.
func readPart(raw json.RawMessage, names toolschema.Names) (llm.Part, error) {
	var p answerPart
	if err := json.Unmarshal(raw, &p); err != nil {
		return llm.Part{}, fmt.Errorf("read a part: %w", err)
	}
	out := llm.Part{Text: p.Text, Thought: p.Thought.V}
	if c := p.Call; c != nil {
		out.Call = &llm.Call{ID: string(c.ID), Name: string(c.Name), Args: names.Restore(string(c.Name), client.Arguments(string(c.Args)))}
	}
	if p.Call != nil || p.Signature != "" {
		out.Raw = raw
	}
	return out, nil
}

// readFinish converts a finish reason. An unknown reason is not a block.
func readFinish(reason string) llm.Finish {
	switch reason {
	case "", "FINISH_REASON_UNSPECIFIED":
		return ""
	case "STOP":
		return llm.FinishStop
	case "MAX_TOKENS", "CONTINUATION":
		return llm.FinishLength
	case "MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS":
		return llm.FinishMalformed
	}
	if reason != "OTHER" && describeBlock(reason) != "" {
		return llm.FinishBlocked
	}
	return llm.FinishOther
}

// blocks explain block reasons to the reader. Reasons about images begin with IMAGE_.
var blocks = map[string]string{
	"SAFETY":                     "its safety filter objects",
	"BLOCKLIST":                  "it holds a word that is on the provider's list",
	"PROHIBITED_CONTENT":         "its provider prohibits such content",
	"RECITATION":                 "the answer would repeat a protected text",
	"SPII":                       "the answer would hold personal data",
	"JAILBREAK":                  "it is taken for an attempt to get round the provider's rules",
	"MODEL_ARMOR":                "the project's own filter objects",
	"OTHER":                      "its provider gives no reason",
	"BLOCKED_REASON_UNSPECIFIED": "its provider gives no reason",
}

// describeBlock explains a block reason, or returns "" for other reasons.
func describeBlock(reason string) string { return blocks[strings.TrimPrefix(reason, "IMAGE_")] }
