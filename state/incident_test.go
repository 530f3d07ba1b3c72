package state_test

import (
	"reflect"
	"testing"

	"paramedic/state"
)

// A storm has tens of thousands of incidents. One byte more than this, and each takes 256 more.
func TestIncidentFitsItsSizeClass(t *testing.T) {
	const class, header = 1536, 8 // of Go's allocator, for types with pointers
	if size := reflect.TypeFor[state.Incident]().Size(); size+header > class {
		t.Errorf("an incident has %d bytes: keep what most incidents lack behind a pointer", size)
	}
}
