//go:build !linux

package bolt

import "go.etcd.io/bbolt"

// releasePages does nothing: other systems take pages back by themselves.
func (*DB) releasePages() {}

// releasePagesIn does nothing.
func (*DB) releasePagesIn(*bbolt.Tx) {}
