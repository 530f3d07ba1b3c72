// Package survey looks once at a live fleet, with nothing installed. It checks the health of every
// pool, and diagnoses the pools that show symptoms.
package survey
