//go:build unix

package connect

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// A dirLock keeps a second process out of the directory. Two embedded servers would overwrite each
// other's files. The kernel releases it when the process ends in any way.
type dirLock struct{ file *os.File }

func lockDir(path string) (*dirLock, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("locking the state directory: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		holder, _ := os.ReadFile(path)
		f.Close()
		return nil, fmt.Errorf("the state directory %s is in use by another Paramedic (process %s): stop it, or "+
			"give this one its own state.dir: %w",
			filepath.Dir(path), strings.TrimSpace(string(holder)), err)
	}
	// The process ID is for people only. The lock holds even if this write fails.
	if f.Truncate(0) == nil {
		fmt.Fprintln(f, os.Getpid())
	}
	return &dirLock{f}, nil
}

func (l *dirLock) release() error { return l.file.Close() }
