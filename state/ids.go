package state

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strings"
	"time"
)

// Identifiers are named strings, so that a signature shows which one it takes.
type (
	// IncidentID is "INC-" and a ULID.
	IncidentID string
	// ActionID is "ACT-" and a ULID.
	ActionID string
	// EffectID is the effect's kind and the ID of its subject. At most one effect of an ID is
	// pending.
	EffectID string
	// Fingerprint is Alertmanager's hash of an alert's label set.
	Fingerprint string
	// Symptom is one of the symptom IDs of the catalogue, or Unclassified.
	Symptom string
	// Cause is one of the cause IDs of the catalogue, or Unknown.
	Cause string
)

// The IDs that code outside the catalogue uses.
const (
	// Unclassified is the symptom of an alert that no rule knows.
	Unclassified Symptom = "unclassified"
	// Unknown is the cause of an incident without a verdict, or whose evidence does not decide.
	Unknown Cause = "unknown"
	// BenignAlert is the cause of an alert rule that fires on a healthy engine. It never pages.
	BenignAlert Cause = "benign_alert"
	// GatewayFailure is the cause of a router or gateway that fails in front of healthy engines.
	GatewayFailure Cause = "gateway_failure"
	// MonitoringGap is the cause of missing metrics of workers that serve.
	MonitoringGap Cause = "monitoring_gap"
	// GPUUnderutilization is the cause of idle GPUs that are paid for. It waits for working hours.
	GPUUnderutilization Cause = "gpu_underutilization"
)

// Words returns the cause in plain words, for sentences: kv_exhaustion is "KV exhaustion".
func (c Cause) Words() string {
	words := strings.Split(string(c), "_")
	for i, w := range words {
		switch w {
		case "cuda", "gpu", "kv", "oom":
			words[i] = strings.ToUpper(w)
		}
	}
	return strings.Join(words, " ")
}

const crockford = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

// ulid returns the ULID of a time and a seed (https://github.com/ulid/spec). It has 48 bits of
// milliseconds and 80 bits that are random in other ULIDs. Here they are a hash of the seed,
// because a replay of the log must give the same IDs.
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

// NewIncidentID returns the ID of an incident. The seed is its cluster, log position and first
// alert.
func NewIncidentID(at time.Time, seed string) IncidentID {
	return IncidentID("INC-" + ulid(at, seed))
}

// NewActionID returns the ID of an action. The time orders it among the actions of its incident,
// and is not the time of the plan. The seed is the incident, the action's kind, its target and the
// attempt.
func NewActionID(at time.Time, seed string) ActionID {
	return ActionID("ACT-" + ulid(at, seed))
}

// Hash returns a short, stable hex digest of its parts, for plan hashes, nonces and input IDs.
func Hash(parts ...string) string {
	size := len(parts)
	for _, p := range parts {
		size += len(p)
	}
	return make(Parts, 0, size).With(parts...).Hash()
}

// Parts are the parts of a [Hash], each with a zero byte behind it, for callers that use their
// memory again.
type Parts []byte

// With returns the parts and more of them.
func (p Parts) With(more ...string) Parts {
	for _, part := range more {
		p = append(append(p, part...), 0)
	}
	return p
}

// WithTime returns the parts and a time in the form of RFC 3339.
func (p Parts) WithTime(at time.Time) Parts { return append(at.AppendFormat(p, time.RFC3339Nano), 0) }

// Hash returns [Hash] of the parts.
func (p Parts) Hash() string {
	sum := sha256.Sum256(p[:max(0, len(p)-1)])
	return hex.EncodeToString(sum[:12])
}

// IsShared reports whether the cause is in a part that several pools share: a gateway, a scraper.
func (c Cause) IsShared() bool { return c == GatewayFailure || c == MonitoringGap }
