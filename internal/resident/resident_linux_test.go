package resident

import (
	"encoding/binary"
	"os"
	"reflect"
	"testing"
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

func TestRelease_CodeThatOnlyStartingNeeded_IsNotInMemory(t *testing.T) {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	code := programCode(maps)
	if len(code) == 0 {
		t.Fatalf("no code of the program in:\n%s", maps)
	}
	count := func() (n int) {
		for _, m := range code {
			for at := m.from; at < m.to; at += uintptr(os.Getpagesize()) {
				if isResident(t, at) {
					n++
				}
			}
		}
		return n
	}
	before := count()
	Release()
	if after := count(); after >= before {
		t.Errorf("%d pages of code are in memory, %d were before", after, before)
	}
}

func TestProgramCode_OtherMappings_AreLeftOut(t *testing.T) {
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		t.Skip(err)
	}
	got := programCode([]byte("400000-401000 r--p 00000000 fe:00 1 " + program + "\n" +
		"401000-402000 r-xp 00001000 fe:00 1 " + program + "\n" +
		"402000-403000 rw-p 00002000 fe:00 1 " + program + "\n" +
		"7f0000000000-7f0000001000 r-xp 00000000 fe:00 2 /lib/libc.so.6\n" +
		"7f0000002000-7f0000003000 r-xp 00000000 00:00 0\n" +
		"7ffc00000000-7ffc00001000 r-xp 00000000 00:00 0 [vdso]\n"))
	if want := []mapping{{0x401000, 0x402000}}; !reflect.DeepEqual(got, want) {
		t.Errorf("code at %x, want %x", got, want)
	}
}
