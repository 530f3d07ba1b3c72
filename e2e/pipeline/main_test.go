package pipeline

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"paramedic/state/jetstream/natstest"
)

// TestMain runs four tests at once. Most of the time they wait for Prometheus's rules. Each has its
// own bot, servers, ports and folder.
func TestMain(m *testing.M) {
	if config := os.Getenv(natsConfig); config != "" {
		if err := natstest.ServeFile(config); err != nil {
			fmt.Fprintln(os.Stderr, "e2e/pipeline:", err)
			os.Exit(1)
		}
		return
	}
	if err := flag.Set("test.parallel", "4"); err != nil {
		fmt.Fprintln(os.Stderr, "e2e/pipeline:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}
