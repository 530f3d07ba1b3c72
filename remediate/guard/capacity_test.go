package guard

import (
	"math"
	"testing"
	"time"

	"paramedic/playbooks"
	"paramedic/remediate/cluster"
	"paramedic/remediate/policy"
	"paramedic/state"
)

func TestCapacityOfRolloutIsBounded(t *testing.T) {
	// A rollout takes one worker away at once. The workers run 60 requests in 100 places.
	taking := func(n int, change ...func(*Scene)) func(*Scene) {
		return func(s *Scene) {
			s.Workload.MaxUnavailable, s.Workload.MaxSurge = n, 0
			for _, c := range change {
				c(s)
			}
			if len(s.Evidence.Samples) == 0 {
				each(s, "requests_running", 60)
			}
		}
	}
	mode := func(m policy.Mode) func(*Scene) { return func(s *Scene) { s.Rule.Mode = m } }
	running := func(value float64) func(*Scene) { return func(s *Scene) { each(s, "requests_running", value) } }
	runGuardCases(t, capacity, []guardCase{
		{name: "adds before it removes", want: state.Allow, says: "adds before it removes"},
		{name: "adds, but none is ready", set: func(s *Scene) {
			for i := range s.Pods {
				s.Pods[i].Ready = false
			}
		}, want: state.Deny, says: "no other worker would stay ready"},
		{name: "adds, with one that is ready", set: func(s *Scene) {
			for i := range s.Pods[1:] {
				s.Pods[i+1].Ready = false
			}
		}, want: state.Allow, says: "1 of 5 workers are ready"},
		{name: "terminating workers are not ready", set: func(s *Scene) {
			for i := range s.Pods {
				s.Pods[i].Terminating = true
			}
		}, want: state.Deny, says: "no other worker would stay ready"},
		{name: "size not known", set: func(s *Scene) { s.Workload.Replicas, s.Pods = 0, nil }, want: state.Deny, says: "size is unknown"},
		{name: "neither adds nor removes", set: taking(0), want: state.Allow, says: "takes 1 away"},
		{name: "adds and removes", set: func(s *Scene) { s.Workload.MaxUnavailable = 5 }, want: state.Deny, says: "takes 5 away"},
		{name: "stops all at once", set: func(s *Scene) { s.Workload.Recreate = true }, want: state.Deny, says: "Recreate stops all"},
		{name: "four of five stay", set: taking(1), want: state.Allow, says: "4 of 5 workers stay ready"},
		{name: "three of five stay", set: taking(2), want: state.Deny, says: "mode auto needs 4 ready (ready_percent 80)"},
		{name: "three of five stay, approved", set: taking(2, mode(policy.Approve), running(50)), want: state.Allow, says: "3 of 5 workers stay ready"},
		{name: "one stays, approved", set: taking(4, mode(policy.Approve), running(20)), want: state.Allow, says: "1 of 5 workers stay ready"},
		{name: "none stays, approved", set: taking(5, mode(policy.Approve), running(1)), want: state.Deny, says: "no other worker would stay ready"},
		{name: "as full as it may be", set: taking(1, running(68)), want: state.Allow, says: "85 %"},
		{name: "fuller than it may be", set: taking(1, running(69)), want: state.Deny, says: "mode auto allows 85 % at most (max_load)"},
		{name: "full, approved", set: taking(1, mode(policy.Approve), running(80)), want: state.Allow, says: "100 %"},
		{name: "more than full, approved", set: taking(1, mode(policy.Approve), running(81)), want: state.Deny, says: "cannot carry"},
	})
}

func TestCapacityUnknownDenies(t *testing.T) {
	with := func(set func(*Scene)) func(*Scene) {
		return func(s *Scene) { s.Workload.MaxUnavailable, s.Workload.MaxSurge = 1, 0; set(s) }
	}
	kv := func(s *Scene, value float64) { s.Workload.Containers = nil; each(s, "kv_usage", value) }
	runGuardCases(t, capacity, []guardCase{
		{name: "nothing is reported", set: with(func(*Scene) {}), want: state.Deny, says: "of 5 ready workers, 0 report requests running and 0 report KV cache in use"},
		{name: "one worker reports nothing", set: with(func(s *Scene) {
			for _, p := range s.Pods[1:] {
				sample(s, "requests_running", p.Name, 1, 0)
			}
		}), want: state.Deny, says: "of 5 ready workers, 4 report"},
		{name: "one worker's value is stale", set: with(func(s *Scene) {
			each(s, "requests_running", 1)
			s.Evidence.Samples[0].At = s.Now.Add(-2*time.Minute - moment)
		}), want: state.Deny, says: "of 5 ready workers, 4 report"},
		{name: "values as old as they may be", set: with(func(s *Scene) {
			each(s, "requests_running", 1)
			s.Evidence.Samples[0].At = s.Now.Add(-2 * time.Minute)
		}), want: state.Allow},
		{name: "one worker's value is no number", set: with(func(s *Scene) {
			each(s, "requests_running", 1)
			s.Evidence.Samples[0].Value = math.NaN()
		}), want: state.Deny, says: "of 5 ready workers, 4 report"},
		{name: "one worker's value has no end", set: with(func(s *Scene) {
			each(s, "requests_running", 1)
			s.Evidence.Samples[0].Value = math.Inf(-1)
		}), want: state.Deny, says: "of 5 ready workers, 4 report"},
		{name: "a value of the pool is no worker's", set: with(func(s *Scene) {
			each(s, "requests_running", 1)
			s.Evidence.Samples[0].Entity.Pod = ""
		}), want: state.Deny, says: "of 5 ready workers, 4 report"},
		{name: "a worker of another pool does not count", set: with(func(s *Scene) {
			each(s, "requests_running", 1)
			s.Evidence.Samples[0].Entity.Pod = "other-0"
		}), want: state.Deny, says: "of 5 ready workers, 4 report"},
		{name: "a worker of another namespace does not count", set: with(func(s *Scene) {
			each(s, "requests_running", 1)
			s.Evidence.Samples[0].Entity.Namespace = "chat"
		}), want: state.Deny, says: "of 5 ready workers, 4 report"},
		{name: "a worker whose namespace is not told counts", set: with(func(s *Scene) {
			each(s, "requests_running", 1)
			s.Evidence.Samples[0].Entity.Namespace = ""
		}), want: state.Allow},
		{name: "by the caches' use where places are not known", set: with(func(s *Scene) { kv(s, .5) }), want: state.Allow, says: "KV cache would be 62 % full"},
		{name: "by the caches' use, too full", set: with(func(s *Scene) { kv(s, .7) }), want: state.Deny, says: "allows 85 % at most"},
		{name: "one worker's cache is not known", set: with(func(s *Scene) { kv(s, .5); s.Evidence.Samples = s.Evidence.Samples[1:] }), want: state.Deny, says: "of 5 ready workers, 0 report"},
		{name: "places by what the engines say", set: with(func(s *Scene) {
			s.Workload.Containers = nil
			each(s, "max_num_seqs", 10)
			each(s, "requests_running", 9)
		}), want: state.Deny, says: "112 % of their slots"},
		{name: "engines that say different places", set: with(func(s *Scene) {
			s.Workload.Containers = nil
			each(s, "max_num_seqs", 10)
			s.Evidence.Samples[0].Value = 100
			each(s, "requests_running", 1)
		}), want: state.Deny, says: "needs a known max_num_seqs"},
		{name: "engines that say no places", set: with(func(s *Scene) {
			s.Workload.Containers = nil
			each(s, "max_num_seqs", 0)
			each(s, "requests_running", 1)
		}), want: state.Deny, says: "needs a known max_num_seqs"},
		{name: "engines with one place", set: with(func(s *Scene) {
			s.Workload.Containers = nil
			each(s, "max_num_seqs", 1)
			each(s, "requests_running", 0)
		}), want: state.Allow, says: "0 %"},
		{name: "the default of engines is not guessed", set: with(func(s *Scene) {
			s.Workload.Containers[0].Args = []string{"--model=m"}
			each(s, "requests_running", 1)
		}), want: state.Deny, says: "needs a known max_num_seqs"},
	})
}

func TestCapacityOfRestartAsksBudgets(t *testing.T) {
	app := map[string]string{"app": "vllm"}
	with := func(budgets ...cluster.Budget) func(*Scene) {
		return func(s *Scene) { s.Namespace.Budgets = budgets; each(s, "requests_running", 1) }
	}
	list := []guardCase{
		{name: "no budget", set: with(), want: state.Allow, says: "the action restarts one"},
		{name: "one that allows it", set: with(cluster.Budget{Name: "a", Selector: app, Allowed: 1}), want: state.Allow},
		{name: "one that does not", set: with(cluster.Budget{Name: "a", Selector: app}), want: state.Hold, says: "allows no eviction now", free: time.Minute},
		{name: "one that is not understood", set: with(cluster.Budget{Name: "a", ComplexSelector: true}), want: state.Deny, says: "selects by more than matchLabels"},
		{name: "one of other workers", set: with(cluster.Budget{Name: "a", Selector: map[string]string{"app": "b"}}, cluster.Budget{Name: "b", Selector: app, Allowed: 1}), want: state.Allow},
		{name: "one of nothing", set: with(cluster.Budget{Name: "a", Selector: map[string]string{}}), want: state.Allow},
		{name: "two", set: with(cluster.Budget{Name: "a", Selector: app, Allowed: 1}, cluster.Budget{Name: "b", Selector: app, Allowed: 1}), want: state.Deny, says: "(a, b)"},
		{name: "the worker is not ready", set: func(s *Scene) {
			s.Pods[0].Ready, s.Pod.Ready = false, false
			each(s, "requests_running", 1)
		}, want: state.Allow, says: "is not ready"},
		{name: "the worker is the only one", set: func(s *Scene) {
			s.Workload.Replicas, s.Pods = 1, s.Pods[:1]
			each(s, "requests_running", 1)
		}, want: state.Deny, says: "no other worker would stay ready"},
	}
	for i := range list {
		list[i].kind = playbooks.ActionRestartWorker
	}
	runGuardCases(t, capacity, append(list, guardCase{name: "a rollout asks none", set: func(s *Scene) {
		with(cluster.Budget{Name: "a", Selector: app}, cluster.Budget{Name: "b", ComplexSelector: true})(s)
		s.Workload.MaxUnavailable = 1
	}, want: state.Allow}))
}
