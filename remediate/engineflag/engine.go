package engineflag

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"paramedic/internal/commandline"
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
	name, cap string
	image     *regexp.Regexp
}{
	{"vllm", capVLLM, regexp.MustCompile(`(?i)vllm`)},
	{"sglang", capSGLang, regexp.MustCompile(`(?i)sglang`)},
	{"trtllm", capTRTLLM, regexp.MustCompile(`(?i)trtllm|tensorrt[-_]llm`)},
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
	name, _, _ := strings.Cut(path.Base(c.Image), ":")
	if strings.Contains(name, "router") {
		return ""
	}
	if flag := capOfPrograms(commandline.Programs(c.Command, nil)); flag != "" {
		return flag
	}
	image := path.Base(path.Dir(c.Image)) + "/" + name
	for _, e := range engines {
		if e.image.MatchString(image) {
			return e.cap
		}
	}
	if flag := capOfPrograms(commandline.Programs(c.Command, c.Args)); flag != "" {
		return flag
	}
	for _, e := range engines {
		if e.image.MatchString(c.Name) {
			return e.cap
		}
	}
	return ""
}

// capOfPrograms returns the limit of the first engine among the programs.
func capOfPrograms(programs []string) string {
	for _, p := range programs {
		for _, e := range engines {
			if commandline.Starts(p, e.name) {
				return e.cap
			}
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
	words := commandline.Expand(c.Command, c.Args)
	if ranks, err = commandline.Ranks(words); err != nil {
		return 0, false, err
	}
	return ranks, ranks > 1 && slices.Contains(words, "--enable-dp-attention"), nil
}
