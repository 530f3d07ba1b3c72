package survey

import (
	"fmt"
	"net/url"
	"strings"
)

// CheckURL returns an error if the value of a flag is no base URL that can be asked. It refuses a
// URL with a password, because findings are printed with their URLs.
func CheckURL(flag, raw, example string) error {
	u, err := url.Parse(raw)
	valid := err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https")
	switch {
	case valid && u.User != nil, !valid && strings.Contains(raw, "@"):
		return fmt.Errorf("--%s must be an http:// or https:// URL such as %s, without a user or a password: for a secret, use a "+
			"*_file key in the bot's configuration", flag, example)
	case !valid:
		return fmt.Errorf("--%s %s is not an http:// or https:// URL such as %s", flag, raw, example)
	}
	return nil
}
