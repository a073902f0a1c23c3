//go:build !race

package feed

// Patience is how much slower than alone and bare the tests may run.
const Patience = 3
