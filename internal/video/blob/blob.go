// Package blob stores finished files in a folder or in an S3-compatible object store.
//
// A file is first written to a spool folder and then appears under its name completely or not at
// all. The caller chooses the names, which consist of ASCII letters, digits, dashes, dots and
// slashes. Deciding who may read a file and when it is deleted is the caller's job.
package blob

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// ErrNotExist means that there is no file of that name.
var ErrNotExist = fs.ErrNotExist

// Info describes a file that has been written.
type Info struct {
	Size   int64
	SHA256 string // of its content, in hex
}

// spool is a folder in which files are written before they are moved to their final place. It is created when the first
// one is.
type spool struct{ dir string }

// unfinished is the suffix of a file that is still being written.
const unfinished = ".part"

// path returns the spool path for name. The spool is flat, so slashes become underscores.
func (s *spool) path(name string) string {
	return filepath.Join(s.dir, strings.ReplaceAll(name, "/", "_")+unfinished)
}

// write creates a spool file from what fill writes, flushes it to disk, and returns its path. If
// anything fails, the file is removed again. The caller owns the file that is returned.
func (s *spool) write(ctx context.Context, name string, fill func(io.Writer) error) (_ string, _ Info, err error) {
	// Whoever only reads needs no folder, and may not be allowed to make one.
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return "", Info{}, fmt.Errorf("create the folder for unfinished files: %w", err)
	}
	path := s.path(name)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return "", Info{}, fmt.Errorf("create a file: %w", err)
	}
	defer func() {
		if err != nil {
			_ = f.Close() // fails only if it is closed already
			_ = os.Remove(path)
		}
	}()
	// Hash while writing, so that the file need not be read again.
	w := &measuring{to: f, sum: sha256.New()}
	if err := fill(w); err != nil {
		return "", Info{}, err
	}
	// fill may have ignored the cancellation; a canceled file must not be kept.
	if err := ctx.Err(); err != nil {
		return "", Info{}, err
	}
	if err := f.Sync(); err != nil {
		return "", Info{}, fmt.Errorf("sync a file: %w", err)
	}
	if err := f.Close(); err != nil {
		return "", Info{}, fmt.Errorf("close a file: %w", err)
	}
	return path, Info{Size: w.size, SHA256: hex.EncodeToString(w.sum.Sum(nil))}, nil
}

// remove deletes the unfinished file of that name, if there is one.
func (s *spool) remove(name string) error { return gone(os.Remove(s.path(name))) }

// Sweep removes unfinished files that were last modified before the given time. Their writers have
// died: a live writer modifies its file continuously.
func (s *spool) Sweep(before time.Time) error {
	files, err := os.ReadDir(s.dir)
	if gone(err) == nil {
		err = nil // nothing was ever written
	}
	if err != nil {
		return fmt.Errorf("read the folder for unfinished files: %w", err)
	}
	var errs []error
	for _, f := range files {
		info, err := f.Info()
		if err != nil || !strings.HasSuffix(f.Name(), unfinished) || !info.ModTime().Before(before) {
			continue // just finished or removed, or still being written
		}
		errs = append(errs, gone(os.Remove(filepath.Join(s.dir, f.Name()))))
	}
	return errors.Join(errs...)
}

// gone returns nil if err says that the file does not exist: deleting a missing file is no error.
func gone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// measuring is a writer that counts and hashes everything written through it.
type measuring struct {
	to   io.Writer
	sum  hash.Hash
	size int64
}

// Write implements io.Writer. It hashes only what the file accepted.
func (m *measuring) Write(p []byte) (int, error) {
	n, err := m.to.Write(p)
	m.sum.Write(p[:n]) // never fails
	m.size += int64(n)
	return n, err
}
