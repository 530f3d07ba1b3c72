// Package rules judges alerts and evidence by the catalogue. [Rules.Classify] maps an alert to a
// symptom. [Rules.Correlate] and [Rules.Absorbs] group alerts into incidents. [Rules.Diagnose]
// names the cause of an incident, and [Rules.SplitOff] finds alerts that have another cause.
//
// All of it is pure. [Load] reads a catalogue once, and nothing changes it afterwards. No function
// reads a clock, a file or the network, and the same arguments give the same bytes. The rules never
// guess: missing or stale evidence has no weight and is listed. If the remaining evidence does not
// decide, the verdict is unknown.
package rules
