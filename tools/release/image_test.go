package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"sluice/internal/kit/buildinfo"
)

var imageName = "sluice_" + buildinfo.Release + "_image.tar"

// entry is a file of a tar.
type entry struct {
	tar.Header
	text []byte
}

// untar returns the files of a tar by name.
func untar(t *testing.T, r io.Reader) map[string]entry {
	t.Helper()
	files := map[string]entry{}
	for in := tar.NewReader(r); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		files[h.Name] = entry{*h, text}
	}
}

// blob returns what a descriptor stands for, decoded into v, and checks its size and checksum.
func blob(t *testing.T, layout map[string]entry, d *descriptor, v any) []byte {
	t.Helper()
	text := layout["blobs/sha256/"+strings.TrimPrefix(d.Digest, "sha256:")].text
	if sum := fmt.Sprintf("sha256:%x", sha256.Sum256(text)); sum != d.Digest || len(text) != d.Size {
		t.Fatalf("the blob of %+v has the checksum %s and %d bytes", d, sum, len(text))
	}
	if v != nil {
		if err := json.Unmarshal(text, v); err != nil {
			t.Fatal(err)
		}
	}
	return text
}

// TestImage follows the image from its index to the files in its layers.
func TestImage(t *testing.T) {
	t.Parallel()
	// The binary is not looked at here, so any bytes will do, and both platforms cost nothing.
	r := &release{root: root, version: "1.2.3", commit: commit, date: time.Unix(1800000000, 0).UTC()}
	var out bytes.Buffer
	if err := r.image(&out, map[string][]byte{"amd64": []byte("for amd64"), "arm64": []byte("for arm64")}); err != nil {
		t.Fatal(err)
	}
	layout := untar(t, &out)
	var top, index manifest
	if err := json.Unmarshal(layout["index.json"].text, &top); err != nil || len(top.Manifests) != 1 {
		t.Fatalf("index.json = %s (%v), want one image", layout["index.json"].text, err)
	}
	blob(t, layout, &top.Manifests[0], &index)
	if len(index.Manifests) != 2 || top.Manifests[0].Annotations["org.opencontainers.image.ref.name"] != "sluice:1.2.3" {
		t.Fatalf("the image is %+v with %+v, want sluice:1.2.3 for two platforms", top.Manifests[0], index)
	}
	for i, machine := range []string{"amd64", "arm64"} {
		var m manifest
		var c imageConfig
		blob(t, layout, &index.Manifests[i], &m)
		blob(t, layout, m.Config, &c)
		if p := index.Manifests[i].Platform; p.Architecture != machine || c.Architecture != machine || c.Config.User != "65532:65532" || c.Config.Labels["org.opencontainers.image.revision"] != commit {
			t.Errorf("%s: the platform is %+v, the configuration %+v", machine, p, c)
		}
		files := map[string]entry{}
		for j := range m.Layers {
			z, err := gzip.NewReader(bytes.NewReader(blob(t, layout, &m.Layers[j], nil)))
			if err != nil {
				t.Fatal(err)
			}
			plain, err := io.ReadAll(z)
			if sum := fmt.Sprintf("sha256:%x", sha256.Sum256(plain)); err != nil || c.RootFS.DiffIDs[j] != sum {
				t.Errorf("%s: layer %d is %s (%v), and the configuration says %s", machine, j, sum, err, c.RootFS.DiffIDs[j])
			}
			for name, f := range untar(t, bytes.NewReader(plain)) {
				files[name] = f
			}
		}
		if f := files["usr/bin/sluice"]; string(f.text) != "for "+machine || f.Mode != 0o755 {
			t.Errorf("%s: the program is %q with mode %o", machine, f.text, f.Mode)
		}
		if f := files["data/"]; f.Uid != imageUser || f.Gid != imageUser || f.Mode != 0o700 {
			t.Errorf("%s: /data belongs to %d:%d with mode %o", machine, f.Uid, f.Gid, f.Mode)
		}
		if !x509.NewCertPool().AppendCertsFromPEM(files["etc/ssl/certs/ca-certificates.crt"].text) {
			t.Errorf("%s: there are no certificates of authorities", machine)
		}
	}
}

// TestRecipe checks that a Dockerfile that the image of a release would not follow is refused.
func TestRecipe(t *testing.T) {
	t.Parallel()
	recipe := read(t, root, "deploy/docker/Dockerfile")
	if _, err := readSetup(recipe, commit); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string][2]string{
		"another user":           {"USER 65532:65532", "USER 1:1"},
		"another file":           {"USER 65532:65532", "COPY --from=build /bin/sh /bin/sh\nUSER 65532:65532"},
		"an unknown instruction": {"STOPSIGNAL SIGTERM", "ONBUILD RUN true"},
	} {
		if _, err := readSetup(strings.ReplaceAll(recipe, change[0], change[1]), commit); err == nil {
			t.Errorf("%s: readSetup succeeded, want an error", name)
		}
	}
}

// TestImageRuns loads the image into podman and starts it, without a network and with a read-only root.
func TestImageRuns(t *testing.T) {
	out := theRelease(t)
	if _, err := exec.LookPath("podman"); err != nil || os.Getuid() != 0 {
		t.Skip("needs podman, and root")
	}
	store := filepath.Join(scratch, "podman")
	podman := func(ctx context.Context, args ...string) (string, error) {
		// runc and cgroupfs work on machines without systemd, too.
		args = append([]string{"--root", store, "--runroot", store + "-run", "--storage-driver=vfs", "--runtime=/usr/sbin/runc", "--cgroup-manager=cgroupfs"}, args...)
		text, err := exec.CommandContext(ctx, "podman", args...).CombinedOutput()
		return string(text), err
	}
	if text, err := podman(t.Context(), "load", "--input", filepath.Join(out, imageName)); err != nil || !strings.Contains(text, "localhost/sluice:"+buildinfo.Release) {
		t.Fatalf("podman load = %s (%v)", text, err)
	}
	const name = "sluice-release-test"
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		_, _ = podman(ctx, "rm", "--force", "--volumes", "--time=1", name)
		_, _ = podman(ctx, "rmi", "--all", "--force") // the folder goes with the tests
	})
	text, err := podman(t.Context(), "run", "--detach", "--name", name, "-e", "SLUICE_LISTEN=127.0.0.1:0", "-e", "SLUICE_METRICS_LISTEN=", "--read-only", "--network=host",
		"--ulimit=nofile=1024:1024", "--ulimit=nproc=1024:1024", "localhost/sluice:"+buildinfo.Release)
	if err != nil {
		t.Fatalf("podman run = %s (%v)", text, err)
	}
	deadline := time.After(2 * time.Minute)
	for tick := time.NewTicker(250 * time.Millisecond); ; {
		if text, err := podman(t.Context(), "exec", name, "/usr/bin/sluice", "ready"); err == nil && text == "ready\n" {
			break
		}
		select {
		case <-deadline:
			logs, _ := podman(t.Context(), "logs", name)
			t.Fatalf("the container does not get ready: %s", logs)
		case <-tick.C:
		}
	}
	if text, err := podman(t.Context(), "exec", name, "/usr/bin/sluice", "version", "--json"); err != nil || !strings.Contains(text, `"platform": "linux/`+runtime.GOARCH+`"`) {
		t.Errorf("sluice version in the container = %s (%v)", text, err)
	}
}
