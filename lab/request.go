package lab

// A request is one call of a client, on one worker.
type request struct {
	arrived  float64 // at the worker
	deadline float64 // when the client gives up if it has no token yet; 0: never
	timeout  float64 // when the client gives up in any case; 0: never
	cancelAt float64 // generated tokens after which the client hangs up; 0: never
	attempt  int
	long     bool // its prompt is of the workload's long ones
	wordy    bool // its answer is

	group     int // of prompts with a common start; -1: none
	shared    int // how many tokens that start has; 0: as many as the engine's groups have
	answer    int // what its answer is like: answerGood and so on
	prompt    int
	output    int
	maxTokens int
	scored    bool // the client wants the probabilities of its prompt (prompt_logprobs)

	computed  int // tokens whose KV is in the cache
	generated int
	blocks    int     // its own
	prefix    *prefix // what it shares
	seg       *segment

	scheduled  float64 // first
	firstToken float64
	lastToken  float64
	cachedHit  int
	preempted  int
	step       int // tokens planned in the step that runs now
	running    bool
	planned    bool
}

// pending is how many tokens are still to be computed before the next one comes out.
func (r *request) pending() int { return r.prompt + r.generated - r.computed }

// private is how many blocks of its own the request needs for its first n tokens.
func (r *request) private(n int) int {
	need := blocksFor(n)
	if r.prefix != nil {
		need -= r.prefix.blocks
	}
	return max(0, need)
}
