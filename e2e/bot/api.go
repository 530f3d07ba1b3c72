package bot

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os/exec"
	"testing"
	"time"

	"paramedic/webhook/api"
)

// Do sends a request to the bot. It sends a []byte body as it is and any other body but nil as
// JSON. It decodes a 2xx answer into the last argument if that is not nil. It returns an error only
// if there is no answer, or no valid JSON.
func (b *Bot) Do(method, path string, body, into any) (status int, answer string, err error) {
	var reader io.Reader
	switch v := body.(type) {
	case nil:
	case []byte:
		reader = bytes.NewReader(v)
	default:
		raw, err := json.Marshal(v)
		if err != nil {
			return 0, "", err
		}
		reader = bytes.NewReader(raw)
	}
	req, err := http.NewRequest(method, b.URL()+path, reader)
	if err != nil {
		return 0, "", err
	}
	req.Header.Set("Content-Type", "application/json")
	if b.Token != "" {
		req.Header.Set("Authorization", "Bearer "+b.Token)
	}
	return b.Send(req, into)
}

// Send sends a request as Do does, with the caller's headers.
func (b *Bot) Send(req *http.Request, into any) (status int, answer string, err error) {
	resp, err := b.client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return resp.StatusCode, "", fmt.Errorf("reading the answer: %w", err)
	}
	if into != nil && resp.StatusCode/100 == 2 {
		if err := json.Unmarshal(raw, into); err != nil {
			return resp.StatusCode, string(raw),
				fmt.Errorf("%s %s answers with other JSON than expected: %w", req.Method, req.URL.Path, err)
		}
	}
	return resp.StatusCode, string(raw), nil
}

// Incidents returns all incidents of the API, newest first.
func (b *Bot) Incidents() (all []api.IncidentJSON, err error) {
	for path := "/api/v1/incidents?limit=500"; ; {
		var page api.IncidentsJSON
		status, answer, err := b.Do(http.MethodGet, path, nil, &page)
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("GET %s: %d %s", path, status, answer)
		}
		if err != nil {
			return nil, err
		}
		if all = append(all, page.Incidents...); page.Next == nil {
			return all, nil
		}
		path = "/api/v1/incidents?limit=500&cursor=" + url.QueryEscape(*page.Next)
	}
}

// MustIncidents returns all incidents, and fails the test if the bot does not answer.
func (b *Bot) MustIncidents() []api.IncidentJSON {
	b.t.Helper()
	list, err := b.Incidents()
	if err != nil {
		b.t.Fatal(err)
	}
	return list
}

// Run runs one command of the binary to its end, and returns its output and exit code.
func Run(t testing.TB, dir string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	cmd := exec.Command(Binary(t), args...)
	var out, errs bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

type finalError struct{ error }

// Final marks an error of an Eventually condition for which waiting longer is of no use.
func Final(err error) error { return finalError{err} }

// Eventually waits until the condition returns nil. After the limit it fails the test with the
// condition's last error.
func Eventually(t testing.TB, limit time.Duration, what string, condition func() error) {
	t.Helper()
	deadline := time.After(limit)
	beat := time.NewTicker(50 * time.Millisecond)
	defer beat.Stop()
	for {
		err := condition()
		if err == nil {
			return
		}
		var final finalError
		if errors.As(err, &final) {
			t.Fatalf("waiting until %s: %v", what, err)
		}
		select {
		case <-beat.C:
		case <-deadline:
			t.Fatalf("waited %s until %s: %v", limit, what, err)
		}
	}
}
