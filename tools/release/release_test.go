package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/bench/process"
	"sluice/internal/kit/buildinfo"
)

const (
	root   = "../.."
	commit = "0123456789abcdef0123456789abcdef01234567"
	// mostBytes is the most that the binary may have, with everything in it.
	mostBytes = 50 << 20
	// mostIdle is the most memory of its own that a server may use that nobody calls. Pages of the binary do not
	// count: how many are in memory is the system's choice.
	mostIdle = 32 << 20
)

// scratch is the folder of the tests, deleted by TestMain.
var scratch string

func TestMain(m *testing.M) {
	var err error
	if scratch, err = os.MkdirTemp("", "sluice-release-test-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(scratch)
	os.Exit(code)
}

// here is the platform of this machine, whose binary the tests can run. Its packages are in the build cache
// already; those of other platforms would take minutes to compile.
var here = []string{"linux/" + runtime.GOARCH}

// built makes the release that the tests look at, once.
var built = sync.OnceValues(func() (string, error) {
	out := filepath.Join(scratch, "first")
	r := &release{root: root, out: out, version: buildinfo.Release, commit: commit}
	return out, r.run(context.Background(), here)
})

// theRelease returns the folder of a release.
func theRelease(t *testing.T) string {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("needs Linux")
	}
	// Without it, the date would be asked of git, which does not know the commit.
	if os.Getenv("SOURCE_DATE_EPOCH") == "" {
		os.Setenv("SOURCE_DATE_EPOCH", "1800000000")
	}
	out, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestSameBytes builds a copy of the source in another folder. With SLUICE_SOAK everything is compiled
// again, and for all platforms; otherwise both builds share what is in the build cache.
func TestSameBytes(t *testing.T) {
	first := theRelease(t)
	copied := filepath.Join(t.TempDir(), "another", "place")
	for _, part := range []string{"api", "cmd", "deploy", "docs", "internal", "sandbox"} {
		if err := os.CopyFS(filepath.Join(copied, part), os.DirFS(filepath.Join(root, part))); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"go.mod", "go.sum", "LICENSE"} {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(copied, name), text, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if os.Getenv("SLUICE_SOAK") != "" {
		t.Setenv("GOCACHE", t.TempDir())
	}
	second := filepath.Join(t.TempDir(), "dist")
	r := &release{root: copied, out: second, version: buildinfo.Release, commit: commit}
	if err := r.run(t.Context(), here); err != nil {
		t.Fatal(err)
	}
	got, want := read(t, second, sumsName), read(t, first, sumsName)
	if got != want {
		t.Errorf("the checksums of a copy of the source = \n%s, want \n%s", got, want)
	}
}

func read(t *testing.T, elem ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(elem...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestPlatforms compiles for every platform. It takes a quarter of an hour on two cores.
func TestPlatforms(t *testing.T) {
	t.Parallel()
	if os.Getenv("SLUICE_SOAK") == "" {
		t.Skip("set SLUICE_SOAK to build for every platform")
	}
	r := &release{root: root, version: buildinfo.Release, commit: commit}
	for _, platform := range platforms {
		system, machine, _ := strings.Cut(platform, "/")
		if _, err := r.build(t.Context(), t.TempDir(), system, machine); err != nil {
			t.Errorf("%s: %v", platform, err)
		}
	}
}

func TestTarball(t *testing.T) {
	out := theRelease(t)
	text := read(t, out, fmt.Sprintf("sluice_%s_linux_%s.tar.gz", buildinfo.Release, runtime.GOARCH))
	z, err := gzip.NewReader(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	sizes := map[string]int64{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		_, name, _ := strings.Cut(h.Name, "/")
		sizes[name] = h.Size
		if h.Uid != 0 || h.ModTime.Unix() != 1800000000 {
			t.Errorf("%s has the owner %d and the time %v, want root and that of the source", h.Name, h.Uid, h.ModTime)
		}
	}
	for _, name := range []string{"sluice", "LICENSE", "man/sluice.1", "man/sluice-serve.1", "completions/sluice.bash", "completions/_sluice", "completions/sluice.fish"} {
		if sizes[name] == 0 {
			t.Errorf("the archive has no %s, or it is empty", name)
		}
	}
	if got := sizes["sluice"]; got > mostBytes {
		t.Errorf("the binary has %d bytes, want at most %d: see docs/modules.md", got, mostBytes)
	}
}

// TestIdleMemory starts the binary and waits until it uses little memory. How long that takes depends on the
// machine, so only a server that never gets there fails.
func TestIdleMemory(t *testing.T) {
	out := theRelease(t)
	dir := t.TempDir()
	run(t, "tar", "-xzf", filepath.Join(out, fmt.Sprintf("sluice_%s_linux_%s.tar.gz", buildinfo.Release, runtime.GOARCH)), "-C", dir, "--strip-components=1")
	p, err := process.Start(context.Background(), &process.Options{Dir: dir}, filepath.Join(dir, "sluice"), "serve", "--data", filepath.Join(dir, "data"), "--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stop()
	deadline := time.After(2 * time.Minute)
	for tick := time.NewTicker(250 * time.Millisecond); ; {
		resident, own, err := p.Memory()
		// A process that has only begun uses little, too; the database is there when it has started.
		_, started := os.Stat(filepath.Join(dir, "data", "secret.key"))
		if err == nil && started == nil && own <= mostIdle {
			t.Logf("%.1f MB, of which %.1f MB are not pages of the binary", float64(resident)/1e6, float64(own)/1e6)
			return
		}
		select {
		case <-p.Exited():
			t.Fatalf("the server ended: %s", p.Output())
		case <-deadline:
			t.Fatalf("an idle server uses %d bytes of its own (%v), want at most %d", own, err, mostIdle)
		case <-tick.C:
		}
	}
}

// TestBill compares the SBOM with what the go command says about the binary's packages.
func TestBill(t *testing.T) {
	out := theRelease(t)
	var bill billOfMaterials
	if err := json.Unmarshal([]byte(read(t, out, fmt.Sprintf("sluice_%s_linux_%s.cdx.json", buildinfo.Release, runtime.GOARCH))), &bill); err != nil {
		t.Fatal(err)
	}
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}pkg:golang/{{.Path}}@{{.Version}}{{end}}{{end}}", "./cmd/sluice")
	list.Dir, list.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	text, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	want := append(strings.Fields(string(text)), "pkg:golang/std@"+strings.TrimPrefix(runtime.Version(), "go"))
	slices.Sort(want)
	want = slices.Compact(want)
	var got []string
	for _, c := range bill.Components {
		got = append(got, c.PURL)
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("components = %q, want %q", got, want)
	}
	if c := bill.Metadata.Component; bill.Format != "CycloneDX" || c.Version != buildinfo.Release || len(c.Hashes) != 1 || !slices.Contains(c.Properties, property{"sluice:commit", commit}) {
		t.Errorf("the bill is about %+v, want sluice %s with its checksum and commit", c, buildinfo.Release)
	}
}

// TestTexts checks completions and pages with the programs that read them, where they are installed.
func TestTexts(t *testing.T) {
	theRelease(t)
	r := &release{root: root, version: buildinfo.Release}
	texts, err := r.texts(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range texts {
		var check *exec.Cmd
		switch {
		case f.name == "completions/"+shells["bash"]:
			check = exec.CommandContext(t.Context(), "bash", "-n")
		case strings.HasPrefix(f.name, "man/"):
			check = exec.CommandContext(t.Context(), "man", "--warnings", "-l", "-")
		default:
			continue
		}
		if check.Err != nil {
			continue // the program is not here
		}
		var complaints bytes.Buffer
		check.Stdin, check.Stderr = bytes.NewReader(f.text), &complaints
		check.Env = append(os.Environ(), "MANPAGER=cat", "LC_ALL=C.UTF-8", "MANROFFSEQ=")
		if err := check.Run(); err != nil || complaints.Len() > 0 {
			t.Errorf("%s: %v %s", f.name, err, complaints.String())
		}
	}
}

// TestDebian installs the package into a root of its own, upgrades it and removes it.
func TestDebian(t *testing.T) {
	out := theRelease(t)
	pkg := filepath.Join(out, fmt.Sprintf("sluice_%s_%s.deb", buildinfo.Release, runtime.GOARCH))
	if _, err := exec.LookPath("dpkg"); err != nil {
		t.Skip("needs dpkg")
	}
	for _, field := range []string{"Package", "Version", "Architecture"} {
		got := strings.TrimSpace(run(t, "dpkg-deb", "--field", pkg, field))
		if want := map[string]string{"Package": "sluice", "Version": buildinfo.Release, "Architecture": runtime.GOARCH}[field]; got != want {
			t.Errorf("%s = %q, want %q", field, got, want)
		}
	}
	if os.Getuid() != 0 {
		t.Log("not root: the package is not installed")
		return
	}
	other := t.TempDir()
	for _, name := range []string{"etc/passwd", "etc/group", "etc/shadow", "etc/gshadow", "var/lib/dpkg/status"} {
		file := filepath.Join(other, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, nil, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{"var/lib/dpkg/info", "var/lib/dpkg/updates"} {
		if err := os.MkdirAll(filepath.Join(other, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	// The scripts run outside of the root, which has no shell, and are told where it is.
	dpkg := func(args ...string) string {
		return run(t, "dpkg", append([]string{"--root=" + other, "--force-script-chrootless", "--force-depends", "--log=" + filepath.Join(other, "log")}, args...)...)
	}
	for range 2 { // the second time it is an upgrade
		dpkg("--install", pkg)
	}
	if got := run(t, filepath.Join(other, "usr/bin/sluice"), "version"); !strings.Contains(got, buildinfo.Release+" ("+commit[:12]) {
		t.Errorf("sluice version = %q, want %s and the commit", got, buildinfo.Release)
	}
	if !strings.Contains(read(t, other, "etc/passwd"), "sluice:x:") {
		t.Error("there is no user sluice")
	}
	for name, want := range map[string]os.FileMode{"var/lib/sluice": 0o700, "etc/sluice": 0o750, configPath: 0o640, unitsPath + "sluice.service": 0o644, unitsPath + "sluice-backup.timer": 0o644, "usr/bin/sluice": 0o755} {
		info, err := os.Stat(filepath.Join(other, name))
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("mode of %s = %v, %v, want %v", name, info.Mode(), err, want)
		}
	}
	if out := run(t, "dpkg", "--root="+other, "--verify", "sluice"); out != "" {
		t.Errorf("dpkg --verify = %s", out)
	}
	// What the administrator has is kept.
	precious := filepath.Join(other, "var/lib/sluice/sluice.db")
	if err := os.WriteFile(precious, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	dpkg("--purge", "sluice")
	if _, err := os.Stat(precious); err != nil {
		t.Errorf("after dpkg --purge: %v, want the data to stay", err)
	}
	if _, err := os.Stat(filepath.Join(other, "usr/bin/sluice")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after dpkg --purge, the binary: %v, want it gone", err)
	}
}

// run returns the output of a command, which must succeed.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, out, complaints.String())
	}
	return string(out)
}
