package fit

import (
	"cmp"
	"math"
	"math/rand/v2"
	"testing"
)

// cases draws incidents of three causes. A term of a cause is added more often where it is true.
func cases(n int, weights map[string]float64) []Case {
	rng := rand.New(rand.NewPCG(1, 2))
	var out []Case
	for range n {
		c := Case{}
		odds, total := []float64{}, 1.0
		for _, id := range []string{"a", "b", "c"} {
			cause, score := Cause{ID: id, Supported: true, Terms: []Term{{id + "/prior", 1}}}, weights[id+"/prior"]
			for _, term := range []string{id + "/for", id + "/against"} {
				if rng.Float64() < 0.5 {
					cause.Terms = append(cause.Terms, Term{term, 1})
					score += weights[term]
				}
			}
			c.Causes = append(c.Causes, cause)
			odds = append(odds, math.Pow(10, score/10))
			total += odds[len(odds)-1]
		}
		at := rng.Float64() * total
		for i, o := range odds {
			if at -= o; at < 0 && c.Truth == "" {
				c.Truth = c.Causes[i].ID
			}
		}
		c.Truth = cmp.Or(c.Truth, Unknown)
		out = append(out, c)
	}
	return out
}

var known = map[string]float64{"a/prior": -2, "b/prior": -3, "c/prior": -4, "a/for": 9, "b/for": 7, "c/for": 5,
	"a/against": -8, "b/against": -6, "c/against": -3}

func guess(change func(term string, w float64) float64) map[string]float64 {
	out := map[string]float64{}
	for term, w := range known {
		out[term] = change(term, w)
	}
	return out
}

func TestFitRecoversKnownWeights(t *testing.T) {
	drawn := cases(20000, known)
	got, err := Fit(guess(func(_ string, w float64) float64 { return math.Copysign(4, w) }), drawn, Options{Spread: 20})
	if err != nil {
		t.Fatal(err)
	}
	for term, want := range known {
		if math.Abs(got.Weights[term]-want) > 1 {
			t.Errorf("%s is %g, want %g", term, got.Weights[term], want)
		}
	}
	best, err := Loss(known, drawn)
	if err != nil {
		t.Fatal(err)
	}
	if got.After >= got.Before || got.After > best+0.01 {
		t.Errorf("the loss went from %.3f to %.3f, the true weights have %.3f", got.Before, got.After, best)
	}
}

func TestWeightsKeepTheirSigns(t *testing.T) {
	today := guess(func(_ string, w float64) float64 { return -w })
	got, err := Fit(today, cases(5000, known), Options{Spread: 20})
	if err != nil {
		t.Fatal(err)
	}
	for term, w := range got.Weights {
		if w*today[term] <= 0 {
			t.Errorf("%s was %g and is %g", term, today[term], w)
		}
	}
	if w := got.Weights["a/for"]; w != -1 {
		t.Errorf("the data want +9, and the weight nearest to it with today's sign is -1, not %g", w)
	}
}

func TestUnexercisedWeightsStay(t *testing.T) {
	today := guess(func(_ string, w float64) float64 { return w + 2.5 })
	today["a/never"], today["zero"] = 3.5, 0
	got, err := Fit(today, cases(2000, known), Options{Spread: 5})
	if err != nil {
		t.Fatal(err)
	}
	if got.Weights["a/never"] != 3.5 || got.Weights["zero"] != 0 || got.Runs["a/never"] != 0 {
		t.Errorf("%v, added by %v", got.Weights, got.Runs)
	}
	for term, w := range got.Weights {
		if w != today[term] && w != math.Round(w) {
			t.Errorf("%s is %g", term, w)
		}
	}
	if got.Runs["a/prior"] == 0 {
		t.Error("no run adds a prior")
	}
}

// A narrow penalty keeps today's weights against any data.
func TestPenaltyHoldsTodaysWeights(t *testing.T) {
	today := guess(func(_ string, w float64) float64 { return math.Copysign(4, w) })
	got, err := Fit(today, cases(500, known), Options{Spread: 0.001})
	if err != nil {
		t.Fatal(err)
	}
	for term, w := range got.Weights {
		if w != today[term] {
			t.Errorf("%s went from %g to %g", term, today[term], w)
		}
	}
}

// A cause without support becomes a candidate once its score is above zero, as in the bot.
func TestUnsupportedCauseIsPartOfUnknown(t *testing.T) {
	c := Case{Truth: "a", Causes: []Cause{{ID: "a", Supported: true, Terms: []Term{{"a/for", 1}}}, {ID: "b", Fixed: -1}, {ID: "c", Fixed: 1}}}
	got, err := Loss(map[string]float64{"a/for": 10}, []Case{c})
	if err != nil {
		t.Fatal(err)
	}
	if want := math.Log((1 + 10 + math.Pow(10, 0.1)) / 10); math.Abs(got-want) > 1e-9 {
		t.Errorf("the loss is %g, want %g", got, want)
	}
}

func TestTermOfAnotherCatalogueIsRefused(t *testing.T) {
	c := []Case{{Truth: "a", Causes: []Cause{{ID: "a", Terms: []Term{{"a/gone", 1}}}}}}
	if _, err := Fit(known, c, Options{Spread: 1}); err == nil {
		t.Error("no error")
	}
	if _, err := Fit(known, []Case{{Truth: "x"}}, Options{Spread: 1}); err == nil {
		t.Error("no error where the true cause has no sum")
	}
}
