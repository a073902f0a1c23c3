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

// event is a piece of an answer (https://docs.claude.com/en/docs/build-with-claude/streaming). Some endpoints send the
// whole message in place of events.
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

// block is a block of an answer while it is read.
type block struct {
	fields map[string]json.RawMessage // as the block began
	texts  map[string][]byte          // text that events add to the fields: thinking, signature, partial_json
}

// kind returns the type of the block.
func (b block) kind() string { return readString(b.fields["type"]) }

// answerReader reads the events of an answer.
type answerReader struct {
	client   *client.Client
	names    toolschema.Names
	blocks   map[client.Count]*block // by index
	usage    map[string]json.RawMessage
	progress client.Progress
}

// readEvent converts an event. Thinking and tool calls are returned when their block is complete: the signature comes
// last, and half of the arguments are not JSON.
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
		if b.kind() == "text" { // which may begin with text in place of an empty string
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
		if a.progress == client.Begun { // the stop reason was missing, or no text
			chunk.Parts, chunk.Finish = a.readOpenBlocks(), llm.FinishStop
		}
		a.progress = client.Over
	}
	return chunk, a.progress, nil
}

// readWhole returns an answer that came as one JSON object.
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

// readOpenBlocks converts the blocks that have no end, in their order: some proxies leave it out.
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

// textParts returns a text as a part. It returns nil for an empty text.
func textParts(s string) []llm.Part {
	if s == "" {
		return nil
	}
	return []llm.Part{{Text: s}}
}

// readString returns a JSON string; anything else is empty.
func readString(raw json.RawMessage) string {
	var s string
	_ = json.Unmarshal(raw, &s)
	return s
}

// readBlock converts a complete block. It returns nil for text, which was passed on earlier.
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
	// Thinking, and unknown types of blocks.
	for name, text := range b.texts {
		b.fields[name], _ = json.Marshal(readString(b.fields[name]) + string(text)) // a string can always be written
	}
	raw, err := json.Marshal(b.fields)
	if err != nil {
		return nil
	}
	return []llm.Part{{Text: readString(b.fields["thinking"]), Thought: true, Raw: raw}}
}

// addUsage adds the counts of an event, which replace earlier ones, and returns the tokens so far. The API counts
// tokens that it reads from and writes to its cache apart from the other input.
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
