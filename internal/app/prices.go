package app

import (
	"context"
	"sync/atomic"
	"time"

	"sluice/internal/app/config"
	"sluice/internal/app/settings"
	"sluice/internal/kit/fault"
	"sluice/internal/kit/pace"
	"sluice/internal/ledger/price"
)

// topicPrices is what nodes tell each other when prices were imported.
const topicPrices = "prices"

// imports are the prices that operators have imported, as this node knows them.
type imports struct {
	taken *atomic.Pointer[[]price.Taken]
	wake  chan struct{} // makes followPrices read at once; holds at most one token
}

func newImports() imports {
	return imports{&atomic.Pointer[[]price.Taken]{}, make(chan struct{}, 1)}
}

// all returns the imported entries, the earliest first.
func (i imports) all() []price.Taken {
	if taken := i.taken.Load(); taken != nil {
		return *taken
	}
	return nil
}

// openPrices reads the prices that operators have imported.
func (a *App) openPrices(ctx context.Context, _ *config.Config) error {
	wake := func() { pace.Wake(a.imported.wake) }
	a.cluster.Subscribe(topicPrices, func(string) { wake() }, wake)
	return a.readPrices(ctx)
}

// readPrices reads the imported prices if there are new ones.
func (a *App) readPrices(ctx context.Context) error {
	last, err := a.facts.stores.service.ImportsVersion(ctx)
	if err != nil || last == int64(len(a.imported.all())) { // they are numbered from 1, and never deleted
		return err
	}
	taken, err := a.facts.stores.service.Imports(ctx)
	if err == nil {
		a.imported.taken.Store(&taken)
	}
	return err
}

// followPrices puts in force what is imported on other nodes, until ctx ends.
func (a *App) followPrices(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.imported.wake:
		}
		had := len(a.imported.all())
		if err := a.readPrices(ctx); err != nil && ctx.Err() == nil {
			a.log.Warn("imported prices could not be read; those that are known stay in force", "error", err.Error())
		}
		if len(a.imported.all()) != had {
			a.reapply()
		}
	}
}

// recordPatience is how long the database may take to store which prices are in force. A reload waits for it.
const recordPatience = 5 * time.Second

// recordPrices stores the prices that calls can be priced with, so that their costs can be explained at any time.
func (a *App) recordPrices(ctx context.Context, s *settings.Settings) error {
	ctx, cancel := context.WithTimeout(ctx, recordPatience)
	defer cancel()
	return a.facts.stores.service.RecordPrices(ctx, s.InForce(), time.Now().UTC())
}

// priceBook is the prices as operations see them.
type priceBook struct{ a *App }

// Book returns the prices in force.
func (p priceBook) Book() *price.Book { return p.a.settings.Load().Book }

// Vendor returns the kind of a provider whose list prices apply, or "".
func (p priceBook) Vendor(provider string) string { return p.a.settings.Load().Vendor(provider) }

// Taken returns what was imported, the earliest first.
func (p priceBook) Taken() []price.Taken { return p.a.imported.all() }

// PriceVersions returns entries that are or were in force, the latest first.
func (p priceBook) PriceVersions(ctx context.Context, before int64, most int) ([]price.Seen, error) {
	if p.a.facts == nil {
		return nil, fault.New(fault.NotFound, "there is no installation here, so there is no history")
	}
	return p.a.facts.stores.service.PriceVersions(ctx, before, most)
}

// Import stores prices and puts them in force, here at once and on other nodes soon.
func (p priceBook) Import(ctx context.Context, by, format string, at time.Time, entries []*price.Entry) error {
	a := p.a
	if a.facts == nil {
		return fault.New(fault.NotFound, "there is no installation here to import prices into")
	}
	if err := a.facts.stores.service.Import(ctx, by, format, at, entries); err != nil {
		return err
	}
	if err := a.readPrices(ctx); err != nil {
		return fault.New(fault.Unavailable, "the prices are stored, but this server could not read them again yet; it follows within minutes").Because(err)
	}
	if a.api == nil {
		return nil // a command: the next server begins with them
	}
	a.reapply()
	if tell := a.tellNodes(topicPrices); tell != nil {
		if err := tell(ctx, ""); err != nil {
			a.log.Warn("other nodes could not be told of imported prices; they notice within minutes", "error", err.Error())
		}
	}
	return nil
}
