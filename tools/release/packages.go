package main

import (
	"bytes"
	"crypto/md5"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/rpmpack"

	"sluice/internal/app/config"
)

// packages writes the Debian package and the RPM of a machine.
func (r *release) packages(machine string, binary []byte, texts []file) error {
	scripts, err := r.scripts()
	if err != nil {
		return err
	}
	for _, kind := range []struct {
		name   string
		places map[string]string
		write  func(w io.Writer, machine string, content, scripts []file) error
	}{
		{fmt.Sprintf("sluice_%s_%s.deb", r.version, machine), debianPlaces, r.debian},
		{fmt.Sprintf("sluice-%s-1.%s.rpm", r.version, rpmMachines[machine]), rpmPlaces, r.rpm},
	} {
		content, err := r.content(binary, texts, kind.places)
		if err == nil {
			err = r.write(kind.name, func(w io.Writer) error { return kind.write(w, machine, content, scripts) })
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// scripts returns the scripts that a package runs. They are the same for both kinds.
func (r *release) scripts() (files []file, err error) {
	for _, name := range []string{"postinst", "prerm", "postrm"} {
		script, err := os.ReadFile(filepath.Join(r.root, "deploy/packages", name))
		if err != nil {
			return nil, err
		}
		files = append(files, file{name: name, mode: 0o755, text: script})
	}
	return files, nil
}

// debian writes a Debian package: an ar archive of the format's version, the control files and the
// content. It is written here, and not by Debian's tools, so that it is the same on every system.
func (r *release) debian(w io.Writer, machine string, content, scripts []file) error {
	control, err := r.control(machine, content)
	if err != nil {
		return err
	}
	var controls, data bytes.Buffer
	err = errors.Join(writeTarball(&controls, ".", append(control, scripts...), r.date), writeTarball(&data, ".", content, r.date))
	if err != nil {
		return err
	}
	if _, err := io.WriteString(w, "!<arch>\n"); err != nil {
		return err
	}
	for _, member := range []file{{name: "debian-binary", text: []byte("2.0\n")}, {name: "control.tar.gz", text: controls.Bytes()}, {name: "data.tar.gz", text: data.Bytes()}} {
		// Name, time, owner, group, mode, size, each in a field of its own width.
		_, err := fmt.Fprintf(w, "%-16s%-12d%-6d%-6d%-8s%-10d`\n%s", member.name, r.date.Unix(), 0, 0, "100644", len(member.text), member.text)
		if err == nil && len(member.text)%2 == 1 {
			_, err = io.WriteString(w, "\n") // members begin at even offsets
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// rpmMachines has RPM's names of machines.
var rpmMachines = map[string]string{"amd64": "x86_64", "arm64": "aarch64"}

// rpm writes an RPM. Its build host is a fixed one, like everything else in it.
func (r *release) rpm(w io.Writer, machine string, content, scripts []file) error {
	about, err := r.about()
	if err != nil {
		return err
	}
	summary, description, _ := strings.Cut(about["Description"], "\n")
	m := rpmpack.RPMMetaData{
		Name: about["Package"], Summary: summary, Description: strings.ReplaceAll(description, "\n.\n", "\n\n"), Version: r.version, Release: "1",
		Arch: rpmMachines[machine], Packager: about["Maintainer"], Licence: "Apache-2.0", BuildHost: "localhost", BuildTime: r.date, Epoch: rpmpack.NoEpoch,
	}
	if err := errors.Join(m.Requires.Set("shadow-utils"), m.Recommends.Set("ca-certificates")); err != nil {
		return err
	}
	p, err := rpmpack.NewRPM(m)
	if err != nil {
		return err
	}
	for _, f := range content {
		out := rpmpack.RPMFile{Name: "/" + f.name, Body: f.text, Mode: uint(f.mode.Perm()), Owner: "root", Group: "root", MTime: uint32(r.date.Unix())}
		switch {
		case f.name == configPath:
			out.Type = rpmpack.ConfigFile | rpmpack.NoReplaceFile
		case f.mode.IsDir() && !strings.Contains(f.name, "sluice"):
			continue // folders of the system belong to other packages
		case f.mode.IsDir():
			out.Mode |= 0o40000
		}
		p.AddFile(out)
	}
	for _, s := range scripts {
		map[string]func(string){"postinst": p.AddPostin, "prerm": p.AddPreun, "postrm": p.AddPostun}[s.name](string(s.text))
	}
	return p.Write(w)
}

// about returns the fields of deploy/packages/control, which describes the package.
func (r *release) about() (map[string]string, error) {
	text, err := os.ReadFile(filepath.Join(r.root, "deploy/packages/control"))
	if err != nil {
		return nil, err
	}
	fields, name := map[string]string{}, ""
	for line := range strings.Lines(string(text)) {
		if more, ok := strings.CutPrefix(line, " "); ok { // it continues the field before
			fields[name] += "\n" + strings.TrimSpace(more)
			continue
		}
		var value string
		name, value, _ = strings.Cut(line, ":")
		fields[name] = strings.TrimSpace(value)
	}
	return fields, nil
}

// The paths of the packages that their scripts and the tests also name.
const (
	unitsPath  = "usr/lib/systemd/system/"
	configPath = "etc/sluice/sluice.yaml"
)

// debianPlaces and rpmPlaces say where a package has what both kinds have in different places.
var (
	debianPlaces = map[string]string{"LICENSE": "usr/share/doc/sluice/copyright", shells["zsh"]: "usr/share/zsh/vendor-completions/_sluice"}
	rpmPlaces    = map[string]string{"LICENSE": "usr/share/licenses/sluice/LICENSE", shells["zsh"]: "usr/share/zsh/site-functions/_sluice"}
)

// content returns the files and folders of a package, sorted. places says where those are that are elsewhere in another
// kind of package.
func (r *release) content(binary []byte, texts []file, places map[string]string) ([]file, error) {
	files := []file{
		{name: "usr/bin/sluice", mode: 0o755, text: binary},
		// postinst lets the group of the service read it; others may not, because it may hold keys.
		{name: configPath, mode: 0o640, text: []byte(config.Example())},
	}
	for from, to := range map[string]string{"deploy/systemd/*.service": unitsPath, "deploy/systemd/*.timer": unitsPath, "docs/examples/*": "usr/share/doc/sluice/examples/"} {
		names, err := filepath.Glob(filepath.Join(r.root, from))
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				return nil, err
			}
			files = append(files, file{name: to + filepath.Base(name), mode: 0o644, text: text})
		}
	}
	for _, f := range texts {
		folder, name := path.Split(f.name)
		to := places[name]
		switch {
		case folder == "man/":
			page, err := squeeze(f.text)
			if err != nil {
				return nil, err
			}
			to, f.text = "usr/share/man/man1/"+name+".gz", page
		case name == shells["bash"]:
			to = "usr/share/bash-completion/completions/sluice"
		case name == shells["fish"]:
			to = "usr/share/fish/vendor_completions.d/sluice.fish"
		case to == "":
			continue
		}
		files = append(files, file{name: to, mode: 0o644, text: f.text})
	}
	return withFolders(files), nil
}

// withFolders returns files with the folders that they are in, sorted: dpkg wants every folder, and before what is in it.
func withFolders(files []file) []file {
	folders := map[string]bool{}
	for _, f := range files {
		for dir := path.Dir(f.name); dir != "."; dir = path.Dir(dir) {
			folders[dir] = true
		}
	}
	for dir := range folders {
		files = append(files, file{name: dir, mode: fs.ModeDir | 0o755})
	}
	slices.SortFunc(files, func(a, b file) int { return strings.Compare(a.name, b.name) })
	return files
}

// control returns the control files: what the package is, which files are the administrator's, and checksums.
func (r *release) control(machine string, content []file) ([]file, error) {
	var sums strings.Builder
	size := 0
	for _, f := range content {
		if !f.mode.IsDir() {
			size += len(f.text)
			fmt.Fprintf(&sums, "%x  %s\n", md5.Sum(f.text), f.name) // the format knows no other
		}
	}
	about, err := os.ReadFile(filepath.Join(r.root, "deploy/packages/control"))
	if err != nil {
		return nil, err
	}
	text := strings.NewReplacer("@VERSION@", r.version, "@ARCHITECTURE@", machine, "@SIZE@", fmt.Sprint((size+1023)/1024)).Replace(string(about))
	return []file{
		{name: "control", mode: 0o644, text: []byte(text)},
		{name: "conffiles", mode: 0o644, text: []byte("/" + configPath + "\n")},
		{name: "md5sums", mode: 0o644, text: []byte(sums.String())},
	}, nil
}
