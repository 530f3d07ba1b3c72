package jetstream

// WriteToPlaces makes the next commits write their records, and those that wait, to their places.
func WriteToPlaces(s *Store) { s.inlineBytes = 0 }
