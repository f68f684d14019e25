// Package blob keeps finished files: in a folder, or in an object store that speaks S3.
//
// A file is written aside and appears under its name whole or not at all. Names are chosen by the
// caller and made of plain letters, digits, dashes, dots and slashes; who may read a file, and when it
// goes, is the caller's business.
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

// Info is what is known of a file once it is written.
type Info struct {
	Size   int64
	SHA256 string // of its content, in hex
}

// spool is a folder that files are written to before they get their place.
type spool struct{ dir string }

// unfinished ends the name of a file that is being written.
const unfinished = ".part"

func newSpool(dir string) (*spool, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the folder for unfinished files: %w", err)
	}
	return &spool{dir}, nil
}

// path is where a file of that name is written.
func (s *spool) path(name string) string {
	return filepath.Join(s.dir, strings.ReplaceAll(name, "/", "_")+unfinished)
}

// write makes a file of what fill writes and brings it to the disk. It leaves nothing behind where that
// fails.
func (s *spool) write(ctx context.Context, name string, fill func(io.Writer) error) (_ string, _ Info, err error) {
	path := s.path(name)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return "", Info{}, fmt.Errorf("begin a file: %w", err)
	}
	defer func() {
		if err != nil {
			_ = f.Close() // an error says that it is closed already
			_ = os.Remove(path)
		}
	}()
	w := &measuring{to: f, sum: sha256.New()}
	if err := fill(w); err != nil {
		return "", Info{}, err
	}
	if err := ctx.Err(); err != nil {
		return "", Info{}, err
	}
	if err := f.Sync(); err != nil {
		return "", Info{}, fmt.Errorf("bring a file to the disk: %w", err)
	}
	if err := f.Close(); err != nil {
		return "", Info{}, fmt.Errorf("end a file: %w", err)
	}
	return path, Info{Size: w.size, SHA256: hex.EncodeToString(w.sum.Sum(nil))}, nil
}

// remove deletes what is unfinished under a name.
func (s *spool) remove(name string) error { return gone(os.Remove(s.path(name))) }

// Sweep removes unfinished files that nobody has written to since a time: their writers are dead.
func (s *spool) Sweep(before time.Time) error {
	files, err := os.ReadDir(s.dir)
	if err != nil {
		return fmt.Errorf("read the folder for unfinished files: %w", err)
	}
	var errs []error
	for _, f := range files {
		info, err := f.Info()
		if err != nil || !strings.HasSuffix(f.Name(), unfinished) || !info.ModTime().Before(before) {
			continue // finished or removed in this moment, or alive
		}
		errs = append(errs, gone(os.Remove(filepath.Join(s.dir, f.Name()))))
	}
	return errors.Join(errs...)
}

// gone takes a file that is not there for one that was deleted.
func gone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// measuring counts and sums up what is written.
type measuring struct {
	to   io.Writer
	sum  hash.Hash
	size int64
}

func (m *measuring) Write(p []byte) (int, error) {
	n, err := m.to.Write(p)
	m.sum.Write(p[:n]) // never fails
	m.size += int64(n)
	return n, err
}
