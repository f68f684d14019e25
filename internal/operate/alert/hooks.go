package alert

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"sluice/internal/account"
	"sluice/internal/account/mail"
	"sluice/internal/kit/fault"
	"sluice/internal/kit/netguard"
)

// Settings are what a configuration says. A reload replaces them.
type Settings struct {
	// Operator are the operator's endpoints.
	Operator []Endpoint
	// AllowHosts are hosts that customers' webhooks may name although they are not public, or without TLS.
	AllowHosts []string
}

// HookStore is what Hooks keep.
type HookStore interface {
	EndpointStore
	DeliveryStore
}

// Hooks are the endpoints of customers, and what was sent to them.
type Hooks struct {
	store    HookStore
	settings func() Settings
	now      func() time.Time
}

// Options are the choices of NewHooks and NewCourier; the zero value is the default.
type Options struct {
	// Now is the clock. Default time.Now.
	Now func() time.Time
	// Letter returns the mail of a delivery to somebody who subscribes to the status page. Default: the data of the event.
	Letter func(to *Endpoint, d *Delivery) mail.Message
	// Origin returns the address of this service, for links in mail to the operator. Default: it has no links.
	Origin func() string
}

// clock returns what tells the time to the millisecond, which is what the store keeps.
func (o *Options) clock() func() time.Time {
	now := time.Now
	if o != nil && o.Now != nil {
		now = o.Now
	}
	return func() time.Time { return now().UTC().Truncate(time.Millisecond) }
}

// NewHooks returns Hooks. settings returns what is in force. opts may be nil.
func NewHooks(store HookStore, settings func() Settings, opts *Options) *Hooks {
	return &Hooks{store: store, settings: settings, now: opts.clock()}
}

// List returns an account's webhooks, oldest first, without their secrets, and whether it gets mail about videos.
func (h *Hooks) List(ctx context.Context, accountID string) (hooks []Endpoint, mailed bool, err error) {
	all, err := h.store.Endpoints(ctx, accountID)
	for _, e := range all {
		if e.Secret = ""; e.Kind == Mail {
			mailed = true
		} else {
			hooks = append(hooks, e)
		}
	}
	return hooks, mailed, err
}

// Create adds a webhook for events of some types; all if there are none. The secret in the result is shown to nobody
// again.
func (h *Hooks) Create(ctx context.Context, actor, accountID, address string, types []Type) (*Endpoint, error) {
	address = strings.TrimSpace(address)
	u, err := h.parseURL(address)
	if err != nil {
		return nil, err
	}
	for _, t := range types {
		if !slices.Contains(CustomerTypes(), t) {
			return nil, fault.New(fault.Invalid, "There is no event %q.", t).At("types")
		}
	}
	e := &Endpoint{ID: "whk_" + rand.Text(), AccountID: accountID, Kind: Web, To: address, Types: types, Secret: NewSecret(), CreatedAt: h.now()}
	// Only the host: the rest of a URL may be a secret.
	entry := account.Entry{At: e.CreatedAt, Actor: actor, Action: "webhook.create", AccountID: accountID, Detail: e.ID + " at " + u.Host}
	if err := h.store.AddEndpoint(ctx, e, MaxEndpoints, entry); err != nil {
		return nil, err
	}
	return e, nil
}

// parseURL reads the address of a customer's webhook, and refuses those that it cannot have. That a public name leads to a private address is
// found out when it is called.
func (h *Hooks) parseURL(address string) (*url.URL, error) {
	bad := func(format string, args ...any) (*url.URL, error) {
		return nil, fault.New(fault.Invalid, format, args...).At("url")
	}
	if len(address) > MaxURL {
		return bad("A URL may have at most %d bytes.", MaxURL)
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return bad("Write a URL such as https://example.com/webhooks.")
	}
	if u.User != nil || u.Fragment != "" {
		return bad("A URL for webhooks has no user, no password and no #.")
	}
	if isAllowed(h.settings().AllowHosts, u) {
		return u, nil
	}
	if u.Scheme != "https" {
		return bad("Webhooks need https, so that nobody can read them on the way.")
	}
	if netguard.CheckHost(u.Hostname()) != nil {
		return bad("%s is not a public address, so this service does not call it.", u.Hostname())
	}
	return u, nil
}

// isAllowed reports whether the operator allows the host of a URL, on all ports or on this one.
func isAllowed(hosts []string, u *url.URL) bool {
	return slices.ContainsFunc(hosts, func(host string) bool {
		return strings.EqualFold(host, u.Hostname()) || strings.EqualFold(host, u.Host)
	})
}

// Delete removes a webhook, its secret and what was sent to it.
func (h *Hooks) Delete(ctx context.Context, actor, accountID, id string) error {
	return h.store.DeleteEndpoint(ctx, accountID, id, account.Entry{At: h.now(), Actor: actor, Action: "webhook.delete", AccountID: accountID, Detail: id})
}

// Resume sends to a webhook again whose receiver had said that it wants nothing more.
func (h *Hooks) Resume(ctx context.Context, accountID, id string) error {
	return h.store.StopEndpoint(ctx, accountID, id, time.Time{}, "")
}

// SetMail turns mail about finished videos on or off. Mail about the score is always sent, as a notice.
func (h *Hooks) SetMail(ctx context.Context, accountID string, on bool) error {
	id := "mail_" + accountID
	if on {
		err := h.store.AddEndpoint(ctx, &Endpoint{ID: id, AccountID: accountID, Kind: Mail, Types: []Type{VideoSucceeded, VideoFailed}, CreatedAt: h.now()}, 1, account.Entry{})
		if fault.Is(err, fault.Conflict) {
			return nil // it is on
		}
		return err
	}
	if err := h.store.DeleteEndpoint(ctx, accountID, id, account.Entry{}); !fault.Is(err, fault.NotFound) {
		return err
	}
	return nil
}

// Test sends an event of no importance to a webhook and returns the delivery.
func (h *Hooks) Test(ctx context.Context, accountID, id string) (*Delivery, error) {
	e, err := h.find(ctx, accountID, id)
	if err != nil {
		return nil, err
	}
	return test(ctx, h.store, e, h.now())
}

// test stores a test of an endpoint.
func test(ctx context.Context, store DeliveryStore, to *Endpoint, now time.Time) (*Delivery, error) {
	e := NewEvent(to.AccountID, Test, rand.Text(), now, "A test", struct {
		Message string `json:"message"`
	}{"This is a test. Nothing has happened."})
	d := deliveryOf(&e, to, now)
	if err := store.AddTest(ctx, &d, now.Add(-time.Hour), testsPerHour); err != nil {
		return nil, err
	}
	return &d, nil
}

// find returns an account's webhook.
func (h *Hooks) find(ctx context.Context, accountID, id string) (*Endpoint, error) {
	all, err := h.store.Endpoints(ctx, accountID)
	if err != nil {
		return nil, err
	}
	for i := range all {
		if all[i].ID == id && all[i].Kind == Web {
			return &all[i], nil
		}
	}
	return nil, fault.New(fault.NotFound, "There is no such webhook.")
}

// Deliveries returns what was sent to a webhook of an account, newest first; to all of them if id is empty.
func (h *Hooks) Deliveries(ctx context.Context, accountID, id string, p Page) ([]Delivery, error) {
	return h.store.Deliveries(ctx, accountID, id, "", p)
}

// Replay sends an ended delivery of an account again, under its id. It gets as many attempts as a new one.
func (h *Hooks) Replay(ctx context.Context, accountID, id string) error {
	now := h.now()
	return h.store.Replay(ctx, accountID, id, now, now.Add(-time.Hour), replayPerHour)
}

// HistoryStore is what a History reads and keeps.
type HistoryStore interface {
	EventStore
	DeliveryStore
}

// History is the operator's view of all alerts.
type History struct {
	store    HistoryStore
	settings func() Settings
	now      func() time.Time
}

// NewHistory returns a History. opts may be nil.
func NewHistory(store HistoryStore, settings func() Settings, opts *Options) *History {
	return &History{store, settings, opts.clock()}
}

// Events returns what the operator was told, newest first.
func (d *History) Events(ctx context.Context, p Page) ([]Event, error) { return d.store.Events(ctx, p) }

// Deliveries returns deliveries to an account, or to the operator if accountID is empty, newest first. A state that
// is not empty leaves out all others.
func (d *History) Deliveries(ctx context.Context, accountID string, state State, p Page) ([]Delivery, error) {
	return d.store.Deliveries(ctx, accountID, "", state, p)
}

// Find returns a delivery, whoever it is for. It returns fault.NotFound if there is none.
func (d *History) Find(ctx context.Context, id string) (*Delivery, error) {
	return d.store.FindDelivery(ctx, id)
}

// Replay sends an ended delivery again and returns it. Unlike a customer, the operator may do so as often as it takes.
func (d *History) Replay(ctx context.Context, id string) (*Delivery, error) {
	found, err := d.Find(ctx, id)
	if err != nil {
		return nil, err
	}
	now := d.now()
	if err := d.store.Replay(ctx, found.AccountID, id, now, now, replayPerHour); err != nil {
		return nil, err
	}
	return d.Find(ctx, id)
}

// Test sends a test to all endpoints of the operator and returns the deliveries.
func (d *History) Test(ctx context.Context) ([]Delivery, error) {
	endpoints := d.settings().Operator
	if len(endpoints) == 0 {
		return nil, fault.New(fault.Conflict, "No endpoint is configured for alerts. Set alerts.email or alerts.webhooks.")
	}
	var all []Delivery
	for i := range endpoints {
		one, err := test(ctx, d.store, &endpoints[i], d.now())
		if err != nil {
			return nil, fmt.Errorf("test %s: %w", endpoints[i].ID, err)
		}
		all = append(all, *one)
	}
	return all, nil
}

// Endpoints returns the operator's endpoints, without their secrets.
func (d *History) Endpoints() []Endpoint {
	all := slices.Clone(d.settings().Operator)
	for i := range all {
		all[i].Secret = ""
	}
	return all
}
