package catalog

import (
	"fmt"
	"strings"
	"testing"
)

// A sender that makes up an address for each alert costs no memory beyond the limit.
func TestRememberedReadingsAreBounded(t *testing.T) {
	c, problems, err := Load("")
	if err != nil || len(problems) > 0 {
		t.Fatal(err, problems)
	}
	for n := range 2 * maxReadings {
		c.ReadingOf(fmt.Sprintf("http://prometheus/graph?g0.expr=up+%%3D%%3D+%d", n))
	}
	if n := c.readings.Len(); n != maxReadings {
		t.Errorf("%d readings, want %d", n, maxReadings)
	}
	long := "http://prometheus/graph?g0.expr=DCGM_FI_DEV_XID_ERRORS&pad=" + strings.Repeat("x", maxReadingURL)
	if r := c.ReadingOf(long); !r.GPU {
		t.Errorf("a long address is not read: %+v", r)
	}
	if c.readings.Contains(long) {
		t.Error("a long address is remembered")
	}
}
