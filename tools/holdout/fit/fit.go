// Package fit fits the weights of a catalogue to incidents whose true cause is known.
//
// The probability of a cause is the bot's. Its odds are ten to the power of a tenth of its score,
// and the score is the sum of its weights. Its probability is its odds divided by one plus the odds
// of all candidates. The fit makes the true causes likely and keeps the weights near today's.
package fit

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/optimize"
)

// Unknown is the true cause of a case that no cause of the catalogue explains.
const Unknown = "unknown"

// A Case is one incident with its true cause.
type Case struct {
	Truth  string // a cause, or Unknown
	Causes []Cause
}

// A Cause is one cause of a case, with all that its score adds.
type Cause struct {
	ID    string
	Fixed float64 // the sum of weights that are not fitted
	Terms []Term
	// Supported causes are candidates at any score; others only with a score above zero.
	Supported bool
}

// A Term is a weight that is fitted, and how often it is added.
type Term struct {
	ID    string
	Count int
}

// Options limit a fit.
type Options struct {
	// Spread is the distance from today's weight, in decibans, that one standard deviation of the
	// penalty allows.
	Spread float64
}

// A Result holds the fitted weights.
type Result struct {
	Weights       map[string]float64 // of all of today's terms
	Runs          map[string]int     // the cases that add the term
	Before, After float64            // the mean logarithmic loss of a case, in nats
}

// maxRounds limits how often the candidates are chosen again by the new weights.
const maxRounds = 5

// Fit returns the weights of the largest penalized likelihood. A weight keeps its sign. It stays if
// no case adds it, or if it moves by less than half a deciban. All others are whole decibans.
func Fit(today map[string]float64, cases []Case, o Options) (Result, error) {
	m, err := newModel(today, cases, o.Spread)
	if err != nil {
		return Result{}, err
	}
	out := Result{Weights: map[string]float64{}, Runs: m.runs, Before: m.loss(m.today) / float64(max(1, len(cases)))}
	w := slices.Clone(m.today)
	for round := range maxRounds {
		if changed := m.choose(w); round > 0 && !changed {
			break
		}
		if w, err = m.minimize(w); err != nil {
			return Result{}, err
		}
	}
	for id, was := range today {
		out.Weights[id] = was
	}
	for i, id := range m.ids {
		w[i] = whole(m.today[i], w[i])
		out.Weights[id] = w[i]
	}
	out.After = m.loss(w) / float64(max(1, len(cases)))
	return out, nil
}

// Loss returns the mean logarithmic loss of the cases, in nats.
func Loss(weights map[string]float64, cases []Case) (float64, error) {
	m, err := newModel(weights, cases, 1)
	if err != nil {
		return 0, err
	}
	return m.loss(m.today) / float64(max(1, len(cases))), nil
}

// whole rounds a fitted weight. It keeps the sign and stays if it moved little.
func whole(was, now float64) float64 {
	if math.Abs(now-was) < 0.5 {
		return was
	}
	if rounded := math.Round(now); rounded != 0 {
		return rounded
	}
	return math.Copysign(1, was)
}

// A model is a set of cases with the weights as numbers.
type model struct {
	ids    []string
	today  []float64
	runs   map[string]int
	cases  []numbered
	spread float64
}

// A numbered is a case whose terms are indexes into the weights.
type numbered struct {
	truth  int // -1: unknown
	causes []score
}

type score struct {
	fixed     float64
	terms     []added
	supported bool
	candidate bool
}

type added struct {
	weight int
	count  float64
}

func newModel(today map[string]float64, cases []Case, spread float64) (*model, error) {
	m := &model{runs: map[string]int{}, spread: cmp.Or(spread, 1)}
	index := map[string]int{}
	for _, c := range cases {
		n := numbered{truth: -1}
		seen := map[string]bool{}
		for i, cause := range c.Causes {
			s := score{fixed: cause.Fixed, supported: cause.Supported}
			for _, t := range cause.Terms {
				was, known := today[t.ID]
				if !known {
					return nil, fmt.Errorf("the weight %s is not known today: play the runs again", t.ID)
				}
				if !seen[t.ID] {
					seen[t.ID] = true
					m.runs[t.ID]++
				}
				if was == 0 {
					continue // it has no sign to keep
				}
				at, ok := index[t.ID]
				if !ok {
					at = len(m.ids)
					index[t.ID] = at
					m.ids, m.today = append(m.ids, t.ID), append(m.today, was)
				}
				s.terms = append(s.terms, added{at, float64(t.Count)})
			}
			if cause.ID == c.Truth {
				n.truth = i
			}
			n.causes = append(n.causes, s)
		}
		if n.truth < 0 && c.Truth != Unknown {
			return nil, fmt.Errorf("a case of %s has no sum of it", c.Truth)
		}
		m.cases = append(m.cases, n)
	}
	return m, nil
}

// nats converts decibans to the natural logarithm of odds.
const nats = math.Ln10 / 10

func (s *score) at(w []float64) float64 {
	sum := s.fixed
	for _, t := range s.terms {
		sum += t.count * w[t.weight]
	}
	return sum * nats
}

// choose selects the candidates of each case by the weights, and reports whether any changed. The
// true cause is always one, so that its weights can rise.
func (m *model) choose(w []float64) bool {
	changed := false
	for i := range m.cases {
		c := &m.cases[i]
		for j := range c.causes {
			s := &c.causes[j]
			now := s.supported || j == c.truth || s.at(w) > 0
			changed = changed || now != s.candidate
			s.candidate = now
		}
	}
	return changed
}

// loss returns the sum of the losses of all cases, with the candidates of these weights.
func (m *model) loss(w []float64) float64 {
	m.choose(w)
	return m.likelihood(w, nil)
}

// likelihood returns the negative logarithm of the true causes' probability. It adds its gradient
// to grad, unless that is nil.
func (m *model) likelihood(w, grad []float64) float64 {
	total := 0.0
	var logs []float64
	for i := range m.cases {
		c := &m.cases[i]
		logs = logs[:0]
		top := 0.0 // of unknown
		for j := range c.causes {
			l := math.Inf(-1)
			if c.causes[j].candidate {
				l = c.causes[j].at(w)
			}
			logs, top = append(logs, l), max(top, l)
		}
		sum := math.Exp(-top)
		for _, l := range logs {
			sum += math.Exp(l - top)
		}
		all := top + math.Log(sum)
		total += all
		if c.truth >= 0 {
			total -= logs[c.truth]
		}
		if grad == nil {
			continue
		}
		for j := range c.causes {
			d := math.Exp(logs[j] - all)
			if j == c.truth {
				d--
			}
			if d == 0 {
				continue
			}
			for _, t := range c.causes[j].terms {
				grad[t.weight] += nats * d * t.count
			}
		}
	}
	return total
}

// minimize returns the weights of the largest penalized likelihood, from a start. It searches over
// u, where a weight is ln(1+e^u) with today's sign.
func (m *model) minimize(start []float64) ([]float64, error) {
	n := len(m.ids)
	w, dw := make([]float64, n), make([]float64, n)
	open := func(u []float64) {
		for i := range u {
			w[i] = math.Copysign(softplus(u[i]), m.today[i])
		}
	}
	problem := optimize.Problem{
		Func: func(u []float64) float64 {
			open(u)
			return m.likelihood(w, nil) + m.penalty(w, nil)
		},
		Grad: func(grad, u []float64) {
			open(u)
			clear(dw)
			m.likelihood(w, dw)
			m.penalty(w, dw)
			for i := range u {
				grad[i] = math.Copysign(dw[i], dw[i]*m.today[i]) / (1 + math.Exp(-u[i]))
			}
		},
	}
	u := make([]float64, n)
	for i := range u {
		u[i] = inverse(math.Abs(start[i]))
	}
	if n == 0 {
		return start, nil
	}
	settings := &optimize.Settings{GradientThreshold: 1e-4, MajorIterations: 2000,
		Converger: &optimize.FunctionConverge{Relative: 1e-8, Iterations: 20}}
	res, err := optimize.Minimize(problem, u, settings, &optimize.LBFGS{})
	if err != nil && (res == nil || res.Status == optimize.Failure) {
		return nil, fmt.Errorf("fitting: %w", err)
	}
	open(res.X)
	return w, nil
}

// penalty returns the cost of the distance from today's weights, and adds its gradient.
func (m *model) penalty(w, grad []float64) float64 {
	total, variance := 0.0, m.spread*m.spread
	for i := range w {
		d := w[i] - m.today[i]
		total += d * d / (2 * variance)
		if grad != nil {
			grad[i] += d / variance
		}
	}
	return total
}

func softplus(u float64) float64 {
	if u > 30 {
		return u
	}
	return math.Log1p(math.Exp(u))
}

func inverse(w float64) float64 {
	if w > 30 {
		return w
	}
	return math.Log(math.Expm1(max(w, 1e-6)))
}
