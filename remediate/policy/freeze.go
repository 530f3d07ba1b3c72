package policy

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// A FreezeWindow is a time in which nothing is written. It is either once, from Start to End, or
// every week on Days between From and To ("22:00", in Zone, which is UTC by default). If To is
// before From, the window runs past midnight.
type FreezeWindow struct {
	Name  string    `yaml:"name"`
	Start time.Time `yaml:"start"`
	End   time.Time `yaml:"end"`
	Days  []string  `yaml:"days"` // mon, tue …; empty: every day
	From  string    `yaml:"from"`
	To    string    `yaml:"to"`
	Zone  string    `yaml:"zone"`
}

// Covers reports whether the window covers a time, and when it ends.
func (w FreezeWindow) Covers(now time.Time) (bool, time.Time, error) {
	if !w.Start.IsZero() || !w.End.IsZero() {
		if !w.End.After(w.Start) {
			return false, time.Time{}, errors.New("end must be after start")
		}
		return !now.Before(w.Start) && now.Before(w.End), w.End, nil
	}
	zone, err := time.LoadLocation(w.Zone)
	if err != nil {
		return false, time.Time{}, fmt.Errorf("zone %q: %w", w.Zone, err)
	}
	from, err1 := time.Parse("15:04", w.From)
	to, err2 := time.Parse("15:04", w.To)
	if err := errors.Join(err1, err2); err != nil {
		return false, time.Time{}, fmt.Errorf("from and to must be times such as 22:00: %w", err)
	}
	for _, d := range w.Days {
		if !slices.Contains(days, strings.ToLower(d)) {
			return false, time.Time{}, fmt.Errorf("day %q is not one of %s", d, strings.Join(days, ", "))
		}
	}
	now = now.In(zone)
	for back := range 2 { // a window that began yesterday may reach into today
		day := now.AddDate(0, 0, -back)
		if len(w.Days) > 0 && !slices.ContainsFunc(w.Days,
			func(d string) bool { return strings.EqualFold(d, days[day.Weekday()]) }) {
			continue
		}
		start := time.Date(day.Year(), day.Month(), day.Day(), from.Hour(), from.Minute(), 0, 0, zone)
		end := time.Date(day.Year(), day.Month(), day.Day(), to.Hour(), to.Minute(), 0, 0, zone)
		if !end.After(start) {
			end = end.AddDate(0, 0, 1)
		}
		if !now.Before(start) && now.Before(end) {
			return true, end.UTC(), nil
		}
	}
	return false, time.Time{}, nil
}

var days = []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}
