// Package health judges each pool by what its users feel: latency, errors and missing workers. It
// also reports the published pathologies that a pool shows.
package health
