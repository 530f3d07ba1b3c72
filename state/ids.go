package state

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strings"
	"time"
)

// Identifiers are named strings, so that a signature says which one it takes.
type (
	// IncidentID is "INC-" and a ULID.
	IncidentID string
	// ActionID is "ACT-" and a ULID.
	ActionID string
	// EffectID is deterministic: the effect's kind and what it is about. One effect of an ID is
	// pending at most.
	EffectID string
	// Fingerprint is Alertmanager's hash of an alert's label set.
	Fingerprint string
	// Symptom is one of the symptom IDs of the catalogue, or Unclassified.
	Symptom string
	// Cause is one of the cause IDs of the catalogue, or Unknown.
	Cause string
)

// The IDs that code outside the catalogue has to know.
const (
	// Unclassified is the symptom of an alert that no rule could place.
	Unclassified Symptom = "unclassified"
	// Unknown is the cause of an incident that has no verdict, or whose verdict is that the
	// evidence does not decide.
	Unknown Cause = "unknown"
	// BenignAlert is a rule that fires on a healthy engine; it never pages.
	BenignAlert Cause = "benign_alert"
)

const crockford = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

// ulid is the ULID of a time and a seed (https://github.com/ulid/spec): 48 bits of milliseconds,
// then 80 bits that a random ULID draws and this one takes from a hash, because a fold that is
// replayed has to give the same IDs again.
func ulid(at time.Time, seed string) string {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], uint64(at.UnixMilli())<<16)
	sum := sha256.Sum256([]byte(seed))
	copy(b[6:], sum[:10])
	hi, lo := binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])
	var out [26]byte
	for i := 25; i >= 0; i-- {
		out[i] = crockford[lo&31]
		lo = lo>>5 | hi<<59
		hi >>= 5
	}
	return string(out[:])
}

// NewIncidentID is the ID of the incident that is opened at a time by a seed (its first alert and
// log position).
func NewIncidentID(at time.Time, seed string) IncidentID {
	return IncidentID("INC-" + ulid(at, seed))
}

// NewActionID returns the ID of an action. Its time orders it among the actions of its incident and
// is not when it was planned; the seed is the incident, the action's kind, its target and the
// attempt.
func NewActionID(at time.Time, seed string) ActionID {
	return ActionID("ACT-" + ulid(at, seed))
}

// Hash is a short, stable hex digest of its parts: for plan hashes, nonces and input IDs.
func Hash(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:12])
}
