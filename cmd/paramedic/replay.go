package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"paramedic/cmd/paramedic/config"
	"paramedic/cmd/paramedic/printing"
	"paramedic/cmd/paramedic/service"
	"paramedic/internal/text"
	"paramedic/playbooks"
	"paramedic/rules"
	"paramedic/state"
	"paramedic/state/fold"
	"paramedic/webhook/alertmanager"
	"paramedic/webhook/api"
)

func (c *cli) replayCommand() *cobra.Command {
	var path string
	cmd := &cobra.Command{
		Use:   "replay FILE…",
		Short: "Run recorded webhook payloads through the rules, without side effects",
		Long: "Run recorded Alertmanager payloads through the rules, and print the incidents and the first aid that the bot would\n" +
			"have offered. A file holds one JSON payload, or one payload per line. Nothing is sent and nothing is stored.\n" +
			"A recording has no live evidence, only alerts. Most verdicts are therefore unknown.",
		Example: "  paramedic replay payload.json\n  paramedic replay --config paramedic.yaml monday.ndjson tuesday.ndjson",
		Args:    cobra.MinimumNArgs(1),
		RunE:    func(_ *cobra.Command, args []string) error { return c.replay(path, args) },
	}
	cmd.Flags().StringVar(&path, "config", "", "configuration `file` with the rules, clusters and routes to use")
	return cmd
}

// mostNotTaken is the number of rejected alerts that the terminal lists.
const mostNotTaken = 20

// A replayed is an incident of a replay.
type replayed struct {
	api.IncidentJSON
	Notifications int      `json:"notifications"`
	WouldOffer    []string `json:"would_offer"`
}

func (c *cli) replay(path string, names []string) error {
	cfg, err := config.Load(path)
	if err != nil {
		return fmt.Errorf("the configuration is not valid:\n%w", err)
	}
	rep, err := newReplay(cfg)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := rep.file(name); err != nil {
			return err
		}
	}
	rep.wait(10 * time.Minute)
	list := rep.incidents()
	if c.output == "json" {
		return c.json(map[string]any{"payloads": rep.payloads, "alerts": rep.alerts, "incidents": list,
			"set_aside": append([]notTaken{}, rep.aside...)})
	}
	for i, a := range rep.aside {
		if i == mostNotTaken {
			fmt.Fprintf(c.err, "%s more; -o json lists all\n", text.Count(len(rep.aside)-i, "alert"))
			break
		}
		fmt.Fprintf(c.err, "%s: payload %d: skipped: %s\n", a.File, a.Payload, alertmanager.SetAside{Alert: a.Alert, Text: a.Text})
	}
	printReplay(c.out, rep, list)
	return nil
}

// A replay drives a board with recorded payloads instead of a log, and answers its effects itself.
type replay struct {
	cfg     config.Config
	fold    *fold.Fold
	board   *fold.Board
	library *playbooks.Library
	now     time.Time
	seq     uint64

	payloads, alerts int
	shown            map[state.IncidentID]int
	aside            []notTaken
}

// A notTaken is a recorded alert that the bot would not accept.
type notTaken struct {
	File    string `json:"file"`
	Payload int    `json:"payload"`
	Alert   string `json:"alert"`
	Text    string `json:"text"`
	Count   uint64 `json:"count"`
}

func newReplay(cfg config.Config) (*replay, error) {
	catalog, library, err := service.LoadKnowledge(cfg)
	if err != nil {
		return nil, err
	}
	router, err := service.NewRouter(cfg)
	if err != nil {
		return nil, err
	}
	return &replay{cfg: cfg, library: library, board: fold.NewBoard(), shown: map[state.IncidentID]int{},
		fold: &fold.Fold{Triage: service.Knowledge{Rules: rules.Rules{Catalog: catalog}, Library: library}, Routing: router,
			Settings: cfg.Settings()}}, nil
}

// file replays one file with one or several payloads.
func (r *replay) file(name string) error {
	raw, err := os.ReadFile(name)
	if err != nil {
		return fmt.Errorf("reading the recording: %w", err)
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	for n := 1; ; n++ {
		var payload json.RawMessage
		if err := dec.Decode(&payload); errors.Is(err, io.EOF) {
			if n == 1 {
				return fmt.Errorf("%s is empty: record the payloads that Alertmanager posts to a webhook, one after another", name)
			}
			return nil
		} else if err != nil {
			return fmt.Errorf("%s: payload %d is not JSON: %w", name, n, err)
		}
		p, err := alertmanager.Decode(payload, r.cfg.ClusterNames(), time.Time{})
		if err != nil {
			return fmt.Errorf("%s: payload %d: %w", name, n, err)
		}
		r.payloads++
		for _, a := range p.Aside {
			r.aside = append(r.aside, notTaken{File: name, Payload: n, Alert: a.Alert, Text: a.Text, Count: a.Count})
		}
		r.payload(p.Inputs)
	}
}

// payload applies a payload at the time of its newest alert, because recordings have no time of
// their own.
func (r *replay) payload(inputs []state.Input) {
	at := r.now
	for _, in := range inputs {
		for _, a := range in.Alerts.Alerts {
			r.alerts++
			for _, t := range []time.Time{a.StartsAt, a.EndsAt} {
				if t.After(at) {
					at = t
				}
			}
		}
	}
	if r.now.IsZero() {
		r.now = at
	}
	r.wait(at.Sub(r.now))
	for _, in := range inputs {
		r.apply(in)
	}
}

func (r *replay) apply(in state.Input) {
	r.seq++
	in.Seq, in.At = r.seq, r.now
	r.fold.Apply(r.board, in)
}

// wait advances the time, and handles what becomes due.
func (r *replay) wait(d time.Duration) {
	end := r.now.Add(d)
	for {
		r.answer()
		due, cluster := r.board.NextDue()
		for _, e := range r.board.Due(end) {
			if due.IsZero() || e.Due.Before(due) {
				due, cluster = e.Due, e.Cluster
			}
		}
		if due.IsZero() || due.After(end) {
			break
		}
		if due.After(r.now) {
			r.now = due
		}
		r.apply(state.Input{Cluster: cluster})
	}
	r.now = end
	r.answer()
}

// answer handles due effects: it returns no evidence, and accepts every message.
func (r *replay) answer() {
	for _, e := range r.board.Due(r.now) {
		out := state.Outcome{Effect: e.ID, Turn: e.Turn, Done: true}
		switch e.Kind {
		case state.EffectEnrich:
			r.apply(state.Input{Cluster: e.Cluster, Evidence: &state.Evidence{Incident: e.Incident, At: r.now,
				Missing: []state.Missing{{Signal: "all", Reason: "a recording has no live evidence"}}}})
		case state.EffectNotify:
			out.Rev = e.Want
			r.shown[e.Incident]++
		}
		r.apply(state.Input{Cluster: e.Cluster, Outcome: &out})
	}
}

func (r *replay) incidents() []replayed {
	list := []replayed{}
	clusters := map[string]bool{}
	for _, in := range r.board.Incidents() {
		clusters[in.Cluster] = true
	}
	for _, in := range r.board.Incidents() {
		out := replayed{IncidentJSON: api.NewIncidentJSON(in, nil), Notifications: r.shown[in.ID], WouldOffer: []string{}}
		out.Name = in.ShortName(len(clusters) > 1)
		if pb, ok := r.library.For(in.Diagnosis); ok {
			for _, remedy := range pb.FirstAid {
				if remedy.Action != "" {
					out.WouldOffer = append(out.WouldOffer, remedy.Action)
				}
			}
		}
		list = append(list, out)
	}
	return list
}

func printReplay(out io.Writer, r *replay, list []replayed) {
	w := printing.People{Writer: out}
	fmt.Fprintf(w, "%s, %s → %s\n\n", text.Count(r.payloads, "payload"), text.Count(r.alerts, "alert"), text.Count(len(list), "incident"))
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "#\tSEVERITY\tCAUSE\tALERTS\tSTATUS\tTITLE\tWOULD OFFER")
	for _, in := range list {
		title := in.Title
		if in.MergedInto != "" {
			title += " (merged)"
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%d\t%s\t%s\t%s\n", strings.TrimPrefix(in.Name, "#"), in.Severity, in.Cause, in.AlertCount, in.Status,
			title, strings.Join(in.WouldOffer, ", "))
	}
	tw.Flush()
}
