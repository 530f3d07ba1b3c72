package webhook

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"

	"paramedic/state"
)

// A Token is one entry of the tokens file.
type Token struct {
	Token     string     `yaml:"token"`
	Name      string     `yaml:"name"`
	Role      state.Role `yaml:"role"`
	SlackUser string     `yaml:"slack_user"`
}

// Tokens are the API's tokens, re-read when their file changes. A changed file that is not valid is refused and the old one kept.
type Tokens struct {
	path string

	mu     sync.Mutex
	info   fs.FileInfo
	tokens []Token
	sums   [][sha256.Size]byte
}

// LoadTokens reads a tokens file; the package comment shows its format.
func LoadTokens(path string) (*Tokens, error) {
	t := &Tokens{path: path}
	if err := t.refresh(); err != nil {
		return nil, err
	}
	return t, nil
}

// refresh reads the file where it has changed. The caller holds the lock, or has the only reference.
func (t *Tokens) refresh() error {
	info, err := os.Stat(t.path)
	if err != nil {
		return fmt.Errorf("reading tokens file: %w", err)
	}
	if !changed(t.info, info) {
		return nil
	}
	data, err := os.ReadFile(t.path)
	if err != nil {
		return fmt.Errorf("reading tokens file: %w", err)
	}
	t.info = info // an invalid file is complained about once, not at every request
	tokens, err := parseTokens(data)
	if err != nil {
		return fmt.Errorf("tokens file %s: %w", t.path, err)
	}
	t.tokens, t.sums = tokens, make([][sha256.Size]byte, len(tokens))
	for i, token := range tokens {
		t.sums[i] = sha256.Sum256([]byte(token.Token))
	}
	return nil
}

// parseTokens names the entries by number and never shows a token.
func parseTokens(data []byte) ([]Token, error) {
	var tokens []Token
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	if err := dec.Decode(&tokens); err != nil && !errors.Is(err, io.EOF) {
		var wrong *yaml.TypeError
		if errors.As(err, &wrong) {
			return nil, errors.New("it must be a list of {token, name, role, slack_user}, and nothing else may be in an entry")
		}
		return nil, errors.New("it is not valid YAML")
	}
	if len(tokens) == 0 {
		return nil, errors.New("it has no tokens: write a list of {token, name, role}")
	}
	var problems []error
	first := map[string]int{}
	for i, t := range tokens {
		if len(t.Token) < 8 || strings.ContainsAny(t.Token, " \t\r\n") {
			problems = append(problems, fmt.Errorf("entry %d: a token needs at least 8 characters and no spaces", i+1))
		}
		if !t.Role.Allows(state.Viewer) {
			problems = append(problems, fmt.Errorf("entry %d: role must be viewer, responder or admin", i+1))
		}
		if n, ok := first[t.Token]; ok {
			problems = append(problems, fmt.Errorf("entry %d: same token as entry %d", i+1, n))
		}
		first[t.Token] = i + 1
	}
	return tokens, errors.Join(problems...)
}

// lookup finds a token in a time that does not depend on which one it is. The error says why a changed file was not applied.
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

// SlackUser gives the token entry of a Slack user, so that one file can say who may do what in both places.
func (t *Tokens) SlackUser(userID string) (name string, role state.Role, ok bool) {
	if t == nil || userID == "" {
		return "", "", false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	_ = t.refresh() // the API's requests report it
	for _, token := range t.tokens {
		if token.SlackUser == userID {
			return token.Name, token.Role, true
		}
	}
	return "", "", false
}
