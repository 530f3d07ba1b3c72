// Package bottleneck finds where the time of a pool's requests goes: into the queue, prefill,
// decode or the network. It reads traces if the pool has any, and metrics otherwise.
package bottleneck
