package discovery

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"sluice/internal/upstream/catalog"
)

const (
	listEvery = time.Hour   // how often providers are asked for their models
	lookEvery = time.Minute // how often this machine is searched for model servers
)

// Run calls look until ctx ends. It calls it at once and every hour with all set, to ask the
// providers as well, and every minute without, for this machine only. A server on this machine is
// cheap to ask and may be started at any time.
func Run(ctx context.Context, look func(ctx context.Context, all bool) error, log *slog.Logger) {
	list, here := time.NewTicker(listEvery), time.NewTicker(lookEvery)
	defer list.Stop()
	defer here.Stop()
	all := true // of the first look: otherwise models of providers would be missing for an hour
	for {
		if err := look(ctx, all); err != nil && ctx.Err() == nil {
			log.Warn("discovered models could not be applied", "error", err.Error())
		}
		select {
		case <-ctx.Done():
			return
		case <-list.C:
			all = true
		case <-here.C:
			all = false
		}
	}
}

// LogFailed logs which configured providers did not return their models. That no model server runs on this machine is
// normal, so such servers must not be among them.
func LogFailed(failed map[string]error, log *slog.Logger) {
	for name, err := range failed {
		log.Warn("a provider did not return its list of models", "provider", name, "error", err.Error())
	}
}

// Announce logs which models were found and which are gone since the old catalog. old is nil at the
// start of the process. Models that were found together are logged in one line for each provider.
func Announce(old, next *catalog.Catalog, log *slog.Logger) {
	type group struct {
		provider string
		from     catalog.Origin
		staff    bool
	}
	came := map[group][]string{} // ids of new models
	for _, m := range next.Models() {
		before, there := (*catalog.Model)(nil), false
		if old != nil {
			before, there = old.Lookup(m.ID)
		}
		// A configured model that its provider no longer lists stays in the catalog, marked: the
		// operator decides. At the start nothing has been asked yet, so nothing has vanished.
		switch {
		case m.Vanished && there && !before.Vanished:
			log.Warn("a provider no longer lists a model", "provider", m.Provider, "model", m.ID)
		case !there && (m.Origin == catalog.Environment || m.Origin == catalog.ThisMachine || m.Origin == catalog.ByProvider):
			g := group{m.Provider, m.Origin, m.StaffOnly}
			came[g] = append(came[g], m.ID)
		}
	}
	for g, ids := range came {
		hint := "" // what to do so that customers can call them
		if g.staff {
			hint = "only staff accounts may call them; give them a tier under models, or set discover: false"
		}
		log.Info("models were found", "provider", g.provider, "from", string(g.from), "models", shortList(ids), "hint", hint)
	}
	if old == nil {
		return
	}
	// A configured model is gone only by a change of the configuration, which is no news to whoever
	// made it.
	for _, m := range old.Models() {
		if _, stays := next.Lookup(m.ID); !stays && m.Origin != catalog.Configured {
			log.Info("a discovered model is gone", "provider", m.Provider, "model", m.ID)
		}
	}
}

// shortList returns the first few ids and the number of the others, so that a line stays readable.
func shortList(ids []string) string {
	const few = 5
	if len(ids) <= few {
		return fmt.Sprint(ids)
	}
	return fmt.Sprintf("%v and %d more", ids[:few], len(ids)-few)
}
