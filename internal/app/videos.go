package app

import (
	"cmp"
	"context"
	"path/filepath"
	"time"

	"sluice/internal/app/config"
	"sluice/internal/app/settings"
	"sluice/internal/kit/health"
	"sluice/internal/ledger/usage"
	"sluice/internal/video"
	"sluice/internal/video/blob"
)

// filesPatience is how long the start waits for the storage of videos. The server starts without it.
const filesPatience = 5 * time.Second

// openVideos opens the line of video jobs; Run works on them. Storage that does not answer is only a
// warning, because chat does not need it and jobs are retried.
func (a *App) openVideos(ctx context.Context, cfg *config.Config) error {
	files, err := openFiles(cfg.Blob, a.facts.dir.Path(), a.facts.dir.Join("tmp"))
	if err != nil {
		return err
	}
	a.files = files
	checking, cancel := context.WithTimeout(ctx, filesPatience)
	defer cancel()
	if err := files.Check(checking); err != nil {
		a.log.Warn("the video storage is not available; jobs will be retried", "error", err.Error())
	}
	// The name stays the same across restarts, so that this node takes back the jobs that it was
	// rendering when it died.
	node, err := a.facts.dir.Node()
	if err != nil {
		return err
	}
	// Videos are settled in the database, together with their jobs, and not through the books. So
	// abuse control is told here.
	a.videos, err = video.New(ctx, a.gate, a.facts.stores.videos, files, node, a.videoSettings(a.settings.Load()), &video.Options{
		Log: a.log, Closed: a.helm.Closed, Settled: func(u *usage.Settlement) {
			a.abuse.Settled(u)
			a.board.Settled([]usage.Settlement{*u})
			a.metrics.Called(u.Call())
		},
	})
	return err
}

// files stores videos in a folder or in an object store.
type files interface {
	video.Files
	Check(ctx context.Context) error
	Look(ctx context.Context) health.Finding
}

// openFiles opens the storage of videos. By default it is a part of the data folder. What is on its way to an object
// store is first written to the folder spool, which belongs to the caller alone.
func openFiles(b config.Blob, data, spool string) (files, error) {
	if b.Kind == "s3" {
		return blob.NewS3(spool, blob.S3Options{
			Endpoint: b.Endpoint, Region: b.Region, Bucket: b.Bucket, Prefix: b.Prefix, AccessKey: b.AccessKey.Reveal(), SecretKey: b.SecretKey.Reveal(),
		})
	}
	return blob.NewDisk(cmp.Or(b.Dir, filepath.Join(data, "files")))
}

// videoSettings returns the part of the settings that the video line needs.
func (a *App) videoSettings(s *settings.Settings) video.Settings {
	return s.Video(a.origin(s.Config), a.opts.Renderer, a.log)
}
