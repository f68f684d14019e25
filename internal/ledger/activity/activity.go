// Package activity tells the owner of an account what its calls did: how many there were, how long they took and what
// they consumed, over the last hour or the last 30 days, and what became of a single one. Refused calls are part of it.
//
// A Log reads. Long ranges are added up from cells, which the store keeps by hour and by day; short ones from the
// calls themselves, of which it never reads more than a bounded number. Pages and the API show the same; see
// docs/api.md#usage-and-requests. What is recorded, and when, is decided in packages usage and refusal.
package activity

import (
	"context"
	"slices"
	"time"

	"sluice/internal/kit/fault"
	"sluice/internal/ledger/refusal"
	"sluice/internal/ledger/usage"
)

const (
	// maxRead is how many calls are read at most to draw a range by minutes.
	maxRead = 1500
	// maxExact is up to how many calls percentiles are those of the calls, and not of the classes they were counted in.
	maxExact = 1000
	// mostDays is up to how many cells of days a range of many calls is drawn by hours instead. Each may stand for 24 cells
	// of hours.
	mostDays = 100
	// firstLook is how many calls are looked at first for one page of a list, and maxLook how many then.
	firstLook = 500
	maxLook   = 3000
	// maxSifted is how many calls are looked at to draw those of a session or with a tag, which nothing counts.
	maxSifted = 10_000
	// maxNames is how many keys of an account are known by name, the newest.
	maxNames = 200
)

// day is that of UTC. All sums are kept by days of UTC, so a page shows the same ones to every reader.
const day = 24 * time.Hour

// Store reads calls. All methods but the last two are about one account.
type Store interface {
	Cells(ctx context.Context, q usage.CellQuery) ([]usage.Cell, error)
	// CellsSince returns the start of the oldest cell of an account that is kept, of those by the hour or by the day; zero: it has none.
	CellsSince(ctx context.Context, accountID string, step time.Duration) (time.Time, error)
	Calls(ctx context.Context, q usage.CallQuery) (usage.CallPage, error)
	KeyNames(ctx context.Context, accountID string, limit int) ([]usage.KeyName, error)
	// Requests and RefusalsOf return the calls with an id, which may be one that a proxy gave, of any account.
	Requests(ctx context.Context, id string, limit int) ([]usage.Settlement, error)
	RefusalsOf(ctx context.Context, id string, limit int) ([]refusal.Call, error)
}

// Refusals reads the refused calls of an account.
type Refusals interface {
	Refusals(ctx context.Context, accountID string, before refusal.Point, limit int) ([]refusal.Call, error)
	RefusedMinutes(ctx context.Context, accountID string, from time.Time, span time.Duration) ([]refusal.Minute, error)
}

// Log reads the activity of accounts. It is safe for concurrent use.
type Log struct {
	store    Store
	refusals Refusals
	flush    func(ctx context.Context)
}

// New returns a log. flush moves calls that have just ended to the store, if that can be done quickly; it may be nil.
func New(store Store, refusals Refusals, flush func(ctx context.Context)) *Log {
	if flush == nil {
		flush = func(context.Context) {}
	}
	return &Log{store, refusals, flush}
}

// By is what calls are grouped by.
type By string

const (
	// The groups that a page may ask for; any other text is taken for ByModel.
	ByModel  By = "model" // that answered
	ByKey    By = "key"
	ByStatus By = "status"
	ByEnd    By = "end"
)

// Outcome is what became of calls.
type Outcome string

const (
	Any          Outcome = ""
	Completed    Outcome = "completed"
	Errors       Outcome = "errors" // failed, cut off or refused
	Disconnected Outcome = "disconnected"
	Refused      Outcome = "refused"
)

// Valid reports whether the outcome is one of those above.
func (o Outcome) Valid() bool {
	switch o {
	case Any, Completed, Errors, Disconnected, Refused:
		return true
	}
	return false
}

// Ends returns how calls end that have the outcome. A call that was refused has no end: it never began.
func (o Outcome) Ends() []usage.End {
	switch o {
	case Completed:
		return []usage.End{usage.EndComplete}
	case Errors:
		return []usage.End{usage.EndFailed, usage.EndCut}
	case Disconnected:
		return []usage.End{usage.EndHangUp}
	}
	return nil
}

// refused reports whether refused calls have the outcome.
func (o Outcome) refused() bool { return o == Any || o == Errors || o == Refused }

// Query asks for the calls of an account. The fields below Range may be empty, and then restrict nothing.
type Query struct {
	AccountID string
	Now       time.Time
	Range     Range
	Model     string // asked for, or answering
	KeyID     string
	Outcome   Outcome
	Session   string
	Tag       string
}

// narrow returns the restriction for settled calls.
func (q *Query) narrow() usage.Narrow {
	return usage.Narrow{KeyID: q.KeyID, Model: q.Model, Ends: q.Outcome.Ends()}
}

// sifts reports whether the query asks for calls that no index finds and nothing counts. Refused calls have neither session nor tags.
func (q *Query) sifts() bool { return q.Session != "" || q.Tag != "" }

// has reports whether a call has the session and the tag.
func (q *Query) has(s *usage.Settlement) bool {
	return (q.Session == "" || q.Session == s.Session()) && (q.Tag == "" || slices.Contains(s.Terms.Tags, q.Tag))
}

// refused reports whether refused calls are asked for.
func (q *Query) refused() bool { return q.Outcome.refused() && !q.sifts() }

// wants reports whether a refused call passes.
func (q *Query) wants(c *refusal.Call) bool {
	return q.refused() && c.At.Before(q.end()) && (q.Model == "" || q.Model == c.Model) && (q.KeyID == "" || q.KeyID == c.KeyID)
}

// end returns the end of the range. One that ends now has a little more: the clock of another server may be ahead.
func (q *Query) end() time.Time {
	if !q.Range.Until.IsZero() {
		return q.Range.Until
	}
	return q.Now.Add(time.Minute)
}

// Names holds the names of an account's keys by id, as pages show them.
type Names map[string]string

// Names returns the names of an account's keys, of deleted ones, too.
func (l *Log) Names(ctx context.Context, accountID string) (Names, error) {
	list, err := l.store.KeyNames(ctx, accountID, maxNames)
	if err != nil {
		return nil, err
	}
	names := Names{PageKey: "Dashboard"}
	for _, k := range list {
		name := k.Name
		if k.Master {
			name = "Master key"
		}
		switch {
		case k.Deleted && k.Master:
			name = "Master key (replaced)"
		case k.Deleted:
			name += " (deleted)"
		}
		names[k.ID] = name
	}
	return names, nil
}

// Of returns the name of a key.
func (n Names) Of(id string) string {
	if name := n[id]; name != "" {
		return name
	}
	return "Deleted key"
}

// PageKey is the key id recorded for calls made from the pages, which have no key.
const PageKey = "dashboard"

// Request returns a call of an account by its id, or by the id that a proxy gave it, with its way.
func (l *Log) Request(ctx context.Context, accountID, id string) (Entry, error) {
	if id == "" || len(id) > maxID {
		return Entry{}, noRequest()
	}
	for range 2 { // again after a flush, for a call that has just ended
		settled, err := l.store.Requests(ctx, id, maxSame)
		if err != nil {
			return Entry{}, err
		}
		for i := range settled {
			if settled[i].AccountID == accountID {
				return Entry{Call: &settled[i]}, nil
			}
		}
		refused, err := l.store.RefusalsOf(ctx, id, maxSame)
		if err != nil {
			return Entry{}, err
		}
		for i := range refused {
			if refused[i].AccountID == accountID {
				return Entry{Refused: &refused[i]}, nil
			}
		}
		l.flush(ctx)
	}
	return Entry{}, noRequest()
}

// maxSame is how many calls with one id are looked at. Our own ids are unique; those of a proxy need not be.
const maxSame = 20

func noRequest() error {
	return fault.New(fault.NotFound, "There is no such request, or it is no longer kept.")
}
