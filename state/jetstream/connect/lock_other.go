//go:build !unix

package connect

import "errors"

type dirLock struct{}

func lockDir(string) (*dirLock, error) {
	return nil, errors.New("embedded state needs a Unix-like system: set state.nats.url on this one")
}

func (l *dirLock) release() error { return nil }
