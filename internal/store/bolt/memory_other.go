//go:build !linux

package bolt

const commitsPerRelease = 16

// releasePages does nothing.
func (db *DB) releasePages() {}
