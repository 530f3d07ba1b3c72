// Package pattern compiles the regular expressions that operators write. Go's engine takes time in
// proportion to the program and the text, and (a?){1000} of ten characters is a program of
// thousands of instructions. A pattern beyond the limits is refused before it is compiled.
package pattern

import (
	"fmt"
	"regexp"
	"regexp/syntax"
)

// The limits. The longest list of names that fits has about one instruction for each character.
const (
	maxLength       = 1024
	maxInstructions = 2000
)

// Compile returns the compiled pattern. Its error names the limit that the pattern exceeds.
func Compile(expr string) (*regexp.Regexp, error) {
	if len(expr) > maxLength {
		return nil, fmt.Errorf("the regular expression has %d characters, and %d is the most", len(expr), maxLength)
	}
	parsed, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		return nil, err
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return nil, err
	}
	if n := len(program.Inst); n > maxInstructions {
		return nil, fmt.Errorf("the regular expression makes a program of %d instructions, and %d is the most: repeat less, as in x{1,100}",
			n, maxInstructions)
	}
	return regexp.Compile(expr)
}
