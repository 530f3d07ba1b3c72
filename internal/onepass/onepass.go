// Package onepass decodes JSON as encoding/json does, and reads a valid text only once.
package onepass

import (
	jsonv2 "github.com/go-json-experiment/json"
	json "github.com/go-json-experiment/json/v1"
)

var options = jsonv2.JoinOptions(json.DefaultOptionsV1(), json.ReportErrorsWithLegacySemantics(false))

// Unmarshal decodes the text into an empty value. encoding/json first reads a text to find syntax
// errors, so that it decodes nothing of an invalid one. Unmarshal does so only after an error, for
// the same error. The value then has a part of an invalid text.
func Unmarshal(text []byte, into any) error {
	if jsonv2.Unmarshal(text, into, options) == nil {
		return nil
	}
	return json.Unmarshal(text, into)
}
