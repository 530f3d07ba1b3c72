// Mutate finds conditions of first aid that can change while every test still passes.
//
// For each package it copies the sources with a switch in every condition, and builds the tests of
// the packages that must notice once against that copy (go test -overlay; the tree is not changed).
// An environment variable selects the mutant. Each mutant runs only against the tests in which it
// decides differently. The mutants are:
//
//   - a condition, an operand of && or ||, a case of a switch, or another comparison, as true or as
//     false
//   - a bound moved by one: < for <=, > for >=, Before for "not after", and the reverse
//
// A mutant of a whole condition is left out if a mutant of an operand has the same effect.
//
// The command lists the mutants that no test notices, and fails unless survivors.txt explains them.
// It also fails if an explained mutant is noticed or no longer exists. An entry is the mutant as
// printed here (package, function, condition, change; no line number, so that other edits do not
// matter), and an indented line with the reason why it is harmless. A text in {braces} that occurs
// several times in a function is numbered from the second on.
//
// Verdicts are cached in .cache/mutate while the test binary stays the same, so an interrupted run
// can continue.
package main
