// Package arena lends slices of zeroes that are given back together, so that work that repeats
// leaves little to the garbage collector.
package arena

// least is the number of elements that an arena begins with.
const least = 1 << 8

// An Arena lends slices until Reset. Its zero value is ready to use. It is not safe for concurrent
// use.
type Arena[T any] struct{ used []T }

// Take returns a slice of n zero elements.
func (a *Arena[T]) Take(n int) []T {
	from := len(a.used)
	if from+n > cap(a.used) {
		// Slices that were taken before keep their own memory.
		a.used, from = make([]T, 0, max(2*cap(a.used), n, least)), 0
	}
	a.used = a.used[:from+n]
	return a.used[from : from+n : from+n]
}

// Grow returns list with room for n more elements.
func (a *Arena[T]) Grow(list []T, n int) []T {
	if cap(list)-len(list) >= n {
		return list
	}
	return append(a.Take(2 * (len(list) + n))[:0], list...)
}

// Reset takes back and clears all slices. They must not be used afterwards.
func (a *Arena[T]) Reset() {
	clear(a.used)
	a.used = a.used[:0]
}
