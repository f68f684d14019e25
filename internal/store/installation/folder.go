package installation

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"sluice/internal/video/blob"
)

// folderFiles is the folder of a backup that holds the files of videos. It is plain files under their names: a
// backup may lie on a disk that can only be read, and is complete before anybody reads it.
type folderFiles string

// path returns the path of a file. Names have slashes on every system.
func (f folderFiles) path(name string) string {
	return filepath.Join(string(f), filepath.FromSlash(name))
}

// Open opens a file. It returns an error that wraps blob.ErrNotExist if there is none.
func (f folderFiles) Open(_ context.Context, name string) (io.ReadSeekCloser, error) {
	file, err := os.Open(f.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, blob.ErrNotExist
	}
	if err != nil {
		return nil, err
	}
	return file, nil
}

// Put writes a file.
func (f folderFiles) Put(_ context.Context, name string, fill func(io.Writer) error) (blob.Info, error) {
	path := f.path(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return blob.Info{}, err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return blob.Info{}, err
	}
	h := sha256.New()
	err = errors.Join(fill(io.MultiWriter(file, h)), file.Sync())
	info, statErr := file.Stat()
	if err := errors.Join(err, statErr, file.Close()); err != nil {
		return blob.Info{}, err
	}
	return blob.Info{Size: info.Size(), SHA256: hex.EncodeToString(h.Sum(nil))}, nil
}
