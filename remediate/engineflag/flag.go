package engineflag

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"paramedic/internal/commandline"
	"paramedic/internal/text"
	"paramedic/remediate/cluster"
)

// A Place locates an engine's flag in a workload: the one string of the pod template that a patch
// replaces.
type Place struct {
	Container int
	List      string // command or args
	Index     int
	Token     string // the whole string as it is
	from, to  int    // the value's bytes within token
	Value     int
	Absent    bool // the flag is missing; it would be appended at Index
}

// With returns the string with another value of the flag.
func (p Place) With(flag string, value int) string {
	if p.Absent {
		return fmt.Sprintf("--%s=%d", Spelled(flag), value)
	}
	return p.Token[:p.from] + strconv.Itoa(value) + p.Token[p.to:]
}

// Locate finds the flag in the container that has it, in every form that engines take:
// --max-num-seqs=256, --max-num-seqs 256 as two strings, either with underscores, or within a shell
// command. The last one wins, as it does for the engine. If no container has the flag, the place is
// absent, in the args of the only engine container. It returns an error for a form that it cannot
// edit for certain.
func Locate(containers []cluster.Container, flag string) (Place, error) {
	found, in := Place{}, -1
	for i, c := range containers {
		p, ok, err := LocateIn(c, flag)
		if err != nil {
			return Place{}, fmt.Errorf("container %s: %w", c.Name, err)
		}
		if !ok {
			continue
		}
		if in >= 0 {
			return Place{}, fmt.Errorf("containers %s and %s both set --%s: change it by hand", containers[in].Name,
				c.Name, flag)
		}
		p.Container = i
		found, in = p, i
	}
	if in >= 0 {
		return found, nil
	}
	return appendPlace(containers, flag)
}

// Spelled returns a flag as its engine takes it.
func Spelled(flag string) string {
	if flag == capTRTLLM {
		return flag
	}
	return strings.ReplaceAll(flag, "_", "-")
}

// appendPlace returns the place of a missing flag: the end of the args of the one container that
// runs an engine.
func appendPlace(containers []cluster.Container, flag string) (Place, error) {
	in := -1
	for i, c := range containers {
		if !engineContainer(c) {
			continue
		}
		if in >= 0 {
			return Place{}, fmt.Errorf("--%s is not set, and containers %s and %s may both run the engine: set it by hand", flag,
				containers[in].Name, c.Name)
		}
		in = i
	}
	if in < 0 {
		return Place{}, fmt.Errorf("--%s is not set, and Paramedic recognises no engine in the containers: set it by hand", flag)
	}
	c := containers[in]
	if other := foreign(c, flag); other != "" {
		return Place{}, fmt.Errorf("container %s seems to run an engine that takes --%s, but sets --%s: change it by hand", c.Name,
			Spelled(flag), Spelled(other))
	}
	if len(c.Args) == 0 || !plain(c, flag) {
		return Place{}, fmt.Errorf("--%s is not set in container %s, which has no plain args to append it to: "+
			"add it by hand", flag, c.Name)
	}
	return Place{Container: in, List: "args", Index: len(c.Args), Absent: true}, nil
}

// engineContainer reports whether a container runs an engine.
func engineContainer(c cluster.Container) bool {
	return capOf(c) != "" || slices.ContainsFunc(c.Args, func(w string) bool { return strings.HasPrefix(w, "--model") })
}

// plain reports whether what is appended to the args becomes an option of the engine. It does not
// behind a shell or a script, and neither where the flag is written in a form that is not known.
func plain(c cluster.Container, flag string) bool {
	mention := mentions(flag)
	if slices.ContainsFunc(c.Command, func(w string) bool { return strings.HasSuffix(w, ".sh") }) {
		return false
	}
	return !slices.ContainsFunc(slices.Concat(c.Command, c.Args), func(w string) bool {
		script := strings.ContainsAny(w, " \t\n") && !strings.HasPrefix(w, "-") && !strings.HasPrefix(w, "{") && !strings.HasPrefix(w, "[")
		return script || commandline.IsShell(w) || mention.MatchString(w)
	})
}

// LocateIn finds the flag in one container. It reports false if the container does not have it.
func LocateIn(c cluster.Container, flag string) (Place, bool, error) {
	if commandline.HasScript(c.Command, c.Args) {
		return locateShell(c, flag)
	}
	var found Place
	ok := false
	for _, l := range []struct {
		name   string
		tokens []string
	}{{"command", c.Command}, {"args", c.Args}} {
		for i, t := range l.tokens {
			name, value, eq := strings.Cut(t, "=")
			if !isFlag(name, flag) {
				continue
			}
			p := Place{List: l.name, Index: i, Token: t, from: len(name) + 1, to: len(t)}
			if !eq {
				if i+1 >= len(l.tokens) {
					return Place{}, false, fmt.Errorf("--%s has no value: set it by hand", flag)
				}
				value = l.tokens[i+1]
				p = Place{List: l.name, Index: i + 1, Token: value, to: len(value)}
			}
			n, err := number(flag, value)
			if err != nil {
				return Place{}, false, err
			}
			p.Value = n
			found, ok = p, true
		}
	}
	return found, ok, nil
}

// locateShell finds the flag within a script. It accepts only a literal value: one number, outside
// a heredoc, with no expansion in it, in a script without secrets.
func locateShell(c cluster.Container, flag string) (Place, bool, error) {
	var found Place
	ok := false
	re := regexp.MustCompile(`--` + flagPattern(flag) + `(?:=|\s+(?:\\\n\s*)?)("[^"]*"|'[^']*'|[^\s"';&|]*)`)
	mention := mentions(flag)
	for _, l := range []struct {
		name   string
		tokens []string
	}{{"command", c.Command}, {"args", c.Args}} {
		for i, t := range l.tokens {
			said := len(mention.FindAllString(t, -1))
			if said == 0 {
				continue
			}
			if strings.Contains(t, "<<") {
				return Place{}, false, fmt.Errorf("--%s is in a script with a heredoc: change it by hand", flag)
			}
			for _, line := range strings.Split(t, "\n") {
				if j := strings.IndexByte(line, '#'); j >= 0 && mention.MatchString(line[j:]) {
					return Place{}, false, fmt.Errorf("--%s may be in a comment of the script: change it by hand", flag)
				}
			}
			all := re.FindAllStringSubmatchIndex(t, -1)
			if len(all) != 1 || said != 1 || ok {
				return Place{}, false, fmt.Errorf("--%s is in the script more than once, or in a form that Paramedic "+
					"cannot edit: change it by hand", flag)
			}
			if secret.MatchString(t) {
				return Place{}, false, fmt.Errorf("--%s is in a script that may contain a secret, and a plan shows all of it: "+
					"change it by hand", flag)
			}
			from, to := all[0][2], all[0][3]
			if to-from >= 2 && (t[from] == '"' || t[from] == '\'') {
				from, to = from+1, to-1
			}
			n, err := number(flag, t[from:to])
			if err != nil {
				return Place{}, false, err
			}
			found, ok = Place{List: l.name, Index: i, Token: t, from: from, to: to, Value: n}, true
		}
	}
	return found, ok, nil
}

// secret matches what may be a secret in a script: a word such as token with a value that is
// neither a variable nor a path, or an address with a password.
var secret = regexp.MustCompile(`(?i)(?:token|secret|passw(?:or)?d|key|bearer)["']?[=:\s]\s*["']?[^\s"'$` + "`" + `<>|&;)/-]|` +
	`//[^/\s:@]+:[^/\s$@]+@`)

// number parses a flag's value. It refuses a value that a variable sets.
func number(flag, s string) (int, error) {
	if strings.ContainsAny(s, "$`") {
		return 0, fmt.Errorf("--%s is set from a variable (%s): change it where the variable is set", flag, clip(s))
	}
	n, err := strconv.Atoi(s)
	if err != nil || n <= 0 {
		return 0, fmt.Errorf("--%s is %q, and must be a positive number: change it by hand", flag, clip(s))
	}
	return n, nil
}

// isFlag reports whether a token is the flag. Engines take - and _ alike.
func isFlag(token, flag string) bool {
	if !strings.HasPrefix(token, "--") {
		return false
	}
	return strings.ReplaceAll(token[2:], "_", "-") == strings.ReplaceAll(flag, "_", "-")
}

// mentions returns the expression for the flag, with or without a value.
func mentions(flag string) *regexp.Regexp {
	return regexp.MustCompile(`--` + flagPattern(flag) + `(?:[=\s"']|$)`)
}

func flagPattern(flag string) string {
	return strings.ReplaceAll(regexp.QuoteMeta(strings.ReplaceAll(flag, "_", "-")), "-", "[-_]")
}

// clip shortens foreign text for messages.
func clip(s string) string { return text.Line(s, 60) }
