package mcpserve

import (
	"bytes"
	"encoding/json"

	"ravenbot/internal/core/text"
)

// cleanStructured returns a JSON object whose texts hold no invisible characters; nil where the data is no object,
// which is what the protocol wants of structured results.
func cleanStructured(data json.RawMessage) map[string]any {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber() // large integers keep their digits
	var object map[string]any
	if d.Decode(&object) != nil {
		return nil
	}
	clean, _ := cleanValue(object).(map[string]any)
	return clean
}

// cleanValue returns a JSON value without the characters in texts and names that are not shown. It changes lists in
// place.
func cleanValue(v any) any {
	switch v := v.(type) {
	case string:
		return text.Clean(v)
	case []any:
		for i := range v {
			v[i] = cleanValue(v[i])
		}
	case map[string]any:
		clean := make(map[string]any, len(v))
		for key, value := range v {
			clean[text.Clean(key)] = cleanValue(value)
		}
		return clean
	}
	return v
}
