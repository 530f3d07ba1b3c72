package tune

import (
	"strings"

	"paramedic/state"
)

// EngineOf returns the engine of a pool's workers. It is empty if no worker reports one, or they
// differ.
func EngineOf(workers []state.Worker, namespace, pool, model string) string {
	engine := ""
	for _, w := range workers {
		if w.Engine == "" || w.Namespace != namespace || w.Pool != pool || w.Pool == "" &&
			!strings.EqualFold(w.Model, model) {
			continue
		}
		if engine != "" && engine != w.Engine {
			return ""
		}
		engine = w.Engine
	}
	return engine
}
