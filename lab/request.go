package lab

// A request is one call of a client, on one worker.
type request struct {
	// Each step of an engine uses these fields of all its requests, so they are together.
	prompt     int
	generated  int
	computed   int // tokens whose KV is in the cache
	step       int // tokens planned in the step that runs now
	output     int
	blocks     int     // its own
	prefix     *prefix // what it shares
	firstToken float64
	lastToken  float64
	planned    bool
	running    bool
	scored     bool // the client wants the probabilities of its prompt (prompt_logprobs)

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
	maxTokens int

	seg *segment

	scheduled float64 // first
	cachedHit int
	preempted int
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
