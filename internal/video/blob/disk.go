package blob

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"sluice/internal/kit/health"
)

// Disk stores files in a folder. Several processes may share the folder.
type Disk struct {
	*spool
	dir string
}

// NewDisk returns a Disk for dir, which is created if it is missing. The spool is a subfolder, so
// that the final rename stays within one file system and is atomic.
func NewDisk(dir string) (*Disk, error) {
	s := &spool{filepath.Join(dir, "tmp")}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, fmt.Errorf("create the folder of files: %w", err)
	}
	return &Disk{spool: s, dir: dir}, nil
}

// Put creates or replaces a file with what fill writes. When it returns nil, the file survives a
// power failure. When it returns an error from fill or from writing, the name is left as it was.
func (d *Disk) Put(ctx context.Context, name string, fill func(io.Writer) error) (Info, error) {
	aside, info, err := d.write(ctx, name, fill)
	if err != nil {
		return Info{}, err
	}
	// The subfolder of a name is created with its first file.
	path := d.place(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return Info{}, fmt.Errorf("create the folder of a file: %w", err)
	}
	if err := os.Rename(aside, path); err != nil {
		_ = d.remove(name) // another process may have removed it already
		return Info{}, fmt.Errorf("rename a file: %w", err)
	}
	return info, syncFolder(filepath.Dir(path))
}

// Open opens a file for reading. It returns an error that wraps ErrNotExist if there is none. The
// caller closes the file.
func (d *Disk) Open(_ context.Context, name string) (io.ReadSeekCloser, error) {
	f, err := os.Open(d.place(name))
	if err != nil {
		return nil, fmt.Errorf("open a file: %w", err)
	}
	return f, nil
}

// Delete removes a file and its unfinished version. A file that does not exist is not an error.
func (d *Disk) Delete(_ context.Context, name string) error {
	if err := d.remove(name); err != nil {
		return fmt.Errorf("delete an unfinished file: %w", err)
	}
	if err := gone(os.Remove(d.place(name))); err != nil {
		return fmt.Errorf("delete a file: %w", err)
	}
	return nil
}

// Check reports, with a nil error, that the folder is accessible.
func (d *Disk) Check(context.Context) error {
	_, err := os.Stat(d.dir)
	return err
}

// Look says whether the folder is accessible. Calls do not need it, so it never fails.
func (d *Disk) Look(ctx context.Context) (f health.Finding) {
	if f.Err = d.Check(ctx); f.Err != nil {
		f.Message = "the folder of the files cannot be read"
	}
	return f
}

// place returns the path of a finished file.
func (d *Disk) place(name string) string { return filepath.Join(d.dir, filepath.FromSlash(name)) }

// syncFolder flushes a new directory entry to disk. Some systems do not support that for folders;
// the error is ignored, because the file's content is already safe.
func syncFolder(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("sync the folder of a file: %w", err)
	}
	_ = f.Sync()
	return f.Close()
}
