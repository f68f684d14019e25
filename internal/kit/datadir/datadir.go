// Package datadir manages the data folder: it creates it, keeps it private, locks it, and holds the
// key file and other facts about this machine that must survive a restart.
//
// Only one process at a time holds the folder. The lock belongs to the operating system, which
// releases it when the process ends, even after a crash. Other users of the machine must not be
// able to read the folder. A folder that they can read is refused instead of repaired, because they
// may already have read its contents.
package datadir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// lockFile is the file that whoever uses the folder locks.
const lockFile = "lock"

// ErrLocked means that another process holds the folder.
var ErrLocked = errors.New("the data folder is in use by another sluice")

// Advise adds to ErrLocked what an operator who starts a server can do. It returns any other error as it is.
func Advise(err error) error {
	if errors.Is(err, ErrLocked) {
		return fmt.Errorf("%w; stop it first, or give this one another folder with --data", err)
	}
	return err
}

// ErrExposed means that other users of this machine own the folder or can read it.
var ErrExposed = errors.New("the data folder is not private")

// Dir is a data folder locked by this process. The lock is held for as long as the lock file is
// open.
type Dir struct {
	path string
	lock *os.File
}

// Open creates the folder if it is missing, checks that it is private, and locks it. It returns an
// error that wraps ErrLocked or ErrExposed if that is not possible.
//
// An empty folder that this user owns is made private, and so are the secret files in a folder that
// is already private. A folder that other users can read is refused if it holds anything.
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
	// The lock file stays when the process ends. Only the lock on it counts, not its existence.
	f, err := os.OpenFile(filepath.Join(path, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the lock file of the data folder: %w", err)
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

// Path returns the folder's absolute path.
func (d *Dir) Path() string { return d.path }

// Join returns the path of name inside the folder.
func (d *Dir) Join(name string) string { return filepath.Join(d.path, name) }

// Close releases the lock. What root has made in the folder of another user becomes that user's: a service whose
// operator runs a command as root must be able to start again.
func (d *Dir) Close() error { return errors.Join(handBack(d.path), d.lock.Close()) }

// tighten removes other users' access where that is safe, and returns ErrExposed where it is not.
func tighten(path string) error {
	if err := Check(path); err != nil {
		info, statErr := os.Stat(path)
		if statErr != nil || !mayTighten(path, info) {
			return err
		}
		if err := os.Chmod(path, 0o700); err != nil {
			return fmt.Errorf("make the data folder private: %w", err)
		}
		// Check again: some file systems accept chmod and ignore it.
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

// mayTighten reports whether the folder can be made private without asking the operator: this user
// owns it, it is empty, so nobody can have read anything in it, and no setgid or sticky bit says
// that it is meant to be shared.
func mayTighten(path string, info os.FileInfo) bool {
	entries, err := os.ReadDir(path)
	return err == nil && len(entries) == 0 && isOurs(info) && info.Mode()&(os.ModeSetgid|os.ModeSticky) == 0
}

// kept returns the files in the folder that hold secrets: the database, the files that SQLite puts
// beside it (write-ahead log, shared memory, journal), and the key file.
func kept(path string) []string {
	names, _ := filepath.Glob(filepath.Join(globEscape(path), "sluice.db*")) // Glob fails only for a malformed pattern
	return append(names, filepath.Join(path, SecretFile))
}

// globEscape escapes the characters of path that have a meaning in a glob pattern.
func globEscape(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// tightenFile makes a file private that an older version left readable inside a private folder.
// That is safe because the folder itself kept other users out. The target of a symbolic link may
// lie outside the folder, where others may have read it, so an exposed target is refused.
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

// exposed returns ErrExposed with the command that repairs the problem.
func exposed(path string, info os.FileInfo) error {
	return fmt.Errorf("%w: other users of this machine can read %s (mode %04o), which holds keys and secrets; type: chmod -R go-rwx %s",
		ErrExposed, path, info.Mode().Perm(), ShellWord(path))
}

// ShellWord quotes a path so that a shell reads it as one word.
func ShellWord(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-+,:@%", r)
	}
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool { return !plain(r) }) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
