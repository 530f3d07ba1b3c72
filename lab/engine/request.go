package engine

// A Request is one call of a client, on one worker. Times are seconds since the fleet's start. An
// engine sets the fields that are not exported, and Generated, FirstToken and LastToken. The caller
// sets the others before [Engine.Add].
type Request struct {
	// Each step of an engine uses these fields of all its requests, so they are together.
	Prompt     int     // tokens
	Generated  int     // tokens of the answer so far
	computed   int     // tokens whose KV is in the cache
	step       int     // tokens planned in the step that runs now
	Output     int     // tokens of the whole answer
	blocks     int     // its own
	prefix     *prefix // what it shares
	FirstToken float64 // 0: none yet
	LastToken  float64
	planned    bool
	running    bool
	Scored     bool // the client wants the probabilities of its prompt (prompt_logprobs)

	Arrived  float64 // at the worker
	Deadline float64 // when the client cancels without a first token; 0: never
	Timeout  float64 // when the client cancels in any case; 0: never
	CancelAt float64 // generated tokens after which the client hangs up; 0: never
	Attempt  int     // 1 for the first
	Long     bool    // it belongs to the clients whose prompts are unusually long
	Wordy    bool    // its answer is unusually long; no engine looks at it

	Group     int // of prompts with a common start; -1: none
	Shared    int // tokens of that start; 0: those of [Config.GroupTokens]
	Answer    int // what its text is like, for the caller; no engine looks at it
	MaxTokens int // the client's limit of the answer

	seg *segment

	scheduled float64 // first
	cachedHit int
	preempted int
}

// gone reports whether the request's client has hung up.
func (r *Request) gone(now float64) bool {
	return r.Timeout > 0 && now > r.Timeout || r.CancelAt > 0 && float64(r.Generated) >= r.CancelAt ||
		r.FirstToken == 0 && r.Deadline > 0 && now > r.Deadline
}

// pending returns the number of tokens to compute before the next one is generated.
func (r *Request) pending() int { return r.Prompt + r.Generated - r.computed }

// private returns the number of unshared blocks that the first n tokens need.
func (r *Request) private(n int) int {
	need := blocksFor(n)
	if r.prefix != nil {
		need -= r.prefix.blocks
	}
	return max(0, need)
}

func (r *Request) prefixBlocks() int {
	if r.prefix == nil {
		return 0
	}
	return r.prefix.blocks
}
