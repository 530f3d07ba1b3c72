package config

import (
	"fmt"
	"net/http"
	"strings"

	"golang.org/x/net/http/httpguts"

	"paramedic/webhook/access"
)

// TracingConfig configures the traces of the bot itself.
type TracingConfig struct {
	Endpoint    string  `yaml:"endpoint" json:"endpoint,omitempty" jsonschema_description:"Base URL of an OpenTelemetry collector (OTLP over HTTP) that gets a trace of each alert's journey. Empty: no traces."`
	HeadersFile string  `yaml:"headers_file" json:"headers_file,omitempty" jsonschema_description:"File (or ${ENV}) with headers for the collector, one as Name: value on each line."`
	SampleRatio float64 `yaml:"sample_ratio" json:"sample_ratio,omitempty" jsonschema_description:"Share of the payloads that are traced, from 0 to 1." jsonschema:"minimum=0,maximum=1"`
}

// Headers returns the headers of the file as they are now. An error names a line, never its text.
func (c TracingConfig) Headers() (http.Header, error) {
	out, err := headersOf(c.HeadersFile)
	if err != nil {
		return nil, fmt.Errorf("tracing.headers_file: %w", err)
	}
	return out, nil
}

// headersOf returns the headers in a file, one on each line, as they are now; none without a file.
// An error names a line, never its text.
func headersOf(file string) (http.Header, error) {
	out := http.Header{}
	if file == "" {
		return out, nil
	}
	text, err := access.NewSecret(file).Value()
	if err != nil {
		return nil, err
	}
	for i, line := range strings.Split(text, "\n") {
		name, value, ok := strings.Cut(strings.TrimSpace(line), ":")
		value = strings.TrimSpace(value)
		if !ok || value == "" || !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
			return nil, fmt.Errorf("line %d is no header: write it as Name: value", i+1)
		}
		out.Add(name, value)
	}
	return out, nil
}

// tracing checks the section tracing.
func (v *validator) tracing(c TracingConfig) {
	at := func(key string) []string { return []string{"tracing", key} }
	v.url(at("endpoint"), c.Endpoint)
	if c.SampleRatio < 0 || c.SampleRatio > 1 {
		v.at(at("sample_ratio"), "is %g: it must be from 0 to 1", c.SampleRatio)
	}
	if c.HeadersFile == "" {
		return
	}
	if c.Endpoint == "" {
		v.at(at("headers_file"), "has no use without tracing.endpoint")
	}
	v.headers(at("headers_file"), c.HeadersFile)
}

// headers checks a file of headers.
func (v *validator) headers(at []string, file string) {
	before := len(v.problems)
	v.secret(at, file)
	if _, err := headersOf(file); err != nil && len(v.problems) == before {
		v.at(at, "%v", err)
	}
}
