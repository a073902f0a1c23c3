// Package meaningtest provides tests with an index by meaning whose model knows two meanings.
package meaningtest

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"ravenbot/internal/recall/meaning"
	"ravenbot/internal/store/kv"
)

// Start starts an index in which texts that contain one of some phrases have one meaning, and all others another. It is
// called in a bubble of synctest; end stops the index.
func Start(t *testing.T, db kv.DB, phrases ...string) (index *meaning.Index, end func()) {
	t.Helper()
	embed := func(_ context.Context, texts []string) (list [][]float32, _ error) {
		for _, text := range texts {
			v := []float32{1, 0}
			if slices.ContainsFunc(phrases, func(phrase string) bool { return strings.Contains(text, phrase) }) {
				v = []float32{0, 1}
			}
			list = append(list, v)
		}
		return list, nil
	}
	index = meaning.New(func() (meaning.Embedder, bool) { return meaning.Embedder{Name: "m", Embed: embed}, true }, db,
		slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(t.Context())
	go index.Run(ctx)
	return index, func() { cancel(); synctest.Wait() }
}

// Stored returns how many vectors of a group are stored.
func Stored(t *testing.T, db kv.DB, group string) (n int) {
	t.Helper()
	if err := db.View(t.Context(), func(tx kv.Tx) (err error) {
		n, err = tx.Count(meaning.Vectors.Spec, group)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return n
}
