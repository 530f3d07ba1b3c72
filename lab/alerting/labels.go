package alerting

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// labelKey returns a key that is equal for equal label sets.
func labelKey(labels map[string]string) string {
	var b strings.Builder
	for _, k := range sortedKeys(labels) {
		b.WriteString(k + "\xff" + labels[k] + "\xff")
	}
	return b.String()
}

// keyBy returns a key that is equal for label sets with equal values of these names.
func keyBy(labels map[string]string, names []string) string {
	if len(names) == 1 {
		return labels[names[0]]
	}
	var b strings.Builder
	for _, n := range names {
		b.WriteString(labels[n])
		b.WriteByte(0xff)
	}
	return b.String()
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// pick returns the labels with these names, without empty ones.
func pick(labels map[string]string, names []string) map[string]string {
	out := make(map[string]string, len(names))
	for _, n := range names {
		if v := labels[n]; v != "" {
			out[n] = v
		}
	}
	return out
}

func formatEdge(v float64) string {
	if math.IsInf(v, 1) {
		return "+Inf"
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}

func parseEdge(s string) float64 {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return math.NaN()
	}
	return v
}
