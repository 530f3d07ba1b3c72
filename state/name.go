package state

import (
	"fmt"
	"strconv"
	"strings"
)

// ShortName returns what people call the incident: #7, and #prod-7 where incidents of several
// clusters are told of side by side, each cluster with numbers of its own.
func (in *Incident) ShortName(several bool) string { return ShortName(in.Cluster, in.Number, several) }

// ShortName returns the name of the incident with a number.
func ShortName(cluster string, number int, several bool) string {
	if several && cluster != "" {
		return fmt.Sprintf("#%s-%d", cluster, number)
	}
	return fmt.Sprintf("#%d", number)
}

// A NameQuery is a short name as a person types it, with or without the #. Without a cluster it may
// mean several incidents.
type NameQuery struct {
	Cluster string
	Number  int
}

// ParseShortName parses a short name; false where the text is none. A number with a leading zero is
// the beginning of an ID.
func ParseShortName(text string) (NameQuery, bool) {
	text = strings.TrimPrefix(text, "#")
	var q NameQuery
	if i := strings.LastIndexByte(text, '-'); i > 0 {
		q.Cluster, text = text[:i], text[i+1:]
	}
	if text == "" || text[0] < '1' || text[0] > '9' {
		return NameQuery{}, false
	}
	var err error
	q.Number, err = strconv.Atoi(text)
	return q, err == nil
}

// Matches reports whether the incident goes by the name; clusters are compared without their case.
func (q NameQuery) Matches(in *Incident) bool {
	return in.Number == q.Number && (q.Cluster == "" || strings.EqualFold(q.Cluster, in.Cluster))
}
