// Package userfile reads the files of a directory that an operator names in the configuration. A
// symbolic link must not lead out of that directory: a person who may add rules could otherwise
// read any file of the bot through the problems that it reports. The links of a mounted ConfigMap
// (rules.yaml → ..data/rules.yaml, ..data → ..2026_11_26) stay inside.
package userfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// Read returns the content of a file of a directory. It refuses more than most bytes, a file that
// is not regular, and a link that is absolute or leads out of the directory.
func Read(dir, name string, most int64) ([]byte, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("cannot be read: %w", err)
	}
	defer root.Close()
	link, err := root.Lstat(name)
	if err != nil {
		return nil, fmt.Errorf("cannot be read: %w", err)
	}
	info, err := root.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist), err != nil && link.Mode()&fs.ModeSymlink == 0:
		return nil, fmt.Errorf("cannot be read: %w", err)
	case err != nil:
		return nil, fmt.Errorf("is a symbolic link that is absolute or leads out of %s, which is refused: put the file itself there (%w)",
			dir, err)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("is no regular file (%s)", info.Mode().Type())
	}
	f, err := root.Open(name)
	if err != nil {
		return nil, fmt.Errorf("cannot be read: %w", err)
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return nil, fmt.Errorf("cannot be read: %w", err)
	}
	if int64(len(raw)) > most {
		return nil, fmt.Errorf("is too large: it has more than %d bytes", most)
	}
	return raw, nil
}
