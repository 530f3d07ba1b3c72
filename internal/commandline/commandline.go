// Package commandline reads the command lines of containers: the words of a shell's script, the
// programs that they start, and the values of flags. It expands no variables.
package commandline

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Expand returns a command line as words. It splits a shell's script into the script's words.
func Expand(command, args []string) []string {
	var out []string
	words := slices.Concat(command, args)
	for i, w := range words {
		if isScript(words, i) {
			out = append(out, shellWords(w)...)
			continue
		}
		out = append(out, w)
	}
	return out
}

// Programs returns the words of a command line that can name a program or a module, in lower case:
// neither options nor their values, nor URLs.
func Programs(command, args []string) []string {
	var out []string
	words := slices.Concat(command, args)
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
			if !option && !strings.HasPrefix(w, "-") && !strings.ContainsAny(w, " \n") && !strings.Contains(w, "://") {
				out = append(out, strings.ToLower(w))
			}
			option = len(w) > 2 && strings.HasPrefix(w, "--") && !strings.HasPrefix(w, "--no-") && !strings.Contains(w, "=")
		}
	}
	return out
}

// The programs of engines: the engine's name, a module of it, or a path that ends with it.
var engines = map[string]*regexp.Regexp{
	"vllm":   regexp.MustCompile(`(?:^|[./])vllm(?:\.|$)`),
	"sglang": regexp.MustCompile(`(?:^|[./])sglang(?:\.|$)`),
	"trtllm": regexp.MustCompile(`(?:^|[./])(?:trtllm|tensorrt[-_]llm)(?:[.-]|$)`),
}

// Starts reports whether a word of Programs starts the engine vllm, sglang or trtllm.
func Starts(program, engine string) bool {
	e, known := engines[engine]
	return known && e.MatchString(program)
}

// HasScript reports whether a command line runs a script through a shell, also behind another
// program, such as tini or the entrypoint of an image.
func HasScript(command, args []string) bool {
	all := slices.Concat(command, args)
	at := slices.IndexFunc(all, IsShell)
	return at >= 0 && slices.ContainsFunc(all[at+1:], takesScript)
}

// IsShell reports whether a word is the name of a shell, with or without a path.
func IsShell(word string) bool {
	return slices.Contains([]string{"sh", "bash", "ash", "dash", "zsh", "ksh"}, path.Base(word))
}

// takesScript reports whether a word holds the option c of a shell, such as -c or -euxc.
func takesScript(word string) bool {
	return strings.HasPrefix(word, "-") && !strings.HasPrefix(word, "--") && strings.Contains(word, "c")
}

// isScript reports whether a word is the script of a shell.
func isScript(words []string, i int) bool {
	return i > 0 && takesScript(words[i-1]) && slices.ContainsFunc(words[:i], IsShell)
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

// Flag returns the value of a command-line flag in any form (--a-b=1, --a_b 1). The last one wins,
// as in engines.
func Flag(words []string, name string) (string, bool) {
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

// Ranks returns how many data-parallel engines a command line starts; 1 without such a flag. A rank
// that is started by itself is one engine. It returns an error for a value that is not a number.
func Ranks(words []string) (int, error) {
	for _, alone := range []string{"data-parallel-rank", "dpr"} {
		if _, ok := option(words, alone); ok {
			return 1, nil
		}
	}
	for _, name := range []string{"data-parallel-size-local", "dpl", "data-parallel-size", "dp-size", "dp"} {
		if v, ok := option(words, name); ok {
			n, err := strconv.Atoi(v)
			if err != nil || n <= 0 {
				return 0, fmt.Errorf("the number of data-parallel ranks (%s) is not a positive number", name)
			}
			return n, nil
		}
	}
	return 1, nil
}

// option returns the value of a flag that is written with one hyphen or two.
func option(words []string, name string) (string, bool) {
	if v, ok := Flag(words, name); ok {
		return v, true
	}
	for i, w := range words {
		key, v, inline := strings.Cut(w, "=")
		switch {
		case key != "-"+name:
		case inline:
			return v, true
		case i+1 < len(words):
			return words[i+1], true
		}
	}
	return "", false
}
