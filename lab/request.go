package lab

// A request is one call of a client, on one worker.
type request struct {
	arrived  float64 // at the worker
	deadline float64 // when the client cancels without a first token; 0: never
	timeout  float64 // when the client cancels in any case; 0: never
	cancelAt float64 // generated tokens after which the client hangs up; 0: never
	attempt  int
	long     bool // its prompt is drawn from Workload.Long
	wordy    bool // its answer is drawn from Workload.Wordy

	group     int // of prompts with a common start; -1: none
	shared    int // tokens of that start; 0: the engine's groupLen
	answer    int // answerGood, answerRefusal or answerEmpty
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

// pending returns the number of tokens to compute before the next one is generated.
func (r *request) pending() int { return r.prompt + r.generated - r.computed }

// private returns the number of unshared blocks that the first n tokens need.
func (r *request) private(n int) int {
	need := blocksFor(n)
	if r.prefix != nil {
		need -= r.prefix.blocks
	}
	return max(0, need)
}
