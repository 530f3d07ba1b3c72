// Package alertmanager turns the payloads of Alertmanager's webhook into inputs for the log.
//
// An alert that cannot be taken costs none of the others of its payload: it is set aside, with the
// reason. The two members of a highly available pair yield the same inputs with the same IDs.
package alertmanager
