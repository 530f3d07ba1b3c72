// Package deviation shows which signals left their usual values. [Anomalies] lists single signals,
// [Correlations] those that moved together, and [Chain] those that lead from a named cause to its
// symptoms.
package deviation
