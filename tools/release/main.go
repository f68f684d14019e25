// Command release builds everything that a release consists of, into dist/:
//
//   - an archive for each platform: the binary, completions for shells, manual pages and the license,
//   - Debian packages,
//   - an SBOM for each binary (CycloneDX), made from what the binary itself says it contains,
//   - SHA256SUMS.
//
// The same source gives the same bytes, on any machine and in any folder, as long as the version of Go is
// the same: nothing in the files depends on the time, the user or the path. So anybody can check that a
// published binary was built from the source that it names.
package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
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
	r := &release{version: buildinfo.Version}
	flag.StringVar(&r.root, "root", ".", "the `folder` of the source")
	flag.StringVar(&r.out, "out", "dist", "the `folder` to write to; files of an earlier release are deleted")
	only := flag.String("platforms", strings.Join(platforms, ","), "the `platforms` to build for")
	flag.StringVar(&r.commit, "commit", "", "the source's `revision`; by default git is asked")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := r.run(ctx, strings.Split(*only, ","))
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// release is one run.
type release struct {
	root, out string
	version   string
	commit    string    // empty outside of a repository
	date      time.Time // of the commit: the time of every file in an archive
}

// run builds everything. The folder is complete when it returns nil.
func (r *release) run(ctx context.Context, platforms []string) error {
	if err := r.provenance(ctx); err != nil {
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
	for _, platform := range platforms {
		system, machine, ok := strings.Cut(platform, "/")
		if !ok {
			return fmt.Errorf("%q is no platform: linux/amd64 is one", platform)
		}
		fmt.Println(platform)
		if err := r.platform(ctx, scratch, system, machine, texts); err != nil {
			return fmt.Errorf("%s: %w", platform, err)
		}
	}
	return r.sums()
}

// clear creates the folder and deletes the files of an earlier release. Other files stay: the folder may be
// a wrong one.
func (r *release) clear() error {
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	old, err := filepath.Glob(filepath.Join(r.out, "sluice_*"))
	for _, name := range append(old, filepath.Join(r.out, sumsName)) {
		if e := os.Remove(name); e != nil && !errors.Is(e, os.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}
	return err
}

// sumsName is the file with the checksums of the others.
const sumsName = "SHA256SUMS"

// provenance finds the revision of the source and its date. SOURCE_DATE_EPOCH has precedence, as in other
// reproducible builds. Without git, the date is that of the Unix epoch.
func (r *release) provenance(ctx context.Context) error {
	git := func(args ...string) string {
		out, _ := exec.CommandContext(ctx, "git", append([]string{"-C", r.root}, args...)...).Output()
		return strings.TrimSpace(string(out))
	}
	if r.commit == "" {
		r.commit = git("rev-parse", "HEAD")
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

// build builds the binary of a platform in a folder, unless it is there, and returns its path.
func (r *release) build(ctx context.Context, folder, system, machine string) (bin string, err error) {
	bin = filepath.Join(folder, "sluice-"+system+"-"+machine)
	if _, err := os.Stat(bin); err == nil {
		return bin, nil
	}
	// -trimpath removes the folder, -buildid= what the linker makes of it, -buildvcs=false the state of the
	// repository. The commit is written instead.
	flags := "-s -w -buildid="
	if r.commit != "" {
		flags += " -X sluice/internal/kit/buildinfo.commit=" + r.commit
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", flags, "-o", bin, "./cmd/sluice")
	cmd.Dir = r.root
	// Settings of the user that would end up in the binary are set here.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+system, "GOARCH="+machine, "GOAMD64=v1", "GOARM64=v8.0", "GOFLAGS=", "GOEXPERIMENT=")
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
		files = append(files, file{"completions/" + name, 0o644, text})
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
		files = append(files, file{to, 0o644, text})
	}
	slices.SortFunc(files, func(a, b file) int { return strings.Compare(a.name, b.name) })
	return files, nil
}

// platform builds the files of one platform.
func (r *release) platform(ctx context.Context, scratch, system, machine string, texts []file) error {
	bin, err := r.build(ctx, scratch, system, machine)
	if err != nil {
		return err
	}
	binary, err := os.ReadFile(bin)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("sluice_%s_%s_%s", r.version, system, machine)
	bill, err := r.bill(bin, system, machine)
	if err != nil {
		return err
	}
	if err := r.write(name+".cdx.json", func(w io.Writer) error { _, err := w.Write(bill); return err }); err != nil {
		return err
	}
	program := file{"sluice", 0o755, binary}
	if system == "windows" {
		program.name += ".exe"
		return r.write(name+".zip", func(w io.Writer) error { return writeZip(w, name, append([]file{program}, texts...), r.date) })
	}
	if err := r.write(name+".tar.gz", func(w io.Writer) error { return writeTarball(w, name, append([]file{program}, texts...), r.date) }); err != nil {
		return err
	}
	if system != "linux" {
		return nil
	}
	return r.write(fmt.Sprintf("sluice_%s_%s.deb", r.version, machine), func(w io.Writer) error {
		return r.debian(w, machine, binary, texts)
	})
}

// write creates a file of the release.
func (r *release) write(name string, fill func(io.Writer) error) error {
	f, err := os.Create(filepath.Join(r.out, name))
	if err != nil {
		return err
	}
	return errors.Join(fill(f), f.Close())
}

// sums writes the checksums of all files, in the form that sha256sum --check reads.
func (r *release) sums() error {
	names, err := filepath.Glob(filepath.Join(r.out, "sluice_*"))
	if err != nil {
		return err
	}
	return r.write(sumsName, func(w io.Writer) error {
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			fmt.Fprintf(w, "%x  %s\n", sha256.Sum256(text), filepath.Base(name))
		}
		return nil
	})
}
