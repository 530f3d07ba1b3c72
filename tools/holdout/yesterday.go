package main

import (
	"fmt"
	"time"

	"paramedic/lab"
)

const (
	aDay       = 24 * time.Hour
	yesterday  = 40 * time.Minute // of the day before that is scraped
	warmUp     = 5 * time.Minute  // of its fleet before that
	aheadOfOld = 10 * time.Minute // from its start to the same hour of the first alert rules
)

// scrapeYesterday scrapes the same fleets, in health, around the hour at which the alert rules will
// be loaded a day later. The hours between are not scraped.
func (w *world) scrapeYesterday() error {
	from := w.fleet.Start().Add(before + ages[w.convention["age"]] - aDay - aheadOfOld)
	old := &world{convention: w.convention, store: w.store, shown: map[*lab.Fleet]shown{}}
	for _, f := range []*lab.Fleet{w.fleet, w.neighbour} {
		if f == nil {
			continue
		}
		cfg := f.Config()
		cfg.Start = from.Add(-warmUp)
		twin, err := lab.NewFleet(cfg)
		if err != nil {
			return fmt.Errorf("lab: %w", err)
		}
		if f == w.fleet {
			old.fleet = twin
		} else {
			old.neighbour = twin
		}
	}
	for at := from; !at.After(from.Add(yesterday)); at = at.Add(sparse) {
		old.eachFleet(func(f *lab.Fleet) { f.Advance(at) })
		old.scrape(at)
	}
	w.store.vanish(from.Add(yesterday+sparse), nil)
	return nil
}
