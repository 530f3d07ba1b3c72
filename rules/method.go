package rules

// The numbers of the method in decibans, for those who explain it: a cause is named from Threshold
// on, if it is Margin ahead of the next; a symptom that it does not explain costs it -Unexplained.
const (
	Threshold   = threshold
	Margin      = margin
	Unexplained = unexplained
)
