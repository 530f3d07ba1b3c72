package backtest

import (
	"fmt"
	"io"
	"time"

	"paramedic/internal/text"
	"paramedic/notify/console"
	"paramedic/state"
)

// A meter shows the progress on standard error: on one line that it overwrites, or in a log as a
// line at each tenth.
type meter struct {
	out      io.Writer
	attended bool
	now      func() time.Time
	began    time.Time
	first    float64 // the share at the first report
	tenth    int
}

func newMeter(out io.Writer, now func() time.Time) *meter {
	return &meter{out: out, attended: console.Attended(out), now: now}
}

func (m *meter) show(p Progress) {
	share := p.Share()
	if m.began.IsZero() {
		m.began, m.first = m.now(), share
	}
	line := fmt.Sprintf("%.0f %%: until %s, %s, %s, %s", 100*share, p.At.Format("2006-01-02 15:04 MST"), text.Count(p.Alerts, "alert"),
		text.Count(p.Incidents, "incident"), queries(p.Queries))
	if done := share - m.first; done > 0 && share < 1 {
		left := time.Duration(float64(m.now().Sub(m.began)) / done * (1 - share))
		line += ", " + state.FormatDuration(left.Round(time.Second)) + " left"
	}
	switch tenth := int(10 * share); {
	case m.attended:
		fmt.Fprintf(m.out, "\r%s\x1b[K", line)
	case tenth > m.tenth:
		m.tenth = tenth
		fmt.Fprintln(m.out, line)
	}
}

func queries(n int) string {
	if n == 1 {
		return "1 query"
	}
	return fmt.Sprintf("%d queries", n)
}

// end removes the line of a terminal.
func (m *meter) end() {
	if m.attended {
		fmt.Fprint(m.out, "\r\x1b[K")
	}
}
