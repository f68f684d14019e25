package app

import (
	"context"
	"errors"
	"path/filepath"

	"sluice/internal/app/config"
	"sluice/internal/app/settings"
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
	videos := &settings.Storage{Blob: cfg.Blob, Data: data}
	defer func() { err = errors.Join(err, videos.Close()) }()
	b := &installation.Backup{
		To: to, Database: cfg.Database, Data: data, Secret: cfg.Secret.Reveal(), Report: report,
		Videos: videos.Open, Place: videos.String(), CopyVideos: videos.Local(),
		Journal: admin.Journal{Client: client},
	}
	if copyVideos != nil {
		b.CopyVideos = *copyVideos
	}
	return b.Run(ctx)
}

// Restore puts a backup into the database and the storage of a configuration. report may be nil.
func Restore(ctx context.Context, cfg *config.Config, from string, report installation.Report) (_ *installation.Restored, err error) {
	videos := &settings.Storage{Blob: cfg.Blob, Data: cfg.Data}
	defer func() { err = errors.Join(err, videos.Close()) }()
	return newRestore(cfg, from, videos, report).Run(ctx)
}

// CheckBackup reads a whole backup and returns what is wrong with it. report may be nil.
func CheckBackup(ctx context.Context, cfg *config.Config, from string, report installation.Report) (_ *installation.Checked, err error) {
	videos := &settings.Storage{Blob: cfg.Blob, Data: cfg.Data}
	defer func() { err = errors.Join(err, videos.Close()) }()
	return newRestore(cfg, from, videos, report).Check(ctx)
}

func newRestore(cfg *config.Config, from string, videos *settings.Storage, report installation.Report) *installation.Restore {
	return &installation.Restore{
		From: from, Database: cfg.Database, Data: cfg.Data, Secret: cfg.Secret.Reveal(), Videos: videos.Open, Report: report,
	}
}
