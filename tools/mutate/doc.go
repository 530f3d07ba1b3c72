// Mutate finds the conditions of first aid that can be changed while every test still passes.
//
// For each package it makes one copy of the sources, in which every condition asks whether it is
// the mutant of this run, and builds the tests of the packages that have to notice once against that
// copy (go test -overlay; the tree itself is not touched). Then it runs the tests once a mutant, chosen by an environment
// variable, and only those tests in which the mutant would decide otherwise. A mutant is one of
// these:
//
//	a condition, an operand of && or ||, a case of a switch, or any other comparison, taken as true or as false
//	a bound moved by one: < for <=, > for >=, Before for "not after", and the other way round
//
// What a mutant of a whole condition shows already by one of an operand is left out.
//
// Mutants that no test notices are listed, and the command fails, unless survivors.txt explains
// them. It fails as well for an explanation of something that is noticed by now, or that is gone.
// Each entry there is a line with the mutant as it is printed here (package, function, condition,
// change; without the line number, so that it survives other edits) and an indented line that says
// why it is no loss. A text in {braces} that a function has several times is numbered from the
// second on.
//
// Verdicts are kept in .cache/mutate for as long as the test binary stays the same, so that a run
// that was interrupted goes on.
package main
