package app

import (
	"context"

	"sluice/internal/api/responses"
	"sluice/internal/app/config"
	"sluice/internal/ledger/usage"
)

// openArchive opens the archive of stored responses. If this process alone uses the database, they go through a journal.
// Other nodes would not see what waits there, and would miss it when this one dies, so with them there is none.
func (a *App) openArchive(ctx context.Context, cfg *config.Config) (err error) {
	var store responses.Store = a.facts.stores.kept
	if a.facts.alone() {
		a.waiting, err = responses.OpenJournal(ctx, responses.JournalIn(a.facts.dir.Path()), a.facts.stores.kept, &responses.JournalOptions{SyncEach: cfg.Usage.SyncEach, Log: a.log})
		if err != nil {
			return err
		}
		store = a.waiting
	}
	a.archive = responses.NewArchive(store, &responses.ArchiveOptions{Key: a.facts.store.Key()})
	return nil
}

// records are the books for the admin operations.
type records struct {
	*usage.Books
	app *App
}

// JournalParts is that of the books. A backup copies the database next, so stored responses are moved to it, too: by this
// server, or from what the last one has left.
func (r records) JournalParts(ctx context.Context) ([]usage.Part, error) {
	var err error
	if r.app.waiting != nil {
		err = r.app.waiting.Flush(ctx)
	} else if f := r.app.facts; f.alone() {
		err = responses.Recover(ctx, responses.JournalIn(f.dir.Path()), f.stores.kept)
	}
	if err != nil {
		return nil, err
	}
	return r.Books.JournalParts(ctx)
}
