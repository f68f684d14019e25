package settings

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"

	"sluice/internal/app/config"
	"sluice/internal/kit/health"
	"sluice/internal/store/installation"
	"sluice/internal/video"
	"sluice/internal/video/blob"
)

// Files stores videos in a folder or in an object store.
type Files interface {
	video.Files
	Check(ctx context.Context) error
	Look(ctx context.Context) health.Finding
}

// OpenFiles opens the storage of videos. By default it is a part of the data folder. What is on its way to an object
// store is first written to the folder spool, which belongs to the caller alone.
func OpenFiles(b config.Blob, data, spool string) (Files, error) {
	if b.Kind == "s3" {
		return blob.NewS3(spool, blob.S3Options{
			Endpoint: b.Endpoint, Region: b.Region, Bucket: b.Bucket, Prefix: b.Prefix, AccessKey: b.AccessKey.Reveal(), SecretKey: b.SecretKey.Reveal(),
		})
	}
	return blob.NewDisk(cmp.Or(b.Dir, filepath.Join(data, "files")))
}

// Storage opens the storage of videos when it is needed: opening makes folders.
type Storage struct {
	Blob  config.Blob
	Data  string // the data folder
	spool string // empty until it is open
}

// Open opens the storage. A server may be using it, so what is on its way to an object store has a folder of its own. It
// is in the data folder: that is the only one that a service or a container can write to.
func (s *Storage) Open() (installation.Files, error) {
	s.spool = filepath.Join(s.Data, fmt.Sprintf("spool-%d", os.Getpid()))
	return OpenFiles(s.Blob, s.Data, s.spool)
}

// Close deletes that folder.
func (s *Storage) Close() error {
	if s.spool == "" {
		return nil
	}
	return os.RemoveAll(s.spool)
}

// Local reports whether the files are on this machine. Backups copy those, unless told otherwise: an object store is
// outside and has copies of its own.
func (s *Storage) Local() bool { return s.Blob.Kind != "s3" }

// String names the storage for people.
func (s *Storage) String() string {
	if s.Blob.Kind == "s3" {
		return "s3://" + s.Blob.Bucket + "/" + s.Blob.Prefix + " at " + s.Blob.Endpoint
	}
	return cmp.Or(s.Blob.Dir, filepath.Join(s.Data, "files"))
}
