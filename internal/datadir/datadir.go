// Package datadir owns the data folder: it makes it, keeps it private, locks it, and holds the key file and other
// facts about this machine that must survive a restart.
//
// One process at a time holds the folder. The lock is the operating system's, so it is gone when its
// holder is, however that ended. Other users of the machine must not be able to look into the folder: one
// that they can read is refused, because what is in it may be known to them already.
package datadir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// ErrLocked means that another process has the folder.
var ErrLocked = errors.New("the data folder is in use by another sluice")

// ErrExposed means that other users of this machine can read the folder, or own it.
var ErrExposed = errors.New("the data folder is not private")

// Dir is a data folder that this process holds.
type Dir struct {
	path string
	lock *os.File
}

// Open makes the folder where it is missing, checks that it is private, and takes its lock, or returns
// ErrLocked or ErrExposed. An empty folder that this user owns is made private; so are files in a private
// folder. A folder that others can read and that holds something is refused.
func Open(path string) (*Dir, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("make the data folder: %w", err)
	}
	if err := tighten(path); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(path, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the data folder's lock: %w", err)
	}
	held, err := tryLock(f)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("lock the data folder: %w", err)
	}
	if !held {
		f.Close()
		return nil, fmt.Errorf("%w: %s", ErrLocked, path)
	}
	return &Dir{path: path, lock: f}, nil
}

// Path is the folder's absolute path.
func (d *Dir) Path() string { return d.path }

// Join is the path of something inside the folder.
func (d *Dir) Join(name string) string { return filepath.Join(d.path, name) }

// Close lets the folder go.
func (d *Dir) Close() error { return d.lock.Close() }

// tighten makes private what can be, and returns ErrExposed for what cannot.
func tighten(path string) error {
	if err := Check(path); err != nil {
		info, statErr := os.Stat(path)
		if statErr != nil || !mayTighten(path, info) {
			return err
		}
		if err := os.Chmod(path, 0o700); err != nil {
			return fmt.Errorf("make the data folder private: %w", err)
		}
		if err := Check(path); err != nil {
			return err
		}
	}
	for _, name := range kept(path) {
		if err := tightenFile(name); err != nil {
			return err
		}
	}
	return nil
}

// mayTighten reports whether a folder can be made private without asking: it is ours, nobody can have read
// anything in it, and no special bit says that it is meant to be shared.
func mayTighten(path string, info os.FileInfo) bool {
	entries, err := os.ReadDir(path)
	return err == nil && len(entries) == 0 && isOurs(info) && info.Mode()&(os.ModeSetgid|os.ModeSticky) == 0
}

// kept are the files in the folder that hold secrets: the database with all that SQLite puts beside it, and
// the key file.
func kept(path string) []string {
	names, _ := filepath.Glob(filepath.Join(globEscape(path), "sluice.db*")) // the pattern is a good one
	return append(names, filepath.Join(path, SecretFile))
}

// globEscape keeps what a path has of a pattern's characters from being one.
func globEscape(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// tightenFile makes a file private that older versions left readable inside a private folder. What a link
// leads to lies elsewhere, where others may have read it: that is refused.
func tightenFile(name string) error {
	info, err := os.Stat(name)
	if err != nil || !isExposed(info) {
		return nil // missing, or private; whoever opens it reports other errors
	}
	if link, err := os.Lstat(name); err == nil && link.Mode()&os.ModeSymlink == 0 && isOurs(info) {
		if err := os.Chmod(name, 0o600); err == nil {
			return nil
		}
	}
	return exposed(name, info)
}

func exposed(path string, info os.FileInfo) error {
	return fmt.Errorf("%w: other users of this machine can read %s (mode %04o), which holds keys and secrets; type: chmod -R go-rwx %s",
		ErrExposed, path, info.Mode().Perm(), shellWord(path))
}

// shellWord writes a path so that a shell takes it as one word.
func shellWord(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-+,:@%", r)
	}
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool { return !plain(r) }) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
