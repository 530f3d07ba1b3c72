package main

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// archivePlatforms lists the platforms that archives are built for.
var archivePlatforms = []platform{{"darwin", "amd64"}, {"darwin", "arm64"}, {"linux", "amd64"}, {"linux", "arm64"}}

// archives writes an archive and a bill of materials for each platform, and their checksums in
// SHA256SUMS.
func (r *release) archives(out string, platforms []platform) error {
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	own, err := r.compile(ownPlatform())
	if err != nil {
		return err
	}
	scripts, err := r.completions(own)
	if err != nil {
		return err
	}
	var sums bytes.Buffer
	for _, p := range platforms {
		binary, err := r.compile(p)
		if err != nil {
			return err
		}
		name := fmt.Sprintf("paramedic_%s_%s", r.version, p)
		packed, err := r.archive(name, binary, scripts)
		if err != nil {
			return err
		}
		bom, err := r.bom(binary)
		if err != nil {
			return err
		}
		for _, f := range []file{{name: name + ".tar.gz", body: packed}, {name: name + ".cdx.json", body: bom}} {
			if err := os.WriteFile(filepath.Join(out, f.name), f.body, 0o644); err != nil {
				return err
			}
			fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(f.body), f.name)
		}
	}
	fmt.Print(sums.String())
	return os.WriteFile(filepath.Join(out, "SHA256SUMS"), sums.Bytes(), 0o644)
}

// archive returns a tar.gz with the binary, its man pages and completions, the licences, and the
// examples of deploy.
func (r *release) archive(name, binary string, completions []file) ([]byte, error) {
	body, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	files, err := r.licenceFiles(binary)
	if err != nil {
		return nil, err
	}
	for _, example := range []string{"paramedic.yaml", "systemd/paramedic.service"} {
		b, err := os.ReadFile(filepath.Join(r.root, "deploy", example))
		if err != nil {
			return nil, err
		}
		files = append(files, file{name: filepath.Base(example), mode: 0o644, body: b})
	}
	pages, err := r.manPages()
	if err != nil {
		return nil, err
	}
	files = append(files, file{name: "paramedic", mode: 0o755, body: body})
	files = slices.Concat(files, pages, completions)
	for i := range files {
		files[i].name = name + "/" + files[i].name
	}
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if err := writeTar(z, r.created, files); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
