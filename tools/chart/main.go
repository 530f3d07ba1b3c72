package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

// deployDir is the folder with the chart and the manifests, seen from this module.
const deployDir = "../../deploy"

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "chart:", err)
		os.Exit(1)
	}
}

// A list holds the values of a flag that may be repeated.
type list []string

// String implements flag.Value.
func (l *list) String() string { return fmt.Sprint(*l) }

// Set implements flag.Value.
func (l *list) Set(v string) error {
	*l = append(*l, v)
	return nil
}

func run(args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("name what to do: render, lint or generate")
	}
	f := flag.NewFlagSet("chart", flag.ContinueOnError)
	var files list
	f.Var(&files, "f", "values `file`; may be repeated, later files win")
	if err := f.Parse(args[1:]); err != nil {
		return err
	}
	switch args[0] {
	case "render":
		values, err := readValues(files...)
		if err != nil {
			return err
		}
		docs, err := render(values)
		if err != nil {
			return err
		}
		for _, d := range docs {
			fmt.Printf("---\n%s\n", d.text)
		}
		return nil
	case "lint":
		return lintRungs()
	case "generate":
		return generate()
	}
	return fmt.Errorf("%q is none of render, lint and generate", args[0])
}

// generate writes every generated file.
func generate() error {
	for _, step := range []func() (map[string][]byte, error){chartFiles, manifests} {
		files, err := step() // the manifests are rendered from the chart's files
		if err != nil {
			return err
		}
		for name, body := range files {
			path := filepath.Join(deployDir, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				return err
			}
			if err := os.WriteFile(path, body, 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}
