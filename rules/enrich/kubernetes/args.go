package kubernetes

import (
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"paramedic/internal/commandline"
)

// commandOf returns the words of a container's command line.
func commandOf(c corev1.Container) []string { return commandline.Expand(c.Command, c.Args) }

// MaxNumSeqs returns the limit of concurrent requests on the command line of an engine's container.
// It returns false if there is none, or if it is not a positive number.
func MaxNumSeqs(c corev1.Container) (int, bool) {
	words := commandOf(c)
	for _, name := range []string{"max-num-seqs", "max-running-requests"} {
		if v, ok := commandline.Flag(words, name); ok {
			n, err := strconv.Atoi(v)
			return n, err == nil && n > 0
		}
	}
	return 0, false
}

// enginesOf returns how many engines a vLLM container runs on one page. Each applies max_num_seqs
// to itself. A rank that is started by itself is one engine.
func enginesOf(c corev1.Container) int {
	if engineOf(c) != "vllm" {
		return 1
	}
	n, err := commandline.Ranks(commandOf(c))
	if err != nil {
		return 1
	}
	return n
}

// modelOf returns the name under which a container serves its model.
func modelOf(c corev1.Container) string {
	words := commandOf(c)
	for _, name := range []string{"served-model-name", "model-name", "model", "model-path"} {
		if v, ok := commandline.Flag(words, name); ok && !strings.HasPrefix(v, "-") && !strings.Contains(v, "$") {
			return v
		}
	}
	for i, w := range words {
		if (w == "serve" || w == "trtllm-serve" && words[min(i+1, len(words)-1)] != "serve") && i+1 < len(words) &&
			!strings.HasPrefix(words[i+1], "-") && !strings.Contains(words[i+1], "$") {
			return words[i+1]
		}
	}
	return ""
}

// engineContainer returns the container that runs an engine, or else the first container.
func engineContainer(spec corev1.PodSpec) (corev1.Container, string) {
	for _, c := range spec.Containers {
		if e := engineOf(c); e != "" && !isRouter(c) {
			return c, e
		}
	}
	if len(spec.Containers) == 0 {
		return corev1.Container{}, ""
	}
	return spec.Containers[0], ""
}
