package remediate

import (
	"math"
	"testing"
	"time"

	"paramedic/playbooks"
	"paramedic/state"
)

func TestCapacityOfRolloutIsBounded(t *testing.T) {
	// A rollout that takes one away at once, of workers that run 60 requests in 100 places.
	taking := func(n int, change ...func(*scene)) func(*scene) {
		return func(s *scene) {
			s.w.MaxUnavailable, s.w.MaxSurge = n, 0
			for _, c := range change {
				c(s)
			}
			if len(s.ev.Samples) == 0 {
				each(s, "requests_running", 60)
			}
		}
	}
	mode := func(m Mode) func(*scene) { return func(s *scene) { s.rule.mode = m } }
	running := func(value float64) func(*scene) { return func(s *scene) { each(s, "requests_running", value) } }
	runRulings(t, capacity, []ruling{
		{name: "adds before it removes", want: state.Allow, says: "adds before it removes"},
		{name: "adds, but none is ready", set: func(s *scene) {
			for i := range s.pods {
				s.pods[i].Ready = false
			}
		}, want: state.Deny, says: "no other worker"},
		{name: "adds, with one that is ready", set: func(s *scene) {
			for i := range s.pods[1:] {
				s.pods[i+1].Ready = false
			}
		}, want: state.Allow, says: "1 workers are ready"},
		{name: "terminating workers are not ready", set: func(s *scene) {
			for i := range s.pods {
				s.pods[i].Terminating = true
			}
		}, want: state.Deny, says: "no other worker"},
		{name: "size not known", set: func(s *scene) { s.w.Replicas, s.pods = 0, nil }, want: state.Deny, says: "size is not known"},
		{name: "neither adds nor removes", set: taking(0), want: state.Allow, says: "takes 1 away"},
		{name: "adds and removes", set: func(s *scene) { s.w.MaxUnavailable = 5 }, want: state.Deny, says: "takes 5 away"},
		{name: "stops all at once", set: func(s *scene) { s.w.Recreate = true }, want: state.Deny, says: "Recreate stops all"},
		{name: "four of five stay", set: taking(1), want: state.Allow, says: "4 of 5 stay ready"},
		{name: "three of five stay", set: taking(2), want: state.Deny, says: "without a person 4 must stay ready"},
		{name: "three of five stay, approved", set: taking(2, mode(Approve), running(50)), want: state.Allow, says: "3 of 5 stay ready"},
		{name: "one stays, approved", set: taking(4, mode(Approve), running(20)), want: state.Allow, says: "1 of 5 stay ready"},
		{name: "none stays, approved", set: taking(5, mode(Approve), running(1)), want: state.Deny, says: "no other worker"},
		{name: "as full as it may be", set: taking(1, running(68)), want: state.Allow, says: "85 %"},
		{name: "fuller than it may be", set: taking(1, running(69)), want: state.Deny, says: "without a person at most 85 %"},
		{name: "full, approved", set: taking(1, mode(Approve), running(80)), want: state.Allow, says: "100 %"},
		{name: "more than full, approved", set: taking(1, mode(Approve), running(81)), want: state.Deny, says: "could not carry"},
	})
}

func TestCapacityUnknownDenies(t *testing.T) {
	with := func(set func(*scene)) func(*scene) {
		return func(s *scene) { s.w.MaxUnavailable, s.w.MaxSurge = 1, 0; set(s) }
	}
	kv := func(s *scene, value float64) { s.w.Containers = nil; each(s, "kv_usage", value) }
	runRulings(t, capacity, []ruling{
		{name: "nothing is reported", set: with(func(*scene) {}), want: state.Deny, says: "0 of 5 workers report"},
		{name: "one worker reports nothing", set: with(func(s *scene) {
			for _, p := range s.pods[1:] {
				sample(s, "requests_running", p.Name, 1, 0)
			}
		}), want: state.Deny, says: "4 of 5 workers report"},
		{name: "one worker's value is stale", set: with(func(s *scene) {
			each(s, "requests_running", 1)
			s.ev.Samples[0].At = s.now.Add(-2*time.Minute - moment)
		}), want: state.Deny, says: "4 of 5"},
		{name: "values as old as they may be", set: with(func(s *scene) {
			each(s, "requests_running", 1)
			s.ev.Samples[0].At = s.now.Add(-2 * time.Minute)
		}), want: state.Allow},
		{name: "one worker's value is no number", set: with(func(s *scene) {
			each(s, "requests_running", 1)
			s.ev.Samples[0].Value = math.NaN()
		}), want: state.Deny, says: "4 of 5"},
		{name: "one worker's value has no end", set: with(func(s *scene) {
			each(s, "requests_running", 1)
			s.ev.Samples[0].Value = math.Inf(-1)
		}), want: state.Deny, says: "4 of 5"},
		{name: "a value of the pool is no worker's", set: with(func(s *scene) {
			each(s, "requests_running", 1)
			s.ev.Samples[0].Entity.Pod = ""
		}), want: state.Deny, says: "4 of 5"},
		{name: "a worker of another pool does not count", set: with(func(s *scene) {
			each(s, "requests_running", 1)
			s.ev.Samples[0].Entity.Pod = "other-0"
		}), want: state.Deny, says: "4 of 5"},
		{name: "a worker of another namespace does not count", set: with(func(s *scene) {
			each(s, "requests_running", 1)
			s.ev.Samples[0].Entity.Namespace = "chat"
		}), want: state.Deny, says: "4 of 5"},
		{name: "a worker whose namespace is not told counts", set: with(func(s *scene) {
			each(s, "requests_running", 1)
			s.ev.Samples[0].Entity.Namespace = ""
		}), want: state.Allow},
		{name: "by the caches' use where places are not known", set: with(func(s *scene) { kv(s, .5) }), want: state.Allow, says: "KV cache would be 62 % full"},
		{name: "by the caches' use, too full", set: with(func(s *scene) { kv(s, .7) }), want: state.Deny, says: "at most 85 %"},
		{name: "one worker's cache is not known", set: with(func(s *scene) { kv(s, .5); s.ev.Samples = s.ev.Samples[1:] }), want: state.Deny, says: "0 of 5"},
		{name: "places by what the engines say", set: with(func(s *scene) {
			s.w.Containers = nil
			each(s, "max_num_seqs", 10)
			each(s, "requests_running", 9)
		}), want: state.Deny, says: "112 % of their places"},
		{name: "engines that say different places", set: with(func(s *scene) {
			s.w.Containers = nil
			each(s, "max_num_seqs", 10)
			s.ev.Samples[0].Value = 100
			each(s, "requests_running", 1)
		}), want: state.Deny, says: "not known"},
		{name: "engines that say no places", set: with(func(s *scene) {
			s.w.Containers = nil
			each(s, "max_num_seqs", 0)
			each(s, "requests_running", 1)
		}), want: state.Deny, says: "not known"},
		{name: "engines with one place", set: with(func(s *scene) {
			s.w.Containers = nil
			each(s, "max_num_seqs", 1)
			each(s, "requests_running", 0)
		}), want: state.Allow, says: "0 %"},
		{name: "the default of engines is not guessed", set: with(func(s *scene) {
			s.w.Containers[0].Args = []string{"--model=m"}
			each(s, "requests_running", 1)
		}), want: state.Deny, says: "not known"},
	})
}

func TestCapacityOfRestartAsksBudgets(t *testing.T) {
	app := map[string]string{"app": "vllm"}
	with := func(budgets ...Budget) func(*scene) {
		return func(s *scene) { s.ns.Budgets = budgets; each(s, "requests_running", 1) }
	}
	list := []ruling{
		{name: "no budget", set: with(), want: state.Allow, says: "one is restarted"},
		{name: "one that allows it", set: with(Budget{Name: "a", Selector: app, Allowed: 1}), want: state.Allow},
		{name: "one that does not", set: with(Budget{Name: "a", Selector: app}), want: state.Hold, says: "allows no disruption now", free: time.Minute},
		{name: "one that is not understood", set: with(Budget{Name: "a", Odd: true}), want: state.Deny, says: "not understood"},
		{name: "one of other workers", set: with(Budget{Name: "a", Selector: map[string]string{"app": "b"}}, Budget{Name: "b", Selector: app, Allowed: 1}), want: state.Allow},
		{name: "one of nothing", set: with(Budget{Name: "a", Selector: map[string]string{}}), want: state.Allow},
		{name: "two", set: with(Budget{Name: "a", Selector: app, Allowed: 1}, Budget{Name: "b", Selector: app, Allowed: 1}), want: state.Deny, says: "(a, b)"},
		{name: "the worker is not ready", set: func(s *scene) {
			s.pods[0].Ready, s.pod.Ready = false, false
			each(s, "requests_running", 1)
		}, want: state.Allow, says: "is not ready"},
		{name: "the worker is the only one", set: func(s *scene) {
			s.w.Replicas, s.pods = 1, s.pods[:1]
			each(s, "requests_running", 1)
		}, want: state.Deny, says: "no other worker"},
	}
	for i := range list {
		list[i].kind = playbooks.ActionRestartWorker
	}
	runRulings(t, capacity, append(list, ruling{name: "a rollout asks none", set: func(s *scene) {
		with(Budget{Name: "a", Selector: app}, Budget{Name: "b", Odd: true})(s)
		s.w.MaxUnavailable = 1
	}, want: state.Allow}))
}
