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
	name  string
	image *regexp.Regexp // of the last two parts of the repository
	flags []string       // in a container with an accelerator
}{
	{"vllm", regexp.MustCompile(`^vllm/|/[^/]*vllm`),
		[]string{"tensor-parallel-size", "gpu-memory-utilization", "served-model-name", "model-name"}},
	{"sglang", regexp.MustCompile(`^sglang/|/[^/]*sglang`), []string{"mem-fraction-static", "tp-size"}},
	{"trtllm", regexp.MustCompile(`trtllm|tensorrt[-_]llm`), nil},
}

// Dynamo runs other engines, so its name comes before theirs.
var (
	dynamoProgram = regexp.MustCompile(`^dynamo\.[a-z]`)
	dynamoImage   = regexp.MustCompile(`^ai-dynamo/[^:]*-runtime(?::|$)`)
)

// engineOf returns the engine of a container, or "" if it has none.
func engineOf(c corev1.Container) string {
	programs := commandline.Programs(c.Command, c.Args)
	image := imageOf(c)
	if slices.ContainsFunc(programs, dynamoProgram.MatchString) || dynamoImage.MatchString(image) {
		return "dynamo"
	}
	for _, e := range engines {
		if slices.ContainsFunc(programs, func(p string) bool { return commandline.Starts(p, e.name) }) {
			return e.name
		}
	}
	for _, e := range engines {
		if e.image.MatchString(image) {
			return e.name
		}
	}
	words := commandOf(c)
	has := func(flag string) bool {
		_, ok := commandline.Flag(words, flag)
		return ok
	}
	if has("max-num-seqs") {
		return "vllm"
	}
	if accelerators(c) == 0 {
		return ""
	}
	for _, e := range engines {
		if slices.ContainsFunc(e.flags, has) {
			return e.name
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
