package kubernetes

import (
	"path"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"paramedic/internal/commandline"
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
	{"dynamo", regexp.MustCompile(`^dynamo\.[a-z]`), regexp.MustCompile(`^ai-dynamo/[^:]*-runtime(?::|$)`), nil},
	{"vllm", regexp.MustCompile(`(?:^|[./])vllm(?:\.|$)`), regexp.MustCompile(`^vllm/|/[^/]*vllm`),
		[]string{"--tensor-parallel-size", "--gpu-memory-utilization", "--served-model-name", "--model_name"}},
	{"sglang", regexp.MustCompile(`(?:^|[./])sglang(?:\.|$)`), regexp.MustCompile(`^sglang/|/[^/]*sglang`),
		[]string{"--mem-fraction-static", "--tp-size"}},
	{"trtllm", regexp.MustCompile(`(?:^|[./])(?:trtllm|tensorrt[-_]llm)(?:[.-]|$)`), regexp.MustCompile(`trtllm|tensorrt[-_]llm`), nil},
}

// engineOf returns the engine of a container, or "" if it has none.
func engineOf(c corev1.Container) string {
	programs := commandline.Programs(c.Command, c.Args)
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
	if _, ok := commandline.Flag(words, "max-num-seqs"); ok {
		return "vllm"
	}
	for _, e := range engines {
		for _, f := range e.flags {
			if _, ok := commandline.Flag(words, strings.ReplaceAll(f[2:], "_", "-")); ok && accelerators(c) > 0 {
				return e.name
			}
		}
	}
	return ""
}

// imageOf returns the last two parts of the image's repository with its tag, in lower case: Triton
// names its engine in the tag.
func imageOf(c corev1.Container) string {
	image, _, _ := strings.Cut(strings.ToLower(c.Image), "@")
	return path.Base(path.Dir(image)) + "/" + path.Base(image)
}
