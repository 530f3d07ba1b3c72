package jetstream

// WriteToPlaces makes the next commits write their records, and those that wait, to their places.
func WriteToPlaces(s *Store) { s.limits = limits{} }

// LimitLinks bounds the bytes that wait in links.
func LimitLinks(s *Store, bytes int) { s.limits.links = bytes }
