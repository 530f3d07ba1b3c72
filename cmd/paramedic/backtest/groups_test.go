package backtest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"paramedic/lab/alerting"
)

// The lab's Alertmanager is compared with the real one elsewhere. It is polled, and the dispatcher
// jumps from one moment to the next. Both must notify at the same times of the same alerts.
func TestDispatcherNotifiesAsAlertmanager(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 1))
		d := newDispatcher(route{by: []string{"alertname"}, groupWait: 10 * time.Second, interval: 30 * time.Second, repeat: time.Hour})
		lab := alerting.NewAlertmanager(alerting.AlertmanagerConfig{GroupBy: []string{"alertname"}, GroupWait: 10 * time.Second,
			GroupInterval: 30 * time.Second, RepeatInterval: time.Hour})
		firing := map[string]*alert{}
		var got, want []string
		for at := end; at.Before(end.Add(3 * time.Hour)); at = at.Add(10 * time.Second) {
			var changed []alerting.Alert
			for i := range 6 {
				l := map[string]string{"alertname": fmt.Sprint("A", i%2), "pod": fmt.Sprint(i)}
				print := fingerprint(l)
				a := firing[print]
				// An alert lasts a minute at least, so that each state is told.
				switch calm := r.IntN(60) > 0; {
				case calm || a != nil && at.Sub(a.StartsAt) < time.Minute || a != nil && !a.EndsAt.IsZero() && at.Sub(a.EndsAt) < time.Minute:
					continue
				case a == nil || !a.EndsAt.IsZero():
					a = &alert{Labels: l, StartsAt: at}
					firing[print] = a
				default:
					a.EndsAt = at
				}
				d.receive(at, event{at: at, ends: !a.EndsAt.IsZero(), print: print, alert: *a})
				changed = append(changed, alerting.Alert{Labels: l, StartsAt: a.StartsAt, EndsAt: a.EndsAt})
			}
			lab.Receive(at, changed)
			for _, n := range lab.Due(at) {
				var alerts []string
				for _, a := range n.Webhook.Alerts {
					alerts = append(alerts, a.Labels["pod"]+a.Status)
				}
				slices.Sort(alerts)
				want = append(want, at.Format("15:04:05 ")+n.Webhook.GroupKey+strings.Join(alerts, " "))
				lab.Sent(n, at)
			}
			if next := d.next(); !next.IsZero() && next.Before(at) {
				t.Fatalf("at %s a flush of %s is overdue", at, next)
			}
			for _, n := range d.flush(at) {
				var alerts []string
				for _, e := range n.alerts {
					alerts = append(alerts, e.alert.Labels["pod"]+map[bool]string{true: "resolved", false: "firing"}[e.ends])
				}
				slices.Sort(alerts)
				got = append(got, at.Format("15:04:05 ")+n.key+strings.Join(alerts, " "))
			}
		}
		slices.Sort(got)
		slices.Sort(want)
		if d := cmp.Diff(want, got); d != "" || len(got) < 10 {
			t.Fatalf("seed %d, %d notifications (-lab +dispatcher):\n%s", seed, len(got), d)
		}
	}
}

// The bot's Alertmanager is the one that deploy recommends.
func TestBotRouteIsThatOfDeploy(t *testing.T) {
	raw, err := os.ReadFile("../../../deploy/alertmanager/alertmanager.yml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Route struct {
			By       []string      `yaml:"group_by"`
			Wait     time.Duration `yaml:"group_wait"`
			Interval time.Duration `yaml:"group_interval"`
			Repeat   time.Duration `yaml:"repeat_interval"`
		}
	}
	if err := yaml.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	r := file.Route
	if want := (route{by: r.By, groupWait: r.Wait, interval: r.Interval, repeat: r.Repeat}); !reflect.DeepEqual(botRoute, want) {
		t.Errorf("the route is %+v, want %+v", botRoute, want)
	}
}

func TestDispatcherContinuesFromItsGroups(t *testing.T) {
	d := newDispatcher(botRoute)
	a := alert{Labels: map[string]string{"alertname": "A"}, StartsAt: end}
	d.receive(end, event{at: end, print: "1", alert: a})
	again := newDispatcher(botRoute)
	again.restore(d.groups)
	if !again.next().Equal(end.Add(botRoute.groupWait)) {
		t.Errorf("the next flush is at %s", again.next())
	}
	if n := again.flush(again.next()); len(n) != 1 || !n[0].firing() {
		t.Errorf("the flush is %+v", n)
	}
}
