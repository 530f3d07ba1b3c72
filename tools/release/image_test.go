package main

import (
	"archive/tar"
	"bufio"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

// binaries returns the product's binary for amd64, and a small program for arm64: the product would
// take minutes to compile.
func binaries(t *testing.T, r *release) map[platform]string {
	t.Helper()
	amd, arm := imagePlatforms[0], imagePlatforms[1]
	path := os.Getenv("PARAMEDIC_BIN")
	if path == "" {
		var err error
		if path, err = r.compile(amd); err != nil {
			t.Fatal(err)
		}
	}
	probe := filepath.Join(t.TempDir(), "probe")
	cmd := exec.Command("go", "build", "-o", probe, ".")
	cmd.Dir, cmd.Env = "testdata/probe", append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=arm64")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return map[platform]string{amd: path, arm: probe}
}

func testRelease(t *testing.T) *release {
	t.Helper()
	return &release{root: "../..", version: "v9.9.9", created: time.Unix(1767225600, 0).UTC(), work: t.TempDir()}
}

// must returns the value of a call, and fails the test on its error.
func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func TestImageRunsReadOnlyWithoutRoot(t *testing.T) {
	r := testRelease(t)
	built := binaries(t, r)
	dir := t.TempDir()
	digest := must(r.layout(dir, built))(t)
	if again := must(r.layout(t.TempDir(), built))(t); again != digest {
		t.Errorf("two builds of one commit differ: %s and %s", digest, again)
	}
	top := must(layout.ImageIndexFromPath(dir))(t)
	index := must(top.ImageIndex(digest))(t)
	got := map[string]v1.Hash{}
	for _, m := range must(index.IndexManifest())(t).Manifests {
		got[m.Platform.String()] = m.Digest
	}
	if want := []string{"linux/amd64", "linux/arm64"}; !slices.Equal(slices.Sorted(maps.Keys(got)), want) {
		t.Fatalf("the index has %v, want %v", got, want)
	}
	img := must(index.Image(got["linux/amd64"]))(t)
	config := must(img.ConfigFile())(t).Config
	if config.User != "65532:65532" {
		t.Errorf("the image's user is %q", config.User)
	}
	checkContainerfile(t, config)
	checkBOMs(t, top, got)
	root := t.TempDir()
	unpack(t, img, root)
	checkCertificates(t, filepath.Join(root, "etc/ssl/certs/ca-certificates.crt"))
	c := container{t, root, config}
	if out := c.run("version"); !strings.HasPrefix(out, "paramedic ") {
		t.Errorf("version prints %q", out)
	}
	c.write("etc/paramedic/paramedic.yaml", "listen: 127.0.0.1:0\nstate: {dir: "+c.state()+"}\n")
	c.run("check", "--config", c.path("/etc/paramedic/paramedic.yaml"))
	c.serves()
}

// checkBOMs checks that the layout has a bill of materials for each image, and that the product's
// names what it links.
func checkBOMs(t *testing.T, top v1.ImageIndex, images map[string]v1.Hash) {
	t.Helper()
	found := map[v1.Hash]string{}
	for _, m := range must(top.IndexManifest())(t).Manifests {
		if !m.MediaType.IsImage() {
			continue
		}
		attached := must(top.Image(m.Digest))(t)
		layer := must(must(attached.Layers())(t)[0].Uncompressed())(t)
		found[must(attached.Manifest())(t).Subject.Digest] = string(must(io.ReadAll(layer))(t))
	}
	for name, digest := range images {
		if !strings.Contains(found[digest], `"bomFormat": "CycloneDX"`) {
			t.Errorf("the image for %s has no bill of materials", name)
		}
	}
	for _, want := range []string{`"purl": "pkg:golang/k8s.io/client-go@v`, `"purl": "pkg:golang/std@`, `"expression": "BSD-3-Clause"`,
		`"alg": "SHA-256"`} {
		if !strings.Contains(found[images["linux/amd64"]], want) {
			t.Errorf("the product's bill of materials lacks %s", want)
		}
	}
}

func checkCertificates(t *testing.T, path string) {
	t.Helper()
	rest, n := must(os.ReadFile(path))(t), 0
	for block, rest := pem.Decode(rest); block != nil; block, rest = pem.Decode(rest) {
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			t.Error(err)
		}
		n++
	}
	if n < 100 {
		t.Errorf("the image trusts %d certificate authorities", n)
	}
}

// unpack writes an image's files below root, as a container engine does.
func unpack(t *testing.T, img v1.Image, root string) {
	t.Helper()
	files := mutate.Extract(img)
	defer files.Close()
	for r := tar.NewReader(files); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		path := filepath.Join(root, must(h, err)(t).Name)
		if h.Typeflag == tar.TypeDir {
			err = os.MkdirAll(path, 0o755)
		} else {
			err = os.WriteFile(path, must(io.ReadAll(r))(t), 0o600)
		}
		if err == nil {
			err = os.Chmod(path, os.FileMode(h.Mode).Perm())
		}
		if err == nil && os.Getuid() == 0 {
			err = os.Chown(path, h.Uid, h.Gid)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// A container runs an unpacked image. As root it changes into the image and to its user, who may
// write nowhere but in the state directory. Without root it runs the binary in place.
type container struct {
	*testing.T
	root   string
	config v1.Config
}

func (c container) path(p string) string {
	if os.Getuid() == 0 {
		return p
	}
	return filepath.Join(c.root, p)
}

func (c container) state() string { return c.path(stateDir + "/data") }

func (c container) write(name, body string) {
	c.Helper()
	if err := os.WriteFile(filepath.Join(c.root, name), []byte(body), 0o644); err != nil {
		c.Fatal(err)
	}
}

func (c container) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, c.path(c.config.Entrypoint[0]), args...)
	cmd.Env = append(c.config.Env, "TZ=Asia/Kolkata")
	if os.Getuid() == 0 {
		if err := os.Chmod(filepath.Dir(c.root), 0o755); err != nil {
			c.Fatal(err)
		}
		cmd.Dir = c.config.WorkingDir
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: c.root, Credential: &syscall.Credential{Uid: userID, Gid: userID}}
	}
	return cmd
}

func (c container) run(args ...string) string {
	c.Helper()
	out, err := c.command(c.Context(), args...).CombinedOutput()
	if err != nil {
		c.Errorf("%v: %v\n%s", args, err, out)
	}
	return string(out)
}

// serves starts the bot as the image does and waits until it is ready.
func (c container) serves() {
	c.Helper()
	ctx, cancel := context.WithTimeout(c.Context(), time.Minute)
	defer cancel()
	args := slices.Clone(c.config.Cmd)
	args[len(args)-1] = c.path(args[len(args)-1])
	cmd := c.command(ctx, args...)
	log := must(cmd.StderrPipe())(c.T)
	if err := cmd.Start(); err != nil {
		c.Fatal(err)
	}
	defer cmd.Wait()
	defer cancel()
	var all strings.Builder
	lines := bufio.NewScanner(log)
	for lines.Scan() {
		fmt.Fprintln(&all, lines.Text())
		_, address, ok := strings.Cut(lines.Text(), "address=")
		if !ok {
			continue
		}
		for ctx.Err() == nil {
			if resp, err := http.Get(strings.Trim(address, `"`) + "/readyz"); err == nil {
				resp.Body.Close()
				if resp.StatusCode == http.StatusOK {
					if !strings.Contains(all.String(), "+05:30") {
						c.Errorf("the log ignores TZ:\n%s", all.String())
					}
					return
				}
			}
		}
	}
	c.Errorf("the bot in the image is not ready:\n%s", all.String())
}

// checkContainerfile checks that a build with podman or docker gives the same user and command.
func checkContainerfile(t *testing.T, config v1.Config) {
	t.Helper()
	text := string(must(os.ReadFile("../../Containerfile"))(t))
	quote := func(words []string) string { return `["` + strings.Join(words, `", "`) + `"]` }
	for _, want := range []string{"USER " + config.User, "WORKDIR " + config.WorkingDir, "ENTRYPOINT " + quote(config.Entrypoint),
		"CMD " + quote(config.Cmd), "EXPOSE 8080"} {
		if !strings.Contains(text, "\n"+want+"\n") {
			t.Errorf("Containerfile lacks the line %q of the image", want)
		}
	}
}

func TestBinaryOfOtherArchitectureIsRefused(t *testing.T) {
	r := testRelease(t)
	built := binaries(t, r)
	amd, arm := imagePlatforms[0], imagePlatforms[1]
	built[amd] = built[arm]
	if _, err := r.layout(t.TempDir(), built); err == nil || !strings.Contains(err.Error(), "not for linux_amd64") {
		t.Errorf("a binary for arm64 in the image for amd64 gives %v", err)
	}
}
