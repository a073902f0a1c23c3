package cli

import (
	"encoding/json"
	"io"
)

// writeItems writes items as the JSON list of the contract, {"items": [...]}.
func writeItems[T any](w io.Writer, items []T) error {
	return writeJSON(w, struct {
		Items []T `json:"items"`
	}{items})
}

// writeJSON writes v as one line of JSON.
func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	// Addresses keep their & readable; the output goes to no browser.
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// namedItem is a list item that has only a name.
type namedItem struct {
	Name string `json:"name"`
}
