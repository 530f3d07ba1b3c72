package backtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"paramedic/cmd/paramedic/service"
	"paramedic/state"
	"paramedic/state/fold"
)

// stateForm is the version of the state file.
const stateForm = 1

// A snapshot is everything that a run needs to continue at the end of a piece.
type snapshot struct {
	Form    int           `json:"form"`
	Version string        `json:"version"` // of the bot: another one may judge differently
	URL     string        `json:"prometheus"`
	Cluster string        `json:"cluster"`
	Since   time.Duration `json:"since_ns"`
	Rules   string        `json:"rules"` // a hash of the configuration

	From    time.Time                  `json:"from"`
	To      time.Time                  `json:"to"`
	Now     time.Time                  `json:"now"`
	Span    time.Duration              `json:"span_ns"`
	Seq     uint64                     `json:"seq"`
	Book    rulebook                   `json:"rulebook"`
	Active  map[string]*alert          `json:"active"`
	Gaps    gaps                       `json:"gaps"`
	Bot     map[string]*group          `json:"bot"`
	Plain   map[string]*group          `json:"plain"`
	Paging  map[string]bool            `json:"paging"`
	Tally   *tally                     `json:"tally"`
	Records map[string]json.RawMessage `json:"records"` // the board's
}

// A stateFile is the file that a run continues from. A nil one stores nothing.
type stateFile struct {
	path    string
	records map[string]json.RawMessage
}

// snapshot returns the identity of this backtest. Only a run with the same may continue it.
func (b *backtest) snapshot() (snapshot, error) {
	cfg, err := json.Marshal(b.Config)
	if err != nil {
		return snapshot{}, fmt.Errorf("encoding the configuration: %w", err)
	}
	return snapshot{Form: stateForm, Version: service.Version, URL: b.URL, Cluster: b.cluster, Since: b.Since,
		Rules: state.Hash(string(cfg))}, nil
}

// save writes the state file, if there is one. Without one it only drops the board's list of
// changes.
func (b *backtest) save() error {
	changed, _, err := b.board.Take()
	if err != nil {
		return err
	}
	if b.file == nil {
		return nil
	}
	for _, r := range changed {
		switch {
		case strings.HasPrefix(r.Key, state.TimelinePrefix+"."):
		case r.Value == nil:
			delete(b.file.records, r.Key)
		default:
			b.file.records[r.Key] = r.Value
		}
	}
	s, err := b.snapshot()
	if err != nil {
		return err
	}
	s.From, s.To, s.Now, s.Span, s.Seq = b.from, b.to, b.now, b.span, b.seq
	s.Book, s.Active, s.Paging, s.Tally, s.Records = b.rules, b.history.active, b.paging, b.tally, b.file.records
	s.Gaps, s.Bot, s.Plain = b.history.gaps, b.bot.groups, b.plain.groups
	return b.file.write(s)
}

// write replaces the file, so that an interruption leaves the old one or the new one.
func (f *stateFile) write(s snapshot) error {
	raw, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("encoding the state file: %w", err)
	}
	next, err := os.CreateTemp(filepath.Dir(f.path), filepath.Base(f.path)+".*")
	if err != nil {
		return fmt.Errorf("writing the state file: %w", err)
	}
	defer func() { _ = os.Remove(next.Name()) }() // if it was not renamed
	_, err = next.Write(raw)
	if err == nil {
		err = next.Sync()
	}
	if err = errors.Join(err, next.Close()); err == nil {
		err = os.Rename(next.Name(), f.path)
	}
	if err != nil {
		return fmt.Errorf("writing the state file: %w", err)
	}
	return nil
}

// remove deletes the file at the end of the window.
func (f *stateFile) remove() error {
	if f == nil {
		return nil
	}
	if err := os.Remove(f.path); err != nil {
		return fmt.Errorf("removing the state file at the end: %w", err)
	}
	return nil
}

// resume continues from the state file, and reports whether there is one.
func (b *backtest) resume() (bool, error) {
	if b.file == nil {
		return false, nil
	}
	b.file.records = map[string]json.RawMessage{}
	raw, err := os.ReadFile(b.file.path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading the state file: %w", err)
	}
	var s snapshot
	if err := json.Unmarshal(raw, &s); err != nil || s.Form == 0 || s.Tally == nil {
		return false, fmt.Errorf("%s is no state file of a backtest: use another --state", b.file.path)
	}
	if err := b.same(s); err != nil {
		return false, err
	}
	records := make([]state.Record, 0, len(s.Records))
	for key, value := range s.Records {
		records = append(records, state.Record{Key: key, Value: value})
	}
	board, err := fold.LoadBoard(records)
	if err != nil {
		return false, fmt.Errorf("reading the state file %s: %w", b.file.path, err)
	}
	*b.board = *board
	b.file.records = s.Records
	b.from, b.to, b.now, b.span, b.seq = s.From, s.To, s.Now, s.Span, s.Seq
	b.rules, b.history.rules, b.history.active, b.paging, b.tally = s.Book, s.Book, s.Active, s.Paging, s.Tally
	b.history.gaps = s.Gaps
	b.bot.restore(s.Bot)
	b.plain.restore(s.Plain)
	return true, nil
}

// same returns an error if the state file belongs to another backtest.
func (b *backtest) same(s snapshot) error {
	want, err := b.snapshot()
	if err != nil {
		return err
	}
	var differs string
	switch {
	case s.Form != want.Form || s.Version != want.Version:
		differs = "another version of paramedic"
	case s.URL != want.URL:
		differs = "--prometheus " + s.URL
	case s.Cluster != want.Cluster:
		differs = "cluster " + s.Cluster
	case s.Since != want.Since:
		differs = "--since " + days(s.Since)
	case s.Rules != want.Rules:
		differs = "another configuration"
	default:
		return nil
	}
	return fmt.Errorf("the state file %s is of %s: run that to continue, or remove the file to begin anew", b.file.path, differs)
}
