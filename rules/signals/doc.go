// Package signals describes what can be measured of a fleet: each signal's title, unit and meaning,
// and for each engine and version the metrics that it is computed from. The built-in signals are in
// signals.yaml. [ParseSignals] refuses unknown keys and names, with line numbers.
package signals
