package engineflag

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"paramedic/remediate/cluster"
)

// The names that engines give to their limit of running requests. trtllm-serve takes its flags with
// underscores only (https://nvidia.github.io/TensorRT-LLM/commands/trtllm-serve), the others with
// hyphens as well.
const (
	capVLLM   = "max_num_seqs"
	capSGLang = "max_running_requests"
	capTRTLLM = "max_batch_size"
)

// An engine is recognised by its program: a word of the command line, or the image's repository.
var engines = []struct {
	cap            string
	program, image *regexp.Regexp
}{
	{capVLLM, regexp.MustCompile(`(?i)(?:^|[./])vllm(?:\.|$)`), regexp.MustCompile(`(?i)vllm`)},
	{capSGLang, regexp.MustCompile(`(?i)(?:^|[./])sglang(?:\.|$)`), regexp.MustCompile(`(?i)sglang`)},
	{capTRTLLM, regexp.MustCompile(`(?i)(?:^|[./])(?:trtllm|tensorrt[-_]llm)(?:[.-]|$)`), regexp.MustCompile(`(?i)trtllm|tensorrt[-_]llm`)},
}

// CapFlag returns the name of the engine's limit of running requests, given the containers.
func CapFlag(containers []cluster.Container) string {
	for _, c := range containers {
		if flag := capOf(c); flag != "" {
			return flag
		}
	}
	return capVLLM
}

// capOf returns the limit of the engine that a container runs, or "" if it runs none that is known.
// The command comes first, then the image, then the args, then the container's name. Values of
// options do not count: vLLM has backends that are named after other engines.
func capOf(c cluster.Container) string {
	image := path.Base(path.Dir(c.Image)) + "/" + strings.Split(path.Base(c.Image), ":")[0]
	if strings.Contains(image, "router") {
		return ""
	}
	if flag := capOfWords(c.Command); flag != "" {
		return flag
	}
	for _, e := range engines {
		if e.image.MatchString(image) {
			return e.cap
		}
	}
	if flag := capOfWords(c.Args); flag != "" {
		return flag
	}
	for _, e := range engines {
		if e.image.MatchString(c.Name) {
			return e.cap
		}
	}
	return ""
}

// capOfWords returns the limit of the first engine that a command line or a script in it starts.
func capOfWords(tokens []string) string {
	for _, command := range strings.FieldsFunc(strings.Join(tokens, " "), func(r rune) bool { return strings.ContainsRune(";&|", r) }) {
		option := false // the word before is an option that may take a value
		for _, w := range strings.Fields(command) {
			if !option && !strings.HasPrefix(w, "-") {
				for _, e := range engines {
					if e.program.MatchString(w) {
						return e.cap
					}
				}
			}
			option = strings.HasPrefix(w, "--") && !strings.Contains(w, "=")
		}
	}
	return ""
}

// foreign returns the limit of another engine that a container's command line names, or "".
func foreign(c cluster.Container, flag string) string {
	for _, e := range engines {
		if e.cap == flag {
			continue
		}
		mention := mentions(e.cap)
		if slices.ContainsFunc(slices.Concat(c.Command, c.Args), mention.MatchString) {
			return e.cap
		}
	}
	return ""
}

// Ranks returns how many data-parallel ranks an engine's container runs, and whether the flag is a
// limit for all of them together: SGLang divides max_running_requests by the ranks with attention
// of their own. It returns an error if the number of ranks cannot be read.
func Ranks(c cluster.Container) (ranks int, together bool, err error) {
	ranks = 1
	for _, name := range []string{"data_parallel_size_local", "data_parallel_size", "dp_size"} {
		p, ok, err := LocateIn(c, name)
		if err != nil {
			return 0, false, fmt.Errorf("the number of data-parallel ranks is unknown: %w", err)
		}
		if ok {
			ranks = p.Value
			break
		}
	}
	words := strings.Fields(strings.Join(slices.Concat(c.Command, c.Args), " "))
	for i, w := range words {
		switch w {
		case "-dp", "--dp":
			n, err := strconv.Atoi(words[min(i+1, len(words)-1)])
			if err != nil || n <= 0 {
				return 0, false, fmt.Errorf("the number of data-parallel ranks (%s) is not a number", w)
			}
			ranks = n
		case "--data-parallel-rank": // started by itself
			return 1, false, nil
		case "--enable-dp-attention":
			together = true
		}
	}
	return ranks, together && ranks > 1, nil
}
