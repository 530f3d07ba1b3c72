package main

import (
	"bytes"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// bom returns a binary's bill of materials in CycloneDX format: the modules that it links, with
// their checksums and licences, and the Go version.
func (r *release) bom(binary string) ([]byte, error) {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return nil, fmt.Errorf("reading the modules of %s: %w", binary, err)
	}
	linked, err := r.linked(info)
	if err != nil {
		return nil, err
	}
	main := component(cdx.ComponentTypeApplication, "paramedic", r.version)
	main.Licenses = licence("Apache-2.0")
	std := component(cdx.ComponentTypeLibrary, "std", strings.TrimPrefix(info.GoVersion, "go"))
	std.Licenses = licence("BSD-3-Clause")
	parts := []cdx.Component{std}
	for _, m := range linked {
		c := component(cdx.ComponentTypeLibrary, m.path, m.version)
		c.Licenses = licence(m.licences...)
		if sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(m.sum, "h1:")); err == nil && len(sum) > 0 {
			c.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(sum)}}
		}
		parts = append(parts, c)
	}
	needs := make([]string, len(parts))
	for i, c := range parts {
		needs[i] = c.BOMRef
	}
	doc := cdx.NewBOM()
	doc.Metadata = &cdx.Metadata{Timestamp: r.created.Format(time.RFC3339), Component: &main, Properties: properties(info)}
	doc.Components = &parts
	doc.Dependencies = &[]cdx.Dependency{{Ref: main.BOMRef, Dependencies: &needs}}
	var b bytes.Buffer
	if err := cdx.NewBOMEncoder(&b, cdx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(doc, cdx.SpecVersion1_6); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func component(kind cdx.ComponentType, path, version string) cdx.Component {
	url := "pkg:golang/" + path + "@" + version
	return cdx.Component{BOMRef: url, Type: kind, Name: path, Version: version, PackageURL: url}
}

// licence returns the SPDX expression of licences that all hold.
func licence(ids ...string) *cdx.Licenses {
	if len(ids) == 0 {
		return nil
	}
	return &cdx.Licenses{{Expression: strings.Join(ids, " AND ")}}
}

// properties returns how the binary was built.
func properties(info *debug.BuildInfo) *[]cdx.Property {
	var out []cdx.Property
	for _, s := range info.Settings {
		switch s.Key {
		case "GOOS", "GOARCH", "CGO_ENABLED", "vcs.revision", "vcs.modified":
			out = append(out, cdx.Property{Name: "paramedic:build:" + s.Key, Value: s.Value})
		}
	}
	return &out
}
