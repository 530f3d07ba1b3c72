package access

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
)

// A Secret is read from a file or the environment. A file is read again when it changes, so that a
// secret can be rotated without a restart. A nil Secret is not configured. A Secret never prints
// its value.
type Secret struct {
	path, env, literal string

	mu    sync.Mutex
	info  fs.FileInfo
	value string
}

// NewSecret returns the secret that ref names: "${NAME}" is an environment variable, anything else
// a file. It returns nil for an empty reference.
func NewSecret(ref string) *Secret {
	if ref == "" {
		return nil
	}
	if name, ok := strings.CutPrefix(ref, "${"); ok && strings.HasSuffix(name, "}") {
		return &Secret{env: strings.TrimSuffix(name, "}")}
	}
	return &Secret{path: ref}
}

// LiteralSecret returns a secret with the given value.
func LiteralSecret(value string) *Secret { return &Secret{literal: value} }

// String hides the value.
func (s *Secret) String() string { return "<secret>" }

// Value returns the secret's current value without surrounding white space. An unreadable or empty
// secret is an error, never "".
func (s *Secret) Value() (string, error) {
	if s == nil {
		return "", errors.New("the secret is not configured")
	}
	value, from := s.literal, "the secret"
	switch {
	case s.env != "":
		value, from = strings.TrimSpace(os.Getenv(s.env)), "environment variable "+s.env
	case s.path != "":
		var err error
		if value, err = s.read(); err != nil {
			return "", err
		}
		from = "secret file " + s.path
	}
	if value == "" {
		return "", fmt.Errorf("%s is empty", from)
	}
	return value, nil
}

func (s *Secret) read() (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	info, err := os.Stat(s.path)
	if err != nil {
		return "", fmt.Errorf("reading the secret: %w", err)
	}
	if !changed(s.info, info) {
		return s.value, nil
	}
	data, err := os.ReadFile(s.path)
	if err != nil {
		return "", fmt.Errorf("reading the secret: %w", err)
	}
	s.info, s.value = info, strings.TrimSpace(string(data))
	return s.value, nil
}

// changed reports whether a file differs from the one read before. Kubernetes swaps a symbolic
// link, which makes it another file.
func changed(old, now fs.FileInfo) bool {
	return old == nil || !old.ModTime().Equal(now.ModTime()) || old.Size() != now.Size() || !os.SameFile(old, now)
}

// equal compares two texts in a time that depends on neither, not even on their lengths.
func equal(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}
