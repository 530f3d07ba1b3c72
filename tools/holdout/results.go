package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
)

// keep appends a result to a file, unless the name is empty.
func keep(file string, r result) error {
	if file == "" {
		return nil
	}
	w, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("keeping a result: %w", err)
	}
	return errors.Join(json.NewEncoder(w).Encode(r), w.Close())
}

// maxLine limits a result with its sums, in bytes.
const maxLine = 1 << 20

// readAll returns the results of files, whose names are separated by commas.
func readAll(files string) ([]result, error) {
	if files == "" {
		return nil, errors.New("name files of results with -runs")
	}
	var all []result
	for _, file := range strings.Split(files, ",") {
		some, err := readResults(file)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

// readResults returns the results of a file.
func readResults(file string) ([]result, error) {
	in, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("reading results: %w", err)
	}
	defer in.Close()
	var all []result
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		var r result
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", file, len(all)+1, err)
		}
		all = append(all, r)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return all, nil
}
