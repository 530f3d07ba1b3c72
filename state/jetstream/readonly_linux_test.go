package jetstream_test

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"paramedic/state"
	"paramedic/state/jetstream"
)

// On a disk that became read-only, the store does not open, changes nothing and names the
// directory. When the disk takes writes again, everything is there.
func TestReadOnlyDiskIsNamed(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64m"); err != nil {
		t.Skipf("this process may not mount a file system: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	s := openStore(t, jetstream.Config{Dir: dir})
	if err := s.Append(t.Context(), state.Input{Cluster: "prod", ID: "kept.0"}); err != nil {
		t.Fatal(err)
	}
	closeStore(t, s)
	remount := func(flags uintptr) {
		if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT|flags, ""); err != nil {
			t.Fatal(err)
		}
	}
	remount(syscall.MS_RDONLY)
	_, err := jetstream.Open(t.Context(), jetstream.Config{Dir: dir})
	if !errors.Is(err, syscall.EROFS) || !strings.Contains(err.Error(), dir) {
		t.Errorf("opened a store on a disk that is read-only: %v", err)
	}
	remount(0)
	s = openStore(t, jetstream.Config{Dir: dir})
	defer closeStore(t, s)
	if found := allInputs(t, s); found["kept"] != 1 {
		t.Errorf("the log has %v", found)
	}
}
