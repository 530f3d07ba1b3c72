package state

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// FormatValue writes a value with its unit: 98 %, 850 ms, 2.5 min, 41.5 GiB, yes. Stories,
// playbooks and pages all use it, so that a value reads the same everywhere.
func FormatValue(v float64, unit string) string {
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return "no number"
	case unit == "bool" || unit == "0/1":
		if v == 0 {
			return "no"
		}
		return "yes"
	case unit == "code":
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	factor, suffix := UnitScale(v, unit)
	if v == 1 && len(suffix) > 4 && !strings.HasSuffix(suffix, "/s") {
		suffix = strings.TrimSuffix(suffix, "s") // 1 request
	}
	return FormatNumber(v*factor) + suffix
}

// FormatDuration writes a duration as in a configuration: 2m and 1h30m, without the empty parts
// that Go adds.
func FormatDuration(d time.Duration) string {
	s := d.String()
	for _, empty := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(s, empty) {
			s = s[:len(s)-2]
		}
	}
	return s
}

// mostSure is the highest confidence that a text shows, in percent. Evidence is never complete.
const mostSure = 99

// FormatShare writes a confidence. It is never 0 % for a cause that was weighed, and never 100 %.
// Texts, pages and the terminal all use it.
func FormatShare(share float64) string {
	if share > 0 && share < 0.01 {
		return "under 1 %"
	}
	return strconv.Itoa(min(max(int(100*share+0.5), 0), mostSure)) + " %"
}

// UnitScale returns the factor and the suffix that suit values of about this size.
func UnitScale(size float64, unit string) (factor float64, suffix string) {
	size = math.Abs(size)
	switch unit {
	case "ratio":
		return 100, " %"
	case "s":
		switch {
		case size > 0 && size < 1:
			return 1000, " ms"
		case size < 120:
			return 1, " s"
		case size < 2*3600:
			return 1.0 / 60, " min"
		case size < 48*3600:
			return 1.0 / 3600, " h"
		}
		return 1.0 / (24 * 3600), " d"
	case "bytes":
		return byteScale(size)
	case "bytes/s": // a leak is slow, so it is shown per hour
		factor, suffix = byteScale(size * 3600)
		return factor * 3600, suffix + "/h"
	case "1/s":
		return 1, "/s"
	case "C":
		return 1, " °C"
	case "", "bool", "code", "text":
		return 1, ""
	}
	return 1, " " + unit
}

func byteScale(size float64) (factor float64, suffix string) {
	factor = 1
	for _, suffix = range []string{" B", " KiB", " MiB", " GiB"} {
		if size*factor < 1024 {
			return factor, suffix
		}
		factor /= 1024
	}
	return factor, " TiB"
}

// FormatNumber writes three significant digits, and whole numbers without decimals.
func FormatNumber(v float64) string {
	switch abs := math.Abs(v); {
	case abs < 1e-4: // a rounding error
		return "0"
	case abs >= 1e6:
		return strconv.FormatFloat(v/1e6, 'f', 1, 64) + "M"
	case abs >= 100 || v == math.Trunc(v):
		return strconv.FormatFloat(v, 'f', 0, 64)
	case abs >= 10:
		return strings.TrimSuffix(strconv.FormatFloat(v, 'f', 1, 64), ".0")
	case abs >= 0.01:
		return strings.TrimRight(strings.TrimRight(strconv.FormatFloat(v, 'f', 2, 64), "0"), ".")
	}
	return strconv.FormatFloat(v, 'g', 2, 64)
}
