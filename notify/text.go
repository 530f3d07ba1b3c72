package notify

import "paramedic/internal/text"

// Clean returns foreign text on one line, without what no reader sees.
func Clean(s string) string { return text.Clean(s) }

// Len returns a text's length as chat tools count it.
func Len(s string) int { return text.Len(s) }

// Cut shortens a text to at most limit units of [Len].
func Cut(s string, limit int) string { return text.Cut(s, limit) }
