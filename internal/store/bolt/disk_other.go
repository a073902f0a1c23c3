//go:build !linux

package bolt

import (
	"io/fs"
	"os"
)

// copyOwner does nothing.
func copyOwner(*os.File, fs.FileInfo) {}

// freeSpace returns false: it is not known.
func freeSpace(string) (int64, bool) { return 0, false }
