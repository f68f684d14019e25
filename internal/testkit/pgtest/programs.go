package pgtest

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
)

// oldest is the oldest major version that Sluice supports.
const oldest = 15

// Programs is one installation of the PostgreSQL server programs.
type Programs struct {
	// Dir is the directory of postgres and initdb.
	Dir string
	// Version is the major version.
	Version int
}

// Find returns the newest installed PostgreSQL. It returns an error if there is none of
// version 15 or later.
func Find() (Programs, error) {
	var best Programs
	for _, dir := range folders() {
		if _, err := exec.LookPath(filepath.Join(dir, "initdb")); err != nil {
			continue
		}
		out, err := exec.Command(filepath.Join(dir, "postgres"), "--version").Output()
		if err != nil {
			continue
		}
		if v := majorVersion(string(out)); v > best.Version {
			best = Programs{Dir: dir, Version: v}
		}
	}
	switch {
	case best.Version == 0:
		return Programs{}, errors.New("no PostgreSQL server programs found (Debian package postgresql)")
	case best.Version < oldest:
		return Programs{}, fmt.Errorf("PostgreSQL %d in %s is too old: %d or later is needed", best.Version, best.Dir, oldest)
	}
	return best, nil
}

// folders returns the directories that may hold server programs. Debian keeps them out of
// PATH, in one directory per version.
func folders() []string {
	var dirs []string
	if path, err := exec.LookPath("postgres"); err == nil {
		// PATH often has a link to one program only, while initdb is in the directory of its
		// target.
		if path, err = filepath.EvalSymlinks(path); err == nil {
			dirs = append(dirs, filepath.Dir(path))
		}
	}
	for _, pattern := range []string{"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/opt/homebrew/opt/postgresql@*/bin"} {
		found, _ := filepath.Glob(pattern) // the patterns are valid
		dirs = append(dirs, found...)
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

// versionText matches the output of "postgres --version".
var versionText = regexp.MustCompile(`^postgres \(PostgreSQL\) (\d+)`)

// majorVersion parses the output of "postgres --version". It returns 0 if it cannot.
func majorVersion(text string) int {
	m := versionText.FindStringSubmatch(text)
	if m == nil {
		return 0
	}
	v, err := strconv.Atoi(m[1])
	if err != nil {
		return 0
	}
	return v
}
