package survey

import (
	"context"
	"time"

	"paramedic/rules/enrich/engine"
)

// Watch scrapes engines for the given time: ten times, or fewer if that is more often than every
// half second.
func Watch(ctx context.Context, scrapers []*engine.Client, watch time.Duration) error {
	ticker := time.NewTicker(max(watch/10, 500*time.Millisecond))
	defer ticker.Stop()
	end := time.After(watch)
	for {
		for _, s := range scrapers {
			s.Scrape(ctx)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-end:
			return nil
		case <-ticker.C:
		}
	}
}
