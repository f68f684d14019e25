package blob

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Disk keeps files in a folder. Several processes may share it.
type Disk struct {
	*spool
	dir string
}

// NewDisk returns the files of a folder, which is made where it is missing.
func NewDisk(dir string) (*Disk, error) {
	s, err := newSpool(filepath.Join(dir, "tmp"))
	if err != nil {
		return nil, err
	}
	return &Disk{spool: s, dir: dir}, nil
}

// Put makes a file of what fill writes. When it returns without an error, the file survives a power cut;
// otherwise there is none.
func (d *Disk) Put(ctx context.Context, name string, fill func(io.Writer) error) (Info, error) {
	aside, info, err := d.write(ctx, name, fill)
	if err != nil {
		return Info{}, err
	}
	path := d.place(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return Info{}, fmt.Errorf("make room for a file: %w", err)
	}
	if err := os.Rename(aside, path); err != nil {
		_ = d.remove(name) // it is gone where another removed it
		return Info{}, fmt.Errorf("give a file its name: %w", err)
	}
	return info, syncFolder(filepath.Dir(path))
}

// Open opens a file; ErrNotExist where there is none.
func (d *Disk) Open(_ context.Context, name string) (io.ReadSeekCloser, error) {
	f, err := os.Open(d.place(name))
	if err != nil {
		return nil, fmt.Errorf("open a file: %w", err)
	}
	return f, nil
}

// Delete removes a file and what is unfinished of it. One that is not there is no error.
func (d *Disk) Delete(_ context.Context, name string) error {
	if err := d.remove(name); err != nil {
		return fmt.Errorf("delete an unfinished file: %w", err)
	}
	if err := gone(os.Remove(d.place(name))); err != nil {
		return fmt.Errorf("delete a file: %w", err)
	}
	return nil
}

// Check reports whether files can be kept.
func (d *Disk) Check(context.Context) error {
	_, err := os.Stat(d.dir)
	return err
}

func (d *Disk) place(name string) string { return filepath.Join(d.dir, filepath.FromSlash(name)) }

// syncFolder brings a new name to the disk. Systems that cannot do so for folders say so; the file itself
// is safe there.
func syncFolder(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("bring a file's name to the disk: %w", err)
	}
	_ = f.Sync()
	return f.Close()
}
