package access

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"io/fs"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"paramedic/internal/strictyaml"
	"paramedic/state"
)

// A Token is one entry of the tokens file.
type Token struct {
	Token     string     `yaml:"token"`
	Name      string     `yaml:"name"`
	Role      state.Role `yaml:"role"`
	SlackUser string     `yaml:"slack_user"`
}

// Tokens holds the API's tokens. It reads the file again when it changes. A changed file that is
// invalid is refused, and the entries before it stay valid.
type Tokens struct {
	path string

	mu     sync.Mutex
	info   fs.FileInfo
	tokens []Token
	sums   [][sha256.Size]byte
}

// LoadTokens reads a tokens file. The package comment shows its format.
func LoadTokens(path string) (*Tokens, error) {
	t := &Tokens{path: path}
	if err := t.refresh(); err != nil {
		return nil, err
	}
	return t, nil
}

// MayRespond reports whether a token of a responder or an admin has the name or the Slack user.
func (t *Tokens) MayRespond(name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.ContainsFunc(t.tokens, func(k Token) bool {
		return name != "" && (k.Name == name || k.SlackUser == name) && k.Role.Allows(state.Responder)
	})
}

// refresh reads the file if it has changed. The caller holds the lock, or has the only reference.
func (t *Tokens) refresh() error {
	info, err := os.Stat(t.path)
	if err != nil {
		return fmt.Errorf("reading the tokens file: %w", err)
	}
	if !changed(t.info, info) {
		return nil
	}
	data, err := os.ReadFile(t.path)
	if err != nil {
		return fmt.Errorf("reading the tokens file: %w", err)
	}
	t.info = info // an invalid file is reported once, not at every request
	tokens, problems := parseTokens(t.path, data)
	if len(problems) > 0 {
		return &TokensError{Problems: problems}
	}
	t.tokens, t.sums = tokens, make([][sha256.Size]byte, len(tokens))
	for i, token := range tokens {
		t.sums[i] = sha256.Sum256([]byte(token.Token))
	}
	return nil
}

// A TokensError lists the faults in a tokens file. It never shows a token.
type TokensError struct {
	Problems []strictyaml.Problem
}

// Error returns the problems, a line each.
func (e *TokensError) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// format is the format of the tokens file.
var format = strictyaml.Format[[]Token]{Secret: true, Kinds: map[reflect.Type]string{
	reflect.TypeFor[[]Token](): "the file",
	reflect.TypeFor[Token]():   "an entry",
}}

// parseTokens reads every entry. A problem names the line and the key, and never shows a token.
func parseTokens(file string, data []byte) ([]Token, []strictyaml.Problem) {
	var tokens []Token
	doc, problems := format.ReadInto(&tokens, file, data)
	if len(tokens) == 0 && len(problems) == 0 {
		return nil, []strictyaml.Problem{{File: file, Line: 1,
			Text: "the file has no tokens: write a list of {token, name, role, slack_user}"}}
	}
	first := map[string]int{}
	for i, t := range tokens {
		line := doc.Line(strconv.Itoa(i))
		bad := func(format string, args ...any) {
			problems = append(problems, strictyaml.Problem{File: file, Line: line, Text: fmt.Sprintf(format, args...)})
		}
		if len(t.Token) < 8 || strings.ContainsAny(t.Token, " \t\r\n") {
			bad("a token needs at least 8 characters and no spaces")
		}
		if !t.Role.Allows(state.Viewer) {
			bad("role must be viewer, responder or admin")
		}
		if n, ok := first[t.Token]; ok && t.Token != "" {
			bad("the entry has the token of the one in line %d: each entry needs its own", n)
		} else {
			first[t.Token] = line
		}
	}
	slices.SortStableFunc(problems, func(a, b strictyaml.Problem) int { return a.Line - b.Line })
	return tokens, problems
}

// lookup finds a token, in a time that does not depend on which one it is. The error is the reason
// why a changed file was not applied.
func (t *Tokens) lookup(token string) (Token, bool, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	err := t.refresh()
	sum := sha256.Sum256([]byte(token))
	found := -1
	for i := range t.sums {
		if subtle.ConstantTimeCompare(sum[:], t.sums[i][:]) == 1 {
			found = i
		}
	}
	if found < 0 || token == "" {
		return Token{}, false, err
	}
	return t.tokens[found], true, err
}

// SlackUser returns the name and role of a Slack user, so that one file decides both for the API
// and for Slack.
func (t *Tokens) SlackUser(userID string) (name string, role state.Role, ok bool) {
	if userID == "" {
		return "", "", false
	}
	for _, token := range t.all() {
		if token.SlackUser == userID {
			return token.Name, token.Role, true
		}
	}
	return "", "", false
}

// SlackActor returns a Slack user as an actor, with the role and the token's name that the file
// gives the user.
func (t *Tokens) SlackActor(userID string) state.Actor {
	name, role, _ := t.SlackUser(userID)
	return state.Actor{ID: userID, Via: "slack", Role: role, Alias: name}
}

// slackID matches a Slack user's ID.
var slackID = regexp.MustCompile(`^[UW][A-Z0-9]+$`)

// SlackApproves reports whether any Slack user may approve an action with these approvers: a user
// in the file, or a user ID among the approvers.
func (t *Tokens) SlackApproves(approvers []string) bool {
	var users []string
	names := map[string]bool{}
	for _, token := range t.all() {
		users, names[token.Name] = append(users, token.SlackUser), true
	}
	for _, id := range approvers {
		if slackID.MatchString(id) && !names[id] {
			users = append(users, id)
		}
	}
	return slices.ContainsFunc(users,
		func(id string) bool { return id != "" && t.SlackActor(id).WhyNotApprove(approvers) == "" })
}

// all returns the entries of the file as it is now, or none if there is no file.
func (t *Tokens) all() []Token {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	_ = t.refresh() // the API's requests report the error
	return t.tokens
}

// bySum finds the entry of a token by its hash.
func (t *Tokens) bySum(sum [sha256.Size]byte) (Token, bool, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	err := t.refresh()
	if i := slices.Index(t.sums, sum); i >= 0 { // no constant time needed: the hash came out of a session
		return t.tokens[i], true, err
	}
	return Token{}, false, err
}
