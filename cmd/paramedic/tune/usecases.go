package tune

import "fmt"

// A UseCase is what people expect of a service, and the size of prefill chunks to begin with.
type UseCase struct {
	Name       string  `json:"name"`
	TTFT       float64 `json:"ttft_s"`
	ITL        float64 `json:"itl_s"`
	E2E        float64 `json:"e2e_s"`
	Throughput float64 `json:"throughput,omitempty"` // tokens a second that a worker is to generate; 0: nobody asks
	chunk      int
	reads      bool // somebody reads along, and notices when it stops
	// ttftGiven, itlGiven and e2eGiven say that the targets are the user's own: advice that misses
	// one is a finding.
	ttftGiven, itlGiven, e2eGiven bool
}

// useCases are targets that operators publish for each kind of service. The chunks follow vLLM's
// guide to optimization: 2048 where the time between tokens counts, 8192 and more where the first
// token or throughput does.
var useCases = []UseCase{
	{Name: "chat", TTFT: 0.5, ITL: 0.05, E2E: 10, chunk: 2048, reads: true},
	{Name: "code", TTFT: 0.2, ITL: 0.03, E2E: 3, chunk: 2048, reads: true},
	{Name: "batch", TTFT: 5, ITL: 0.1, E2E: 60, chunk: 16384},
	{Name: "rag", TTFT: 1, ITL: 0.08, E2E: 15, chunk: 8192, reads: true},
	{Name: "agents", TTFT: 2, ITL: 0.1, E2E: 30, chunk: 4096},
}

func useCaseOf(name string) (UseCase, error) {
	for _, u := range useCases {
		if u.Name == name {
			return u, nil
		}
	}
	return UseCase{}, fmt.Errorf("--use-case %q is unknown: use chat, code, batch, rag or agents", name)
}

// targeted is the use case with the user's own targets in place of its own. Who names a time
// between tokens has somebody who reads along.
func (u UseCase) targeted(ttft, itl, throughput float64) UseCase {
	if ttft > 0 {
		u.TTFT, u.ttftGiven = ttft, true
	}
	if itl > 0 {
		u.ITL, u.itlGiven, u.reads = itl, true, true
	}
	u.Throughput = throughput
	return u
}

// whole is the use case with the user's own target for the whole answer.
func (u UseCase) whole(e2e float64) UseCase {
	if e2e > 0 {
		u.E2E, u.e2eGiven = e2e, true
	}
	return u
}

// answerWithin is how many tokens an answer can have within the end-to-end target, when first token
// and time between tokens use theirs up: E2E = TTFT + (tokens − 1) · ITL. 0: the first token alone
// may take longer.
func (u UseCase) answerWithin() int {
	if u.E2E < u.TTFT {
		return 0
	}
	return int((u.E2E-u.TTFT)/u.ITL+1e-9) + 1
}

// Where nobody knows how fast the GPU is, these cap the sequences: 512 is the largest batch that
// vLLM captures a graph for unless it is told otherwise, 64 is what published guides begin with
// where tokens have to come faster than one in 50 ms.
const (
	untimedSeqs  = 512
	untimedTight = 64
	tightITL     = 0.05 // seconds
)

// untimedCap is the cap for a time between tokens where the speed of the GPU is not known.
func (u UseCase) untimedCap() int {
	if u.ITL < tightITL {
		return untimedTight
	}
	return untimedSeqs
}

// A pause of the tokens that is longer than this many of them is noticed; it is our own measure.
const pauseTokens = 10

// smallestChunk is where smaller chunks cost more in weights that are read again than they gain,
// and readersChunk the largest that guides give where somebody reads along.
const (
	smallestChunk = 512
	readersChunk  = 2048
)

// chunkFor is the size of prefill chunks: the use case's, halved while a step with a whole chunk
// would be a pause that readers notice. pause says how long a step with a chunk takes; nil: that is
// not known, and a tight time between tokens takes small chunks. least is how many tokens the
// engine demands.
func chunkFor(u UseCase, least int, pause func(chunk int) float64) int {
	chunk := u.chunk
	if pause == nil && u.itlGiven && u.ITL < tightITL {
		chunk = min(chunk, readersChunk)
	}
	for pause != nil && u.reads && chunk > smallestChunk && pause(chunk) > pauseTokens*u.ITL {
		chunk /= 2
	}
	for chunk < least {
		chunk *= 2
	}
	return chunk
}
