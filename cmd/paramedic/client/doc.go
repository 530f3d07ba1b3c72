// Package client has the commands that call the API of a running bot: they list and show incidents,
// and acknowledge, silence, approve, deny, cancel, halt and resume.
package client
