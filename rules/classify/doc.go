// Package classify maps an alert to a symptom and to the entity that the alert is about. It tries
// the rule's name first, then the metrics of its expression, then the words in its name. An alert
// that matches nothing is unclassified, and never dropped.
package classify
