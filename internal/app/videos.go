package app

import (
	"context"
	"time"

	"sluice/internal/app/config"
	"sluice/internal/app/settings"
	"sluice/internal/ledger/usage"
	"sluice/internal/video"
)

// filesPatience is how long the start waits for the storage of videos. The server starts without it.
const filesPatience = 5 * time.Second

// openVideos opens the line of video jobs; Run works on them. Storage that does not answer is only a
// warning, because chat does not need it and jobs are retried.
func (a *App) openVideos(ctx context.Context, cfg *config.Config) error {
	files, err := settings.OpenFiles(cfg.Blob, a.facts.dir.Path(), a.facts.dir.Join("tmp"))
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
		Log: a.log, Closed: a.helm.Closed, Attest: a.attestVideo, Budgets: a.budgets, Settled: func(u *usage.Settlement) {
			a.abuse.Settled(u)
			a.board.Settled([]usage.Settlement{*u})
			a.metrics.Called(u.Call())
			a.watchVideo(u)
		},
	})
	return err
}

// videoSettings returns the part of the settings that the video line needs.
func (a *App) videoSettings(s *settings.Settings) video.Settings {
	return s.Video(a.origin(s.Config), a.opts.Renderer, a.log)
}
