package main

import (
	"fmt"
	"io"
	"math"
)

// A bin counts the verdicts whose confidence is at least from.
type bin struct {
	from       float64
	named      int
	right      int
	confidence float64 // the sum
}

// bins returns empty bins. Most verdicts are nearly certain, so the upper bins are narrow.
func bins() []bin {
	return []bin{{from: 0}, {from: 0.5}, {from: 0.6}, {from: 0.7}, {from: 0.8}, {from: 0.9}, {from: 0.95}, {from: 0.99}, {from: 0.999}}
}

// calibrated sorts the named causes of final verdicts into bins, and returns the expected
// calibration error: the mean distance between confidence and right share, weighted by verdicts.
func calibrated(all []result) ([]bin, float64) {
	out, n := bins(), 0
	for _, r := range all {
		for _, v := range r.Verdicts {
			i := len(out) - 1
			for i > 0 && v.Confidence < out[i].from {
				i--
			}
			n++
			out[i].named++
			out[i].confidence += v.Confidence
			if v.Right {
				out[i].right++
			}
		}
	}
	off := 0.0
	for _, b := range out {
		off += math.Abs(b.confidence - float64(b.right))
	}
	return out, off / float64(max(1, n))
}

// printReliability prints how often verdicts of a confidence are right.
func printReliability(out io.Writer, all []result) {
	list, off := calibrated(all)
	fmt.Fprintf(out, "\n%-28s %8s  %10s  %7s\n", "named with confidence", "verdicts", "confidence", "right%")
	for i, b := range list {
		to := "1"
		if i+1 < len(list) {
			to = fmt.Sprint(list[i+1].from)
		}
		if b.named > 0 {
			fmt.Fprintf(out, "%-28s %8d  %10.1f  %7.1f\n", fmt.Sprintf("%g to %s", b.from, to), b.named,
				100*b.confidence/float64(b.named), share(b.right, b.named))
		}
	}
	fmt.Fprintf(out, "expected calibration error: %.1f %%\n", 100*off)
}
