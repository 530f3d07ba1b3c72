package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"
)

const (
	scaleClusters  = 1000
	scaleFirstStep = 125_000 // active alerts; each step doubles them
	scaleLastStep  = 1_000_000
	alertsPerPool  = 50     // of one payload, and one incident
	scaleChunk     = 50_000 // alerts whose payloads are in the sender's memory at once
)

// scale fills one bot with ever more active alerts of 1,000 clusters, and prints what it costs:
// the rate until all are triaged, the memory half a minute later, and the time to be ready after
// SIGKILL.
func (m *measurement) scale(w io.Writer) {
	p := m.startClusters(m.newDir())
	defer func() { p.end() }()
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "active alerts\tincidents\ttriaged alerts/s\tRSS later\tready after SIGKILL")
	filled := 0
	for step := scaleFirstStep; step <= scaleLastStep; step *= 2 {
		began, added := time.Now(), step-filled
		for ; filled < step; filled += scaleChunk {
			progress("%d alerts", filled)
			for bodies := clustered(filled, min(scaleChunk, step-filled)); len(bodies) > 0; {
				d := m.send(p.url+hook, bodies, 0)
				p.triagedUntil(d.ended)
				bodies = d.again
			}
		}
		filled = step
		rate := float64(added) / time.Since(began).Seconds()
		time.Sleep(m.minute / 2)
		rss := p.memory("VmRSS")
		p.kill()
		p = m.startClusters(p.dir)
		if p.metric("paramedic_partitions_rebuilt_total") > 0 {
			panic("the bot found damage and rebuilt its state")
		}
		fmt.Fprintf(table, "%d\t%d\t%.0f\t%.0f MB\t%.1f s\n", step, step/alertsPerPool, rate, rss/1e6, p.took.Seconds())
		check(table.Flush())
	}
}

// startClusters starts a bot that tells clusters apart.
func (r *runner) startClusters(dir string) *process {
	address := freeAddress()
	cfg := fmt.Sprintf("listen: %s\nstate: {dir: %q}\nclusters: [{name: c0}, {name: c1}]\n", address, dir)
	check(os.WriteFile(dir+".yaml", []byte(cfg), 0o600))
	return r.start(address, dir, "/readyz", r.bot, "serve", "--config", dir+".yaml")
}

// clustered returns payloads of one pool each. Pools take turns among the clusters.
func clustered(first, count int) [][]byte {
	var out [][]byte
	at := time.Now().UTC()
	for n := first; n < first+count; n += alertsPerPool {
		pool := n / alertsPerPool
		s := shape(func(k int) (int, int) { return pool, k - n })
		cluster := fmt.Sprintf("c%d", pool%scaleClusters)
		var alerts []alert
		for k := n; k < n+alertsPerPool; k++ {
			a := s.alert(k, at)
			a.Labels["cluster"] = cluster
			a.Status, a.Fingerprint = "firing", fmt.Sprintf("%016x", k)
			alerts = append(alerts, a)
		}
		out = append(out, must(json.Marshal(map[string]any{"version": "4", "receiver": "paramedic", "status": "firing", "alerts": alerts,
			"groupKey": fmt.Sprintf("{}:{cluster=%q, pool=%d}", cluster, pool), "externalURL": "http://alertmanager.monitoring:9093"})))
	}
	return out
}
