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

// Redact is an error's text without the URL of the call, which can hold a password, without the
// addresses of either end, and without anything that looks like a credential, in at most 200
// characters of one line.
func Redact(err error) string {
	if u := new(url.Error); errors.As(err, &u) {
		err = u.Err
	}
	return text.Line(credential.ReplaceAllString(unaddressed(err), "${1}[redacted]"), 200)
}

// unaddressed is an error's text where the parts that hold an address are said without it.
func unaddressed(err error) string {
	var (
		op   *net.OpError
		name *net.DNSError
		host x509.HostnameError
		said = err.Error()
	)
	switch {
	case errors.As(err, &op): // its own words are the two addresses
		return strings.ReplaceAll(said, op.Error(), unaddressed(op.Err))
	case errors.As(err, &name) && name.IsNotFound:
		return strings.ReplaceAll(said, name.Error(), "its name is not found")
	case errors.As(err, &name):
		return strings.ReplaceAll(said, name.Error(), "its name cannot be looked up")
	case errors.As(err, &host):
		return strings.ReplaceAll(said, host.Error(), "its certificate is of another name")
	}
	return said
}
