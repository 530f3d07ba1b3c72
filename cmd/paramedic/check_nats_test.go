package main

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"paramedic/state/jetstream/natstest"
)

// check names what an external NATS lacks. What it cannot see is no finding.
func TestCheckOnlineAsksNATS(t *testing.T) {
	url := strings.Replace(natstest.Start(t), "//", "//bot:s3cret@", 1)
	for _, c := range []struct {
		replicas int
		code     int
		want     []string
	}{
		{1, 0, []string{"nats stream PARAMEDIC_STATE      ok", "nats permissions                 ok",
			"nats sync                        unknown: the bot's user cannot ask for it. Look at every server", "is valid"}},
		{3, 2, []string{"state.nats.replicas is 3 and the server is in no cluster, so the bot does not start: set it to 1", "1 finding"}},
	} {
		dir := t.TempDir()
		put(t, dir, "paramedic.yaml", fmt.Appendf(nil, "clusters: [{name: prod}]\nstate: {nats: {url: %q, replicas: %d}}\n", url, c.replicas))
		var out, errs bytes.Buffer
		code := run(t.Context(), []string{"check", "--online", "--config", filepath.Join(dir, "paramedic.yaml")}, &out, &errs)
		if code != c.code || strings.Contains(out.String()+errs.String(), "s3cret") {
			t.Errorf("%d replicas: exit code %d\n%s%s", c.replicas, code, &out, &errs)
		}
		for _, want := range c.want {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%d replicas: no %q in\n%s", c.replicas, want, &out)
			}
		}
	}
}
