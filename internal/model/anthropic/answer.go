package anthropic

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"ravenbot/internal/core/llm"
	"ravenbot/internal/model/client"
	"ravenbot/internal/model/toolschema"
)

// event is a piece of an answer (https://docs.claude.com/en/docs/build-with-claude/streaming), or the whole message,
// which some endpoints send.
type event struct {
	Type    string                                   `json:"type"`
	Message *answer                                  `json:"message"`
	Index   client.Count                             `json:"index"`
	Block   map[string]json.RawMessage               `json:"content_block"`
	Delta   map[string]json.RawMessage               `json:"delta"`
	Usage   client.Maybe[map[string]json.RawMessage] `json:"usage"`
	Error   json.RawMessage                          `json:"error"`
}

// answer is a whole answer, or its beginning without content.
type answer struct {
	Model   client.Word                                `json:"model"`
	Content client.Maybe[[]map[string]json.RawMessage] `json:"content"`
	Stop    client.Word                                `json:"stop_reason"`
	Usage   client.Maybe[map[string]json.RawMessage]   `json:"usage"`
}

type block struct {
	fields map[string]json.RawMessage // at the start of the block
	texts  map[string][]byte          // text that events add to fields: thinking, signature, partial_json
}

func (b block) kind() string { return readString(b.fields["type"]) }

type answerReader struct {
	client   *client.Client
	names    toolschema.Names
	blocks   map[client.Count]*block // by index
	usage    map[string]json.RawMessage
	progress client.Progress
}

// readEvent converts an event. It returns thinking and tool calls after the end of their block.
func (a *answerReader) readEvent(data []byte) (chunk llm.Chunk, _ client.Progress, err error) {
	var e event
	if err := json.Unmarshal(data, &e); err != nil {
		return chunk, a.progress, fmt.Errorf("read an event: %w", err)
	}
	switch e.Type {
	case "error":
		return chunk, a.progress, cmp.Or(a.client.StreamError(e.Error), a.client.StreamError(data))
	case "message":
		var whole answer
		_ = json.Unmarshal(data, &whole) // fields of other types count as missing
		return a.readWhole(whole), client.Over, nil
	case "message_start":
		if e.Message != nil {
			chunk.ServedBy = provider + "/" + string(e.Message.Model)
			chunk.Usage = a.addUsage(e.Message.Usage.V)
		}
	case "content_block_start":
		b := &block{fields: e.Block, texts: map[string][]byte{}}
		a.blocks[e.Index] = b
		if b.kind() == "text" { // it may begin with text
			chunk.Parts = textParts(readString(b.fields["text"]))
		}
	case "content_block_delta":
		chunk.Parts = a.readDelta(e)
	case "content_block_stop":
		if b := a.blocks[e.Index]; b != nil { // some proxies end blocks that never began
			delete(a.blocks, e.Index) // some proxies end a block twice
			chunk.Parts = a.readBlock(*b)
		}
	case "message_delta":
		if e.Usage.Ok {
			chunk.Usage = a.addUsage(e.Usage.V)
		}
		if chunk.Finish = readFinish(readString(e.Delta["stop_reason"])); chunk.Finish != "" {
			chunk.Parts, a.progress = a.readOpenBlocks(), client.Complete
		}
	case "message_stop":
		if a.progress == client.Begun { // without a stop reason or text
			chunk.Parts, chunk.Finish = a.readOpenBlocks(), llm.FinishStop
		}
		a.progress = client.Over
	}
	return chunk, a.progress, nil
}

func (a *answerReader) readWhole(whole answer) llm.Chunk {
	out := llm.Chunk{ServedBy: provider + "/" + string(whole.Model), Usage: a.addUsage(whole.Usage.V)}
	for _, fields := range whole.Content.V {
		b := block{fields: fields}
		if b.kind() == "text" {
			out.Parts = append(out.Parts, textParts(readString(fields["text"]))...)
		}
		out.Parts = append(out.Parts, a.readBlock(b)...)
	}
	out.Finish = cmp.Or(readFinish(string(whole.Stop)), llm.FinishStop)
	return out
}

// readOpenBlocks converts the blocks without an end, which some proxies omit.
func (a *answerReader) readOpenBlocks() (parts []llm.Part) {
	for _, index := range slices.Sorted(maps.Keys(a.blocks)) {
		parts = append(parts, a.readBlock(*a.blocks[index])...)
	}
	clear(a.blocks)
	return parts
}

// readDelta adds a delta to its block, and returns text for the reader.
func (a *answerReader) readDelta(e event) []llm.Part {
	kind := readString(e.Delta["type"])
	if kind == "text_delta" {
		return textParts(readString(e.Delta["text"]))
	}
	if b := a.blocks[e.Index]; b != nil {
		for name, raw := range e.Delta {
			if name != "type" {
				b.texts[name] = append(b.texts[name], readString(raw)...)
			}
		}
	}
	return nil
}

func textParts(s string) []llm.Part {
	if s == "" {
		return nil
	}
	return []llm.Part{{Text: s}}
}

// readString returns a JSON string, or "" for other JSON.
func readString(raw json.RawMessage) string {
	var s string
	_ = json.Unmarshal(raw, &s)
	return s
}

// readBlock converts a complete block. It returns nil for text, which readEvent has returned.
func (a *answerReader) readBlock(b block) []llm.Part {
	switch b.kind() {
	case "", "text":
		return nil
	case "tool_use":
		args := client.Arguments(string(b.texts["partial_json"]))
		input := b.fields["input"]
		if len(b.texts["partial_json"]) == 0 && len(input) > 0 && !bytes.Equal(input, []byte("null")) {
			args = input
		}
		var id, name client.Word
		_ = json.Unmarshal(b.fields["id"], &id)
		_ = json.Unmarshal(b.fields["name"], &name)
		call := llm.Call{ID: string(id), Name: string(name), Args: a.names.Restore(string(name), args)}
		return []llm.Part{{Call: &call}}
	}
	// Thinking, and blocks of unknown types.
	for name, text := range b.texts {
		b.fields[name], _ = json.Marshal(readString(b.fields[name]) + string(text)) // a string can always be written
	}
	raw, err := json.Marshal(b.fields)
	if err != nil {
		return nil
	}
	return []llm.Part{{Text: readString(b.fields["thinking"]), Thought: true, Raw: raw}}
}

// addUsage replaces the counts that an event contains, and returns the sums. The API counts tokens that it reads from
// or writes to its cache separately.
func (a *answerReader) addUsage(counts map[string]json.RawMessage) *llm.Usage {
	if a.usage == nil {
		a.usage = map[string]json.RawMessage{}
	}
	for name, raw := range counts {
		if string(raw) != "null" {
			a.usage[name] = raw
		}
	}
	count := func(name string) int {
		var n client.Count
		_ = json.Unmarshal(a.usage[name], &n)
		return int(n)
	}
	cached := count("cache_read_input_tokens")
	return &llm.Usage{
		Input:  count("input_tokens") + cached + count("cache_creation_input_tokens"),
		Cached: cached,
		Output: count("output_tokens"),
	}
}

// readFinish converts a stop reason. It returns "" for none.
func readFinish(reason string) llm.Finish {
	switch reason {
	case "end_turn", "stop_sequence", "tool_use":
		return llm.FinishStop
	case "max_tokens", "model_context_window_exceeded":
		return llm.FinishLength
	case "refusal":
		return llm.FinishBlocked
	case "":
		return ""
	}
	return llm.FinishOther
}
