package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"paramedic/notify/slack/slacktest"
	"paramedic/state"
	"paramedic/webhook/api"
)

// twoClusters returns a bot with two clusters, each with an incident that has the number 1.
func twoClusters(t *testing.T) (*onCall, map[string]state.Incident) {
	t.Helper()
	o := newOnCall(t, "clusters: [{name: prod}, {name: us-east-1}]\n")
	for _, cluster := range []string{"prod", "us-east-1"} {
		labels := maps.Clone(kvFull)
		labels["cluster"] = cluster
		o.alert(labels)
	}
	o.await("both are told of", func() bool { return len(o.slack.Messages()) == 2 && len(o.pager.Incidents()) == 2 })
	o.settled()
	byCluster := map[string]state.Incident{}
	for _, in := range o.bot.Keeper.Incidents() {
		byCluster[in.Cluster] = in
	}
	if len(byCluster) != 2 || byCluster["prod"].Number != 1 || byCluster["us-east-1"].Number != 1 {
		t.Fatalf("incidents %+v", byCluster)
	}
	return o, byCluster
}

// Two clusters share a channel, so a name includes the cluster everywhere.
func TestNumbersNameTheirCluster(t *testing.T) {
	o, _ := twoClusters(t)
	var said []string
	for _, m := range o.slack.Messages() {
		said = append(said, m.Text, string(m.Blocks))
	}
	for _, in := range o.pager.Incidents() {
		said = append(said, in.Summary)
	}
	text := strings.Join(said, "\n")
	says(t, text, "#prod-1 critical: ", "#us-east-1-1 critical: ", "🔴 #prod-1 ", "#us-east-1-1 Undiagnosed: KV")
	if strings.Contains(text, "#1 ") {
		t.Errorf("a number stands without its cluster:\n%s", text)
	}
	t.Setenv("PARAMEDIC_TOKEN", "0123456789abcdef0123456789abcdef")
	says(t, ask(t, exitOK, "incidents", "--server", o.url), "\nprod-1 ", "\nus-east-1-1 ")
	says(t, askPage(t, o, "/", http.StatusOK), "#prod-1", "#us-east-1-1")
}

// A bare number is ambiguous between two incidents. Every entry point asks which one, and accepts
// the name with the cluster.
func TestAmbiguousNumberIsAsked(t *testing.T) {
	o, in := twoClusters(t)
	t.Setenv("PARAMEDIC_TOKEN", "0123456789abcdef0123456789abcdef")
	says(t, ask(t, exitError, "incidents", "show", "1", "--server", o.url), `"1" means several incidents: add its cluster`, "(#prod-1, prod, ", "(#us-east-1-1, us-east-1, ")
	for name, cluster := range map[string]string{"prod-1": "prod", "#us-east-1-1": "us-east-1", "US-EAST-1-1": "us-east-1"} {
		var got api.IncidentJSON
		if err := json.Unmarshal([]byte(ask(t, exitOK, "incidents", "show", name, "-o", "json", "--server", o.url)), &got); err != nil ||
			got.ID != in[cluster].ID || got.Number != 1 || got.Name != "#"+cluster+"-1" {
			t.Errorf("%s: %v %s %d %s", name, err, got.ID, got.Number, got.Name)
		}
		says(t, askPage(t, o, "/incidents/"+url.PathEscape(name), http.StatusOK), "/ #"+cluster+"-1<")
	}
	says(t, ask(t, exitError, "ack", "stage-1", "--server", o.url), `no incident "STAGE-1"`)
	choice := askPage(t, o, "/incidents/1", http.StatusMultipleChoices)
	says(t, choice, "2 incidents have that number. Which one?", "/incidents/"+string(in["prod"].ID), "#us-east-1-1 Undiagnosed: KV")
	says(t, slashed(t, o, "ack 1"), "means several incidents", "#prod-1")
	says(t, slashed(t, o, "ack us-east-1-1"), "(#us-east-1-1)")
	o.await("the right one is acknowledged", func() bool {
		now, _ := o.bot.Keeper.Incident(in["us-east-1"].ID)
		other, _ := o.bot.Keeper.Incident(in["prod"].ID)
		return !now.AckedAt.IsZero() && other.AckedAt.IsZero()
	})
}

func TestSingleClusterKeepsPlainNumbers(t *testing.T) {
	o := newOnCall(t, "clusters: [{name: prod}]\n")
	o.alert(kvFull)
	o.await("paged and posted", o.paged)
	says(t, o.slack.Messages()[0].Text, "#1 critical: ")
	t.Setenv("PARAMEDIC_TOKEN", "0123456789abcdef0123456789abcdef")
	says(t, ask(t, exitOK, "incidents", "show", "prod-1", "--server", o.url), "#1 Undiagnosed")
}

// askPage reads a page with a login, as a browser does.
func askPage(t *testing.T, o *onCall, path string, want int) string {
	t.Helper()
	req, err := http.NewRequest(http.MethodGet, o.url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer 0123456789abcdef0123456789abcdef")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != want {
		t.Errorf("%s: %d, want %d: %v", path, resp.StatusCode, want, err)
	}
	return string(body)
}

// slashed returns the answer of /paramedic in Slack.
func slashed(t *testing.T, o *onCall, text string) string {
	t.Helper()
	body := slacktest.Command(slacktest.Person{ID: "U0ADA", Name: "ada"}, text)
	body = bytes.Replace(body, []byte("13345224609"), fmt.Append(nil, time.Now().UnixNano()), 1) // each has a trigger of its own
	req, err := http.NewRequest(http.MethodPost, o.url+"/webhook/slack/command", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = slacktest.Sign(onCallSecret, body, time.Now())
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("%s: %d %v %s", text, resp.StatusCode, err, answer)
	}
	return string(answer)
}
