package app

import (
	"runtime"
	"runtime/debug"

	"sluice/internal/kit/buildinfo"
	"sluice/internal/operate/admin"
)

// Build describes the program itself: its version, and what it was built with.
func Build() admin.Debug {
	d := admin.Debug{Version: buildinfo.Version, Commit: buildinfo.Commit(), Go: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			d.Modules = append(d.Modules, m.Path+" "+m.Version)
		}
	}
	return d
}

// debug describes this server for "sluice debug".
func (a *App) debug() admin.Debug {
	d := Build()
	d.StartedAt, d.Config, d.Problems = a.started.UTC(), a.settings.Load().Config.Redacted(), a.opts.Output.Problems()
	d.DroppedLines, _ = a.opts.Output.Dropped()
	if why := a.refused.Load(); why != nil {
		d.ConfigRefused = *why
	}
	return d
}
