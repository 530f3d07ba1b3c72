package kubernetes

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// An auditEvent holds the fields of an audit log's entry that the tests read.
type auditEvent struct {
	Verb       string    `json:"verb"`
	RequestURI string    `json:"requestURI"`
	At         time.Time `json:"requestReceivedTimestamp"`
	User       struct {
		Username string `json:"username"`
	} `json:"user"`
	Impersonated struct {
		Username string `json:"username"`
	} `json:"impersonatedUser"`
	ObjectRef struct {
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
	} `json:"objectRef"`
	ResponseStatus struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
	RequestObject json.RawMessage `json:"requestObject"`
}

func (e auditEvent) String() string {
	what := e.ObjectRef.Resource
	if e.ObjectRef.Subresource != "" {
		what += "/" + e.ObjectRef.Subresource
	}
	return e.Verb + " " + what + " " + e.ObjectRef.Namespace + "/" + e.ObjectRef.Name + " " + e.RequestURI
}

// mutating reports whether the request can change something, or is a dry run of one that can.
func (e auditEvent) mutating() bool {
	return !slices.Contains([]string{"get", "list", "watch"}, e.Verb)
}

func (e auditEvent) dryRun() bool { return strings.Contains(e.RequestURI, "dryRun=") }

// wrote reports whether the request changed something.
func (e auditEvent) wrote() bool {
	return e.mutating() && !e.dryRun() && e.ResponseStatus.Code >= 200 && e.ResponseStatus.Code < 300
}

// audit returns the requests of the bot's account since a time, in one namespace or, if it is
// empty, in all.
func audit(t *testing.T, namespace string, since time.Time) []auditEvent {
	t.Helper()
	raw := must(os.ReadFile(auditLog))(t)
	var out []auditEvent
	lines := bufio.NewScanner(bytes.NewReader(raw))
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e auditEvent
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			continue // the last line, which is not written yet
		}
		if e.User.Username == botAccount && !e.At.Before(since) && (namespace == "" || e.ObjectRef.Namespace == namespace) {
			out = append(out, e)
		}
	}
	return out
}

// writes returns the requests of the bot that changed something in the namespace, in order. It
// fails the test if one was not made as the account of first aid.
func writes(t *testing.T, namespace string) []auditEvent {
	t.Helper()
	out := slices.DeleteFunc(audit(t, namespace, time.Time{}), func(e auditEvent) bool { return !e.wrote() })
	for _, e := range out {
		if e.Impersonated.Username != firstAidAccount {
			t.Errorf("%s was made as %q", e, e.Impersonated.Username)
		}
	}
	return out
}

// neverDeleted fails the test if the bot tried to delete anything in the namespace.
func neverDeleted(t *testing.T, namespace string) {
	t.Helper()
	for _, e := range audit(t, namespace, time.Time{}) {
		if strings.HasPrefix(e.Verb, "delete") {
			t.Errorf("the bot asked to delete: %s", e)
		}
	}
}
