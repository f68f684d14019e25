package app

import (
	"context"
	"strings"

	"sluice/internal/api/httpserver"
	"sluice/internal/app/config"
	"sluice/internal/kit/datadir"
)

// watchLocal makes the Local that watches for requests which do not come from this machine. The data
// folder remembers the first such request, so that a restart does not open sign-up and the test card
// again. See httpserver.Local.
func (a *App) watchLocal(context.Context, *config.Config) error {
	dir := a.facts.dir
	a.local = httpserver.NewLocal(datadir.Proxied(dir.Path()) != "", func(why string) {
		if err := dir.RecordProxied(why); err != nil {
			a.log.Error("the fact that requests come through a proxy could not be stored; after a restart, sign-up and the test card are open until the next such request", "error", err.Error())
		}
		// An operator who has decided about the doors needs no warning.
		if open := a.settings.Load().Config.ImpliedDoors(); len(open) > 0 {
			a.log.Warn("a request came through a proxy or for another host: what is open on a developer's machine is closed from now on",
				"by", why, "closed", strings.Join(open, ", "), "hint", "set public_url, signup and billing.processor")
		}
	})
	return nil
}
