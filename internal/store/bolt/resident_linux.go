package bolt

import (
	"fmt"
	"os"
	"syscall"

	"go.etcd.io/bbolt"
)

// maxMappedGrowth returns by how many bytes the pages of mapped files in this process's memory may grow before they are
// released, for a store of a size: 4 to 32 MiB. Every page that is needed again has to be mapped anew, which costs more
// the larger the file is: at 5 GB 40 % of the processor time of a message where pages were released with every eighth
// write (measured 2026-11-23).
func maxMappedGrowth(size int64) int64 { return min(max(size/32, 4<<20), 32<<20) }

// releasePages takes the pages of the file out of the process's memory where they have grown much since the last time;
// the system's cache still has them. bbolt maps the whole file, and each page that is looked at brings 15 neighbours
// along, so that the process would grow with the store: to 1,200 MB while 5,000 digests ran (measured 2026-11-22).
// What is mapped is a cache: that it cannot be released is told to nobody.
func (db *DB) releasePages() {
	_ = db.viewFile(func(tx *bbolt.Tx) error {
		db.releasePagesIn(tx)
		return nil
	})
}

// releasePagesIn is releasePages in a transaction: while one is open bbolt does not map the file elsewhere.
func (db *DB) releasePagesIn(tx *bbolt.Tx) {
	mapped := mappedBytes()
	if mapped < db.mapped.Load() { // others have released pages, such as those of the program
		db.mapped.Store(mapped)
	}
	if mapped >= db.mapped.Load()+maxMappedGrowth(tx.Size()) {
		_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, tx.DB().Info().Data, uintptr(tx.Size()), syscall.MADV_DONTNEED)
		db.mapped.Store(mappedBytes())
	}
}

// mappedBytes returns how much of mapped files, the program itself included, is in this process's memory; 0 where the
// system does not tell.
func mappedBytes() int64 {
	text, _ := os.ReadFile("/proc/self/statm")
	// In pages: all, resident, and those of them that are of files (proc(5)).
	var size, resident, shared int64
	_, _ = fmt.Sscan(string(text), &size, &resident, &shared)
	return shared * int64(os.Getpagesize())
}
