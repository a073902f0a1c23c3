package mcp

import "encoding/json"

// jsonObject returns the members of a JSON object by their exact keys; nil if raw is not an object. A struct would
// accept keys of any case, so that a server could smuggle a second value past whoever checks the first (the class of
// CVE-2026-27896). The last of duplicate keys counts.
func jsonObject(raw json.RawMessage) map[string]json.RawMessage {
	return decodeAs[map[string]json.RawMessage](raw)
}

// jsonList returns the members of a JSON array; nil if raw is not one.
func jsonList(raw json.RawMessage) []json.RawMessage { return decodeAs[[]json.RawMessage](raw) }

// jsonString returns the value of a JSON string; "" if raw is not one.
func jsonString(raw json.RawMessage) string { return decodeAs[string](raw) }

// jsonBool returns the value of a JSON boolean; nil if raw is not one.
func jsonBool(raw json.RawMessage) *bool { return decodeAs[*bool](raw) }

// decodeAs returns JSON as a value; the zero value if it has another type.
func decodeAs[T any](raw json.RawMessage) T {
	var v, none T
	if json.Unmarshal(raw, &v) != nil {
		return none
	}
	return v
}
