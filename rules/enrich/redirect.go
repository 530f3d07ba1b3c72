package enrich

import (
	"errors"
	"net/http"
)

// RefuseRedirect is the CheckRedirect of the sources' HTTP clients. A token is only for the
// configured server, and data of another server are no evidence.
func RefuseRedirect(*http.Request, []*http.Request) error {
	return errors.New("it redirects to another address; the bot follows no redirects")
}
