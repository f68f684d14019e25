// Package alert tells operators and customers what has happened, by signed webhooks and by mail.
//
// An Event is stored in the transaction of what it is about, so that neither is without the other. A Courier, which
// runs on one node, makes a Delivery of it for each endpoint that wants it, and tries each until the endpoint accepts
// it or the attempts are used up. Both are rows of the database: a process that dies loses none. What the receiver
// sees follows the Standard Webhooks specification, and every attempt of a delivery has the same webhook-id.
//
// The operator's endpoints are in the configuration; customers have theirs in the database, behind Hooks. Whether
// something is worth an event is decided where it happens, and by a Watch for what lasts, such as an upstream that is
// down. What customers are told on their messages page is not done here; see package notice.
package alert

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"sluice/internal/account"
)

// Type is what an event is about. Its values are read by the programs of customers; do not change them.
type Type string

// The types for the operator.
const (
	UpstreamDown     Type = "upstream.down"
	UpstreamUp       Type = "upstream.up"
	JournalGrowing   Type = "journal.growing"
	JournalRecovered Type = "journal.recovered"
	DiskFilling      Type = "disk.filling"
	DiskRecovered    Type = "disk.recovered"
	PaymentFailed    Type = "payment.failed"
	AccountReview    Type = "account.review"
)

// The types for customers, and Test, which both have.
const (
	ScoreReached   Type = "score.reached"
	VideoSucceeded Type = "video.succeeded"
	VideoFailed    Type = "video.failed"
	BudgetMark     Type = "budget.mark"
	BudgetRunaway  Type = "budget.runaway"
	Test           Type = "test"
)

// The types for everybody: for customers, and for those who subscribe to the status page.
const (
	IncidentOpened   Type = "incident.opened"
	IncidentUpdated  Type = "incident.updated"
	IncidentResolved Type = "incident.resolved"
)

// Everybody is the account of events for everybody, and of the endpoints of those who subscribe to the status page.
const Everybody = "*"

// OperatorTypes returns the types that an operator's endpoint can ask for.
func OperatorTypes() []Type {
	return []Type{UpstreamDown, UpstreamUp, JournalGrowing, JournalRecovered, DiskFilling, DiskRecovered, PaymentFailed, AccountReview}
}

// CustomerTypes returns the types that a customer's endpoint can ask for.
func CustomerTypes() []Type {
	return append([]Type{ScoreReached, VideoSucceeded, VideoFailed, BudgetMark, BudgetRunaway}, IncidentTypes()...)
}

// IncidentTypes returns the types for everybody.
func IncidentTypes() []Type { return []Type{IncidentOpened, IncidentUpdated, IncidentResolved} }

// Words returns what a type is called on pages and in mail.
func (t Type) Words() string {
	switch t {
	case UpstreamDown:
		return "Provider down"
	case UpstreamUp:
		return "Provider up again"
	case AccountReview:
		return "Account to review"
	case Test:
		return "Test"
	}
	text := strings.ReplaceAll(string(t), ".", " ")
	return strings.ToUpper(text[:1]) + text[1:]
}

// Event is something that happened.
type Event struct {
	ID string    `json:"id"`
	At time.Time `json:"at"`
	// AccountID is whom it is for. It is empty for the operator, and may be Everybody.
	AccountID string `json:"-"`
	Type      Type   `json:"type"`
	Title     string `json:"title"` // one line for people
	Body      Body   `json:"body"`  // what webhooks send: JSON with type, timestamp and data
}

// Body is a text that is JSON, and stands in other JSON as it is.
type Body string

// MarshalJSON implements json.Marshaler.
func (b Body) MarshalJSON() ([]byte, error) { return []byte(b), nil }

// UnmarshalJSON implements json.Unmarshaler.
func (b *Body) UnmarshalJSON(raw []byte) error {
	*b = Body(raw)
	return nil
}

// NewEvent returns an event. The key tells it apart from all others of its type: what happens twice under one key is
// one event. Data becomes a JSON object.
func NewEvent(accountID string, t Type, key string, at time.Time, title string, data any) Event {
	at = at.UTC().Truncate(time.Millisecond)
	return Event{ID: identity("evt_", accountID, string(t), key), At: at, AccountID: accountID, Type: t, Title: title, Body: body(t, at, data)}
}

// body returns what webhooks send.
func body(t Type, at time.Time, data any) Body {
	text, err := json.Marshal(struct {
		Type      Type      `json:"type"`
		Timestamp time.Time `json:"timestamp"`
		Data      any       `json:"data"`
	}{t, at, data})
	if err != nil {
		panic(err) // the data of events are made of texts, numbers and times
	}
	return Body(text)
}

// identity returns an id that depends on the parts alone. It has no dot, which separates the parts of what is signed.
func identity(prefix string, parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return prefix + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:20]))
}

// Kind is how an endpoint is reached.
type Kind string

const (
	Web  Kind = "webhook"
	Mail Kind = "mail"
)

// Endpoint is where events are sent to.
type Endpoint struct {
	ID string `json:"id"`
	// AccountID is the customer that it belongs to. It is empty for the operator's, and Everybody for those who subscribe
	// to the status page.
	AccountID string `json:"-"`
	Kind      Kind   `json:"kind"`
	// To is a URL, or a mail address. It is empty for mail to a customer, which goes to the account's address.
	To string `json:"to"`
	// Types are the events that it wants. If empty, all.
	Types     []Type    `json:"events,omitempty"`
	Secret    Secret    `json:"-"` // of a webhook
	CreatedAt time.Time `json:"-"`
	// StoppedAt is when the receiver has said that it wants nothing more; zero: it has not.
	StoppedAt  time.Time `json:"-"`
	StoppedWhy string    `json:"-"`
}

// Wants reports whether an endpoint gets events of a type. Everybody gets tests of their own endpoint.
func (e *Endpoint) Wants(t Type) bool {
	return e.StoppedAt.IsZero() && (t == Test || len(e.Types) == 0 || slices.Contains(e.Types, t))
}

// OperatorEndpoint returns the id of an endpoint of the configuration.
func OperatorEndpoint(k Kind, name string) string { return string(k) + ":" + name }

// State is how far a delivery has come. Its values are stored; do not change them.
type State string

const (
	Waiting   State = "waiting"
	Delivered State = "delivered"
	Dead      State = "dead" // it is not tried again by itself
)

// Delivery is an event on its way to one endpoint. Its id is the webhook-id.
type Delivery struct {
	ID         string    `json:"id"`
	EventID    string    `json:"-"`
	AccountID  string    `json:"account_id,omitempty"` // empty: the operator's
	EndpointID string    `json:"endpoint_id"`
	Type       Type      `json:"type"`
	Title      string    `json:"title"`
	CreatedAt  time.Time `json:"created_at"`
	State      State     `json:"state"`
	Attempts   int       `json:"attempts"`
	// DueAt is when it is tried next, while it waits.
	DueAt time.Time `json:"due_at,omitzero"`
	// FinishedAt is when it was delivered or given up; zero while it waits.
	FinishedAt time.Time `json:"finished_at,omitzero"`
	// Status is that of the last reply, 0 if there was none, and Problem says what was wrong with it.
	Status  int    `json:"status,omitempty"`
	Problem string `json:"problem,omitempty"`
	Body    Body   `json:"body,omitempty"` // as that of the event; lists for operators leave it out
	// ReplayedAt is when somebody asked to send it again; zero: never.
	ReplayedAt time.Time `json:"-"`
}

// deliveryOf returns the delivery of an event to an endpoint. Made twice, it has the same id.
func deliveryOf(e *Event, to *Endpoint, now time.Time) Delivery {
	return Delivery{
		ID: identity("msg_", e.ID, to.ID), EventID: e.ID, EndpointID: to.ID, AccountID: to.AccountID, Type: e.Type, Title: e.Title, Body: e.Body,
		CreatedAt: now, State: Waiting, DueAt: now,
	}
}

// ShortID returns the beginning of an id, for lists that people read: enough to find it in a log.
func ShortID(id string) string {
	const most = 16
	if len(id) <= most {
		return id
	}
	return id[:most] + "…"
}

// Page asks for a part of a list, newest first.
type Page struct {
	// Before is the id of the last entry of the page before; empty for the first page.
	Before string
	Limit  int
}

// EndpointStore keeps the endpoints of customers. sqlstore/alerts implements all of these interfaces; each type takes
// those that it needs.
type EndpointStore interface {
	// AddEndpoint stores a customer's endpoint, with its secret sealed. It returns fault.Conflict if the account has
	// most of its kind already. The entry goes to the audit log, unless it has no action.
	AddEndpoint(ctx context.Context, e *Endpoint, most int, entry account.Entry) error
	// Endpoints returns an account's endpoints, oldest first.
	Endpoints(ctx context.Context, accountID string) ([]Endpoint, error)
	// FindEndpoint returns an endpoint of an account or of Everybody, or nil if it is no longer there.
	FindEndpoint(ctx context.Context, accountID, id string) (*Endpoint, error)
	// DeleteEndpoint deletes an endpoint and its deliveries. It returns fault.NotFound if the account has no such
	// endpoint.
	DeleteEndpoint(ctx context.Context, accountID, id string, entry account.Entry) error
	// StopEndpoint notes that the receiver wants nothing more, or with a zero time that it does again. It returns
	// fault.NotFound if the account has no such endpoint.
	StopEndpoint(ctx context.Context, accountID, id string, at time.Time, why string) error
}

// EventStore keeps events.
type EventStore interface {
	// AddEvents stores events that are about nothing else in the database. An event that is there already stays.
	AddEvents(ctx context.Context, events ...Event) error
	// Events returns the operator's events.
	Events(ctx context.Context, p Page) ([]Event, error)
}

// DeliveryStore keeps what people see of deliveries, and the tests that they ask for.
type DeliveryStore interface {
	// AddTest stores the delivery of a test. It returns fault.RateLimited if the account has had most tests since a
	// time; if it is the operator's, the endpoint.
	AddTest(ctx context.Context, d *Delivery, since time.Time, most int) error
	// Deliveries returns an account's deliveries, newest first; those of the operator if accountID is empty.
	// A state or an endpoint that is not empty leaves out all others.
	Deliveries(ctx context.Context, accountID, endpointID string, state State, p Page) ([]Delivery, error)
	// FindDelivery returns a delivery, whoever it is for. It returns fault.NotFound if there is none.
	FindDelivery(ctx context.Context, id string) (*Delivery, error)
	// Replay makes a delivery that has ended wait again, unless the account has replayed most others since a time.
	// It returns fault.NotFound if there is no such delivery, and fault.Conflict if it waits.
	Replay(ctx context.Context, accountID, id string, now, since time.Time, most int) error
}

// QueueStore keeps what is to be delivered.
type QueueStore interface {
	// FanOut makes deliveries of at most most events that have none yet, in their order. route is called with each
	// event and the endpoints of its account; with an event for everybody, it is called with some of all endpoints, and the
	// next FanOut continues after them. It returns how many events there were.
	FanOut(ctx context.Context, now time.Time, most int, route func(e *Event, endpoints []Endpoint) []Delivery) (int, error)
	// ClaimDeliveries returns at most most deliveries that are due, those that have waited longest first, and moves
	// their next attempt to a later time, so that nobody else makes the same one. operator chooses whose deliveries.
	// Those of the named endpoints and accounts are left out.
	ClaimDeliveries(ctx context.Context, now, until time.Time, operator bool, most int, without []string) ([]Delivery, error)
	// EndAttempt stores the outcome of an attempt, unless somebody else has ended the delivery meanwhile.
	EndAttempt(ctx context.Context, d *Delivery) error
}

// ConditionStore keeps what holds on nodes.
type ConditionStore interface {
	// ReportConditions stores which conditions hold on a node. The first node on which one holds, and the last on
	// which it ends, makes the event of it. What a node has reported before stale holds no longer.
	ReportConditions(ctx context.Context, node string, now, stale time.Time, holding []Condition) error
}

// The bounds of what is kept. docs/bounds.md#what-is-bounded lists them.
const (
	MaxEndpoints  = 5                   // webhooks of an account
	MaxWaiting    = 1000                // deliveries of an account that wait; more are given up at once
	MaxKept       = 2000                // deliveries of an account that have ended
	MaxURL        = 2000                // bytes
	Keep          = 30 * 24 * time.Hour // ended deliveries and the operator's events
	testsPerHour  = 20
	replayPerHour = 100
)
