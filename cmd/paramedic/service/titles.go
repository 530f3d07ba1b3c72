package service

import (
	"sync"

	"paramedic/rules/catalog"
	"paramedic/state"
)

// BuiltInTitles returns the titles of the built-in signals and symptoms. It has none if they cannot
// be read; texts then show IDs.
var BuiltInTitles = sync.OnceValue(func() state.Titles {
	c, err := LoadRules("")
	if err != nil {
		return state.Titles{}
	}
	return titlesOf(c)
})

// titlesOf returns the titles of a catalogue's signals and symptoms.
func titlesOf(c *catalog.Catalog) state.Titles {
	t := state.Titles{Signals: c.Titles(), Symptoms: map[state.Symptom]string{}}
	for _, s := range c.Symptoms() {
		t.Symptoms[s.ID] = s.Title
	}
	return t
}
