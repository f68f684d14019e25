package app

import "sluice/internal/app/settings"

// shared returns what the adapters of this process share.
func (a *App) shared() settings.Shared {
	return settings.Shared{Pulse: a.pulse, Ways: a.ways, Names: a.names}
}

// followReplicas makes the replicas that names stand for now the targets of their models. It works like a reload, with the
// configuration in force. Calls at replicas that are gone continue.
func (a *App) followReplicas() {
	a.reloadMu.Lock()
	defer a.reloadMu.Unlock()
	old := a.settings.Load()
	next, err := old.Reconnected(a.shared())
	if err != nil { // an adapter that could be made for one address can be made for another
		a.log.Error("the replicas of a provider could not be used", "error", err.Error())
		return
	}
	next.Route(old, a.helm.Drained, a.log)
	a.apply(old, next)
}
