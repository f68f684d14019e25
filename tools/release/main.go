// Command release builds everything that a release consists of, into dist/:
//
//   - an archive for each platform: the binary, completions for shells, manual pages and the license,
//   - packages for Debian and for systems with RPM,
//   - a container image for two architectures, as an OCI layout,
//   - an SBOM for each binary (CycloneDX), made from what the binary itself says it contains,
//   - a Homebrew formula and an install script, with the checksums of the archives,
//   - the provenance of all these files (SLSA), which is not signed, and SHA256SUMS.
//
// The same source gives the same bytes, on any machine and in any folder, as long as the version of Go is
// the same: nothing in the files depends on the time, the user or the path. So anybody can check that a
// published binary was built from the source that it names.
package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"sluice/internal/kit/buildinfo"
)

// platforms are those that a release is built for.
var platforms = []string{"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64", "windows/amd64", "windows/arm64"}

func main() {
	r := &release{version: buildinfo.Release}
	flag.StringVar(&r.root, "root", ".", "the `folder` of the source")
	flag.StringVar(&r.out, "out", "dist", "the `folder` to write to; files of an earlier release are deleted")
	only := flag.String("platforms", strings.Join(platforms, ","), "the `platforms` to build for")
	flag.StringVar(&r.commit, "commit", "", "the source's `revision`; by default git is asked")
	flag.StringVar(&r.url, "url", "", "the `address` of the folder in which the archives will be published, for the install script and the formula")
	flag.StringVar(&r.source, "source", "urn:sluice:source", "the `address` of the repository, for the provenance")
	flag.StringVar(&r.builder, "builder", "urn:sluice:builder:unknown", "who builds this, as an `address`, for the provenance")
	flag.Parse()
	r.url = strings.TrimSuffix(r.url, "/")
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := r.run(ctx, strings.Split(*only, ","))
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
	fmt.Print(nextSteps)
}

// nextSteps is what whoever publishes the release does after it was built.
const nextSteps = `Nothing is signed. To sign what you publish, with a key of your own:
  minisign -Sm dist/SHA256SUMS
  cosign sign-blob --bundle dist/SHA256SUMS.bundle dist/SHA256SUMS
`

// release is one run.
type release struct {
	root, out string
	version   string
	commit    string    // empty outside of a repository
	date      time.Time // of the commit: the time of every file in an archive
	// url is where the archives are published, without a slash at its end; empty if it is not known.
	url string
	// source and builder are the addresses of the repository and of whoever builds, for the provenance.
	source, builder string

	written map[string]string // the SHA-256 of each file that was written, by its name
}

// run builds everything. The folder is complete when it returns nil.
func (r *release) run(ctx context.Context, platforms []string) error {
	if err := r.revision(ctx); err != nil {
		return err
	}
	if err := r.clear(); err != nil {
		return err
	}
	scratch, err := os.MkdirTemp("", "sluice-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	texts, err := r.texts(ctx, scratch)
	if err != nil {
		return err
	}
	binaries := map[string][]byte{} // those of Linux, by machine
	for _, platform := range platforms {
		system, machine, ok := strings.Cut(platform, "/")
		if !ok {
			return fmt.Errorf("%q is no platform: linux/amd64 is one", platform)
		}
		fmt.Println(platform)
		binary, err := r.platform(ctx, scratch, system, machine, texts)
		if err != nil {
			return fmt.Errorf("%s: %w", platform, err)
		}
		if system == "linux" {
			binaries[machine] = binary
		}
	}
	return r.rest(binaries, platforms)
}

// rest writes what is not about a single platform. The order matters: later files name the checksums of earlier ones.
func (r *release) rest(binaries map[string][]byte, platforms []string) error {
	if len(binaries) > 0 {
		if err := r.write(fmt.Sprintf("sluice_%s_image.tar", r.version), func(w io.Writer) error { return r.image(w, binaries) }); err != nil {
			return err
		}
	}
	if err := errors.Join(r.write(installName, r.installer), r.write(formulaName, r.formula)); err != nil {
		return err
	}
	statement, err := r.statement(platforms)
	if err != nil {
		return err
	}
	if err := r.writeText(fmt.Sprintf("sluice_%s.intoto.json", r.version), statement); err != nil {
		return err
	}
	return r.sums()
}

// clear creates the folder and deletes the files of an earlier release. Other files stay: the folder may be
// a wrong one.
func (r *release) clear() error {
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	r.written = map[string]string{}
	var old []string
	for _, pattern := range []string{"sluice_*", "sluice-*.rpm", sumsName, installName, formulaName} {
		names, err := filepath.Glob(filepath.Join(r.out, pattern))
		if err != nil {
			return err
		}
		old = append(old, names...)
	}
	var err error
	for _, name := range old {
		if e := os.Remove(name); e != nil && !errors.Is(e, os.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}
	return err
}

// The files whose names do not begin with that of the release. SHA256SUMS has the checksums of all others.
const (
	sumsName    = "SHA256SUMS"
	installName = "install.sh"
	formulaName = "sluice.rb"
)

// revision finds the revision of the source and its date. SOURCE_DATE_EPOCH has precedence, as in other
// reproducible builds. Without git, the date is that of the Unix epoch. A revision whose tag names another version is
// refused.
func (r *release) revision(ctx context.Context) error {
	git := func(args ...string) string {
		out, _ := exec.CommandContext(ctx, "git", append([]string{"-C", r.root}, args...)...).Output()
		return strings.TrimSpace(string(out))
	}
	if r.commit == "" {
		r.commit = git("rev-parse", "HEAD")
		if tags := strings.Fields(git("tag", "--points-at", "HEAD", "--list", "v*")); len(tags) > 0 && !slices.Contains(tags, "v"+r.version) {
			return fmt.Errorf("this commit has the tag %s, and the source is version %s: change Release in internal/kit/buildinfo or the tag", tags[0], r.version)
		}
	}
	seconds := os.Getenv("SOURCE_DATE_EPOCH")
	if seconds == "" && r.commit != "" {
		seconds = git("show", "-s", "--format=%ct", r.commit)
	}
	if seconds == "" {
		seconds = "0"
	}
	n, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return fmt.Errorf("the date of the source: %w", err)
	}
	r.date = time.Unix(n, 0).UTC()
	return nil
}

// flags returns the flags of the linker. -buildid= removes what it makes of the folder.
func (r *release) flags() string {
	const at = " -X sluice/internal/kit/buildinfo."
	flags := "-s -w -buildid=" + at + "version=" + r.version
	if r.commit != "" {
		flags += at + "commit=" + r.commit + at + "date=" + r.date.Format(time.RFC3339)
	}
	return flags
}

// cold is the flag of the compiler by which nothing is inlined in the pages. It makes the binary 1.6 MiB smaller.
const cold = "-gcflags=sluice/internal/web/...=-l"

// settings are variables that would end up in the binary, as they are for every release.
var settings = []string{"CGO_ENABLED=0", "GOAMD64=v1", "GOARM64=v8.0", "GOFLAGS=", "GOEXPERIMENT="}

// build builds the binary of a platform in a folder, unless it is there, and returns its path.
func (r *release) build(ctx context.Context, folder, system, machine string) (bin string, err error) {
	bin = filepath.Join(folder, "sluice-"+system+"-"+machine)
	if _, err := os.Stat(bin); err == nil {
		return bin, nil
	}
	// -trimpath removes the folder, -buildvcs=false the state of the repository. The commit is written instead.
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", cold, "-ldflags", r.flags(), "-o", bin, "./cmd/sluice")
	cmd.Dir = r.root
	cmd.Env = append(append(os.Environ(), settings...), "GOOS="+system, "GOARCH="+machine)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return bin, nil
}

// shells are those with completions, and the name of each file.
var shells = map[string]string{"bash": "sluice.bash", "zsh": "_sluice", "fish": "sluice.fish", "powershell": "sluice.ps1"}

// texts returns what is the same on every platform: completions, manual pages, license. The names are
// those in the archives.
func (r *release) texts(ctx context.Context, scratch string) ([]file, error) {
	bin, err := r.build(ctx, scratch, runtime.GOOS, runtime.GOARCH)
	if err != nil {
		return nil, err
	}
	var files []file
	for shell, name := range shells {
		text, err := exec.CommandContext(ctx, bin, "completion", shell).Output()
		if err != nil {
			return nil, fmt.Errorf("sluice completion %s: %w", shell, err)
		}
		files = append(files, file{name: "completions/" + name, mode: 0o644, text: text})
	}
	pages := filepath.Join(scratch, "man")
	if err := os.Mkdir(pages, 0o755); err != nil {
		return nil, err
	}
	if out, err := exec.CommandContext(ctx, bin, "man", pages).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("sluice man: %w\n%s", err, out)
	}
	names, err := filepath.Glob(filepath.Join(pages, "*"))
	if err != nil {
		return nil, err
	}
	for _, name := range append(names, filepath.Join(r.root, "LICENSE")) {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		to := filepath.Base(name)
		if filepath.Dir(name) == pages {
			to = "man/" + to
		}
		files = append(files, file{name: to, mode: 0o644, text: text})
	}
	slices.SortFunc(files, func(a, b file) int { return strings.Compare(a.name, b.name) })
	return files, nil
}

// platform builds the files of one platform and returns its binary.
func (r *release) platform(ctx context.Context, scratch, system, machine string, texts []file) ([]byte, error) {
	bin, err := r.build(ctx, scratch, system, machine)
	if err != nil {
		return nil, err
	}
	binary, err := os.ReadFile(bin)
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("sluice_%s_%s_%s", r.version, system, machine)
	bill, err := r.bill(bin, system, machine)
	if err != nil {
		return nil, err
	}
	if err := r.writeText(name+".cdx.json", bill); err != nil {
		return nil, err
	}
	program := file{name: "sluice", mode: 0o755, text: binary}
	if system == "windows" {
		program.name += ".exe"
		return binary, r.write(name+".zip", func(w io.Writer) error { return writeZip(w, name, append([]file{program}, texts...), r.date) })
	}
	err = r.write(name+".tar.gz", func(w io.Writer) error { return writeTarball(w, name, append([]file{program}, texts...), r.date) })
	if err == nil && system == "linux" {
		err = r.packages(machine, binary, texts)
	}
	return binary, err
}

// write creates a file of the release and notes its checksum.
func (r *release) write(name string, fill func(io.Writer) error) error {
	f, err := os.Create(filepath.Join(r.out, name))
	if err != nil {
		return err
	}
	sum := sha256.New()
	if err := errors.Join(fill(io.MultiWriter(f, sum)), f.Close()); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	r.written[name] = fmt.Sprintf("%x", sum.Sum(nil))
	return nil
}

// writeText creates a file with a text.
func (r *release) writeText(name string, text []byte) error {
	return r.write(name, func(w io.Writer) error { _, err := w.Write(text); return err })
}

// sums writes the checksums of all files, in the form that sha256sum --check reads.
func (r *release) sums() error {
	var all strings.Builder
	for _, name := range sorted(r.written) {
		fmt.Fprintf(&all, "%s  %s\n", r.written[name], name)
	}
	return r.writeText(sumsName, []byte(all.String()))
}

// sorted returns the keys of a map in order.
func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// indented returns a value as JSON for people.
func indented(v any) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err := enc.Encode(v)
	return out.Bytes(), err
}
