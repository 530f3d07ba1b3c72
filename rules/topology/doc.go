// Package topology resolves entities: which pod, node, GPU, engine, pool and model an alert or a
// sample belongs to. It learns from the workers of live context, and falls back on the patterns of
// pod names if there are none.
package topology
