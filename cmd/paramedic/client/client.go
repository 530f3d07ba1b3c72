package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"paramedic/cmd/paramedic/printing"
	"paramedic/cmd/paramedic/service"
	"paramedic/internal/text"
	"paramedic/state"
	"paramedic/webhook/api"
	"paramedic/webhook/stats"
)

// Streams holds the output of the commands and its format.
type Streams struct {
	Out    io.Writer
	Format *string // text, json or markdown
}

// A client calls the API of a running bot.
type client struct {
	out                   io.Writer
	format                *string
	server, token, reason string
}

// Commands returns the commands that call a running bot.
func Commands(s Streams) []*cobra.Command {
	cl := &client{out: s.Out, format: s.Format}
	incidents := &cobra.Command{Use: "incidents", Short: "List and show incidents, and print their reports", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cl.list(cmd.Context(), nil, 0) }}
	var status, cause, cluster, since string
	var most int
	list := &cobra.Command{Use: "list", Short: "List incidents, newest first", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if most < 0 {
				return fmt.Errorf("--limit %d: use a number above 0, or 0 for all", most)
			}
			return cl.list(cmd.Context(), map[string]string{"status": status, "cause": cause, "cluster": cluster}, most)
		}}
	list.Flags().StringVar(&status, "status", "", "only incidents with this `status`: open, acked, mitigating, monitoring or resolved")
	list.Flags().StringVar(&cause, "cause", "", "only incidents with this `cause`, such as kv_exhaustion")
	list.Flags().StringVar(&cluster, "cluster", "", "only incidents of this `cluster`")
	list.Flags().IntVar(&most, "limit", 0, "only the newest `number` of incidents; 0: all")
	sum := &cobra.Command{Use: "stats", Short: "Sum up incidents: times by cause, pages, noisy rules, first aid, feedback",
		Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error { return cl.stats(cmd.Context(), since) }}
	sum.Flags().StringVar(&since, "since", "", "`time` before now, such as 30d; by default and at most the bot's state.retain")
	incidents.AddCommand(list, sum,
		&cobra.Command{Use: "show ID", Short: "Show an incident with its evidence, first aid and guards", Args: cobra.ExactArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error { return cl.show(cmd.Context(), args[0]) }},
		&cobra.Command{Use: "report ID", Short: "Print the report of an incident as Markdown", Args: cobra.ExactArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error { return cl.report(cmd.Context(), args[0]) }})
	var forTime time.Duration
	silence := cl.verb("silence ID", "Stop the notifications of an incident for a while", 1,
		func(ctx context.Context, args []string) error {
			if forTime <= 0 {
				return fmt.Errorf("--for %s: use a time above 0s, such as 45m", forTime)
			}
			return cl.post(ctx, incidentPath(args[0], "silence"), map[string]any{"duration": forTime.String()}, silenced)
		})
	silence.Flags().DurationVar(&forTime, "for", time.Hour, "`time` without notifications, such as 45m; the bot notifies before "+
		"that if the incident gets more severe")
	approve := cl.verb("approve ACTION PLAN", "Approve an action with the plan that you have read", 2, cl.approve)
	approve.Args = cobra.RangeArgs(1, 2) // without the plan, the error has the full command
	commands := []*cobra.Command{incidents, silence,
		cl.verb("ack ID", "Acknowledge an incident", 1, func(ctx context.Context, args []string) error {
			return cl.post(ctx, incidentPath(args[0], "ack"), nil, acknowledged)
		}),
		approve,
		cl.verb("deny ACTION", "Deny an action that waits for approval", 1, func(ctx context.Context, args []string) error {
			return cl.post(ctx, actionPath(args[0], "deny"), nil, decidedOn)
		}),
		cl.verb("cancel ACTION", "Cancel an action, or close one that needs a person", 1,
			func(ctx context.Context, args []string) error {
				return cl.post(ctx, actionPath(args[0], "cancel"), nil, cancelled)
			}),
		cl.verb("halt", "Halt first aid in all clusters until resume", 0,
			func(ctx context.Context, _ []string) error { return cl.post(ctx, "/api/v1/halt", nil, haltedNow) }),
		cl.verb("resume", "Allow first aid again after halt (role admin)", 0,
			func(ctx context.Context, _ []string) error { return cl.post(ctx, "/api/v1/resume", nil, haltedNow) }),
	}
	for _, cmd := range commands {
		for _, one := range append([]*cobra.Command{cmd}, cmd.Commands()...) {
			one.Long = one.Short + ".\n" + details[strings.Fields(one.Use)[0]] + "\n" + whichBot
		}
		cmd.PersistentFlags().StringVar(&cl.server, "server", env("PARAMEDIC_SERVER", "http://127.0.0.1:8080"),
			"`address` of the bot; PARAMEDIC_SERVER sets the default")
	}
	cl.token = strings.TrimSpace(os.Getenv("PARAMEDIC_TOKEN")) // a secret that is mounted as a file may end in a newline
	return commands
}

// details has the help of commands that need more than one sentence.
var details = map[string]string{
	"stats": stats.Help, "show": byNumber, "report": byNumber, "ack": byNumber, "silence": byNumber,
	"approve": "\nACTION is the action's ID. PLAN is the beginning of the plan's hash, at least 8 characters. The page, the\n" +
		"notification and `paramedic incidents show 7` print both with the plan. If you leave PLAN out, nothing is approved:\n" +
		"the command prints the plan and its hash. If the plan has changed since, the bot refuses the approval.\n",
	"deny": "\nACTION is the action's ID; `paramedic incidents show 7` prints it. The bot does not plan a denied action again.\n",
	"cancel": "\nACTION is the action's ID; `paramedic incidents show 7` prints it. If the bot has not written yet, it does not\n" +
		"write. If an action has the state needs_human, this closes it: the pool may get first aid again.\n",
	"halt":   "\nThe bot starts no new action until `paramedic resume`.\n",
	"resume": "",
}

// byNumber is the help of commands that take an incident.
const byNumber = "\nID is the incident's number (7, or prod-7 if there are several clusters), its ID, or the beginning of its ID.\n"

// whichBot is the help of every command that calls a bot.
const whichBot = "The command calls a running bot. --server or PARAMEDIC_SERVER sets its address. If the bot has an\n" +
	"auth.api.tokens_file, set PARAMEDIC_TOKEN to your token in that file."

func env(name, fallback string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return fallback
}

// verb returns a command that changes something. The actor is the token's name or the user's.
func (c *client) verb(use, short string, args int, do func(ctx context.Context, args []string) error) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Args: cobra.ExactArgs(args),
		RunE: func(cmd *cobra.Command, args []string) error { return do(cmd.Context(), args) }}
	cmd.Flags().StringVar(&c.reason, "reason", "", "`reason` for the timeline")
	return cmd
}

func incidentPath(id, verb string) string {
	return "/api/v1/incidents/" + url.PathEscape(id) + "/" + verb
}

func actionPath(id, verb string) string { return "/api/v1/actions/" + url.PathEscape(id) + "/" + verb }

// approve sends the plan that the person saw. If no plan was given, it prints the current one.
func (c *client) approve(ctx context.Context, args []string) error {
	if len(args) == 2 {
		return c.post(ctx, actionPath(args[0], "approve"), map[string]any{"plan_hash": args[1]}, decidedOn)
	}
	var a api.ActionJSON
	if err := c.get(ctx, "/api/v1/actions/"+url.PathEscape(args[0]), &a); err != nil {
		return err
	}
	if a.State != state.AwaitingApproval {
		return c.post(ctx, actionPath(string(a.ID), "approve"), nil, decidedOn) // the bot's error has the reason
	}
	return fmt.Errorf("nothing is approved: say which plan you approve. To approve %s (%s): paramedic approve %s %s",
		a.Change, a.Target, a.ID, state.ShortPlan(a.PlanHash))
}

// listPage is the number of incidents of one request: the largest page that the API returns.
const listPage = 500

// list prints the matching incidents, all of them or the newest. It reads page by page, so that an
// answer does not grow with the stored incidents.
func (c *client) list(ctx context.Context, filters map[string]string, most int) error {
	q := url.Values{}
	for k, v := range filters {
		if v != "" {
			q.Set(k, v)
		}
	}
	list := []api.IncidentJSON{}
	var next *string
	for more := true; more; more = next != nil && (most == 0 || len(list) < most) {
		size := listPage
		if most > 0 {
			size = min(size, most-len(list))
		}
		q.Set("limit", strconv.Itoa(size))
		page, err := c.incidents(ctx, q)
		if err != nil {
			return err
		}
		list = append(list, page.Incidents...)
		if next = page.Next; next != nil {
			q.Set("cursor", *next)
		}
	}
	if *c.format == "json" {
		return printing.JSON(c.out, api.IncidentsJSON{Incidents: list, Next: next})
	}
	if len(list) == 0 {
		fmt.Fprintln(c.out, "no incidents")
		return nil
	}
	w := tabwriter.NewWriter(printing.People{Writer: c.out}, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "#\tSTATUS\tSEVERITY\tCAUSE\tALERTS\tOPENED\tTITLE")
	for _, in := range list {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%s\t%s\n", strings.TrimPrefix(called(in), "#"), in.Status, in.Severity, in.Cause, in.AlertCount,
			opened(in.OpenedAt), text.Line(in.Title, longestTitle))
	}
	return w.Flush()
}

func opened(at *time.Time) string {
	if at == nil {
		return "—"
	}
	return at.UTC().Format("Jan 2 15:04:05 UTC")
}

func (c *client) incidents(ctx context.Context, q url.Values) (api.IncidentsJSON, error) {
	var page api.IncidentsJSON
	err := c.get(ctx, "/api/v1/incidents?"+q.Encode(), &page)
	return page, err
}

func (c *client) show(ctx context.Context, id string) error {
	var in api.IncidentJSON
	if err := c.get(ctx, "/api/v1/incidents/"+url.PathEscape(id), &in); err != nil {
		return err
	}
	if *c.format == "json" {
		return printing.JSON(c.out, in)
	}
	Print(c.out, in)
	return nil
}

func (c *client) report(ctx context.Context, id string) error {
	body, err := c.do(ctx, http.MethodGet, "/api/v1/incidents/"+url.PathEscape(id)+"/report", nil)
	if err != nil {
		return err
	}
	if *c.format == "json" {
		var in api.IncidentJSON
		if err := c.get(ctx, "/api/v1/incidents/"+url.PathEscape(id), &in); err != nil {
			return err
		}
		return printing.JSON(c.out, map[string]string{"incident": string(in.ID), "report": string(body)})
	}
	_, err = c.out.Write(body)
	return err
}

func (c *client) stats(ctx context.Context, since string) error {
	var sum stats.Summary
	if err := c.get(ctx, "/api/v1/stats?"+url.Values{"since": {since}}.Encode(), &sum); err != nil {
		return err
	}
	if *c.format == "json" {
		return printing.JSON(c.out, sum)
	}
	return sum.Print(printing.People{Writer: c.out})
}

func (c *client) get(ctx context.Context, path string, into any) error {
	body, err := c.do(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("reading the answer of %s: %w", path, err)
	}
	return nil
}

func (c *client) post(ctx context.Context, path string, fields map[string]any, say func(answer []byte) (string, error)) error {
	body := map[string]any{"reason": c.reason}
	for k, v := range fields {
		body[k] = v
	}
	if c.token == "" {
		body["actor"] = env("USER", "cli")
	}
	answer, err := c.send(ctx, path, body)
	var no refusal
	if errors.As(err, &no) && no.missing == "actor" { // a token without a name leaves it to the body
		body["actor"] = env("USER", "cli")
		answer, err = c.send(ctx, path, body)
	}
	if err != nil {
		return err
	}
	if *c.format == "json" {
		_, err = c.out.Write(answer)
		return err
	}
	var pending api.PendingJSON
	if json.Unmarshal(answer, &pending) == nil && pending.Status == "accepted" {
		fmt.Fprintln(c.out, "accepted:", pending.Note)
		return nil
	}
	text, err := say(answer)
	if err != nil {
		return fmt.Errorf("reading the answer of %s: %w", path, err)
	}
	fmt.Fprintln(c.out, text)
	return nil
}

func (c *client) send(ctx context.Context, path string, body map[string]any) ([]byte, error) {
	raw, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("encoding the request: %w", err)
	}
	return c.do(ctx, http.MethodPost, path, raw)
}

// A refusal is the bot's error text, with the field that the request lacks.
type refusal struct{ text, missing string }

func (r refusal) Error() string { return r.text }

// do sends a request and returns the body of a successful answer.
func (c *client) do(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, c.base()+path, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("--server %s: %w", c.server, err)
	}
	switch {
	case req.URL.Host == "":
		return nil, fmt.Errorf("--server %q has no host: use an address such as http://127.0.0.1:8080", c.server)
	case strings.ContainsFunc(c.token, unicode.IsControl):
		return nil, errors.New("PARAMEDIC_TOKEN has a line break or another control character: set it to the token alone")
	}
	req.Header.Set("User-Agent", "paramedic/"+service.Version)
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		var call *url.Error
		if errors.As(err, &call) {
			err = call.Err // the whole message repeats the address of the request
		}
		return nil, fmt.Errorf("the bot at %s does not answer: %w. Check that `paramedic serve` runs there, or set another address with "+
			"--server or PARAMEDIC_SERVER", req.URL.Scheme+"://"+req.URL.Host, err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, 64<<20))
	if err != nil {
		return nil, fmt.Errorf("reading the answer of %s: %w", path, err)
	}
	if resp.StatusCode/100 == 2 {
		return raw, nil
	}
	var e api.ErrorJSON
	if json.Unmarshal(raw, &e) != nil || e.Error == "" {
		e.Error = fmt.Sprintf("%s does not answer as a bot does: %s. Set --server or PARAMEDIC_SERVER to the address of a bot, with "+
			"https:// if it has a certificate", req.URL.Scheme+"://"+req.URL.Host,
			cmp.Or(text.Line(string(raw), 120), "the answer is empty"))
	}
	why := fmt.Sprintf("%s (%d)", e.Error, resp.StatusCode)
	for _, candidate := range e.Candidates {
		why += "\n  " + candidate
	}
	if resp.StatusCode == http.StatusUnauthorized {
		why += "\nSet PARAMEDIC_TOKEN to your token in the bot's auth.api.tokens_file."
	}
	return nil, refusal{why, e.Missing}
}

// base returns the bot's address as a URL. An address without a scheme gets http.
func (c *client) base() string {
	base := strings.TrimSuffix(c.server, "/")
	if !strings.Contains(base, "://") {
		base = "http://" + base
	}
	return base
}
