package traffic

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

	"paramedic/lab/engine"
)

// A Trace is recorded traffic, in order of arrival.
type Trace []Arrival

// An Arrival is one recorded request.
type Arrival struct {
	At             time.Duration // since the trace's first
	Prompt, Output int           // tokens
	Group          int           // of requests with a common start; -1: unknown, so the workload's groups are used
	Shared         int           // tokens of that start; 0: nothing is shared
}

// mooncakeBlock is the number of tokens per prefix hash of Mooncake.
const mooncakeBlock = 512

// ReadTrace reads recorded traffic: the CSV of Azure's public LLM inference traces (TIMESTAMP,
// ContextTokens, GeneratedTokens), or Mooncake's lines of JSON (timestamp in milliseconds,
// input_length, output_length, hash_ids). From Mooncake's prefix hashes it keeps the longest start
// that a request has in common with another.
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
		a.Shared = min(a.Shared, (a.Prompt-1)/engine.BlockSize*engine.BlockSize)
		out = append(out, a)
	}
	return out, nil
}

// Replay returns the workload with a trace's requests. The trace sets their times, the spread of
// their lengths and their common starts. The workload sets their mean lengths and the load. Pools
// are sized for their peak, so the busiest five minutes of the trace have the workload's load, and
// bursty traffic has a lower mean rate. Each seed begins at another place in the trace. A workload
// that already plays a trace keeps it.
func (w Workload) Replay(t Trace, seed uint64) Workload {
	if w.Trace != nil {
		return w
	}
	own := w.WithDefaults(time.Time{})
	t = t.scaled(own.Prompt.Mean, own.Output.Mean)
	w.Trace = t.from(rand.New(rand.NewPCG(seed, 6)).IntN(len(t)))
	w.Rate = own.fit(t)
	return w
}

// peak is the time over which a pool's peak load is measured: the window of most alert rules.
const peak = 5 * time.Minute

// fit returns the rate at which the trace's busiest minutes are as much work as the workload, and
// at most the workload's rate.
func (w Workload) fit(t Trace) float64 {
	whole := t.length()
	ends := make([]float64, 0, 2*len(t)) // two rounds, because the busiest minutes may cross the end
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

// work returns a request's approximate cost in generated tokens. A prompt token that is not cached
// costs a fifth of a generated one.
func (w Workload) work(a Arrival) float64 {
	shared := float64(a.Shared)
	if a.Group < 0 && a.Prompt > w.GroupTokens {
		shared = w.GroupShare * float64(w.GroupTokens)
	}
	return (float64(a.Prompt)-shared)/5 + float64(a.Output)
}

// from returns the trace rotated to begin at its nth request.
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

// scaled returns the trace with other mean lengths.
func (t Trace) scaled(prompt, output float64) Trace {
	prompt, output = prompt/t.Prompt(), output/t.Output()
	out := slices.Clone(t)
	for i := range out {
		a := &out[i]
		a.Prompt, a.Output = max(1, int(math.Round(float64(a.Prompt)*prompt))),
			max(1, int(math.Round(float64(a.Output)*output)))
		a.Shared = min(int(float64(a.Shared)*prompt), a.Prompt-1) / engine.BlockSize * engine.BlockSize
	}
	return out
}

// Rate returns the trace's mean rate in requests per second.
func (t Trace) Rate() float64 { return float64(len(t)) / t.length() }

// Prompt returns the mean number of tokens of a prompt.
func (t Trace) Prompt() float64 { return t.mean(func(a Arrival) int { return a.Prompt }) }

// Output returns the mean number of tokens of an answer.
func (t Trace) Output() float64 { return t.mean(func(a Arrival) int { return a.Output }) }

func (t Trace) mean(of func(Arrival) int) float64 {
	sum := 0
	for _, a := range t {
		sum += of(a)
	}
	return float64(sum) / float64(len(t))
}

// length returns the seconds of one round of the trace, with a mean pause before the next.
func (t Trace) length() float64 {
	last := t[len(t)-1].At.Seconds()
	return last * float64(len(t)) / float64(len(t)-1)
}
