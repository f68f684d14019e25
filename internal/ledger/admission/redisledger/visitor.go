package redisledger

import (
	"context"
	"time"

	"sluice/internal/ledger/abuse"
)

// Visitor reads and corrects the totals of units for a process that is no node, such as a command. Each time it connects
// and disconnects.
type Visitor struct{ url string }

// Visit returns a Visitor of the Redis that the URL names.
func Visit(url string) *Visitor { return &Visitor{url} }

// visit calls do with a ledger on the Redis that the URL names, for a process that is no node.
// There is no Run, so nothing closes the circuit; visit does it by hand once the connection is
// there.
func visit(url string, do func(l *Ledger) error) error {
	option, err := parseURL(url)
	if err != nil {
		return err
	}
	l := newLedger(nil, nil)
	// It has nothing of its own that depends on what Redis remembers, so no connection is suspect.
	l.link.dial = dialer(option, l.opts.Deadline, func() {})
	defer l.link.close()
	if _, err := l.link.connect(); err != nil {
		return err
	}
	l.state.closed.Store(true)
	return do(l)
}

// Read implements abuse.Totals.
func (v *Visitor) Read(ctx context.Context, accountID string, month time.Time) (totals []abuse.Reading, known bool, err error) {
	err = visit(v.url, func(l *Ledger) error {
		totals, known, err = l.units.Read(ctx, accountID, month)
		return err
	})
	return totals, known, err
}

// Raise implements abuse.Totals.
func (v *Visitor) Raise(ctx context.Context, k abuse.Known) error {
	return visit(v.url, func(l *Ledger) error { return l.units.Raise(ctx, k) })
}
