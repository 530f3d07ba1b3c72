package enrich

import (
	"crypto/x509"
	"errors"
	"net"
	"net/url"
	"regexp"
	"strings"

	"paramedic/internal/text"
)

var credential = regexp.MustCompile(`(?i)(bearer\s+|basic\s+|token=|password=|//[^/\s:@]+:)[^\s"'@&]+`)

// Redact returns an error's text on one line of at most 200 characters. It removes the URL of the
// call, which can contain a password, the addresses of both ends, and text that looks like a
// credential.
func Redact(err error) string {
	if u := new(url.Error); errors.As(err, &u) {
		err = u.Err
	}
	return text.Line(credential.ReplaceAllString(unaddressed(err), "${1}[redacted]"), 200)
}

// unaddressed returns an error's text without the addresses in its parts.
func unaddressed(err error) string {
	var (
		op   *net.OpError
		name *net.DNSError
		host x509.HostnameError
		msg  = err.Error()
	)
	switch {
	case errors.As(err, &op): // its text contains both addresses
		return strings.ReplaceAll(msg, op.Error(), unaddressed(op.Err))
	case errors.As(err, &name) && name.IsNotFound:
		return strings.ReplaceAll(msg, name.Error(), "host name is not found")
	case errors.As(err, &name):
		return strings.ReplaceAll(msg, name.Error(), "host name cannot be looked up")
	case errors.As(err, &host):
		return strings.ReplaceAll(msg, host.Error(), "the certificate is for another name")
	}
	return msg
}
