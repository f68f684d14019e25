package incident

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"time"

	"sluice/internal/account"
	"sluice/internal/account/mail"
	"sluice/internal/account/signin"
	"sluice/internal/kit/fault"
	"sluice/internal/kit/seal"
	"sluice/internal/operate/alert"
)

const (
	// MaxSubscribers is how many addresses get mail about incidents.
	MaxSubscribers = 10_000
	// confirmFor is how long the link of a confirmation works.
	confirmFor = 24 * time.Hour
)

// event returns what is sent about an update.
func (i *Incident) event(t alert.Type, u *Update, origin string) alert.Event {
	var until *time.Time
	if !i.Until.IsZero() {
		until = &i.Until
	}
	return alert.NewEvent(alert.Everybody, t, i.ID+" "+u.ID, u.At, u.Status.Words()+": "+i.Title, told{
		ID: i.ID, Kind: i.Kind, Title: i.Title, Severity: i.Severity, Status: u.Status, Text: u.Text,
		Components: i.Components, Models: i.Models, From: i.From, Until: until, URL: origin + i.Path(),
	})
}

// told is the data of an event, which programs of customers read.
type told struct {
	ID         string      `json:"id"`
	Kind       Kind        `json:"kind"`
	Title      string      `json:"title"`
	Severity   Severity    `json:"severity,omitempty"`
	Status     Status      `json:"status"`
	Text       string      `json:"text"`
	Components []Component `json:"components"`
	Models     []string    `json:"models"`
	From       time.Time   `json:"from"`
	Until      *time.Time  `json:"until"` // null: not known
	URL        string      `json:"url"`
}

// SubscriberStore keeps the addresses that get mail about incidents, as endpoints of alert.Everybody.
type SubscriberStore interface {
	// AddSubscriber stores an endpoint, unless it is there. It returns fault.Conflict if there are most already.
	AddSubscriber(ctx context.Context, e *alert.Endpoint, most int) error
	// DropSubscriber deletes an endpoint and what was to be sent to it. It is no error if there is none.
	DropSubscriber(ctx context.Context, id string) error
	// CountSubscribers returns how many there are.
	CountSubscribers(ctx context.Context) (int, error)
}

// Settings are what a configuration says. A reload replaces them.
type Settings struct {
	Origin string // without a path
	Brand  string
	// Key signs the links in mails. It is the same on all nodes.
	Key seal.Key
}

// Poster queues mail without waiting.
type Poster interface{ Post(m mail.Message) }

// Counter counts the forms of strangers; see signin.Service.
type Counter interface {
	CountSubscription(ctx context.Context, v signin.Visit, address string) (mail bool, err error)
}

// Subscribers are the people who get mail about incidents. An address is stored only once its owner has confirmed it,
// and nobody can find out which addresses are.
type Subscribers struct {
	store    SubscriberStore
	post     Poster
	count    Counter
	settings func() Settings
	now      func() time.Time
}

// NewSubscribers returns Subscribers. post sends the mail that asks for a confirmation, and count says whether it may.
func NewSubscribers(store SubscriberStore, post Poster, count Counter, settings func() Settings) *Subscribers {
	return &Subscribers{store: store, post: post, count: count, settings: settings, now: time.Now}
}

// Ask sends a mail that asks for a confirmation. Its result is the same whether the address is subscribed or not, and
// whether it has got too many of these mails.
func (s *Subscribers) Ask(ctx context.Context, v signin.Visit, address string) error {
	address, err := account.ParseEmail(address)
	if err != nil {
		return err
	}
	may, err := s.count.CountSubscription(ctx, v, address)
	if err != nil || !may {
		return err
	}
	set := s.settings()
	s.post.Post(mail.Message{To: address, Subject: "Confirm your subscription to the status of " + set.Brand, Text: fmt.Sprintf(`Somebody, probably you, asked to receive e-mails about incidents and maintenance of %s at this address.

To confirm, open this page within 24 hours:
%s/status/confirm?token=%s

If it was not you, ignore this e-mail. We will not write again.
`, set.Brand, set.Origin, url.QueryEscape(s.confirmation(address)))})
	return nil
}

// pending is what the link of a confirmation carries.
type pending struct {
	Address string    `json:"a"`
	Until   time.Time `json:"u"`
}

// confirming returns the box that seals confirmations.
func (s *Subscribers) confirming() seal.Box { return s.settings().Key.Box("status", "confirm", "") }

// confirmation returns the token of a confirmation.
func (s *Subscribers) confirmation(address string) string {
	raw, err := json.Marshal(pending{address, s.now().Add(confirmFor)})
	if err != nil {
		panic(err) // a text and a time
	}
	return base64.RawURLEncoding.EncodeToString(s.confirming().Seal(raw))
}

// Address returns the address of a confirmation, or a fault if the link does not work any more.
func (s *Subscribers) Address(token string) (string, error) {
	gone := fault.New(fault.NotFound, "This link no longer works. Enter your address on the status page to get another one.")
	sealed, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		return "", gone
	}
	raw, err := s.confirming().Open(sealed)
	var p pending
	if err != nil || json.Unmarshal(raw, &p) != nil || !s.now().Before(p.Until) {
		return "", gone
	}
	return p.Address, nil
}

// Confirm subscribes the address of a confirmation.
func (s *Subscribers) Confirm(ctx context.Context, token string) error {
	address, err := s.Address(token)
	if err != nil {
		return err
	}
	return s.store.AddSubscriber(ctx, &alert.Endpoint{
		ID: subscriberID(address), AccountID: alert.Everybody, Kind: alert.Mail, To: address, Types: alert.IncidentTypes(), CreatedAt: s.now().UTC(),
	}, MaxSubscribers)
}

// subscriberID returns the id of an address, so that it is stored only once.
func subscriberID(address string) string {
	sum := sha256.Sum256([]byte(address))
	return "sub_" + hex.EncodeToString(sum[:12])
}

// proof returns what proves that a link was in a mail to a subscriber.
func (s *Subscribers) proof(id string) string {
	sum := s.settings().Key.Box("status", "unsubscribe", id).ID()
	return base64.RawURLEncoding.EncodeToString(sum[:18])
}

// leaving returns the link that unsubscribes.
func (s *Subscribers) leaving(id string) string {
	return s.settings().Origin + "/status/unsubscribe?token=" + id + "." + s.proof(id)
}

// Proves returns a fault unless the token is of a link in a mail.
func (s *Subscribers) Proves(token string) error {
	id, proof, _ := strings.Cut(token, ".")
	if subtle.ConstantTimeCompare([]byte(proof), []byte(s.proof(id))) != 1 {
		return fault.New(fault.NotFound, "This link is incomplete. Copy all of it from the e-mail.")
	}
	return nil
}

// Leave unsubscribes the address of a link. Leaving twice is no error.
func (s *Subscribers) Leave(ctx context.Context, token string) error {
	if err := s.Proves(token); err != nil {
		return err
	}
	id, _, _ := strings.Cut(token, ".")
	return s.store.DropSubscriber(ctx, id)
}

// Count returns how many addresses there are.
func (s *Subscribers) Count(ctx context.Context) (int, error) { return s.store.CountSubscribers(ctx) }

// Letter returns the mail about an event to a subscriber.
func (s *Subscribers) Letter(to *alert.Endpoint, d *alert.Delivery) mail.Message {
	set := s.settings()
	var in struct {
		Data told `json:"data"`
	}
	m := mail.Message{To: to.To, Subject: "[" + set.Brand + "] " + d.Title, Unsubscribe: s.leaving(to.ID)}
	if json.Unmarshal([]byte(d.Body), &in) != nil {
		return m // it is ours
	}
	var b strings.Builder
	i := Incident{Components: in.Data.Components, Models: in.Data.Models}
	fmt.Fprintf(&b, "%s\n\n%s\n\n", d.Title, in.Data.Text)
	if affected := i.Affected(); affected != "" {
		fmt.Fprintf(&b, "Affected: %s\n", affected)
	}
	const minute = "2 Jan 2006 15:04 UTC"
	when := "Since"
	if in.Data.Kind == Maintenance {
		when = "From"
	}
	fmt.Fprintf(&b, "%s: %s\n", when, in.Data.From.UTC().Format(minute))
	if in.Data.Until != nil {
		fmt.Fprintf(&b, "Until: %s\n", in.Data.Until.UTC().Format(minute))
	}
	fmt.Fprintf(&b, "\n%s\n\nYou are receiving this e-mail because you subscribed to the status of %s. Unsubscribe:\n%s\n", in.Data.URL, set.Brand, m.Unsubscribe)
	m.Text = b.String()
	return m
}
