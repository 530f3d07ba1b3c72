package state

import (
	"fmt"
	"strconv"
	"strings"
)

// ShortName returns the incident's short name: #7, or #prod-7 if incidents of several clusters are
// shown together. Each cluster counts its own incidents.
func (in *Incident) ShortName(several bool) string { return ShortName(in.Cluster, in.Number, several) }

// ShortName returns the short name of a number.
func ShortName(cluster string, number int, several bool) string {
	if several && cluster != "" {
		return fmt.Sprintf("#%s-%d", cluster, number)
	}
	return fmt.Sprintf("#%d", number)
}

// A NameQuery is a short name as a person types it, with or without the #. Without a cluster it may
// match several incidents.
type NameQuery struct {
	Cluster string
	Number  int
}

// ParseShortName parses a short name, and reports whether the text is one. A number with a leading
// zero is the beginning of an ID.
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

// Matches reports whether the incident has the name. The case of the cluster does not matter.
func (q NameQuery) Matches(in *Incident) bool {
	return in.Number == q.Number && (q.Cluster == "" || strings.EqualFold(q.Cluster, in.Cluster))
}
