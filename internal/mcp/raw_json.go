package mcp

import "encoding/json"

// shared is JSON that shares the memory of what it is part of: results may be large, and are taken apart level by level.
type shared json.RawMessage

// UnmarshalJSON keeps the value. json.Unmarshal passes a part of its input, which nobody changes here.
func (s *shared) UnmarshalJSON(raw []byte) error {
	*s = raw
	return nil
}

// jsonObject returns the members of a JSON object by their exact keys; nil if raw is not an object. A struct would
// accept keys of any case, so that a server could smuggle a second value past whoever checks the first (the class of
// CVE-2026-27896). The last of duplicate keys counts. The values share the memory of raw.
func jsonObject(raw json.RawMessage) map[string]json.RawMessage {
	members := decodeAs[map[string]shared](raw)
	if members == nil {
		return nil
	}
	o := make(map[string]json.RawMessage, len(members))
	for name, value := range members {
		o[name] = json.RawMessage(value)
	}
	return o
}

// jsonList returns the members of a JSON array; nil if raw is not one. They share the memory of raw.
func jsonList(raw json.RawMessage) (list []json.RawMessage) {
	for _, value := range decodeAs[[]shared](raw) {
		list = append(list, json.RawMessage(value))
	}
	return list
}

func jsonString(raw json.RawMessage) string { return decodeAs[string](raw) }

func jsonBool(raw json.RawMessage) *bool { return decodeAs[*bool](raw) }

// decodeAs returns JSON as a value; the zero value if it has another type.
func decodeAs[T any](raw json.RawMessage) T {
	var v, none T
	if json.Unmarshal(raw, &v) != nil {
		return none
	}
	return v
}
