package tune

import "fmt"

// A UseCase has the usual targets of a service, and the size of prefill chunks to begin with.
type UseCase struct {
	Name       string  `json:"name"`
	TTFT       float64 `json:"ttft_s"`
	ITL        float64 `json:"itl_s"`
	E2E        float64 `json:"e2e_s"`
	Throughput float64 `json:"throughput,omitempty"` // tokens a second that a worker is to generate; 0: no target
	chunk      int
	reads      bool // people read the answer as it comes
	// ttftGiven, itlGiven and e2eGiven mark the user's own targets. Advice that misses one is a
	// finding.
	ttftGiven, itlGiven, e2eGiven bool
}

// useCases has the targets that operators publish for each kind of service. The chunks follow
// vLLM's optimization guide: 2048 if the time between tokens matters, 8192 and more if the first
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

// targeted returns the use case with the user's own targets. A target for the time between tokens
// implies readers who watch the answer.
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

// whole returns the use case with the user's own target for the whole answer.
func (u UseCase) whole(e2e float64) UseCase {
	if e2e > 0 {
		u.E2E, u.e2eGiven = e2e, true
	}
	return u
}

// answerWithin returns the number of tokens of an answer within the end-to-end target, if first
// token and time between tokens use up their targets: E2E = TTFT + (tokens − 1) · ITL. It is 0 if
// the first token alone may take longer.
func (u UseCase) answerWithin() int {
	if u.E2E < u.TTFT {
		return 0
	}
	return int((u.E2E-u.TTFT)/u.ITL+1e-9) + 1
}

// These cap the sequences if the GPU's speed is unknown. 512 is the largest batch that vLLM
// captures a graph for by default. Published guides begin with 64 if tokens must come faster than
// one in 50 ms.
const (
	untimedSeqs  = 512
	untimedTight = 64
	tightITL     = 0.05 // seconds
)

// untimedCap returns the cap of sequences for an unknown GPU speed.
func (u UseCase) untimedCap() int {
	if u.ITL < tightITL {
		return untimedTight
	}
	return untimedSeqs
}

// pauseTokens is the longest unnoticed pause, in tokens. The number is our own estimate.
const pauseTokens = 10

// smallestChunk is the size below which rereading the weights costs more than smaller chunks gain.
// readersChunk is the largest size that guides recommend if people read the answer as it comes.
const (
	smallestChunk = 512
	readersChunk  = 2048
)

// chunkFor returns the size of prefill chunks. It is the use case's, halved while a step with a
// whole chunk would be a noticeable pause. pause returns the duration of a step with a chunk; if it
// is nil, that is unknown, and a tight time between tokens gets small chunks. least is the number
// of tokens that the engine demands.
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
