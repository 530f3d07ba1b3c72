package tune

import (
	"strings"

	"paramedic/rules"
	"paramedic/state"
)

// EngineOf is the engine of a pool's workers; empty where none tells, or they differ.
func EngineOf(workers []state.Worker, p rules.PoolHealth) string {
	engine := ""
	for _, w := range workers {
		if w.Engine == "" || w.Namespace != p.Namespace || w.Pool != p.Pool || w.Pool == "" && !strings.EqualFold(w.Model, p.Model) {
			continue
		}
		if engine != "" && engine != w.Engine {
			return ""
		}
		engine = w.Engine
	}
	return engine
}
