package main

import (
	"fmt"
	"os"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// imagePlatforms lists the platforms of the image.
var imagePlatforms = []platform{{"linux", "amd64"}, {"linux", "arm64"}}

// The user of the image. Charts and manifests name the same number.
const userID = 65532

// sbomType is the media type of a bill of materials in CycloneDX format.
const sbomType = "application/vnd.cyclonedx+json"

// image builds the binaries and writes the image to an OCI layout.
func (r *release) image(out string) error {
	binaries := map[platform]string{}
	for _, p := range imagePlatforms {
		path, err := r.compile(p)
		if err != nil {
			return err
		}
		binaries[p] = path
	}
	digest, err := r.layout(out, binaries)
	if err != nil {
		return err
	}
	fmt.Printf("%s: paramedic %s, %s\n", out, r.version, digest)
	return nil
}

// layout writes an OCI layout with one index of all platforms, and for each platform a bill of
// materials that refers to its image. It returns the index's digest.
func (r *release) layout(out string, binaries map[platform]string) (v1.Hash, error) {
	base, err := r.baseLayer()
	if err != nil {
		return v1.Hash{}, err
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	var boms []v1.Image
	for _, p := range imagePlatforms {
		binary := binaries[p]
		if err := madeFor(binary, p); err != nil {
			return v1.Hash{}, err
		}
		img, err := r.platformImage(p, binary, base)
		if err != nil {
			return v1.Hash{}, err
		}
		bom, err := r.bomImage(binary, img)
		if err != nil {
			return v1.Hash{}, err
		}
		boms = append(boms, bom)
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: img,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: p.os, Architecture: p.arch}}})
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return v1.Hash{}, err
	}
	dir, err := layout.Write(out, empty.Index)
	if err != nil {
		return v1.Hash{}, err
	}
	if err := dir.AppendIndex(index, layout.WithAnnotations(map[string]string{
		"org.opencontainers.image.ref.name": r.version})); err != nil {
		return v1.Hash{}, err
	}
	for _, bom := range boms {
		if err := dir.AppendImage(bom); err != nil {
			return v1.Hash{}, err
		}
	}
	return index.Digest()
}

// platformImage returns the image of one platform: the base layer, and a layer with the binary.
func (r *release) platformImage(p platform, binary string, base v1.Layer) (v1.Image, error) {
	own, err := r.binaryLayer(binary)
	if err != nil {
		return nil, err
	}
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	if img, err = mutate.ConfigFile(img, &v1.ConfigFile{
		OS: p.os, Architecture: p.arch, Created: v1.Time{Time: r.created}, RootFS: v1.RootFS{Type: "layers"},
		Config: v1.Config{
			User:         fmt.Sprintf("%d:%d", userID, userID),
			Entrypoint:   []string{"/paramedic"},
			Cmd:          []string{"serve", "--config", "/etc/paramedic/paramedic.yaml"},
			WorkingDir:   stateDir,
			ExposedPorts: map[string]struct{}{"8080/tcp": {}},
			Labels: map[string]string{
				"org.opencontainers.image.title":       "paramedic",
				"org.opencontainers.image.description": "First responder of LLM inference fleets",
				"org.opencontainers.image.licenses":    "Apache-2.0",
				"org.opencontainers.image.version":     r.version,
			},
		},
	}); err != nil {
		return nil, err
	}
	made := v1.History{Created: v1.Time{Time: r.created}, CreatedBy: "paramedic/tools/release"}
	return mutate.Append(img, mutate.Addendum{Layer: base, History: made}, mutate.Addendum{Layer: own, History: made})
}

// bomImage returns a manifest that attaches the binary's bill of materials to its image.
func (r *release) bomImage(binary string, subject v1.Image) (v1.Image, error) {
	bom, err := r.bom(binary)
	if err != nil {
		return nil, err
	}
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), sbomType)
	if img, err = mutate.AppendLayers(img, static.NewLayer(bom, sbomType)); err != nil {
		return nil, err
	}
	of, err := partial.Descriptor(subject)
	if err != nil {
		return nil, err
	}
	attached, ok := mutate.Subject(img, *of).(v1.Image)
	if !ok {
		return nil, fmt.Errorf("attaching the bill of materials to %s", of.Digest)
	}
	return attached, nil
}
