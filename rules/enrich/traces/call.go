package traces

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"

	"paramedic/rules/enrich"
)

// A caller sends requests to one trace store.
type caller struct {
	display string // display name of the store
	base    *url.URL
	token   func() (string, error)      // nil: none
	headers func() (http.Header, error) // nil: none
	http    *http.Client
}

func (c caller) name() string { return c.display }

// A statusError reports an HTTP status other than 200.
type statusError struct {
	display, path string
	code          int
}

// Error names the store, the status and the path.
func (e *statusError) Error() string {
	return fmt.Sprintf("%s answers %d to %s", e.display, e.code, e.path)
}

// get requests a path and decodes the answer into a value. It returns an error for an answer that
// is too large or incomplete, because a part must not pass for all of it.
func (c caller) get(ctx context.Context, path string, q url.Values, into any) error {
	u := c.base.JoinPath(path)
	u.RawQuery = q.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return fmt.Errorf("%s's URL is not an address", c.display)
	}
	req.Header.Set("Accept", "application/json")
	if c.token != nil {
		token, err := c.token()
		if err != nil {
			return fmt.Errorf("%s's bearer token cannot be read", c.display)
		}
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if c.headers != nil {
		more, err := c.headers()
		if err != nil {
			return fmt.Errorf("%s's headers cannot be read", c.display)
		}
		maps.Copy(req.Header, more)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return errors.New(enrich.Explain(c.display, err))
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return &statusError{display: c.display, path: path, code: resp.StatusCode}
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return errors.New(enrich.Explain(c.display, err))
	}
	if len(body) > maxAnswer {
		return fmt.Errorf("%s's answer is larger than %d MiB", c.display, maxAnswer>>20)
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("%s answers %s with something that is not traces", c.display, path)
	}
	return nil
}
