package redisledger

import (
	"context"
	"time"

	"sluice/internal/account"
	"sluice/internal/ledger/abuse"
	"sluice/internal/ledger/usage"
)

// Visitor is the abuse.Counter of a process that is no node, such as a command. It reads and corrects totals,
// and adds nothing. Each time it connects and disconnects.
type Visitor struct{ url string }

// Visit returns a Visitor of the Redis that the URL names.
func Visit(url string) *Visitor { return &Visitor{url} }

// connect calls do with the units in Redis.
// There is no Run, so nothing closes the circuit; connect does it by hand once the connection is
// there.
func (v *Visitor) connect(do func(u *Units) error) error {
	option, err := parseURL(v.url)
	if err != nil {
		return err
	}
	l := newLedger(nil, nil)
	// It has nothing of its own that depends on what Redis remembers, so no connection is suspect.
	l.link.dial = dialer(option, l.opts.Deadline, func() {})
	l.units.Listen(silent{})
	defer l.link.close()
	if _, err := l.link.connect(); err != nil {
		return err
	}
	l.state.closed.Store(true)
	return do(&l.units)
}

// Listen implements abuse.Counter. There is nothing to tell.
func (v *Visitor) Listen(abuse.Listener) {}

// Exact implements abuse.Counter.
func (v *Visitor) Exact() bool { return true }

// Add implements abuse.Counter. A command settles no calls.
func (v *Visitor) Add(abuse.Total, *usage.Settlement, account.Limit) {}

// Back implements abuse.Counter. A command knows nothing of other months.
func (v *Visitor) Back(time.Time) {}

// Unproven implements abuse.Counter.
func (v *Visitor) Unproven([]string) []usage.Settlement { return nil }

// Read implements abuse.Counter.
func (v *Visitor) Read(ctx context.Context, accountID string, month time.Time) (totals []abuse.Reading, known bool, err error) {
	err = v.connect(func(u *Units) error {
		totals, known, err = u.Read(ctx, accountID, month)
		return err
	})
	return totals, known, err
}

// Raise implements abuse.Counter.
func (v *Visitor) Raise(ctx context.Context, k abuse.Known) error {
	return v.connect(func(u *Units) error { return u.Raise(ctx, k) })
}

// silent is told what nobody needs.
// Units reports every count to a listener, and a Visitor has none that cares.
type silent struct{}

func (silent) Counted(abuse.Total, abuse.Change) {}
func (silent) Missed(abuse.Total, int64)         {}
func (silent) Unknown(string, bool)              {}
func (silent) Marked(string, time.Time)          {}
