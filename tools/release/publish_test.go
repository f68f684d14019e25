package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"sluice/internal/kit/buildinfo"
)

// archiveName is the archive of this machine.
var archiveName = fmt.Sprintf("sluice_%s_linux_%s.tar.gz", buildinfo.Release, runtime.GOARCH)

// TestInstallScript runs the script as somebody who has downloaded it, against a server that has the archives.
func TestInstallScript(t *testing.T) {
	out := theRelease(t)
	archives := httptest.NewServer(http.FileServer(http.Dir(out)))
	t.Cleanup(archives.Close)
	wrong := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "something else") }))
	t.Cleanup(wrong.Close)
	name := filepath.Join(t.TempDir(), "install.sh")
	write(t, name, read(t, out, installName))
	away := t.TempDir()
	write(t, filepath.Join(away, "uname"), "#!/bin/sh\necho Plan9\n")
	for what, tt := range map[string]struct {
		script    string
		url, path string
		args      []string
		want      string
		installed bool
		fails     bool
	}{
		"from a server":     {name, archives.URL + "/", "", nil, "Installed: sluice " + buildinfo.Release, true, false},
		"beside the script": {filepath.Join(out, installName), "", "", nil, "Installed: sluice " + buildinfo.Release, true, false},
		"dry run":           {name, archives.URL, "", []string{"--dry-run"}, "Nothing was changed", false, false},
		"help":              {name, "", "", []string{"--help"}, "Usage: sh install.sh", false, false},
		"another file":      {name, wrong.URL, "", nil, "this is not the file that was released; nothing was installed", false, true},
		"no such address":   {name, archives.URL + "/gone", "", nil, "cannot download " + archives.URL + "/gone/" + archiveName, false, true},
		"no address":        {name, "", "", nil, "set SLUICE_DOWNLOAD", false, true},
		"an unknown option": {name, archives.URL, "", []string{"--force"}, "there is no option --force", false, true},
		"another system":    {name, archives.URL, away, nil, "there is no archive for Plan9", false, true},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "bin")
			cmd := exec.CommandContext(t.Context(), "sh", append([]string{tt.script, "--dir", dir}, tt.args...)...)
			cmd.Env = append(os.Environ(), "SLUICE_DOWNLOAD="+tt.url, "PATH="+tt.path+":"+os.Getenv("PATH"))
			text, err := cmd.CombinedOutput()
			if !strings.Contains(string(text), tt.want) || (err != nil) != tt.fails {
				t.Errorf("install.sh = %s (%v), want %q", text, err, tt.want)
			}
			if _, err := os.Stat(filepath.Join(dir, "sluice")); (err == nil) != tt.installed {
				t.Errorf("the program: %v, want it installed: %v", err, tt.installed)
			}
			if entries, _ := os.ReadDir(dir); len(entries) > 1 {
				t.Errorf("the folder holds %v, want the program alone", entries)
			}
		})
	}
}

// TestFormula checks what Homebrew reads: an address and a checksum for each archive.
func TestFormula(t *testing.T) {
	t.Parallel()
	r := &release{version: "1.2.3", url: "https://dl.example.com", written: map[string]string{}}
	for i, platform := range platforms {
		r.written["sluice_1.2.3_"+strings.ReplaceAll(platform, "/", "_")+".tar.gz"] = fmt.Sprintf("sum%d", i)
	}
	var got strings.Builder
	if err := r.formula(&got); err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`on_(\w+) do\n      url "(\S+)"\n      sha256 "(\w+)"`).FindAllStringSubmatch(got.String(), -1)
	want := "[arm https://dl.example.com/sluice_1.2.3_linux_arm64.tar.gz sum1] [intel https://dl.example.com/sluice_1.2.3_linux_amd64.tar.gz sum0] " +
		"[arm https://dl.example.com/sluice_1.2.3_darwin_arm64.tar.gz sum3] [intel https://dl.example.com/sluice_1.2.3_darwin_amd64.tar.gz sum2]"
	var lines []string
	for _, m := range found {
		lines = append(lines, fmt.Sprint(m[1:]))
	}
	if all := strings.Join(lines, " "); all != want {
		t.Errorf("the formula has %s, want %s\n%s", all, want, got.String())
	}
	if _, err := exec.LookPath("ruby"); err == nil {
		name := filepath.Join(t.TempDir(), "sluice.rb")
		write(t, name, got.String())
		run(t, "ruby", "-c", name)
	}
}

// TestStatement checks that the provenance names every file of the release with its checksum, and where it comes from.
func TestStatement(t *testing.T) {
	out := theRelease(t)
	var s statement
	if err := json.Unmarshal([]byte(read(t, out, "sluice_"+buildinfo.Release+".intoto.json")), &s); err != nil {
		t.Fatal(err)
	}
	named := map[string]string{}
	for _, subject := range s.Subject {
		named[subject.Name] = subject.Digest["sha256"]
	}
	entries, err := os.ReadDir(out)
	if err != nil {
		t.Fatal(err)
	}
	sums := read(t, out, sumsName)
	for _, e := range entries {
		if e.Name() == sumsName || strings.HasSuffix(e.Name(), ".intoto.json") {
			continue
		}
		if sum := named[e.Name()]; sum == "" || !strings.Contains(sums, sum+"  "+e.Name()+"\n") {
			t.Errorf("the provenance has %q for %s, want the checksum in %s", sum, e.Name(), sumsName)
		}
	}
	d := s.Predicate.BuildDefinition
	if len(d.ResolvedDependencies) != 1 || d.ResolvedDependencies[0].Digest["gitCommit"] != commit || d.InternalParameters["go"] != runtime.Version() || d.InternalParameters["signature"] != unsigned {
		t.Errorf("the build is %+v, want the commit, the version of Go, and that nothing is signed", d)
	}
	run(t, "sh", "-c", `cd "$1" && sha256sum --check --quiet SHA256SUMS`, "sh", out)
}

// TestRPM installs the package into a root of its own and removes it.
func TestRPM(t *testing.T) {
	out := theRelease(t)
	if _, err := exec.LookPath("rpm"); err != nil {
		t.Skip("needs rpm")
	}
	pkg := filepath.Join(out, fmt.Sprintf("sluice-%s-1.%s.rpm", buildinfo.Release, rpmMachines[runtime.GOARCH]))
	if got, want := run(t, "rpm", "-qp", "--queryformat", "%{NAME} %{VERSION} %{RELEASE} %{ARCH} %{LICENSE} %{SUMMARY}", pkg), fmt.Sprintf("sluice %s 1 %s Apache-2.0 inference gateway", buildinfo.Release, rpmMachines[runtime.GOARCH]); !strings.HasPrefix(got, want) {
		t.Errorf("rpm -qp = %s, want %s", got, want)
	}
	if got := run(t, "rpm", "-qp", "--configfiles", pkg); got != "/"+configPath+"\n" {
		t.Errorf("its configuration files are %s, want /%s", got, configPath)
	}
	if os.Getuid() != 0 {
		t.Log("not root: the package is not installed")
		return
	}
	other := t.TempDir()
	rpm := func(args ...string) string {
		return run(t, "rpm", append([]string{"--root", other, "--nodeps", "--noscripts"}, args...)...)
	}
	rpm("--install", pkg)
	if got := run(t, filepath.Join(other, "usr/bin/sluice"), "version"); !strings.Contains(got, buildinfo.Release+" ("+commit[:12]) {
		t.Errorf("sluice version = %q, want %s and the commit", got, buildinfo.Release)
	}
	rpm("--verify", "sluice")
	rpm("--erase", "sluice")
	if _, err := os.Stat(filepath.Join(other, "usr/bin/sluice")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after rpm --erase, the binary: %v, want it gone", err)
	}
}

// TestScripts runs the scripts of the packages with the arguments of rpm, which are numbers. TestDebian lets dpkg run them.
func TestScripts(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("needs root, to create a user in another root")
	}
	other := t.TempDir()
	for _, name := range []string{"etc/passwd", "etc/group", "etc/shadow", "etc/gshadow", configPath} {
		write(t, filepath.Join(other, name), "")
	}
	for _, script := range []string{"postinst 1", "postinst 2", "prerm 1", "postrm 1", "prerm 0"} {
		name, arg, _ := strings.Cut(script, " ")
		cmd := exec.CommandContext(t.Context(), filepath.Join(root, "deploy/packages", name), arg)
		cmd.Env = append(os.Environ(), "DPKG_ROOT="+other)
		if text, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", script, err, text)
		}
	}
	info, err := os.Stat(filepath.Join(other, "var/lib/sluice"))
	if err != nil || info.Mode().Perm() != 0o700 || strings.Count(read(t, other, "etc/passwd"), "sluice:x:") != 1 {
		t.Errorf("after an installation and an upgrade: data %v, %v, users %q, want a private folder and one user", info, err, read(t, other, "etc/passwd"))
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(root, "deploy/packages/postrm"), "0")
	cmd.Env = append(os.Environ(), "DPKG_ROOT="+other)
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("postrm 0: %v\n%s", err, text)
	}
	if _, err := os.Stat(filepath.Join(other, "var/lib/sluice")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after the last version was removed, an empty data folder: %v, want it gone", err)
	}
}

// write creates a file that programs may run, and the folders above it.
func write(t *testing.T, name, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o755)); err != nil {
		t.Fatal(err)
	}
}
