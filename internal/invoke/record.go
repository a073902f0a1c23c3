package invoke

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"time"
	"unicode/utf8"

	"ravenbot/internal/store"
	"ravenbot/internal/tool"
)

const (
	maxArgs     = 16 << 10  // bytes of arguments in a record
	maxResult   = 256 << 10 // bytes of a result that are kept
	maskedValue = "***"
)

// record describes a call that ended, with nothing secret in it.
func (i *Invoker) record(in tool.Intent, res tool.Result, note string, began time.Time, shown int) store.ToolCall {
	var spec tool.Spec
	if in.Tool.Tool != nil {
		spec = in.Tool.Tool.Spec()
	}
	c := store.ToolCall{ID: in.Caller.Call, Turn: in.Caller.Turn, Conversation: in.Caller.Conversation, User: userID(in.Caller),
		Server: spec.Server, Tool: in.Tool.Name, Args: i.maskArgs(in.Args), Note: note, Began: began, Took: i.o.Now().Sub(began)}
	text := i.o.Rules.Mask(res.Text)
	if res.IsError {
		c.Error = cut(text, shown)
	} else {
		c.Result = cut(text, shown)
	}
	if len(res.Text) > shown {
		// Whole is what a model may read on in: as the tool wrote it, as the transcript
		// has it, too.
		c.ResultID, c.Whole = resultID(began), cut(res.Text, maxResult)
	}
	return c
}

// userID names the caller over all platforms; empty: several people, or nobody.
func userID(c tool.Caller) string {
	if c.User.ID == "" {
		return ""
	}
	return c.Conversation.Platform + "/" + c.User.ID
}

// resultID sorts by time, so that the oldest can go first, and cannot be guessed.
func resultID(at time.Time) string { return fmt.Sprintf("%011x%s", at.UnixMilli(), reference()) }

// reference is short enough to be read out and long enough to be found in a log.
func reference() string {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// secretName matches names of arguments whose values are nobody's business.
var secretName = regexp.MustCompile(`(?i)passw|passphrase|secret|token|api_?-?key|authorization|credential|private_?-?key|cookie`)

// maskArgs gives arguments without their secrets; ones too long to keep are told
// by their size.
func (i *Invoker) maskArgs(args json.RawMessage) json.RawMessage {
	if len(args) == 0 {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(args))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return describeArgs("arguments that are no JSON")
	}
	out, err := json.Marshal(maskValue(v))
	if err != nil || len(out) > maxArgs {
		return describeArgs(fmt.Sprintf("%d bytes of arguments", len(args)))
	}
	if out = []byte(i.o.Rules.Mask(string(out))); !json.Valid(out) {
		return describeArgs("arguments that hold a secret")
	}
	return out
}

func describeArgs(what string) json.RawMessage {
	b, _ := json.Marshal("(" + what + ")") // a string always can
	return b
}

func maskValue(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, inner := range v {
			if _, text := inner.(string); text && secretName.MatchString(k) {
				v[k] = maskedValue
			} else {
				v[k] = maskValue(inner)
			}
		}
	case []any:
		for n := range v {
			v[n] = maskValue(v[n])
		}
	}
	return v
}

// cut shortens a text to so many bytes, between characters.
func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most]
}
