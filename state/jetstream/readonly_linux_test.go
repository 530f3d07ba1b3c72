package jetstream_test

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"paramedic/internal/disktest"
	"paramedic/state"
	"paramedic/state/jetstream"
)

// On a disk that became read-only, the store does not open, changes nothing and names the
// directory. When the disk takes writes again, everything is there.
func TestReadOnlyDiskIsNamed(t *testing.T) {
	dir := disktest.Small(t, 64<<20)
	s := openStore(t, jetstream.Config{Dir: dir})
	if err := s.Append(t.Context(), state.Input{Cluster: "prod", ID: "kept.0"}); err != nil {
		t.Fatal(err)
	}
	closeStore(t, s)
	disktest.SetReadOnly(t, dir, true)
	_, err := jetstream.Open(t.Context(), jetstream.Config{Dir: dir})
	if !errors.Is(err, syscall.EROFS) || !strings.Contains(err.Error(), dir) {
		t.Errorf("opened a store on a disk that is read-only: %v", err)
	}
	disktest.SetReadOnly(t, dir, false)
	s = openStore(t, jetstream.Config{Dir: dir})
	defer closeStore(t, s)
	if found := allInputs(t, s); found["kept"] != 1 {
		t.Errorf("the log has %v", found)
	}
}
