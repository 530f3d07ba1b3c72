package topology

import (
	"testing"

	"paramedic/state"
)

// Workers that have only an address belong to no known pool. Their model is the place of an alert
// on their job or on one address.
func TestScrapedModelOfAddresses(t *testing.T) {
	chat, search := []state.ScrapeJob{{Job: "chat"}}, []state.ScrapeJob{{Job: "search"}}
	top := NewTopology([]state.Worker{{Instance: "10.0.0.1:8000", Model: "llama", Jobs: chat},
		{Instance: "10.0.0.2:8000", Model: "llama", Jobs: chat}, {Instance: "10.0.0.3:8000", Model: "qwen", Jobs: search}})
	for name, c := range map[string]struct {
		entities []state.Entity
		want     string
	}{
		"a job":                  {[]state.Entity{{Job: "chat"}}, "llama"},
		"two addresses":          {[]state.Entity{{Instance: "10.0.0.1:8000"}, {Instance: "10.0.0.2:8000", Job: "chat"}}, "llama"},
		"an address in a job":    {[]state.Entity{{Instance: "10.0.0.3:8000", Job: "search"}}, "qwen"},
		"two models":             {[]state.Entity{{Job: "chat"}, {Job: "search"}}, ""},
		"a kubelet":              {[]state.Entity{{Job: "kubelet", Instance: "10.10.0.1:10250"}}, ""},
		"an alert with its pool": {[]state.Entity{{Pool: "chat", Job: "chat"}}, ""},
	} {
		in := &state.Incident{Symptoms: []state.SymptomCount{{Symptom: "target_down", Entities: c.entities}}}
		if got := top.ScrapedModel(in); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	if e := top.Resolve(state.Entity{Namespace: "llm", Job: "chat"}); e.Model != "llama" || e.Namespace != "llm" {
		t.Errorf("resolved %+v", e)
	}
	if got := top.OnlyModel(); got != "" {
		t.Errorf("two models: %q", got)
	}
	if got := NewTopology([]state.Worker{{Instance: "10.0.0.1:8000", Model: "llama"}, {Instance: "10.0.0.2:8000", Model: "Llama"}}).OnlyModel(); got != "llama" {
		t.Errorf("one model: %q", got)
	}
}

// Without the scrape jobs of the workers, a job's or a Service's name leads to the pool of that
// name.
func TestJobLeadsToThePoolOfItsName(t *testing.T) {
	top := NewTopology([]state.Worker{{Namespace: "llm", Pod: "chat-7d9f8b6c5-aaaaa", Pool: "chat", Model: "llama"},
		{Namespace: "llm", Pod: "chat-small-7d9f8b6c5-bbbbb", Pool: "chat-small", Model: "qwen"}})
	for name, c := range map[string]struct {
		of   state.Entity
		want string
	}{
		"a ServiceMonitor's job": {state.Entity{Namespace: "llm", Job: "chat", Service: "chat"}, "chat"},
		"a PodMonitor's job":     {state.Entity{Namespace: "llm", Job: "llm/chat-small"}, "chat-small"},
		"a database's job":       {state.Entity{Namespace: "llm", Job: "redis"}, ""},
		"another namespace":      {state.Entity{Namespace: "shop", Job: "chat"}, ""},
		"a job without a name":   {state.Entity{Namespace: "llm", Job: "llm/"}, ""},
	} {
		if got := top.Resolve(c.of).Pool; got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
