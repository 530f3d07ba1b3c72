package access

import (
	"crypto/sha256"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"
)

const (
	guessesAtOnce = 10               // wrong tokens of one source
	guessEvery    = 10 * time.Second // afterwards one per interval
	guessesTotal  = 100              // wrong tokens of all sources together
	guessTotal    = time.Second      // afterwards one per interval
	sourcesKept   = 5000
	guessesKept   = 16
)

// guesses counts wrong tokens, by source and in total. A wrong token that is repeated counts once:
// it is a program that still uses an old token. If all sources together exceed the total, a source
// without a mistake may still try. An attack from elsewhere must not keep people from halting first
// aid.
type guesses struct {
	mu      sync.Mutex
	total   allowance
	sources map[string]*guesser
}

// A guesser counts the wrong tokens of one source.
type guesser struct {
	allowance
	tried [][sha256.Size]byte // the last wrong tokens
}

// An allowance is used up by wrong tokens and restored with time.
type allowance struct {
	used float64
	at   time.Time
}

func (a *allowance) now(now time.Time, every time.Duration) float64 {
	if !a.at.IsZero() && now.After(a.at) {
		a.used = max(0, a.used-float64(now.Sub(a.at))/float64(every))
	}
	a.at = now
	return a.used
}

// source returns the source of a request for counting. An IPv6 network of 64 bits is one source,
// because its owner has all of its addresses.
func source(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return "unknown"
	}
	addr = addr.Unmap().WithZone("")
	if addr.Is6() {
		network, _ := addr.Prefix(64) // never fails: the address has at least 64 bits
		return network.String()
	}
	return addr.String()
}

// allowed reports whether a token from a source is compared now.
func (g *guesses) allowed(from, token string, now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	one := g.sources[from]
	if one == nil || one.now(now, guessEvery) == 0 {
		return true
	}
	if slices.Contains(one.tried, sha256.Sum256([]byte(token))) {
		return true // known to be wrong, unless the file has changed since
	}
	return one.used < guessesAtOnce && g.total.now(now, guessTotal) < guessesTotal
}

// count counts a wrong token. counted is false for a token that was tried before. last is true if
// the next token of the source is refused without a comparison.
func (g *guesses) count(from, token string, now time.Time) (counted, last bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	one := g.sources[from]
	if one == nil {
		one = &guesser{}
		if g.sources == nil {
			g.sources = map[string]*guesser{}
		}
		if len(g.sources) >= sourcesKept {
			g.forget(now)
		}
		g.sources[from] = one
	}
	sum := sha256.Sum256([]byte(token))
	if slices.Contains(one.tried, sum) {
		return false, false
	}
	if one.tried = append(one.tried, sum); len(one.tried) > guessesKept {
		one.tried = one.tried[1:]
	}
	one.now(now, guessEvery)
	one.used++
	g.total.now(now, guessTotal)
	g.total.used++
	return true, one.used >= guessesAtOnce || g.total.used >= guessesTotal
}

// forget makes room. It removes sources whose allowance is restored, or else the source that used
// the least.
func (g *guesses) forget(now time.Time) {
	least, used := "", 0.0
	for from, one := range g.sources {
		n := one.now(now, guessEvery)
		if n == 0 {
			delete(g.sources, from)
		} else if least == "" || n < used {
			least, used = from, n
		}
	}
	if len(g.sources) >= sourcesKept {
		delete(g.sources, least)
	}
}
