package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"sluice/internal/app/config"
	"sluice/internal/kit/fault"
	"sluice/internal/ledger/usage"
	"sluice/internal/operate/admin"
	"sluice/internal/store/installation"
)

// Backup copies the installation of a configuration to a new folder. The journal comes from the server on the data
// folder, or from this process if none runs; this process writes everything. copyVideos says whether the files of videos are copied; nil means that they
// are unless they are in an object store. report may be nil.
func Backup(ctx context.Context, cfg *config.Config, to string, copyVideos *bool, report installation.Report) (_ *installation.Manifest, err error) {
	client, done, err := Admin(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, done()) }()
	data, err := filepath.Abs(cfg.Data)
	if err != nil {
		return nil, err
	}
	videos := &storage{blob: cfg.Blob, data: data}
	defer func() { err = errors.Join(err, videos.close()) }()
	b := &installation.Backup{
		To: to, Database: cfg.Database, Data: data, Secret: cfg.Secret.Reveal(), Report: report,
		Videos: videos.open, Place: videos.String(), CopyVideos: cfg.Blob.Kind != "s3",
		Journal: journalOf{client},
	}
	if copyVideos != nil {
		b.CopyVideos = *copyVideos
	}
	return b.Run(ctx)
}

// journalOf is the journal of the server that a client talks to.
type journalOf struct{ client *admin.Client }

func (j journalOf) Parts(ctx context.Context) ([]usage.Part, error) {
	return admin.Ops().JournalParts.Call(ctx, j.client, admin.Empty{})
}

func (j journalOf) Read(ctx context.Context, name string, offset, most int64) ([]byte, error) {
	out, err := admin.Ops().JournalRead.Call(ctx, j.client, admin.JournalPiece{Name: name, Offset: offset, Bytes: most})
	if fault.Is(err, fault.NotFound) {
		err = fs.ErrNotExist
	}
	return out, err
}

// Restore puts a backup into the database and the storage of a configuration. report may be nil.
func Restore(ctx context.Context, cfg *config.Config, from string, report installation.Report) (_ *installation.Restored, err error) {
	videos := &storage{blob: cfg.Blob, data: cfg.Data}
	defer func() { err = errors.Join(err, videos.close()) }()
	return newRestore(cfg, from, videos, report).Run(ctx)
}

// CheckBackup reads a whole backup and returns what is wrong with it. report may be nil.
func CheckBackup(ctx context.Context, cfg *config.Config, from string, report installation.Report) (_ *installation.Checked, err error) {
	videos := &storage{blob: cfg.Blob, data: cfg.Data}
	defer func() { err = errors.Join(err, videos.close()) }()
	return newRestore(cfg, from, videos, report).Check(ctx)
}

func newRestore(cfg *config.Config, from string, videos *storage, report installation.Report) *installation.Restore {
	return &installation.Restore{
		From: from, Database: cfg.Database, Data: cfg.Data, Secret: cfg.Secret.Reveal(), Videos: videos.open, Report: report,
	}
}

// storage opens the storage of videos when it is needed: opening makes folders.
type storage struct {
	blob  config.Blob
	data  string
	spool string // empty until it is open
}

// open opens the storage. A server may be using it, so what is on its way to an object store has a folder of its own. It
// is in the data folder: that is the only one that a service or a container can write to.
func (s *storage) open() (installation.Files, error) {
	s.spool = filepath.Join(s.data, fmt.Sprintf("spool-%d", os.Getpid()))
	return openFiles(s.blob, s.data, s.spool)
}

func (s *storage) close() error {
	if s.spool == "" {
		return nil
	}
	return os.RemoveAll(s.spool)
}

// String names the storage for people.
func (s *storage) String() string {
	if s.blob.Kind == "s3" {
		return "s3://" + s.blob.Bucket + "/" + s.blob.Prefix + " at " + s.blob.Endpoint
	}
	return cmp.Or(s.blob.Dir, filepath.Join(s.data, "files"))
}
