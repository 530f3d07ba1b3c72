package kubernetes

import (
	"path"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// An engine is recognised by the words of its program, by its image, or by flags that only such a
// program takes. Values of other options do not count: a client's URL names the engine that it
// calls.
var engines = []struct {
	name    string
	program *regexp.Regexp
	image   *regexp.Regexp // of the last two parts of the repository
	flags   []string       // in a container with an accelerator
}{
	{"dynamo", regexp.MustCompile(`^dynamo\.[a-z]`), regexp.MustCompile(`^ai-dynamo/.*-runtime$`), nil},
	{"vllm", regexp.MustCompile(`(?:^|[./])vllm(?:\.|$)`), regexp.MustCompile(`^vllm/|/[^/]*vllm`),
		[]string{"--tensor-parallel-size", "--gpu-memory-utilization", "--served-model-name", "--model_name"}},
	{"sglang", regexp.MustCompile(`(?:^|[./])sglang(?:\.|$)`), regexp.MustCompile(`^sglang/|/[^/]*sglang`),
		[]string{"--mem-fraction-static", "--tp-size"}},
	{"trtllm", regexp.MustCompile(`(?:^|[./])(?:trtllm|tensorrt[-_]llm)(?:[.-]|$)`), regexp.MustCompile(`trtllm|tensorrt[-_]llm`), nil},
}

// engineOf returns the engine of a container, or "" if it has none.
func engineOf(c corev1.Container) string {
	programs := programsOf(c)
	image := imageOf(c)
	for _, e := range engines {
		if slices.ContainsFunc(programs, e.program.MatchString) || e.name == "dynamo" && e.image.MatchString(image) {
			return e.name
		}
	}
	for _, e := range engines {
		if e.image.MatchString(image) {
			return e.name
		}
	}
	words := commandOf(c)
	if _, ok := flag(words, "max-num-seqs"); ok {
		return "vllm"
	}
	for _, e := range engines {
		for _, f := range e.flags {
			if _, ok := flag(words, strings.ReplaceAll(f[2:], "_", "-")); ok && accelerators(c) > 0 {
				return e.name
			}
		}
	}
	return ""
}

// programsOf returns the words of a command line that can name a program or a module, in lower
// case: neither options nor their values, nor URLs.
func programsOf(c corev1.Container) []string {
	var out []string
	words := slices.Concat(c.Command, c.Args)
	commands := [][]string{words}
	for i, w := range words {
		if isScript(words, i) {
			for _, part := range strings.FieldsFunc(w, func(r rune) bool { return strings.ContainsRune(";&|\n", r) }) {
				commands = append(commands, shellWords(part))
			}
		}
	}
	for _, command := range commands {
		option := false // the word before is an option that may take a value
		for _, w := range command {
			if !option && !strings.HasPrefix(w, "-") && !strings.Contains(w, "://") {
				out = append(out, strings.ToLower(w))
			}
			option = strings.HasPrefix(w, "--") && !strings.Contains(w, "=")
		}
	}
	return out
}

// imageOf returns the last two parts of the image's repository, in lower case.
func imageOf(c corev1.Container) string {
	repository, _, _ := strings.Cut(strings.ToLower(c.Image), "@")
	name, _, _ := strings.Cut(path.Base(repository), ":")
	return path.Base(path.Dir(repository)) + "/" + name
}
