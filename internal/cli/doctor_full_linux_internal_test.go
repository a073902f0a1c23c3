package cli

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestDiagnoseFolder_DiskFull_Fails(t *testing.T) {
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "mode=0700,size=256k"); err != nil {
		t.Skip("skipped: a small disk cannot be mounted here: ", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(disk, 0); err != nil {
			t.Error(err)
		}
	})
	if err := diagnoseFolder(filepath.Join(disk, "data", "raven.db")); err != nil {
		t.Errorf("with room: %v", err)
	}
	filler := filepath.Join(disk, "filler")
	if err := os.WriteFile(filler, make([]byte, 192<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := diagnoseFolder(filepath.Join(disk, "data", "raven.db")); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("without room: %v", err)
	}
	left, err := os.ReadDir(disk)
	if err != nil || len(left) != 1 {
		t.Errorf("%v are left behind, %v", left, err)
	}
}
