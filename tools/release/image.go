package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// The parts of the OCI image format that we fill. The order of the fields is that of the files.
type (
	descriptor struct {
		MediaType   string            `json:"mediaType"`
		Digest      string            `json:"digest"`
		Size        int               `json:"size"`
		Platform    *platform         `json:"platform,omitempty"`
		Annotations map[string]string `json:"annotations,omitempty"`
	}
	platform struct {
		Architecture string `json:"architecture"`
		OS           string `json:"os"`
	}
	manifest struct {
		SchemaVersion int          `json:"schemaVersion"`
		MediaType     string       `json:"mediaType"`
		Config        *descriptor  `json:"config,omitempty"`
		Layers        []descriptor `json:"layers,omitempty"`
		Manifests     []descriptor `json:"manifests,omitempty"`
	}
	imageConfig struct {
		Created      string         `json:"created"`
		Architecture string         `json:"architecture"`
		OS           string         `json:"os"`
		Config       containerSetup `json:"config"`
		RootFS       rootFS         `json:"rootfs"`
	}
	rootFS struct {
		Type    string   `json:"type"`
		DiffIDs []string `json:"diff_ids"`
	}
)

const (
	imageIndex    = "application/vnd.oci.image.index.v1+json"
	imageManifest = "application/vnd.oci.image.manifest.v1+json"
	imageSetup    = "application/vnd.oci.image.config.v1+json"
	imageLayer    = "application/vnd.oci.image.layer.v1.tar+gzip"
)

// layout is an OCI image layout, in which files are named after their checksums.
type layout struct {
	date  time.Time
	blobs []file
}

// add adds a blob, unless it is there already, and returns its descriptor.
func (l *layout) add(mediaType string, text []byte) descriptor {
	sum := fmt.Sprintf("%x", sha256.Sum256(text))
	if name := "blobs/sha256/" + sum; !slices.ContainsFunc(l.blobs, func(f file) bool { return f.name == name }) {
		l.blobs = append(l.blobs, file{name: name, mode: 0o644, text: text})
	}
	return descriptor{MediaType: mediaType, Digest: "sha256:" + sum, Size: len(text)}
}

// addJSON adds a value as a blob.
func (l *layout) addJSON(mediaType string, v any) descriptor {
	text, _ := json.Marshal(v) // structs and maps of texts always encode
	return l.add(mediaType, text)
}

// addLayer adds files as a layer. It returns the descriptor and the checksum of the layer before compression.
func (l *layout) addLayer(files []file) (d descriptor, diffID string, err error) {
	var plain bytes.Buffer
	if err := writeTar(&plain, "", files, l.date); err != nil {
		return d, "", err
	}
	text, err := squeeze(plain.Bytes())
	return l.add(imageLayer, text), fmt.Sprintf("sha256:%x", sha256.Sum256(plain.Bytes())), err
}

// image writes the container image for the Linux binaries of the release, as an OCI layout in a tar: what
// deploy/docker/Dockerfile builds, without an engine.
func (r *release) image(w io.Writer, binaries map[string][]byte) error {
	recipe, err := os.ReadFile(filepath.Join(r.root, "deploy/docker/Dockerfile"))
	if err != nil {
		return err
	}
	setup, err := readSetup(string(recipe), r.commit)
	if err != nil {
		return fmt.Errorf("deploy/docker/Dockerfile: %w", err)
	}
	l := &layout{date: r.date}
	base, baseID, err := l.addLayer(baseFiles())
	if err != nil {
		return err
	}
	index := manifest{SchemaVersion: 2, MediaType: imageIndex}
	for _, machine := range sorted(binaries) {
		layer, id, err := l.addLayer([]file{{name: "usr", mode: fs.ModeDir | 0o755}, {name: "usr/bin", mode: fs.ModeDir | 0o755}, {name: "usr/bin/sluice", mode: 0o755, text: binaries[machine]}})
		if err != nil {
			return err
		}
		config := l.addJSON(imageSetup, imageConfig{r.date.Format(time.RFC3339), machine, "linux", setup, rootFS{"layers", []string{baseID, id}}})
		d := l.addJSON(imageManifest, manifest{SchemaVersion: 2, MediaType: imageManifest, Config: &config, Layers: []descriptor{base, layer}})
		d.Platform = &platform{machine, "linux"}
		index.Manifests = append(index.Manifests, d)
	}
	// The layout names one image. Programs that load it choose the platform.
	top := l.addJSON(imageIndex, index)
	top.Annotations = map[string]string{"org.opencontainers.image.ref.name": "sluice:" + r.version}
	names, _ := json.Marshal(manifest{SchemaVersion: 2, MediaType: imageIndex, Manifests: []descriptor{top}})
	files := []file{
		{name: "oci-layout", mode: 0o644, text: []byte(`{"imageLayoutVersion":"1.0.0"}`)},
		{name: "index.json", mode: 0o644, text: names},
		{name: "blobs", mode: fs.ModeDir | 0o755},
		{name: "blobs/sha256", mode: fs.ModeDir | 0o755},
	}
	return writeTar(w, "", append(files, l.blobs...), r.date)
}

// baseFiles returns what is the same on every platform: the certificates of public authorities, and the folder for
// data, whose owner and mode a new volume takes over.
func baseFiles() []file {
	files := []file{{name: "data", mode: fs.ModeDir | 0o700, owner: imageUser}}
	for _, dir := range []string{"etc", "etc/ssl", "etc/ssl/certs"} {
		files = append(files, file{name: dir, mode: fs.ModeDir | 0o755})
	}
	return append(files, file{name: "etc/ssl/certs/ca-certificates.crt", mode: 0o644, text: certificates()})
}

// imageUser is the user of the container. Like the files that baseFiles and image add, it stands in the Dockerfile, too.
const imageUser = 65532

// certificates returns Mozilla's list of authorities as PEM. It comes from a module, so that it depends on the source and
// not on the machine. Authorities that browsers trust under conditions are left out: a PEM file cannot express those.
func certificates() []byte {
	var out bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			_ = pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // a buffer takes everything
		}
	}
	return out.Bytes()
}
