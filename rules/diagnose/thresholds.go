package diagnose

// The constants of the method in decibans, for pages that explain it. A cause is named if its score
// is at least Threshold and leads the next one by Margin. Each symptom that it does not explain
// adds Unexplained.
const (
	Threshold   = threshold
	Margin      = margin
	Unexplained = unexplained
)
