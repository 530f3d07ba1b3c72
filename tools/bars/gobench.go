package main

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"
)

// A result holds the metrics of a Go benchmark by their units.
type result struct {
	name    string
	metrics map[string]float64
}

// goBench runs benchmarks of package cmd/paramedic/service.
func (r *runner) goBench(pattern, benchtime string) []result {
	cmd := exec.CommandContext(r.ctx, "go", "test", "./cmd/paramedic/service", "-run", "^$", "-bench", pattern, "-benchtime", benchtime)
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	results := parseBench(string(out))
	if err != nil || len(results) == 0 {
		panic(fmt.Errorf("%s: %w\n%s", cmd, err, out))
	}
	return results
}

// parseBench reads the lines of results. It skips other lines.
func parseBench(out string) []result {
	var results []result
	for line := range strings.Lines(out) {
		words := strings.Fields(line)
		if len(words) < 4 || !strings.HasPrefix(words[0], "Benchmark") {
			continue
		}
		r := result{words[0], map[string]float64{}}
		for i := 2; i+1 < len(words); i += 2 {
			if value, err := strconv.ParseFloat(words[i], 64); err == nil {
				r.metrics[words[i+1]] = value
			}
		}
		results = append(results, r)
	}
	return results
}
