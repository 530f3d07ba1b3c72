// Package survey looks once at a live fleet, with nothing installed: it judges the health of every
// pool, and diagnoses the pools that show symptoms.
package survey
