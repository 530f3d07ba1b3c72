package playbooks

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// FormatValue writes a value with its unit as people say it: 98%, 850 ms, 41.5 GiB, yes.
func FormatValue(v float64, unit string) string {
	switch unit {
	case "ratio":
		return short(v*100) + "%"
	case "%":
		return short(v) + "%"
	case "s":
		return seconds(v)
	case "bool", "0/1":
		if v == 0 {
			return "no"
		}
		return "yes"
	case "bytes":
		return bytes(v)
	case "bytes/s":
		return bytes(v*3600) + "/h"
	case "1/s":
		return short(v) + "/s"
	case "code":
		return strconv.FormatFloat(v, 'f', -1, 64)
	case "":
		return short(v)
	}
	if strings.HasSuffix(unit, "/s") || len(unit) <= 3 {
		return short(v) + " " + unit
	}
	if v == 1 {
		unit = strings.TrimSuffix(unit, "s")
	}
	return short(v) + " " + unit
}

// short keeps three digits that matter, and no more.
func short(v float64) string {
	abs := math.Abs(v)
	switch {
	case abs >= 1e6:
		return strconv.FormatFloat(v/1e6, 'f', 1, 64) + "M"
	case abs >= 100 || v == math.Trunc(v):
		return strconv.FormatFloat(v, 'f', 0, 64)
	case abs >= 10:
		return strings.TrimSuffix(strconv.FormatFloat(v, 'f', 1, 64), ".0")
	case abs >= 0.01:
		return strings.TrimRight(strings.TrimRight(strconv.FormatFloat(v, 'f', 2, 64), "0"), ".")
	}
	if abs < 1e-4 { // a rounding error of whoever measured it
		return "0"
	}
	return strconv.FormatFloat(v, 'g', 2, 64)
}

func seconds(v float64) string {
	switch abs := math.Abs(v); {
	case v == 0:
		return "0 s"
	case abs < 1:
		return short(math.Round(v*1000)) + " ms"
	case abs < 120:
		return short(v) + " s"
	case abs < 2*3600:
		return short(math.Round(v/60)) + " min"
	case abs < 48*3600:
		return short(math.Round(v/360)/10) + " h"
	}
	return short(math.Round(time.Duration(v*float64(time.Second)).Hours()/2.4)/10) + " d"
}

func bytes(v float64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	i := 0
	for math.Abs(v) >= 1024 && i < len(units)-1 {
		v /= 1024
		i++
	}
	return short(v) + " " + units[i]
}
