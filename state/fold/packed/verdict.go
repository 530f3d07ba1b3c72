package packed

import (
	"slices"
	"strings"
	"sync"

	"paramedic/state"
)

// maxShared bounds the texts and the lists that are known. Most have less than a kilobyte, so they
// take about two megabytes. Beyond it, new ones are not shared with older ones.
const maxShared = 1024

// verdictTexts holds texts of verdicts. In a storm most verdicts give the same advice, which took a
// tenth of the heap.
var verdictTexts = sharedTexts{texts: map[string]string{}, lists: map[string][]string{}}

// A sharedTexts holds one copy of equal texts, and of equal lists.
type sharedTexts struct {
	mu    sync.Mutex
	texts map[string]string
	lists map[string][]string // by their texts, one a line
}

// ShareTexts replaces a verdict's texts and lists by equal ones of earlier verdicts. Its lists must
// not be changed in place afterwards. Calls may be concurrent.
func ShareTexts(d *state.Diagnosis) {
	s := &verdictTexts
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range d.Alternatives {
		d.Alternatives[i].WouldWinIf = s.text(d.Alternatives[i].WouldWinIf)
	}
	for i := range d.Findings {
		f := &d.Findings[i]
		f.Why = s.text(f.Why)
		if strings.HasPrefix(f.Signal, "symptom:") { // its text names no place
			f.Signal, f.Text = s.text(f.Signal), s.text(f.Text)
		}
	}
	d.Story.Why = s.text(d.Story.Why)
	d.Story.Do, d.Story.Avoid, d.Missing = s.list(d.Story.Do), s.list(d.Story.Avoid), s.list(d.Missing)
}

func (s *sharedTexts) text(t string) string {
	if known, ok := s.texts[t]; ok {
		return known
	}
	if len(s.texts) == maxShared {
		clear(s.texts)
	}
	s.texts[t] = t
	return t
}

func (s *sharedTexts) list(l []string) []string {
	if len(l) == 0 {
		return l
	}
	key := strings.Join(l, "\n")
	known, ok := s.lists[key]
	switch {
	case !ok && len(s.lists) == maxShared:
		clear(s.lists)
	case ok && slices.Equal(known, l): // a text may have several lines
		return known
	}
	s.lists[key] = slices.Clip(l)
	return s.lists[key]
}
