package resident

import (
	"encoding/binary"
	"errors"
	"os"
	"reflect"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// isResident reports whether the page at an address is in the process's memory, by /proc/self/pagemap: bit 63 of its
// entry (Documentation/admin-guide/mm/pagemap.rst of Linux).
func isResident(t *testing.T, at uintptr) bool {
	t.Helper()
	f, err := os.Open("/proc/self/pagemap")
	if err != nil {
		t.Skip("the system does not tell which pages are in memory: ", err)
	}
	defer f.Close()
	var entry [8]byte
	if _, err := f.ReadAt(entry[:], int64(at)/int64(os.Getpagesize())*8); err != nil {
		t.Skip("the system does not tell which pages are in memory: ", err)
	}
	return binary.LittleEndian.Uint64(entry[:])>>63 == 1
}

// readMaps returns where the pages of the program are.
func readMaps(t *testing.T) []mapping {
	t.Helper()
	maps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Skip("the system does not tell what is mapped: ", err)
	}
	pages := programPages(maps)
	if len(pages) == 0 {
		t.Fatalf("no pages of the program in:\n%s", maps)
	}
	return pages
}

// countResident returns how many pages of some ranges are in the process's memory.
func countResident(t *testing.T, ranges []mapping) (n int) {
	t.Helper()
	for _, m := range ranges {
		for at := m.from; at < m.to; at += uintptr(os.Getpagesize()) {
			if isResident(t, at) {
				n++
			}
		}
	}
	return n
}

func TestRelease_PagesThatOnlyStartingNeeded_AreNotInMemory(t *testing.T) {
	pages := readMaps(t)
	before := countResident(t, pages)
	Release()
	if after := countResident(t, pages); after*2 > before {
		t.Errorf("%d pages of the program are in memory, %d were before", after, before)
	}
	if err := mapOnlyTouched(nil); err != nil {
		t.Skip("the system maps the neighbours of pages: ", err)
	}
	memory, err := os.Open("/proc/self/mem")
	if err != nil {
		t.Skip(err)
	}
	defer memory.Close()
	touched := 0
	for _, m := range pages {
		for at := m.from; at < m.to; at += 64 << 10 {
			if _, err := memory.ReadAt(make([]byte, 1), int64(at)); err != nil {
				t.Fatal(err)
			}
			touched++
		}
	}
	// What the test itself needs of the program comes on top.
	if after := countResident(t, pages); after > 4*touched {
		t.Errorf("%d pages of the program are in memory after %d were touched", after, touched)
	}
}

// countDescriptors returns how many descriptors the process has open.
func countDescriptors(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// A page that is touched brings none of its neighbours.
func TestMapOnlyTouched_NeighboursAreNotMapped(t *testing.T) {
	program, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Skip(err)
	}
	defer program.Close()
	info, err := program.Stat()
	if err != nil {
		t.Fatal(err)
	}
	size := int(info.Size()) / os.Getpagesize() * os.Getpagesize()
	data, err := unix.Mmap(int(program.Fd()), 0, size, unix.PROT_READ, unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(data) }()
	from := uintptr(unsafe.Pointer(unsafe.SliceData(data)))
	whole := []mapping{{from, from + uintptr(len(data))}}
	if err := mapOnlyTouched(nil); err != nil {
		t.Skip("the system maps the neighbours of pages: ", err)
	}
	if err := mapOnlyTouched(whole); err != nil {
		t.Fatal(err)
	}
	before := countDescriptors(t)
	if err := mapOnlyTouched(whole); !errors.Is(err, unix.EBUSY) {
		t.Errorf("a second time: %v", err)
	}
	if now := countDescriptors(t); now != before {
		t.Errorf("%d descriptors are open after a second time, %d were before", now, before)
	}
	touched, sum := 0, byte(0)
	for i := 0; i < len(data); i += 64 << 10 {
		sum += data[i]
		touched++
	}
	if n := countResident(t, whole); n != touched {
		t.Errorf("%d pages are in memory, %d were touched (sum %d)", n, touched, sum)
	}
}

func TestProgramPages_OtherMappings_AreLeftOut(t *testing.T) {
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		t.Skip(err)
	}
	got := programPages([]byte("400000-401000 r--p 00000000 fe:00 1 " + program + "\nRss: 4 kB\nAnonymous:    0 kB\n" +
		"401000-402000 r-xp 00001000 fe:00 1 " + program + "\nAnonymous:             0 kB\nVmFlags: rd ex mr mw me\n" +
		"402000-403000 r--p 00002000 fe:00 1 " + program + "\nAnonymous:             4 kB\n" +
		"403000-404000 rw-p 00003000 fe:00 1 " + program + "\nAnonymous:             0 kB\n" +
		"7f0000000000-7f0000001000 r-xp 00000000 fe:00 2 /lib/libc.so.6\nAnonymous:             0 kB\n" +
		"7f0000002000-7f0000003000 r-xp 00000000 00:00 0\nAnonymous:             0 kB\n" +
		"7ffc00000000-7ffc00001000 r-xp 00000000 00:00 0 [vdso]\nAnonymous:             0 kB\n"))
	if want := []mapping{{0x400000, 0x401000}, {0x401000, 0x402000}}; !reflect.DeepEqual(got, want) {
		t.Errorf("pages of the program at %x, want %x", got, want)
	}
}
