//go:build !failpoint

package failpoint

// Here marks a place.
func Here(string) {}
