package admin

import (
	"context"
	"slices"
	"time"

	"sluice/internal/kit/fault"
	"sluice/internal/operate/alert"
)

// AlertQuery asks for deliveries. Ref is the account of a customer; if it is empty, they are those of the operator.
type AlertQuery struct {
	Ref   string      `json:"ref,omitempty"`
	State alert.State `json:"state,omitempty"` // waiting, delivered or dead; empty: all
	Cursor
}

// alertList returns what the operator was told, newest first.
func (b *Backend) alertList(ctx context.Context, in Cursor) (List[alert.Event], error) {
	limit := in.limit()
	list, err := b.Alerts.Events(ctx, alert.Page{Before: in.After, Limit: limit})
	return listOf(list, limit, func(e *alert.Event) string { return e.ID }), err
}

// alertEndpoints returns the operator's endpoints.
func (b *Backend) alertEndpoints(_ context.Context, in Cursor) (List[alert.Endpoint], error) {
	return part(b.Alerts.Endpoints(), in, func(e alert.Endpoint) string { return e.ID }), nil
}

// alertDeliveries returns what was sent to the operator, or to an account, newest first.
func (b *Backend) alertDeliveries(ctx context.Context, in AlertQuery) (List[alert.Delivery], error) {
	if states := []alert.State{"", alert.Waiting, alert.Delivered, alert.Dead}; !slices.Contains(states, in.State) {
		return List[alert.Delivery]{}, fault.New(fault.Invalid, "state must be waiting, delivered or dead").At("state")
	}
	if in.Ref != "" {
		a, err := b.Accounts.Find(ctx, in.Ref)
		if err != nil {
			return List[alert.Delivery]{}, err
		}
		in.Ref = a.ID
	}
	limit := in.limit()
	list, err := b.Alerts.Deliveries(ctx, in.Ref, in.State, alert.Page{Before: in.After, Limit: limit})
	for i := range list {
		list[i].Body = ""
	}
	return listOf(undue(list), limit, func(d *alert.Delivery) string { return d.ID }), err
}

// alertShow returns one delivery. Ref is its id.
func (b *Backend) alertShow(ctx context.Context, in Target) (alert.Delivery, error) {
	return undueOf(b.Alerts.Find(ctx, in.Ref))
}

// alertReplay sends a delivery again that has ended, under its id. Ref is that id.
func (b *Backend) alertReplay(ctx context.Context, in Target) (alert.Delivery, error) {
	return undueOf(b.Alerts.Replay(ctx, in.Ref))
}

// alertTest sends a test to all endpoints of the operator.
func (b *Backend) alertTest(ctx context.Context, _ Empty) (List[alert.Delivery], error) {
	list, err := b.Alerts.Test(ctx)
	return List[alert.Delivery]{Data: some(undue(list))}, err
}

// undue removes the time of the next attempt from deliveries that have ended.
func undue(list []alert.Delivery) []alert.Delivery {
	for i := range list {
		if list[i].State != alert.Waiting {
			list[i].DueAt = time.Time{}
		}
	}
	return list
}

// undueOf is undue for one delivery.
func undueOf(d *alert.Delivery, err error) (alert.Delivery, error) {
	if err != nil {
		return alert.Delivery{}, err
	}
	return undue([]alert.Delivery{*d})[0], nil
}
