package backtest

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/prometheus/common/model"
	"github.com/spf13/cobra"

	"paramedic/cmd/paramedic/config"
	"paramedic/cmd/paramedic/survey"
	"paramedic/internal/text"
	"paramedic/webhook/access"
)

// Streams holds the outputs of a command and their format.
type Streams struct {
	Out    io.Writer // for programs
	People io.Writer // for people: without control characters
	Err    io.Writer
	Format *string // text, json or markdown
}

// flags holds the flags of the command.
type flags struct {
	prometheus, since, cluster, config, state string
	rate                                      float64
}

// Command returns the command backtest.
func Command(s Streams) *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use:   "backtest (--prometheus URL | --config FILE)",
		Short: "Play the alerts of the past through the rules",
		Long: "Play the alerts of the past through the bot's rules, with evidence of the same times from the same Prometheus.\n" +
			"Print the incidents by cause, what Alertmanager alone would have sent and what the bot would have, the first aid\n" +
			"that the bot would have proposed, and which guard would have stopped it. The command only reads Prometheus.\n" +
			"An interrupted run continues if it is started again with the same --state.",
		Example: "  paramedic backtest --prometheus http://127.0.0.1:9090 --since 7d\n" +
			"  paramedic backtest --config paramedic.yaml --since 30d --state backtest.json -o markdown",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o, err := f.options(time.Now())
			if err != nil {
				return err
			}
			shown := newMeter(s.Err, time.Now)
			o.Report = shown.show
			found, err := Run(cmd.Context(), o)
			shown.end()
			if err != nil {
				return err
			}
			return s.print(found)
		},
	}
	set := cmd.Flags()
	set.StringVar(&f.prometheus, "prometheus", "", "base `URL` of a Prometheus-compatible query API; default: the cluster's in --config")
	set.StringVar(&f.since, "since", "7d", "length of the window, which ends now: a `time` such as 12h or 30d")
	set.StringVar(&f.cluster, "cluster", "", "play only alerts whose label cluster is this `name`, or that have no such label")
	set.StringVar(&f.config, "config", "", "configuration `file` with the rules, routes and policies to use")
	set.StringVar(&f.state, "state", "", "`file` that keeps the progress, so that an interrupted run can continue")
	set.Float64Var(&f.rate, "rate", 20, "most `queries` per second that Prometheus gets")
	return cmd
}

// shortestWindow is the shortest window: less has hardly an alert.
const shortestWindow = 10 * time.Minute

// options returns the options that the flags and the configuration mean.
func (f flags) options(now time.Time) (Options, error) {
	cfg, err := config.Load(f.config)
	if err != nil {
		return Options{}, fmt.Errorf("the configuration is not valid:\n%w", err)
	}
	since, err := model.ParseDuration(f.since)
	if err != nil {
		return Options{}, fmt.Errorf("--since %q is not a time such as 12h or 30d", f.since)
	}
	out := Options{Config: cfg, URL: f.prometheus, Cluster: f.cluster, Since: time.Duration(since), Rate: f.rate, State: f.state,
		End: now}
	i := 0
	if f.config != "" && f.cluster != "" {
		if i = slices.Index(cfg.ClusterNames(), f.cluster); i < 0 {
			return Options{}, fmt.Errorf("--cluster %s is not in %s: use one of %s", f.cluster, f.config, text.List(cfg.ClusterNames()))
		}
	}
	if c := cfg.Clusters[i]; f.config != "" && c.Prometheus.URL != "" && cmp.Or(f.prometheus, c.Prometheus.URL) == c.Prometheus.URL {
		out.URL = c.Prometheus.URL
		if ref := c.Prometheus.BearerTokenFile; ref != "" {
			out.Token = access.NewSecret(ref).Value
		}
	}
	switch {
	case out.URL == "":
		return Options{}, errors.New("no source of alerts: use --prometheus URL, or --config FILE with clusters[].prometheus.url")
	case out.Since < shortestWindow:
		return Options{}, fmt.Errorf("--since %s is too short: use at least %s", f.since, days(shortestWindow))
	case out.Rate <= 0:
		return Options{}, fmt.Errorf("--rate %g must be more than 0", f.rate)
	}
	return out, survey.CheckURL("prometheus", out.URL, "http://prometheus:9090")
}

// print prints the report.
func (s Streams) print(r Report) error {
	switch *s.Format {
	case "json":
		enc := json.NewEncoder(s.Out)
		enc.SetIndent("", "  ")
		enc.SetEscapeHTML(false)
		return enc.Encode(r)
	case "markdown":
		r.Markdown(s.Out)
	default:
		r.Text(s.People)
	}
	return nil
}
