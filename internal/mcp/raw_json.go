package mcp

import "encoding/json"

// shared is JSON that shares the memory of the surrounding JSON, because results may be large.
type shared json.RawMessage

// UnmarshalJSON keeps the value without a copy. Nobody changes the input.
func (s *shared) UnmarshalJSON(raw []byte) error {
	*s = raw
	return nil
}

// jsonObject returns the members of a JSON object by their exact keys, or nil. A struct would accept keys of any case,
// which allows a second value to bypass a check of the first (class of CVE-2026-27896). The last duplicate key wins.
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

// jsonList returns the members of a JSON array, or nil.
func jsonList(raw json.RawMessage) (list []json.RawMessage) {
	for _, value := range decodeAs[[]shared](raw) {
		list = append(list, json.RawMessage(value))
	}
	return list
}

func jsonString(raw json.RawMessage) string { return decodeAs[string](raw) }

func jsonBool(raw json.RawMessage) *bool { return decodeAs[*bool](raw) }

// decodeAs decodes JSON. It returns the zero value for JSON of another type.
func decodeAs[T any](raw json.RawMessage) T {
	var v, none T
	if json.Unmarshal(raw, &v) != nil {
		return none
	}
	return v
}
