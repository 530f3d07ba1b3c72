package lab

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Trace is recorded traffic, in the order of its arrivals.
type Trace []Arrival

// An Arrival is one recorded request.
type Arrival struct {
	At             time.Duration // since the trace's first
	Prompt, Output int           // tokens
	Group          int           // of requests that share a start; -1: not known, the workload's groups are used
	Shared         int           // tokens of that start; 0: it shares nothing
}

// mooncakeBlock is how many tokens one of Mooncake's prefix hashes stands for.
const mooncakeBlock = 512

// ReadTrace reads recorded traffic: the CSV of Azure's public LLM inference traces (TIMESTAMP,
// ContextTokens, GeneratedTokens), or Mooncake's lines of JSON (timestamp in milliseconds,
// input_length, output_length, hash_ids). Of Mooncake's prefix hashes a request keeps the longest
// start that another request of the trace has too.
func ReadTrace(r io.Reader) (Trace, error) {
	in := bufio.NewReader(r)
	head, err := in.Peek(1)
	if err != nil {
		return nil, fmt.Errorf("reading the trace: %w", err)
	}
	read := readAzure
	if head[0] == '{' {
		read = readMooncake
	}
	t, err := read(in)
	if err != nil {
		return nil, err
	}
	if len(t) < 2 || t.length() <= 0 {
		return nil, errors.New("the trace has no two requests at different times")
	}
	return t, nil
}

func readAzure(r io.Reader) (Trace, error) {
	rows, err := csv.NewReader(r).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("reading the trace: %w", err)
	}
	if len(rows) == 0 || strings.Join(rows[0], ",") != "TIMESTAMP,ContextTokens,GeneratedTokens" {
		return nil, errors.New("the trace's first line is not TIMESTAMP,ContextTokens,GeneratedTokens")
	}
	var out Trace
	var first time.Time
	for i, row := range rows[1:] {
		at, err := time.Parse("2006-01-02 15:04:05.999999999", row[0])
		prompt, promptErr := strconv.Atoi(row[1])
		output, outputErr := strconv.Atoi(row[2])
		if err := errors.Join(err, promptErr, outputErr); err != nil {
			return nil, fmt.Errorf("line %d of the trace: %w", i+2, err)
		}
		if i == 0 {
			first = at
		}
		out = append(out, Arrival{At: at.Sub(first), Prompt: prompt, Output: output, Group: -1})
	}
	return out, nil
}

func readMooncake(r io.Reader) (Trace, error) {
	type line struct {
		Timestamp float64 `json:"timestamp"`
		Input     int     `json:"input_length"`
		Output    int     `json:"output_length"`
		Hashes    []int   `json:"hash_ids"`
	}
	var lines []line
	uses := map[int]int{}
	dec := json.NewDecoder(r)
	for dec.More() {
		var l line
		if err := dec.Decode(&l); err != nil {
			return nil, fmt.Errorf("line %d of the trace: %w", len(lines)+1, err)
		}
		for _, h := range l.Hashes {
			uses[h]++
		}
		lines = append(lines, l)
	}
	var out Trace
	for _, l := range lines {
		a := Arrival{At: time.Duration((l.Timestamp - lines[0].Timestamp) * float64(time.Millisecond)), Prompt: l.Input,
			Output: l.Output, Group: -1}
		for i, h := range l.Hashes {
			if a.Group = max(a.Group, 0); uses[h] > 1 {
				a.Group, a.Shared = h, (i+1)*mooncakeBlock
			}
		}
		a.Shared = min(a.Shared, (a.Prompt-1)/BlockSize*BlockSize)
		out = append(out, a)
	}
	return out, nil
}

// Replay is the scenario with a trace's requests. The trace says when they come, how their lengths
// spread and what they share; how long they are in the mean is the scenario's own, and so is how
// busy they keep the pool, because the fleet, its alert rules and the strength of its faults are
// made for that. A pool is sized for its peak: it is in the busiest five minutes of the trace that
// the pool is as busy as the scenario's, so that what bursts comes at a lower mean rate. Each seed
// begins elsewhere in the trace. A scenario that plays a trace already keeps it: it is what the
// scenario is about.
func (s Scenario) Replay(t Trace) Scenario {
	w := &s.Config.Workload
	if w.Trace != nil {
		return s
	}
	own := w.withDefaults()
	t = t.scaled(own.Prompt.Mean, own.Output.Mean)
	w.Trace = t.from(rand.New(rand.NewPCG(s.Config.Seed, 6)).IntN(len(t)))
	w.Rate = own.fit(t)
	return s
}

// peak is the time that a pool is sized by, here as long as what most alert rules look back on.
const peak = 5 * time.Minute

// fit is the rate at which the busiest minutes of a trace are as much work a second as the
// workload: at most the workload's own.
func (w Workload) fit(t Trace) float64 {
	whole := t.length()
	ends := make([]float64, 0, 2*len(t)) // two rounds: the busiest minutes may reach over the end
	for round := range 2 {
		for _, a := range t {
			ends = append(ends, float64(round)*whole+a.At.Seconds())
		}
	}
	window := peak.Seconds() * w.Rate / t.Rate() // of the trace's time
	most, sum, first := 0.0, 0.0, 0
	for i := range ends {
		sum += w.work(t[i%len(t)])
		for ends[i]-ends[first] > window {
			sum -= w.work(t[first%len(t)])
			first++
		}
		most = max(most, sum)
	}
	own := w.work(Arrival{Prompt: int(w.Prompt.Mean), Output: int(w.Output.Mean), Group: -1})
	return w.Rate * min(1, own*w.Rate*peak.Seconds()/most)
}

// work is about how many decoded tokens a request is worth: a token of a prompt that is computed
// costs a fifth of one that is generated.
func (w Workload) work(a Arrival) float64 {
	shared := float64(a.Shared)
	if a.Group < 0 && a.Prompt > w.GroupTokens {
		shared = w.GroupShare * float64(w.GroupTokens)
	}
	return (float64(a.Prompt)-shared)/5 + float64(a.Output)
}

// from is the trace begun at its nth request; what came before is played at its end.
func (t Trace) from(n int) Trace {
	round := time.Duration(t.length() * float64(time.Second))
	out := slices.Concat(t[n:], t[:n])
	for i := range out {
		if out[i].At -= t[n].At; i >= len(t)-n {
			out[i].At += round
		}
	}
	return out
}

// scaled is the trace with other mean lengths.
func (t Trace) scaled(prompt, output float64) Trace {
	prompt, output = prompt/t.Prompt(), output/t.Output()
	out := slices.Clone(t)
	for i := range out {
		a := &out[i]
		a.Prompt, a.Output = max(1, int(math.Round(float64(a.Prompt)*prompt))),
			max(1, int(math.Round(float64(a.Output)*output)))
		a.Shared = min(int(float64(a.Shared)*prompt), a.Prompt-1) / BlockSize * BlockSize
	}
	return out
}

// Rate is the trace's own mean rate of requests a second.
func (t Trace) Rate() float64 { return float64(len(t)) / t.length() }

// Prompt and Output are the mean lengths in tokens.
func (t Trace) Prompt() float64 { return t.mean(func(a Arrival) int { return a.Prompt }) }

// Output is the mean number of tokens of an answer.
func (t Trace) Output() float64 { return t.mean(func(a Arrival) int { return a.Output }) }

func (t Trace) mean(of func(Arrival) int) float64 {
	sum := 0
	for _, a := range t {
		sum += of(a)
	}
	return float64(sum) / float64(len(t))
}

// length is how long one round of the trace is, in seconds: the pause before it begins again is a
// mean one.
func (t Trace) length() float64 {
	last := t[len(t)-1].At.Seconds()
	return last * float64(len(t)) / float64(len(t)-1)
}

// A tape is where a fleet is in a trace.
type tape struct {
	at     float64 // when it was there
	pos    float64 // seconds of the trace that have been played, over all rounds
	n      int     // arrivals that were taken
	length float64 // of one round
	rate   float64 // the trace's own
}

// next is when the next arrival is due, if the trace has been played at the rate was since the last
// call, and is at rate from now on.
func (p *tape) next(t Trace, now, was, rate float64) float64 {
	if p.length == 0 {
		p.length, p.rate = t.length(), t.Rate()
	}
	p.pos += (now - p.at) * was / p.rate
	p.at = now
	if rate <= 0 {
		return math.Inf(1)
	}
	due := float64(p.n/len(t))*p.length + t[p.n%len(t)].At.Seconds()
	return now + max(0, due-p.pos)*p.rate/rate
}

// take gives a request the lengths of the next arrival, scaled as faults have scaled the
// workload's.
func (p *tape) take(r *request, mix *Workload, c *Config) {
	a := mix.Trace[p.n%len(mix.Trace)]
	p.n++
	base := c.Workload
	if !r.long {
		r.prompt = min(max(8, int(float64(a.Prompt)*mix.Prompt.Mean/base.Prompt.Mean)), c.Engine.MaxModelLen*3/4)
	}
	scaled := r.output
	if !r.wordy {
		r.output = min(max(1, int(float64(a.Output)*mix.Output.Mean/base.Output.Mean)), c.Engine.MaxModelLen-r.prompt)
	}
	if r.maxTokens == scaled {
		r.maxTokens = r.output
	} else {
		r.maxTokens = c.Engine.MaxModelLen - r.prompt
	}
	if r.cancelAt > 0 {
		r.cancelAt = math.Max(1, float64(r.output)/2)
	}
	switch {
	case a.Group < 0:
	case a.Shared == 0:
		r.group = -1
	case r.group >= 0 || mix.GroupShare >= base.GroupShare: // else a fault has taken what it shared
		r.group, r.shared = a.Group, a.Shared
	}
}
