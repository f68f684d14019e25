package refusal

import (
	"context"
	"time"
)

// flushPatience is how long a reader waits for Flush. After that it gets what the database has: a slow database must
// not make pages slow.
const flushPatience = 100 * time.Millisecond

// Reader reads what the database has.
type Reader interface {
	// Refusals returns at most limit of an account's refused calls before a point, newest first.
	Refusals(ctx context.Context, accountID string, before Point, limit int) ([]Call, error)
	// NewestRefusals returns at most limit of the refused calls of all accounts, newest first.
	NewestRefusals(ctx context.Context, limit int) ([]Call, error)
	// RefusedMinutes returns how many calls of an account were refused since a time, by status and by spans of time
	// that are a minute or longer.
	RefusedMinutes(ctx context.Context, accountID string, from time.Time, span time.Duration) ([]Minute, error)
}

// View reads refusals for pages and for support. What it returns includes the calls that were refused just now, unless
// the database is busy or down.
type View struct {
	collector *Collector // nil: nobody is served here, so nothing waits
	reader    Reader
}

// NewView returns a view. collector is nil in a process that serves nobody.
func NewView(collector *Collector, reader Reader) View { return View{collector, reader} }

// Flush writes what waits, if that can be done quickly.
func (v View) Flush(ctx context.Context) {
	if v.collector == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, flushPatience)
	defer cancel()
	_ = v.collector.Flush(ctx) // the next page has what is missing from this one
}

// Refusals returns at most limit of an account's refused calls before a point, newest first.
func (v View) Refusals(ctx context.Context, accountID string, before Point, limit int) ([]Call, error) {
	v.Flush(ctx)
	return v.reader.Refusals(ctx, accountID, before, limit)
}

// NewestRefusals returns at most limit of the refused calls of all accounts, newest first.
func (v View) NewestRefusals(ctx context.Context, limit int) ([]Call, error) {
	v.Flush(ctx)
	return v.reader.NewestRefusals(ctx, limit)
}

// RefusedMinutes returns how many calls of an account were refused since a time, by status and by spans of time that
// are a minute or longer.
func (v View) RefusedMinutes(ctx context.Context, accountID string, from time.Time, span time.Duration) ([]Minute, error) {
	v.Flush(ctx)
	return v.reader.RefusedMinutes(ctx, accountID, from, span)
}
