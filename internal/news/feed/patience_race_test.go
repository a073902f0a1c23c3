//go:build race

package feed

// Patience is larger under the race detector, which slows some code tenfold.
const Patience = 20
