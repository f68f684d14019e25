// Package datadir owns the data folder: it makes it, keeps it private and locks it.
//
// One process at a time holds the folder. The lock is the operating system's, so it is gone when its
// holder is, however that ended.
package datadir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// ErrLocked means that another process has the folder.
var ErrLocked = errors.New("the data folder is in use by another sluice")

// Dir is a data folder that this process holds.
type Dir struct {
	path string
	lock *os.File
}

// Open makes the folder where it is missing and takes its lock, or returns ErrLocked.
func Open(path string) (*Dir, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("make the data folder: %w", err)
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
