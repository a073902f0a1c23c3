package cli

import (
	"encoding/json"
	"io"
)

func writeItems[T any](w io.Writer, items []T) error {
	return writeJSON(w, struct {
		Items []T `json:"items"`
	}{items})
}

func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// namedItem is an item of a list that has nothing but a name.
type namedItem struct {
	Name string `json:"name"`
}
