package enrich

import (
	"errors"
	"net/http"
)

// RefuseRedirect is the CheckRedirect of a source's client: a token is for the server that was
// configured, and evidence of another one is not evidence.
func RefuseRedirect(*http.Request, []*http.Request) error {
	return errors.New("it redirects to another address, which is not followed")
}
