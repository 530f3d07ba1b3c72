package kubernetes

import (
	"path"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// commandOf returns a container's command line as words. It splits a shell's script into the
// script's words.
func commandOf(c corev1.Container) []string {
	var out []string
	words := append(append([]string(nil), c.Command...), c.Args...)
	for i, w := range words {
		if isScript(words, i) {
			out = append(out, shellWords(w)...)
			continue
		}
		out = append(out, w)
	}
	return out
}

// isScript reports whether a word is the script of a shell, also behind another program, such as
// tini.
func isScript(words []string, i int) bool {
	return i > 0 && strings.HasPrefix(words[i-1], "-") && strings.HasSuffix(words[i-1], "c") &&
		slices.ContainsFunc(words[:i], isShell)
}

func isShell(w string) bool {
	switch path.Base(w) {
	case "sh", "bash", "dash", "ash", "zsh":
		return true
	}
	return false
}

// shellWords splits a script at blanks outside quotes. It expands nothing, so a word with a
// variable stays as it is. It splits the argument of eval again, as the shell does; KServe starts
// the engine of an LLMInferenceService this way.
func shellWords(script string) []string {
	var out []string
	words := wordsOf(script)
	for i, w := range words {
		if i > 0 && words[i-1] == "eval" {
			out = append(out, wordsOf(w)...)
			continue
		}
		out = append(out, w)
	}
	return out
}

func wordsOf(script string) []string {
	var out []string
	var word strings.Builder
	started, quote := false, rune(0)
	for _, r := range strings.ReplaceAll(script, "\\\n", " ") {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			quote, started = r, true
		case strings.ContainsRune(" \t\n;&|", r):
			if started {
				out = append(out, word.String())
			}
			word.Reset()
			started = false
		default:
			word.WriteRune(r)
			started = true
		}
	}
	if started {
		out = append(out, word.String())
	}
	return out
}

// flag returns the value of a command-line flag in any form (--a-b=1, --a_b 1). The last one wins,
// as in engines.
func flag(words []string, name string) (string, bool) {
	value, found := "", false
	for i, w := range words {
		body, ok := strings.CutPrefix(w, "--")
		if !ok {
			continue
		}
		key, v, inline := strings.Cut(body, "=")
		if strings.ReplaceAll(key, "_", "-") != name {
			continue
		}
		switch {
		case inline:
			value, found = v, true
		case i+1 < len(words):
			value, found = words[i+1], true
		}
	}
	return value, found
}

// MaxNumSeqs returns the limit of concurrent requests on the command line of an engine's container.
// It returns false if there is none, or if it is not a positive number.
func MaxNumSeqs(c corev1.Container) (int, bool) {
	words := commandOf(c)
	for _, name := range []string{"max-num-seqs", "max-running-requests"} {
		if v, ok := flag(words, name); ok {
			n, err := strconv.Atoi(v)
			return n, err == nil && n > 0
		}
	}
	return 0, false
}

// enginesOf returns how many engines a vLLM container runs on one page. Each applies max_num_seqs
// to itself. A rank that is started by itself is one engine.
func enginesOf(c corev1.Container) int {
	words := commandOf(c)
	if _, alone := flag(words, "data-parallel-rank"); alone || engineOf(c) != "vllm" {
		return 1
	}
	for _, name := range []string{"data-parallel-size-local", "data-parallel-size"} {
		if v, ok := flag(words, name); ok {
			n, err := strconv.Atoi(v)
			if err != nil {
				return 1
			}
			return max(n, 1)
		}
	}
	if i := slices.Index(words, "-dp"); i >= 0 && i+1 < len(words) {
		if n, err := strconv.Atoi(words[i+1]); err == nil {
			return max(n, 1)
		}
	}
	return 1
}

// modelOf returns the name under which a container serves its model.
func modelOf(c corev1.Container) string {
	words := commandOf(c)
	for _, name := range []string{"served-model-name", "model-name", "model", "model-path"} {
		if v, ok := flag(words, name); ok && !strings.HasPrefix(v, "-") && !strings.Contains(v, "$") {
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
