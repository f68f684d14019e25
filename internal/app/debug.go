package app

import (
	"sluice/internal/operate/admin"
)

// debug describes this server for "sluice debug".
func (a *App) debug() admin.Debug {
	d := admin.Build()
	d.StartedAt, d.Config, d.Problems = a.started.UTC(), a.settings.Load().Config.Redacted(), a.opts.Output.Problems()
	d.DroppedLines, _ = a.opts.Output.Dropped()
	d.ConfigRefused = a.onDisk.Refused()
	return d
}
