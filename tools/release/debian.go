package main

import (
	"bytes"
	"compress/gzip"
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

	"sluice/internal/app/config"
)

// debian writes a Debian package: an ar archive of the format's version, the control files and the
// content. It is written here, and not by Debian's tools, so that it is the same on every system.
func (r *release) debian(w io.Writer, machine string, binary []byte, texts []file) error {
	content, err := r.content(binary, texts)
	if err != nil {
		return err
	}
	control, err := r.control(machine, content)
	if err != nil {
		return err
	}
	var controls, data bytes.Buffer
	err = errors.Join(writeTarball(&controls, ".", control, r.date), writeTarball(&data, ".", content, r.date))
	if err != nil {
		return err
	}
	if _, err := io.WriteString(w, "!<arch>\n"); err != nil {
		return err
	}
	for _, member := range []file{{"debian-binary", 0o644, []byte("2.0\n")}, {"control.tar.gz", 0o644, controls.Bytes()}, {"data.tar.gz", 0o644, data.Bytes()}} {
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

// The paths of the package that its scripts and the tests also name.
const (
	unitsPath  = "usr/lib/systemd/system/"
	configPath = "etc/sluice/sluice.yaml"
)

// content returns the files and folders of the package, sorted.
func (r *release) content(binary []byte, texts []file) ([]file, error) {
	files := []file{
		{"usr/bin/sluice", 0o755, binary},
		// postinst lets the group of the service read it; others may not, because it may hold keys.
		{configPath, 0o640, []byte(config.Example())},
	}
	for _, name := range []string{"sluice.service", "sluice-backup.service", "sluice-backup.timer"} {
		unit, err := os.ReadFile(filepath.Join(r.root, "deploy/systemd", name))
		if err != nil {
			return nil, err
		}
		files = append(files, file{unitsPath + name, 0o644, unit})
	}
	examples, err := filepath.Glob(filepath.Join(r.root, "docs/examples/*"))
	if err != nil {
		return nil, err
	}
	for _, name := range examples {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		files = append(files, file{"usr/share/doc/sluice/examples/" + filepath.Base(name), 0o644, text})
	}
	for _, f := range texts {
		switch folder, name := path.Split(f.name); {
		case folder == "man/":
			page, err := squeeze(f.text)
			if err != nil {
				return nil, err
			}
			files = append(files, file{"usr/share/man/man1/" + name + ".gz", 0o644, page})
		case name == "LICENSE":
			files = append(files, file{"usr/share/doc/sluice/copyright", 0o644, f.text})
		case name == shells["bash"]:
			files = append(files, file{"usr/share/bash-completion/completions/sluice", 0o644, f.text})
		case name == shells["zsh"]:
			files = append(files, file{"usr/share/zsh/vendor-completions/_sluice", 0o644, f.text})
		case name == shells["fish"]:
			files = append(files, file{"usr/share/fish/vendor_completions.d/sluice.fish", 0o644, f.text})
		}
	}
	// dpkg wants every folder, and before what is in it.
	folders := map[string]bool{}
	for _, f := range files {
		for dir := path.Dir(f.name); dir != "."; dir = path.Dir(dir) {
			folders[dir] = true
		}
	}
	for dir := range folders {
		files = append(files, file{dir, fs.ModeDir | 0o755, nil})
	}
	slices.SortFunc(files, func(a, b file) int { return strings.Compare(a.name, b.name) })
	return files, nil
}

// control returns the control files: what the package is, which files are the administrator's, checksums,
// and the scripts in deploy/debian.
func (r *release) control(machine string, content []file) ([]file, error) {
	var sums strings.Builder
	size := 0
	for _, f := range content {
		if !f.mode.IsDir() {
			size += len(f.text)
			fmt.Fprintf(&sums, "%x  %s\n", md5.Sum(f.text), f.name) // the format knows no other
		}
	}
	about, err := os.ReadFile(filepath.Join(r.root, "deploy/debian/control"))
	if err != nil {
		return nil, err
	}
	text := strings.NewReplacer("@VERSION@", r.version, "@ARCHITECTURE@", machine, "@SIZE@", fmt.Sprint((size+1023)/1024)).Replace(string(about))
	files := []file{
		{"control", 0o644, []byte(text)},
		{"conffiles", 0o644, []byte("/" + configPath + "\n")},
		{"md5sums", 0o644, []byte(sums.String())},
	}
	for _, name := range []string{"postinst", "prerm", "postrm"} {
		script, err := os.ReadFile(filepath.Join(r.root, "deploy/debian", name))
		if err != nil {
			return nil, err
		}
		files = append(files, file{name, 0o755, script})
	}
	return files, nil
}

// squeeze compresses a manual page, without the name and the time that gzip usually notes.
func squeeze(text []byte) ([]byte, error) {
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := z.Write(text); err != nil {
		return nil, err
	}
	err = z.Close()
	return out.Bytes(), err
}
