package traces

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"paramedic/rules/enrich"
)

// A caller asks one trace store.
type caller struct {
	who   string // as people call the store
	base  *url.URL
	token func() (string, error) // nil: none
	http  *http.Client
}

func (c caller) name() string { return c.who }

// A statusError is an answer that is none.
type statusError struct {
	who, path string
	code      int
}

// Error says who answered what.
func (e *statusError) Error() string {
	return fmt.Sprintf("%s answers %d to %s", e.who, e.code, e.path)
}

// get asks for a path and decodes the answer. An answer is whole or an error: a part of one must
// not pass for all of it.
func (c caller) get(ctx context.Context, path string, q url.Values, into any) error {
	u := c.base.JoinPath(path)
	u.RawQuery = q.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return fmt.Errorf("%s's URL is not an address", c.who)
	}
	req.Header.Set("Accept", "application/json")
	if c.token != nil {
		token, err := c.token()
		if err != nil {
			return fmt.Errorf("%s's bearer token cannot be read", c.who)
		}
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return errors.New(enrich.Explain(c.who, err))
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return &statusError{who: c.who, path: path, code: resp.StatusCode}
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return errors.New(enrich.Explain(c.who, err))
	}
	if len(body) > maxAnswer {
		return fmt.Errorf("%s's answer is larger than %d MiB", c.who, maxAnswer>>20)
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("%s answers %s with something that is not traces", c.who, path)
	}
	return nil
}
