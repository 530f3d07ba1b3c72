package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"debug/elf"
	"encoding/pem"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// stateDir is the bot's state directory. The user owns it, and so a new volume there is writable.
const stateDir = "/var/lib/paramedic"

// A file is one file or directory of a layer or an archive.
type file struct {
	name  string // without a leading slash; a directory ends in one
	mode  int64
	owner int
	body  []byte
}

// writeTar writes files with one time for all, parents before children.
func writeTar(w io.Writer, created time.Time, files []file) error {
	slices.SortFunc(files, func(a, b file) int { return strings.Compare(a.name, b.name) })
	t := tar.NewWriter(w)
	for _, f := range files {
		kind := byte(tar.TypeReg)
		if strings.HasSuffix(f.name, "/") {
			kind = tar.TypeDir
		}
		if err := t.WriteHeader(&tar.Header{Typeflag: kind, Name: f.name, Mode: f.mode, Size: int64(len(f.body)),
			Uid: f.owner, Gid: f.owner, ModTime: created, Format: tar.FormatPAX}); err != nil {
			return err
		}
		if _, err := t.Write(f.body); err != nil {
			return err
		}
	}
	return t.Close()
}

// layer returns a layer of files and their parent directories.
func (r *release) layer(files []file) (v1.Layer, error) {
	known := map[string]bool{}
	for _, f := range files {
		known[f.name] = true
	}
	for _, f := range slices.Clone(files) {
		for dir := path.Dir(strings.TrimSuffix(f.name, "/")); dir != "."; dir = path.Dir(dir) {
			if !known[dir+"/"] {
				known[dir+"/"] = true
				files = append(files, file{name: dir + "/", mode: 0o755})
			}
		}
	}
	var b bytes.Buffer
	if err := writeTar(&b, r.created, files); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil },
		tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
}

// baseLayer returns the layer below the binary: the user, root certificates, time zones and the
// state directory.
func (r *release) baseLayer() (v1.Layer, error) {
	zones, err := timeZones()
	if err != nil {
		return nil, fmt.Errorf("time zones: %w", err)
	}
	return r.layer(append(zones,
		file{name: "etc/passwd", mode: 0o644, body: fmt.Appendf(nil, "root:x:0:0:root:/root:/sbin/nologin\n"+
			"nonroot:x:%d:%d:nonroot:%s:/sbin/nologin\n", userID, userID, stateDir)},
		file{name: "etc/group", mode: 0o644, body: fmt.Appendf(nil, "root:x:0:\nnonroot:x:%d:\n", userID)},
		file{name: "etc/ssl/certs/ca-certificates.crt", mode: 0o644, body: rootCertificates()},
		file{name: "etc/paramedic/", mode: 0o755},
		file{name: strings.TrimPrefix(stateDir, "/") + "/", mode: 0o700, owner: userID},
	))
}

// binaryLayer returns the layer with the binary and the licences of what it links.
func (r *release) binaryLayer(binary string) (v1.Layer, error) {
	body, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	texts, err := r.licenceFiles(binary)
	if err != nil {
		return nil, err
	}
	files := []file{{name: "paramedic", mode: 0o755, body: body}}
	for _, f := range texts {
		f.name = "licenses/" + f.name
		files = append(files, f)
	}
	return r.layer(files)
}

// rootCertificates returns Mozilla's root certificates in PEM format. It leaves those out that a
// browser trusts up to a date only, because PEM cannot express that.
func rootCertificates() []byte {
	var b bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			b.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}))
		}
	}
	return b.Bytes()
}

// timeZones returns the time zones of the Go distribution, so that TZ sets the zone of the log.
func timeZones() ([]file, error) {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return nil, fmt.Errorf("finding the Go distribution: %w", err)
	}
	z, err := zip.OpenReader(filepath.Join(strings.TrimSpace(string(root)), "lib/time/zoneinfo.zip"))
	if err != nil {
		return nil, err
	}
	defer z.Close()
	var out []file
	for _, f := range z.File {
		if strings.HasSuffix(f.Name, "/") {
			continue
		}
		body, err := fs.ReadFile(z, f.Name)
		if err != nil {
			return nil, err
		}
		out = append(out, file{name: "usr/share/zoneinfo/" + f.Name, mode: 0o644, body: body})
	}
	return out, nil
}

// madeFor returns an error unless a binary runs on a platform without a dynamic linker.
func madeFor(binary string, p platform) error {
	f, err := elf.Open(binary)
	if err != nil {
		return fmt.Errorf("%s: %w", binary, err)
	}
	defer f.Close()
	want := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[p.arch]
	if f.Machine != want {
		return fmt.Errorf("%s is built for %s, not for %s", binary, f.Machine, p)
	}
	if f.Section(".interp") != nil {
		return fmt.Errorf("%s needs a dynamic linker, which the image lacks: build it with CGO_ENABLED=0", binary)
	}
	return nil
}
