package admin

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"sluice/internal/kit/fault"
	"sluice/internal/operate/alert"
)

// AlertEvent is something that the operator was told.
type AlertEvent struct {
	ID    string     `json:"id"`
	At    time.Time  `json:"at"`
	Type  alert.Type `json:"type"`
	Title string     `json:"title"`
	// Body is what webhooks got.
	Body json.RawMessage `json:"body"`
}

// AlertEndpoint is an endpoint of the operator, without its secret.
type AlertEndpoint struct {
	ID     string       `json:"id"`
	Kind   alert.Kind   `json:"kind"`
	To     string       `json:"to"`
	Events []alert.Type `json:"events,omitempty"` // empty: all
}

// AlertQuery asks for deliveries. Ref is the account of a customer; if it is empty, they are those of the operator.
type AlertQuery struct {
	Ref   string      `json:"ref,omitempty"`
	State alert.State `json:"state,omitempty"` // waiting, delivered or dead; empty: all
	Cursor
}

// AlertDelivery is an event on its way to one endpoint. ID is the webhook-id.
type AlertDelivery struct {
	ID         string      `json:"id"`
	AccountID  string      `json:"account_id,omitempty"` // empty: the operator's
	EndpointID string      `json:"endpoint_id"`
	Type       alert.Type  `json:"type"`
	Title      string      `json:"title"`
	CreatedAt  time.Time   `json:"created_at"`
	State      alert.State `json:"state"`
	Attempts   int         `json:"attempts"`
	// DueAt is when it is tried next, while it waits.
	DueAt      time.Time `json:"due_at,omitzero"`
	FinishedAt time.Time `json:"finished_at,omitzero"`
	Status     int       `json:"status,omitempty"`
	Problem    string    `json:"problem,omitempty"`
	// Body is left out of lists.
	Body json.RawMessage `json:"body,omitempty"`
}

// alertList returns what the operator was told, newest first.
func (b *Backend) alertList(ctx context.Context, in Cursor) (List[AlertEvent], error) {
	limit := in.limit()
	list, err := b.Alerts.Events(ctx, alert.Page{Before: in.After, Limit: limit})
	return listOf(list, limit, func(e *alert.Event) AlertEvent {
		return AlertEvent{ID: e.ID, At: e.At, Type: e.Type, Title: e.Title, Body: json.RawMessage(e.Body)}
	}, func(e *alert.Event) string { return e.ID }), err
}

// alertEndpoints returns the operator's endpoints.
func (b *Backend) alertEndpoints(_ context.Context, in Cursor) (List[AlertEndpoint], error) {
	all := views(b.Alerts.Endpoints(), func(e *alert.Endpoint) AlertEndpoint {
		return AlertEndpoint{ID: e.ID, Kind: e.Kind, To: e.To, Events: e.Types}
	})
	return part(all, in, func(e AlertEndpoint) string { return e.ID }), nil
}

// alertDeliveries returns what was sent to the operator, or to an account, newest first.
func (b *Backend) alertDeliveries(ctx context.Context, in AlertQuery) (List[AlertDelivery], error) {
	if states := []alert.State{"", alert.Waiting, alert.Delivered, alert.Dead}; !slices.Contains(states, in.State) {
		return List[AlertDelivery]{}, fault.New(fault.Invalid, "state must be waiting, delivered or dead").At("state")
	}
	if in.Ref != "" {
		a, err := b.Accounts.Find(ctx, in.Ref)
		if err != nil {
			return List[AlertDelivery]{}, err
		}
		in.Ref = a.ID
	}
	limit := in.limit()
	list, err := b.Alerts.Deliveries(ctx, in.Ref, in.State, alert.Page{Before: in.After, Limit: limit})
	return listOf(list, limit, func(d *alert.Delivery) AlertDelivery {
		v := deliveryView(d)
		v.Body = nil
		return v
	}, func(d *alert.Delivery) string { return d.ID }), err
}

// alertShow returns one delivery. Ref is its id.
func (b *Backend) alertShow(ctx context.Context, in Target) (AlertDelivery, error) {
	d, err := b.Alerts.Find(ctx, in.Ref)
	if err != nil {
		return AlertDelivery{}, err
	}
	return deliveryView(d), nil
}

// alertReplay sends a delivery again that has ended, under its id. Ref is that id.
func (b *Backend) alertReplay(ctx context.Context, in Target) (AlertDelivery, error) {
	d, err := b.Alerts.Replay(ctx, in.Ref)
	if err != nil {
		return AlertDelivery{}, err
	}
	return deliveryView(d), nil
}

// alertTest sends a test to all endpoints of the operator.
func (b *Backend) alertTest(ctx context.Context, _ Empty) (List[AlertDelivery], error) {
	list, err := b.Alerts.Test(ctx)
	return List[AlertDelivery]{Data: views(list, deliveryView)}, err
}

func deliveryView(d *alert.Delivery) AlertDelivery {
	v := AlertDelivery{
		ID: d.ID, AccountID: d.AccountID, EndpointID: d.EndpointID, Type: d.Type, Title: d.Title, CreatedAt: d.CreatedAt, State: d.State, Attempts: d.Attempts,
		FinishedAt: d.FinishedAt, Status: d.Status, Problem: d.Problem,
	}
	if d.State == alert.Waiting {
		v.DueAt = d.DueAt
	}
	if strings.TrimSpace(d.Body) != "" {
		v.Body = json.RawMessage(d.Body)
	}
	return v
}
