package alert

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"sluice/internal/account/mail"
	"sluice/internal/kit/excerpt"
	"sluice/internal/kit/health"
	"sluice/internal/kit/netguard"
	"sluice/internal/kit/telemetry"
)

// The bounds of sending. docs/bounds.md#what-is-bounded lists them.
const (
	// CarryEvery is how often a Courier looks for work when it has none.
	CarryEvery = time.Second
	// At most atOnce deliveries are under way. Customers use no more than forCustomers of them, so that the operator
	// hears of an outage while all their receivers hang.
	atOnce       = 32
	forCustomers = 28
	perEndpoint  = 4
	perAccount   = 8
	// patience bounds one attempt, and claim is how long no other attempt of a delivery begins.
	patience = 15 * time.Second
	claim    = 30 * time.Second
	// maxReply is how much of a reply is read, and maxProblem how much is kept of what was wrong.
	maxReply   = 4 << 10
	maxProblem = 300
	// fanOutAtOnce is how many events are taken in one transaction.
	fanOutAtOnce = 100
	// longestWish is the longest pause that a receiver can ask for by Retry-After.
	longestWish = time.Hour
)

// pauses are the delays between attempts, each lengthened by up to a tenth, so that the deliveries of an outage do not
// all come back in one moment. After the last one a delivery is given up: two days after the first attempt.
var pauses = []time.Duration{
	5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, 30 * time.Minute,
	2 * time.Hour, 5 * time.Hour, 10 * time.Hour, 14 * time.Hour, 16 * time.Hour,
}

// CourierStore is what a Courier keeps.
type CourierStore interface {
	QueueStore
	EndpointStore
}

// Courier sends deliveries.
type Courier struct {
	store    CourierStore
	settings func() Settings
	sender   mail.Sender
	// address returns the mail address of an account, or "" if it has none any more.
	address func(accountID string) string
	letter  func(to *Endpoint, d *Delivery) mail.Message // may be nil
	origin  func() string
	log     *slog.Logger
	now     func() time.Time

	delivered, failed, dead atomic.Int64

	carrying, settling health.Trouble

	operator, customers liveGuard
}

// NewCourier returns a Courier. sender delivers mail, and address returns where an account gets it. opts may be nil.
func NewCourier(store CourierStore, settings func() Settings, sender mail.Sender, address func(accountID string) string, log *slog.Logger, opts *Options) *Courier {
	c := &Courier{store: store, settings: settings, sender: sender, address: address, log: log, now: opts.clock(), origin: func() string { return "" }}
	if opts != nil {
		c.letter = opts.Letter
		if opts.Origin != nil {
			c.origin = opts.Origin
		}
	}
	return c
}

// AddMetrics adds the metrics of deliveries in this process.
func (c *Courier) AddMetrics(m *telemetry.Metrics) {
	m.Counter("sluice_alerts_delivered_total", "Attempts to deliver an alert that succeeded.", c.delivered.Load)
	m.Counter("sluice_alerts_failed_total", "Attempts to deliver an alert that failed.", c.failed.Load)
	m.Counter("sluice_alerts_dead_total", "Alerts that were given up.", c.dead.Load)
}

// round is one Carry: what is under way.
type round struct {
	running  map[string]int // by endpoint, and by account
	all      int
	customer int // those of all that are for customers
}

// Carry makes deliveries of new events and makes the attempts that are due, until none is, or ctx ends. Two Couriers
// do not make the same attempt, but one that begins when another was cut off may repeat an attempt under its id.
func (c *Courier) Carry(ctx context.Context) {
	now := &round{running: map[string]int{}}
	ended := make(chan *Delivery) // unbuffered: who sends is waited for below
	defer func() {
		for now.all > 0 {
			now.count(<-ended, -1)
		}
	}()
	tick := time.NewTicker(CarryEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		if err := c.fanOut(ctx); err != nil {
			c.complain(ctx, &c.carrying, "alerts could not be prepared", err)
			return
		}
		begun, err := c.begin(ctx, now, ended)
		if err != nil {
			c.complain(ctx, &c.carrying, "alerts could not be claimed", err)
			return
		}
		c.carrying.Works(c.log, "alerts are prepared and claimed again")
		if begun == 0 && now.all == 0 {
			return
		}
		select {
		case d := <-ended:
			now.count(d, -1)
		case <-tick.C: // for what has happened meanwhile
		case <-ctx.Done():
		}
	}
}

// complain logs an error, unless it is the end.
func (c *Courier) complain(ctx context.Context, about *health.Trouble, what string, err error) {
	if ctx.Err() == nil {
		about.Failed(c.log, what, err)
	}
}

// fanOut makes deliveries of all new events.
func (c *Courier) fanOut(ctx context.Context) error {
	for {
		s, now := c.settings(), c.now()
		n, err := c.store.FanOut(ctx, now, fanOutAtOnce, func(e *Event, endpoints []Endpoint) (list []Delivery) {
			if e.AccountID == "" {
				endpoints = s.Operator
			}
			for i := range endpoints {
				if endpoints[i].Wants(e.Type) {
					list = append(list, deliveryOf(e, &endpoints[i], now))
				}
			}
			return list
		})
		if err != nil || n < fanOutAtOnce {
			return err
		}
	}
}

// begin starts the attempts that are due, as far as there is room, and returns how many.
func (c *Courier) begin(ctx context.Context, r *round, ended chan<- *Delivery) (begun int, err error) {
	for _, operator := range []bool{true, false} {
		for {
			most := r.room(operator)
			if most <= 0 {
				break
			}
			now := c.now()
			list, err := c.store.ClaimDeliveries(ctx, now, now.Add(claim), operator, most, r.full())
			if err != nil {
				return begun, err
			}
			if len(list) == 0 {
				break
			}
			for i := range list {
				begun++
				r.count(&list[i], 1)
				go func() { ended <- c.attempt(ctx, list[i]) }()
			}
		}
	}
	return begun, nil
}

// room returns how many deliveries may be claimed at once. It is few, so that none of them is one too many for its
// endpoint.
func (r *round) room(operator bool) int {
	room := atOnce - r.all
	if !operator {
		room = min(room, forCustomers-r.customer)
	}
	return min(room, perEndpoint)
}

// full returns the endpoints and accounts that might get too much with another claim.
func (r *round) full() (names []string) {
	for name, n := range r.running {
		account := strings.HasPrefix(name, "acct_") || name == Everybody
		if account && n > perAccount-perEndpoint || !account && n > 0 {
			names = append(names, name)
		}
	}
	return names
}

// count notes that a delivery is under way, with 1, or no longer, with -1.
func (r *round) count(d *Delivery, n int) {
	r.all += n
	names := []string{d.EndpointID}
	if d.AccountID != "" {
		r.customer += n
		names = append(names, d.AccountID)
	}
	for _, name := range names {
		if r.running[name] += n; r.running[name] == 0 {
			delete(r.running, name)
		}
	}
}

// attempt tries a delivery once and stores the outcome.
func (c *Courier) attempt(ctx context.Context, d Delivery) *Delivery {
	out := c.send(ctx, &d)
	if ctx.Err() != nil && !out.ok {
		// The process stops, or this node has lost the work. The attempt does not count.
		d.DueAt = c.now()
		c.settle(ctx, &d)
		return &d
	}
	now := c.now()
	d.Attempts++
	d.Status, d.Problem = out.status, excerpt.Head(strings.ReplaceAll(out.problem, "\x00", ""), maxProblem) // as databases take it
	switch {
	case out.ok:
		d.State, d.FinishedAt, d.Problem = Delivered, now, ""
		c.delivered.Add(1)
	case out.final || d.Attempts > len(pauses):
		d.State, d.FinishedAt = Dead, now
		c.failed.Add(1)
		c.dead.Add(1)
		c.log.Warn("an alert could not be delivered", "endpoint", d.EndpointID, "account", d.AccountID, "type", string(d.Type), "id", d.ID, "attempts", d.Attempts, "problem", d.Problem)
	default:
		pause := pauses[d.Attempts-1]
		d.DueAt = now.Add(max(pause+rand.N(pause/10), min(out.wish, longestWish)))
		c.failed.Add(1)
	}
	c.settle(ctx, &d)
	if out.gone && d.AccountID != "" {
		if err := c.store.StopEndpoint(context.WithoutCancel(ctx), d.AccountID, d.EndpointID, now, "the receiver answered 410 Gone"); err != nil {
			c.log.Warn("a webhook could not be stopped", "endpoint", d.EndpointID, "error", err.Error())
		}
	}
	return &d
}

// settle stores the outcome of an attempt, also while the process stops. If that fails, the attempt is repeated when
// its claim ends: at least once, and never lost.
func (c *Courier) settle(ctx context.Context, d *Delivery) {
	if err := c.store.EndAttempt(context.WithoutCancel(ctx), d); err != nil {
		c.complain(ctx, &c.settling, "the outcome of an alert could not be stored; it will be sent again", err)
		return
	}
	c.settling.Works(c.log, "the outcome of alerts is stored again")
}

// outcome is how an attempt ended.
type outcome struct {
	ok      bool
	final   bool // another attempt is of no use
	gone    bool // the receiver wants nothing more
	status  int
	problem string
	wish    time.Duration // how long the receiver asks to be left alone
}

// send makes an attempt.
func (c *Courier) send(ctx context.Context, d *Delivery) outcome {
	to, err := c.endpoint(ctx, d)
	if err != nil {
		return outcome{problem: "the endpoint could not be read: " + err.Error()}
	}
	if to == nil {
		return outcome{final: true, problem: "the endpoint is no longer there"}
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if to.Kind == Mail {
		return c.post(ctx, to, d)
	}
	return c.call(ctx, to, d)
}

// endpoint returns where a delivery goes to, or nil if that is no longer known.
func (c *Courier) endpoint(ctx context.Context, d *Delivery) (*Endpoint, error) {
	if d.AccountID != "" {
		return c.store.FindEndpoint(ctx, d.AccountID, d.EndpointID)
	}
	all := c.settings().Operator
	if i := slices.IndexFunc(all, func(e Endpoint) bool { return e.ID == d.EndpointID }); i >= 0 {
		return &all[i], nil
	}
	return nil, nil
}

// post sends a delivery by mail.
func (c *Courier) post(ctx context.Context, to *Endpoint, d *Delivery) outcome {
	m := mail.Message{To: to.To}
	m.Subject, m.Text = letterOf(d, c.address, c.origin())
	switch to.AccountID {
	case "":
	case Everybody:
		if c.letter != nil {
			m = c.letter(to, d)
		}
	default:
		if m.To = c.address(to.AccountID); m.To == "" {
			return outcome{final: true, problem: "the account has no mail address"}
		}
	}
	err := c.sender.Send(ctx, m)
	if err == nil {
		return outcome{ok: true}
	}
	_, refused := errors.AsType[*mail.Refused](err)
	return outcome{final: refused, problem: err.Error()}
}

// call sends a delivery to a webhook. Any reply but 2xx is a failure, redirects included: the receiver would not get
// what was signed for it.
func (c *Courier) call(ctx context.Context, to *Endpoint, d *Delivery) outcome {
	u, err := url.Parse(to.To)
	if err != nil {
		return outcome{final: true, problem: "the URL cannot be read"}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to.To, strings.NewReader(string(d.Body)))
	if err != nil {
		return outcome{final: true, problem: "the URL cannot be called"}
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "Sluice-Webhooks/1")
	if err := to.Secret.sign(req.Header, d.ID, c.now(), string(d.Body)); err != nil {
		return outcome{final: true, problem: "the secret of the webhook cannot be read"}
	}
	client := c.guardFor(to).Client(u, nil)
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	resp, err := client.Do(req)
	if err != nil {
		return outcome{problem: reasonOf(err)}
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, maxReply)) // what there is of it helps to find the mistake
	out := outcome{ok: resp.StatusCode/100 == 2, gone: resp.StatusCode == http.StatusGone, status: resp.StatusCode}
	out.final = out.gone
	if !out.ok {
		out.problem = strings.TrimSpace(resp.Status + ": " + strings.ToValidUTF8(string(text), "?"))
		out.wish = retryAfter(resp.Header)
	}
	return out
}

// retryAfter returns the pause that a receiver asks for, in seconds.
func retryAfter(h http.Header) time.Duration {
	d, err := time.ParseDuration(h.Get("Retry-After") + "s")
	if err != nil || d < 0 {
		return 0
	}
	return d
}

// reasonOf says in a few words why a call failed. A receiver's owner reads it, so it names no address of ours: neither
// that of the connection nor that of our name server.
func reasonOf(err error) string {
	switch {
	case errors.Is(err, netguard.ErrRefused):
		return "its address is not public"
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Sprintf("no answer within %s", patience)
	}
	if e, ok := errors.AsType[*net.DNSError](err); ok {
		if e.IsNotFound {
			return "its host name is not known"
		}
		return "its host name could not be looked up"
	}
	var unverified *tls.CertificateVerificationError
	var other tls.RecordHeaderError
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "the server refused the connection"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "its host cannot be reached"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "it closed the connection without an answer"
	case errors.As(err, &unverified):
		return "its TLS certificate is not accepted: " + strings.TrimPrefix(unverified.Err.Error(), "x509: ")
	case errors.As(err, &other):
		return "it does not speak TLS on this port"
	}
	if e, ok := errors.AsType[*net.OpError](err); ok {
		return "the connection broke: " + e.Err.Error()
	}
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err
	}
	return err.Error()
}

// guardFor returns the guard through which an endpoint is called. The operator's own endpoints may be inside the
// network, and customers do not get there by naming the same host.
func (c *Courier) guardFor(to *Endpoint) *netguard.Guard {
	s := c.settings()
	if to.AccountID != "" {
		return c.customers.guard(s.AllowHosts)
	}
	var own []string
	for _, e := range s.Operator {
		if u, err := url.Parse(e.To); err == nil && e.Kind == Web {
			own = append(own, u.Host)
		}
	}
	return c.operator.guard(own)
}

// way is a guard that follows the settings.
type liveGuard struct {
	mu    sync.Mutex
	made  *netguard.Guard // nil before the first use
	allow []string        // the hosts that it lets through
}

// guard returns the guard that lets some hosts through.
func (w *liveGuard) guard(allow []string) *netguard.Guard {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.made == nil || !slices.Equal(w.allow, allow) {
		w.close()
		w.made, w.allow = netguard.New(&netguard.Options{Allow: allow}), allow
	}
	return w.made
}

// close closes idle connections. The caller holds mu.
func (w *liveGuard) close() {
	if w.made != nil {
		w.made.Close()
	}
}

// Close releases connections, after the last Carry.
func (c *Courier) Close() {
	for _, w := range []*liveGuard{&c.operator, &c.customers} {
		w.mu.Lock()
		w.close()
		w.mu.Unlock()
	}
}
