// Package disktest gives tests a small disk that they can fill or make read-only. It needs Linux
// and the right to mount.
package disktest
