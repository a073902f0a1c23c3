package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"unicode/utf8"

	"ravenbot/internal/chat"
	"ravenbot/internal/tool"
)

const (
	keptResults = 64      // results kept for reading on
	keptBytes   = 1 << 20 // of each
	defaultPage = 5 << 10 // bytes of a page where the profile names none
)

// results keeps what tools returned beyond what the model is shown at once, for
// a while and for the conversation that it belongs to.
type results struct {
	mu   sync.Mutex
	kept []result // oldest first
}

type result struct {
	id   string
	of   chat.Address
	text string
	page int
}

// page gives the first page of a text and says how to read on.
func (r *results) page(of chat.Address, text string, size int) string {
	if size <= 0 {
		size = defaultPage
	}
	if len(text) <= size {
		return text
	}
	k := result{id: reference(), of: of, text: text[:min(len(text), keptBytes)], page: size}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.kept = append(r.kept, k); len(r.kept) > keptResults {
		r.kept = r.kept[1:]
	}
	return k.at(0)
}

// at gives the page that begins at a byte offset.
func (k result) at(offset int) string {
	rest := k.text[min(offset, len(k.text)):]
	if len(rest) <= k.page {
		return rest
	}
	end := offset + k.page
	for end > offset && !utf8.RuneStart(k.text[end]) {
		end--
	}
	return k.text[offset:end] + fmt.Sprintf("\n[bytes %d to %d of %d; for more call result_read with id %q and offset %d]", offset, end, len(k.text), k.id, end)
}

func (r *results) find(id string, of chat.Address) (result, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, k := range r.kept {
		if k.id == id && k.of == of {
			return k, true
		}
	}
	return result{}, false
}

// ResultReader is the native tool result_read: pages of a result too large to be
// shown at once, within the conversation that it was made in.
func (e *Engine) ResultReader() tool.Tool {
	yes := true
	return tool.Func{
		Described: tool.Spec{Server: "result", Name: "read", Native: true,
			Description: "Reads on in a tool result that was too large to be shown at once.",
			Schema: json.RawMessage(`{"type":"object","properties":{"id":{"type":"string","description":"the id named at the end of the result"},` +
				`"offset":{"type":"integer","minimum":0,"description":"the byte to begin at"}},"required":["id"]}`),
			Hints: tool.Hints{ReadOnly: &yes}},
		Do: func(ctx context.Context, args json.RawMessage) (tool.Result, error) {
			var in struct {
				ID     string
				Offset int
			}
			if err := json.Unmarshal(args, &in); err != nil {
				return tool.Failure(err.Error()), nil
			}
			k, ok := e.results.find(in.ID, tool.CallerFrom(ctx).Conversation)
			if !ok {
				return tool.Failure("No result is kept under this id any more; make the first call again."), nil
			}
			return tool.Text(k.at(max(in.Offset, 0))), nil
		},
	}
}
