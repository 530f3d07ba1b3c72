package notify

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// SecretFile returns a source of the secret in a file. It reads the file at every call, so that a
// rotated secret is used at once. An error names the file, never its content.
func SecretFile(path string) func() (string, error) {
	return func() (string, error) {
		f, err := os.Open(path)
		if err != nil {
			return "", fmt.Errorf("reading a secret: %w", err)
		}
		defer f.Close()
		b, err := io.ReadAll(io.LimitReader(f, 16<<10))
		if err != nil {
			return "", fmt.Errorf("reading the secret in %s: %w", path, err)
		}
		s := strings.TrimSpace(string(b))
		if s == "" {
			return "", fmt.Errorf("reading the secret in %s: %w", path, ErrNoSecret)
		}
		return s, nil
	}
}

// ErrNoSecret reports that a secret's file is empty.
var ErrNoSecret = errors.New("the file is empty")
