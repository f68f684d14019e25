package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Hold locks a data folder that is only read, such as one on a mounted disk: it creates nothing and does not ask who
// else can read the folder. It returns an error that wraps ErrLocked if another process holds it. A copy of a folder
// without a lock file cannot be held by anybody.
func Hold(path string) (release func() error, err error) {
	name := filepath.Join(path, lockFile)
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return func() error { return nil }, nil
	}
	if err != nil { // the disk may be read-only
		f, err = os.Open(name)
	}
	if err != nil {
		return nil, fmt.Errorf("open the lock file of the data folder: %w", err)
	}
	held, err := tryLock(f)
	if err == nil && !held {
		err = fmt.Errorf("%w: %s", ErrLocked, path)
	} else if err != nil {
		err = fmt.Errorf("lock the data folder: %w", err)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f.Close, nil
}
