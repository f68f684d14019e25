package alert_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"sluice/internal/account"
	"sluice/internal/account/billing"
	"sluice/internal/account/mail"
	"sluice/internal/kit/fault"
	"sluice/internal/kit/telemetry"
	"sluice/internal/ledger/abuse"
	"sluice/internal/operate/alert"
	"sluice/internal/store/sqlstore/alltest"
	"sluice/internal/video"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var base = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// clock is a time that tests move.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time { c.mu.Lock(); defer c.mu.Unlock(); return c.at }

func (c *clock) pass(d time.Duration) { c.mu.Lock(); c.at = c.at.Add(d); c.mu.Unlock() }

// post keeps mail. If err is not nil, it refuses all of it.
type post struct {
	mu   sync.Mutex
	err  error
	sent []mail.Message
}

func (p *post) Send(_ context.Context, m mail.Message) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		p.sent = append(p.sent, m)
	}
	return p.err
}

// receiver answers as told and keeps what it got.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex
	status func(n int) int // of the n-th request
	header http.Header
	got    []message
}

type message struct {
	header http.Header
	body   string
}

func newReceiver(t *testing.T, status func(n int) int) *receiver {
	t.Helper()
	r := &receiver{status: status, header: http.Header{}}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		r.mu.Lock()
		r.got = append(r.got, message{req.Header.Clone(), string(body)})
		n := len(r.got)
		for name, values := range r.header {
			w.Header()[name] = values
		}
		r.mu.Unlock()
		w.WriteHeader(r.status(n))
		_, _ = io.WriteString(w, "what the receiver says")
	}))
	t.Cleanup(r.Close)
	return r
}

func always(status int) func(int) int { return func(int) int { return status } }

func (r *receiver) requests() int { r.mu.Lock(); defer r.mu.Unlock(); return len(r.got) }

// site is a store with an account, and all that sends.
type site struct {
	*testing.T
	clock    *clock
	store    *alltest.Store
	settings alert.Settings
	account  *account.Account
	post     *post
	hooks    *alert.Hooks
	history  *alert.History
	courier  *alert.Courier
}

func newSite(t *testing.T, allow ...string) *site {
	t.Helper()
	store, err := alltest.Open(t.Context(), "sqlite", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	if err := store.Unlock(t.Context(), strings.Repeat("s", 32)); err != nil {
		t.Fatal(err)
	}
	acct, _, err := account.New(store, nil).Create(t.Context(), "t", "ana@example.com", account.Basic, false)
	if err != nil {
		t.Fatal(err)
	}
	s := &site{T: t, clock: &clock{at: base}, store: store, settings: alert.Settings{AllowHosts: allow}, account: acct, post: &post{}}
	settings, opts := func() alert.Settings { return s.settings }, &alert.Options{Now: s.clock.now}
	s.hooks, s.history = alert.NewHooks(store, settings, opts), alert.NewHistory(store, settings, opts)
	s.courier = alert.NewCourier(store, settings, s.post, func(id string) string {
		if id == acct.ID {
			return acct.Email
		}
		return ""
	}, slog.New(slog.DiscardHandler), opts)
	t.Cleanup(s.courier.Close)
	return s
}

// create adds a webhook at a receiver.
func (s *site) create(to string, types ...alert.Type) *alert.Endpoint {
	s.Helper()
	e, err := s.hooks.Create(s.Context(), "owner", s.account.ID, to, types)
	if err != nil {
		s.Fatalf("Create(%s) = %v", to, err)
	}
	return e
}

// happen stores an event of the account.
func (s *site) happen(key string) {
	s.Helper()
	if err := s.store.AddEvents(s.Context(), alert.NewEvent(s.account.ID, alert.VideoSucceeded, key, s.clock.now(), "done", map[string]string{"id": key})); err != nil {
		s.Fatal(err)
	}
}

// sent returns the account's deliveries.
func (s *site) sent() []alert.Delivery {
	s.Helper()
	list, err := s.hooks.Deliveries(s.Context(), s.account.ID, "", alert.Page{Limit: 100})
	if err != nil {
		s.Fatal(err)
	}
	return list
}

// A receiver that fails gets the message again under the same id, with a new signature, until it accepts it.
func TestRetries(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, func(n int) int {
		if n < 4 {
			return http.StatusBadGateway
		}
		return http.StatusNoContent
	})
	s := newSite(t, "127.0.0.1")
	e := s.create(r.URL + "/x?y=z")
	s.happen("one")
	for n := range 4 {
		s.courier.Carry(t.Context())
		if got := r.requests(); got != n+1 {
			t.Fatalf("after %d rounds there were %d attempts", n+1, got)
		}
		s.courier.Carry(t.Context()) // nothing is due
		s.clock.pass(15 * time.Minute)
	}
	s.courier.Carry(t.Context())
	if got := r.requests(); got != 4 {
		t.Errorf("%d attempts, want no more after the one that succeeded", got)
	}
	first := r.got[0]
	for i, m := range r.got {
		if m.header.Get("Webhook-Id") != first.header.Get("Webhook-Id") || m.body != first.body || m.header.Get("Content-Type") != "application/json" {
			t.Errorf("attempt %d = %v %s, want the id and body of the first", i, m.header, m.body)
		}
		if err := alert.Verify(e.Secret, m.header, m.body); err != nil {
			t.Errorf("attempt %d: %v", i, err)
		}
	}
	if a, b := first.header.Get("Webhook-Timestamp"), r.got[3].header.Get("Webhook-Timestamp"); a == b {
		t.Errorf("the timestamp of each attempt is %s, want its own", a)
	}
	var body struct {
		Type      string
		Timestamp time.Time
		Data      struct{ ID string }
	}
	if err := json.Unmarshal([]byte(first.body), &body); err != nil || body.Type != "video.succeeded" || !body.Timestamp.Equal(base) || body.Data.ID != "one" {
		t.Errorf("the body is %s, %v", first.body, err)
	}
	if d := s.sent(); len(d) != 1 || d[0].State != alert.Delivered || d[0].Attempts != 4 || d[0].Status != 204 || d[0].Problem != "" {
		t.Errorf("the delivery is %+v", d)
	}
}

// What is never accepted is given up after the last pause, and can be sent again under its id.
func TestDeadAndReplayed(t *testing.T) {
	t.Parallel()
	status := http.StatusInternalServerError
	r := newReceiver(t, func(int) int { return status })
	s := newSite(t, "127.0.0.1")
	s.create(r.URL)
	s.happen("one")
	for range 30 {
		s.courier.Carry(t.Context())
		s.clock.pass(18 * time.Hour)
	}
	d := s.sent()
	if len(d) != 1 || d[0].State != alert.Dead || d[0].Attempts != r.requests() || d[0].Attempts != 11 || !strings.Contains(d[0].Problem, "what the receiver says") {
		t.Fatalf("after %d attempts the delivery is %+v, want it dead after 11", r.requests(), d)
	}
	metrics, scraped := telemetry.NewMetrics("", ""), httptest.NewRecorder()
	s.courier.AddMetrics(metrics)
	metrics.Handler().ServeHTTP(scraped, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if text := scraped.Body.String(); !strings.Contains(text, "\nsluice_alerts_dead_total 1\n") {
		t.Errorf("the metrics do not have one dead alert:\n%s", text)
	}
	status = http.StatusOK
	if err := s.hooks.Replay(t.Context(), s.account.ID, d[0].ID); err != nil {
		t.Fatal(err)
	}
	s.courier.Carry(t.Context())
	if d := s.sent(); d[0].State != alert.Delivered || d[0].Attempts != 1 || d[0].ReplayedAt.IsZero() || r.got[11].header.Get("Webhook-Id") != d[0].ID {
		t.Errorf("after the replay the delivery is %+v", d)
	}
}

// A receiver says by 410 that it wants nothing more, by Retry-After when to come again, and by a redirect nothing.
func TestReplies(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		status  int
		after   string
		state   alert.State
		stopped bool
		next    time.Duration // at least
	}{
		{http.StatusGone, "", alert.Dead, true, 0},
		{http.StatusTooManyRequests, "600", alert.Waiting, false, 10 * time.Minute},
		{http.StatusServiceUnavailable, "999999", alert.Waiting, false, time.Hour},
		{http.StatusFound, "", alert.Waiting, false, 5 * time.Second},
		{http.StatusAccepted, "", alert.Delivered, false, 0},
	} {
		t.Run(fmt.Sprint(tt.status), func(t *testing.T) {
			t.Parallel()
			r := newReceiver(t, always(tt.status))
			r.header.Set("Retry-After", tt.after)
			r.header.Set("Location", r.URL+"/elsewhere")
			s := newSite(t, "127.0.0.1")
			s.create(r.URL)
			s.happen("one")
			s.courier.Carry(t.Context())
			d := s.sent()[0]
			if d.State != tt.state || d.Status != tt.status || r.requests() != 1 {
				t.Errorf("the delivery is %+v after %d requests, want it %s", d, r.requests(), tt.state)
			}
			if wait := d.DueAt.Sub(base); d.State == alert.Waiting && (wait < tt.next || wait > tt.next*2) {
				t.Errorf("the next attempt is in %s, want about %s", wait, tt.next)
			}
			list, _, err := s.hooks.List(t.Context(), s.account.ID)
			if err != nil || list[0].StoppedAt.IsZero() == tt.stopped {
				t.Fatalf("List = %+v, %v, want it stopped: %t", list, err, tt.stopped)
			}
			if !tt.stopped {
				return
			}
			s.happen("two")
			s.courier.Carry(t.Context())
			if n := len(s.sent()); n != 1 {
				t.Errorf("a stopped webhook has %d deliveries, want no new one", n)
			}
			if err := s.hooks.Resume(t.Context(), s.account.ID, list[0].ID); err != nil {
				t.Fatal(err)
			}
			s.happen("three")
			s.courier.Carry(t.Context())
			if n := len(s.sent()); n != 2 {
				t.Errorf("a resumed webhook has %d deliveries, want another", n)
			}
		})
	}
}

// Customers reach public addresses only, whatever a name resolves to; the operator's own webhooks may be inside.
func TestGuarded(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, always(http.StatusOK))
	s := newSite(t, "127.0.0.1")
	s.create(r.URL)
	s.settings.AllowHosts = nil // the operator thinks better of it
	u, err := url.Parse(r.URL)
	if err != nil {
		t.Fatal(err)
	}
	s.settings.Operator = []alert.Endpoint{{ID: "webhook:a", Kind: alert.Web, To: r.URL, Secret: alert.NewSecret()}}
	s.happen("one")
	if err := s.store.AddEvents(t.Context(), alert.NewEvent("", alert.DiskFilling, "k", base, "full", nil)); err != nil {
		t.Fatal(err)
	}
	s.courier.Carry(t.Context())
	if d := s.sent()[0]; d.State != alert.Waiting || d.Problem != "its address is not public" {
		t.Errorf("the customer's delivery to %s is %+v, want it refused", u.Host, d)
	}
	if d, err := s.history.Deliveries(t.Context(), "", "", alert.Page{Limit: 9}); err != nil || len(d) != 1 || d[0].State != alert.Delivered {
		t.Errorf("the operator's delivery is %+v, %v, want it delivered", d, err)
	}
	for _, bad := range []string{
		"", "x", "ftp://example.com", "http://example.com/x", "https://127.0.0.1/", "https://localhost/", "https://u:p@example.com/", "https://example.com/#x",
		"https://169.254.169.254/", "https://2130706433/", "https://intranet/", "https://example.com/" + strings.Repeat("x", alert.MaxURL),
	} {
		if _, err := s.hooks.Create(t.Context(), "owner", s.account.ID, bad, nil); !fault.Is(err, fault.Invalid) {
			t.Errorf("Create(%q) = %v, want it refused", bad, err)
		}
	}
	if _, err := s.hooks.Create(t.Context(), "owner", s.account.ID, "https://example.com/", []alert.Type{alert.DiskFilling}); !fault.Is(err, fault.Invalid) {
		t.Errorf("Create for an event of the operator = %v, want it refused", err)
	}
}

// Many deliveries are made at once, but never more than a few to one endpoint, and one whose receiver hangs holds up
// no other.
func TestAtOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t, "127.0.0.1")
	var mu sync.Mutex
	running, most := 0, 0
	hang := make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		running++
		most = max(most, running)
		mu.Unlock()
		<-hang
		mu.Lock()
		running--
		mu.Unlock()
	}))
	defer slow.Close()
	quick := newReceiver(t, always(http.StatusOK))
	s.create(slow.URL)
	for i := range 20 {
		s.happen(fmt.Sprint(i))
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { s.courier.Carry(ctx); close(done) }()
	defer func() { stop(); <-done }()
	until(t, func() bool { mu.Lock(); defer mu.Unlock(); return running == 4 })
	s.create(quick.URL)
	s.happen("late")
	until(t, func() bool { return quick.requests() == 1 })
	close(hang)
	until(t, func() bool {
		for _, d := range s.sent() {
			if d.State != alert.Delivered {
				return false
			}
		}
		return true
	})
	if most > 4 {
		t.Errorf("%d deliveries were under way to one endpoint, want at most 4", most)
	}
}

// until waits for something that another goroutine does.
func until(t *testing.T, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(time.Minute); !holds(); <-tick.C {
		if time.Now().After(end) {
			t.Fatal("it does not come true")
		}
	}
}

// A courier that is stopped in the middle of an attempt leaves it to the next one, at once and uncounted.
func TestStopped(t *testing.T) {
	t.Parallel()
	s := newSite(t, "127.0.0.1")
	arrived, hang := make(chan struct{}, 2), make(chan struct{})
	r := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		select {
		case <-hang:
		case <-r.Context().Done():
		}
	}))
	defer r.Close()
	s.create(r.URL)
	s.happen("one")
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { s.courier.Carry(ctx); close(done) }()
	<-arrived
	stop()
	<-done
	if d := s.sent()[0]; d.State != alert.Waiting || d.Attempts != 0 || !d.DueAt.Equal(base) {
		t.Errorf("the delivery is %+v, want it due and not tried", d)
	}
	close(hang)
	s.courier.Carry(t.Context())
	if d := s.sent()[0]; d.State != alert.Delivered || d.Attempts != 1 {
		t.Errorf("the delivery is %+v, want it delivered", d)
	}
}

// Mail goes to the account's present address, and only if the customer wants it.
func TestMail(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for range 2 { // twice is once
		if err := s.hooks.SetMail(t.Context(), s.account.ID, true); err != nil {
			t.Fatal(err)
		}
	}
	s.happen("one")
	s.courier.Carry(t.Context())
	if len(s.post.sent) != 1 || s.post.sent[0].To != "ana@example.com" || s.post.sent[0].Subject != "done" || !strings.Contains(s.post.sent[0].Text, "The job is one.\n") {
		t.Errorf("mail = %+v", s.post.sent)
	}
	s.clock.pass(time.Second)
	s.post.err = &mail.Refused{Err: errors.New("no such user")}
	s.happen("two")
	s.courier.Carry(t.Context())
	if d := s.sent()[0]; d.State != alert.Dead {
		t.Errorf("refused mail is %+v, want it dead", d)
	}
	for range 2 {
		if err := s.hooks.SetMail(t.Context(), s.account.ID, false); err != nil {
			t.Fatal(err)
		}
	}
	if _, on, err := s.hooks.List(t.Context(), s.account.ID); err != nil || on {
		t.Errorf("List = %t, %v, want no mail", on, err)
	}
}

// Tests and replays are bounded, and nobody tests or replays what belongs to others.
func TestBounds(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, always(http.StatusOK))
	s := newSite(t, "127.0.0.1")
	e := s.create(r.URL)
	for range 4 {
		s.create(r.URL)
	}
	if _, err := s.hooks.Create(t.Context(), "owner", s.account.ID, r.URL, nil); !fault.Is(err, fault.Conflict) {
		t.Errorf("Create of the sixth webhook = %v, want a conflict", err)
	}
	for range 20 {
		if _, err := s.hooks.Test(t.Context(), s.account.ID, e.ID); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.hooks.Test(t.Context(), s.account.ID, e.ID); !fault.Is(err, fault.RateLimited) {
		t.Errorf("Test number 21 = %v, want it refused for now", err)
	}
	s.clock.pass(61 * time.Minute)
	if _, err := s.hooks.Test(t.Context(), s.account.ID, e.ID); err != nil {
		t.Errorf("Test an hour later = %v", err)
	}
	s.courier.Carry(t.Context())
	if r.requests() != 21 {
		t.Errorf("%d tests have arrived, want 21", r.requests())
	}
	for what, err := range map[string]error{
		"Test": second(s.hooks.Test(t.Context(), "acct_x", e.ID)), "Delete": s.hooks.Delete(t.Context(), "owner", "acct_x", e.ID),
		"Resume": s.hooks.Resume(t.Context(), "acct_x", e.ID), "Replay": s.hooks.Replay(t.Context(), "acct_x", s.sent()[0].ID),
	} {
		if !fault.Is(err, fault.NotFound) {
			t.Errorf("%s by another account = %v, want not found", what, err)
		}
	}
}

// So many deliveries can be sent again in an hour.
func TestReplayBound(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, always(http.StatusOK))
	s := newSite(t, "127.0.0.1")
	s.create(r.URL)
	for i := range 101 {
		s.happen(fmt.Sprint(i))
	}
	s.courier.Carry(t.Context())
	list, err := s.hooks.Deliveries(t.Context(), s.account.ID, "", alert.Page{Limit: 200})
	if err != nil || len(list) != 101 {
		t.Fatalf("Deliveries = %d, %v, want 101", len(list), err)
	}
	s.clock.pass(time.Minute)
	for _, d := range list[:100] {
		if err := s.hooks.Replay(t.Context(), s.account.ID, d.ID); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.hooks.Replay(t.Context(), s.account.ID, list[100].ID); !fault.Is(err, fault.RateLimited) {
		t.Errorf("Replay number 101 = %v, want it refused for now", err)
	}
	if d, err := s.history.Replay(t.Context(), list[100].ID); err != nil || d.State != alert.Waiting {
		t.Errorf("Replay by the operator = %+v, %v", d, err)
	}
	if _, err := s.history.Replay(t.Context(), "msg_none"); !fault.Is(err, fault.NotFound) {
		t.Errorf("Replay of what is not there = %v, want not found", err)
	}
	s.clock.pass(61 * time.Minute)
	s.courier.Carry(t.Context())
	if err := s.hooks.Replay(t.Context(), s.account.ID, list[100].ID); err != nil {
		t.Errorf("Replay an hour later = %v", err)
	}
}

// Beyond what may wait, deliveries are given up, and of those that have ended the newest are kept.
func TestWaitingBound(t *testing.T) {
	t.Parallel()
	s := newSite(t, "127.0.0.1")
	s.create("http://127.0.0.1:1/")
	events := make([]alert.Event, alert.MaxWaiting+alert.MaxKept+100)
	for i := range events {
		events[i] = alert.NewEvent(s.account.ID, alert.VideoSucceeded, fmt.Sprint(i), base.Add(time.Duration(i)*time.Millisecond), "done", nil)
	}
	for part := range slices.Chunk(events, 100) { // a transaction has a deadline
		if err := s.store.AddEvents(t.Context(), part...); err != nil {
			t.Fatal(err)
		}
	}
	for n := 100; n == 100; {
		var err error
		n, err = s.store.FanOut(t.Context(), s.clock.now(), 100, func(e *alert.Event, to []alert.Endpoint) []alert.Delivery {
			return []alert.Delivery{{ID: "msg_" + e.ID, EventID: e.ID, EndpointID: to[0].ID, AccountID: e.AccountID, Type: e.Type, CreatedAt: e.At, State: alert.Waiting, DueAt: e.At}}
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	count := func(state alert.State) []alert.Delivery {
		list, err := s.history.Deliveries(t.Context(), s.account.ID, state, alert.Page{Limit: len(events)})
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	waiting, dead := count(alert.Waiting), count(alert.Dead)
	if len(waiting) != alert.MaxWaiting || len(dead) != alert.MaxKept {
		t.Fatalf("%d wait and %d were given up, want %d and %d", len(waiting), len(dead), alert.MaxWaiting, alert.MaxKept)
	}
	if dead[0].EventID != events[len(events)-1].ID || dead[0].Problem == "" {
		t.Errorf("the newest that was given up is %+v, want the last event", dead[0])
	}
	if err := s.hooks.Replay(t.Context(), s.account.ID, dead[0].ID); !fault.Is(err, fault.RateLimited) {
		t.Errorf("Replay while too many wait = %v, want it refused for now", err)
	}
}

func second[T any](_ T, err error) error { return err }

func TestSecret(t *testing.T) {
	t.Parallel()
	fresh := alert.NewSecret()
	if raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(fresh.Reveal(), "whsec_")); err != nil || len(raw) != 32 {
		t.Errorf("NewSecret() = %s, want whsec_ and the base64 of 32 bytes", fresh.Reveal())
	}
	for _, bad := range []alert.Secret{"", "x", "whsec_!", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"} {
		if alert.Sign(bad, http.Header{}, "msg_1", time.Now(), "{}") == nil {
			t.Errorf("%q signs, want an error", bad.Reveal())
		}
	}
	for _, verb := range []string{"%v", "%s", "%+v", "%#v", "%q"} {
		if text := fmt.Sprintf(verb, fresh); strings.Contains(text, fresh.Reveal()) {
			t.Errorf("%s shows the secret", verb)
		}
	}
	// The example of the specification's reference implementations.
	h := http.Header{}
	err := alert.Sign("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", h, "msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 0), `{"test": 2432232314}`)
	if got, want := h.Get("Webhook-Signature"), "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="; err != nil || got != want {
		t.Errorf("the signature is %s, %v, want %s", got, err, want)
	}
}

// What happens becomes the right events, for the right reader, and without a prompt.
func TestSources(t *testing.T) {
	t.Parallel()
	type want struct {
		account string
		t       alert.Type
		part    string
	}
	score := func(kind abuse.Kind, n int) *abuse.Event {
		return &abuse.Event{At: base, AccountID: "acct_1", Kind: kind, Plan: account.Basic, Tier: account.Free, Score: n, Why: "because"}
	}
	job := func(status video.Status) *video.Job {
		return &video.Job{ID: "job_1", AccountID: "acct_1", Status: status, Request: video.Request{Prompt: "a secret wish", Seconds: 5}, FinishedAt: base}
	}
	for _, tt := range []struct {
		name string
		got  []alert.Event
		want []want
	}{
		{"warning", alert.OfAbuse(score(abuse.Warning, 51)), []want{{"acct_1", alert.ScoreReached, `"threshold":50,"score":51`}}},
		{"second warning", alert.OfAbuse(score(abuse.Warning, 80)), []want{{"acct_1", alert.ScoreReached, `"threshold":75,"score":80`}}},
		{"inquiry", alert.OfAbuse(score(abuse.Inquiry, 90)), []want{{"acct_1", alert.ScoreReached, `"threshold":90`}, {"", alert.AccountReview, `"kind":"inquiry"`}}},
		{"deactivated", alert.OfAbuse(score(abuse.Deactivated, 100)), []want{{"acct_1", alert.ScoreReached, `"threshold":100`}, {"", alert.AccountReview, `"why":"because"`}}},
		{"review", alert.OfAbuse(score(abuse.Review, 40)), []want{{"", alert.AccountReview, `"account":"acct_1"`}}},
		{"restored", alert.OfAbuse(score(abuse.Restored, 0)), nil},
		{"done", alert.OfVideo(job(video.Succeeded)), []want{{"acct_1", alert.VideoSucceeded, `"id":"job_1"`}}},
		{"failed", alert.OfVideo(job(video.Failed)), []want{{"acct_1", alert.VideoFailed, `"status":"failed"`}}},
		{"cancelled", alert.OfVideo(job(video.Cancelled)), nil},
		{"running", alert.OfVideo(job(video.Running)), nil},
		{"failed payment", alert.OfLedger(&billing.Entry{Seq: 7, AccountID: "acct_1", What: billing.RenewalFailed}), []want{{"", alert.PaymentFailed, `"what":"renewal_failed"`}}},
		{"payment", alert.OfLedger(&billing.Entry{Seq: 8, AccountID: "acct_1", What: billing.Charged}), nil},
	} {
		if len(tt.got) != len(tt.want) {
			t.Errorf("%s: %d events, want %d", tt.name, len(tt.got), len(tt.want))
			continue
		}
		for i, w := range tt.want {
			if e := tt.got[i]; e.AccountID != w.account || e.Type != w.t || !strings.Contains(string(e.Body), w.part) || strings.Contains(string(e.Body), "wish") || e.Title == "" || !json.Valid([]byte(e.Body)) {
				t.Errorf("%s: event %d = %+v, want %+v", tt.name, i, e, w)
			}
		}
	}
}

// What lasts is told once when it begins and once when it is over, and not if it was a moment only. While the database
// is away it is told all the same, under the id that it gets later.
func TestWatch(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, always(http.StatusOK))
	s := newSite(t)
	s.settings.Operator = []alert.Endpoint{{ID: "webhook:a", Kind: alert.Web, To: r.URL, Secret: alert.NewSecret()}}
	var down bool
	look := func() []alert.Sight {
		if !down {
			return nil
		}
		return []alert.Sight{{Key: "upstream x", Began: alert.UpstreamDown, Over: alert.UpstreamUp, Title: "x is down", OverTitle: "x is up", Data: map[string]any{"provider": "x"}}}
	}
	store := &awayStore{Store: s.store}
	w := alert.NewWatch(store, s.courier, "n1", look, slog.New(slog.DiscardHandler), &alert.Options{Now: s.clock.now})
	visit := func(times int) {
		for range times {
			alert.Visit(t.Context(), w)
			s.clock.pass(alert.WatchEvery)
		}
	}
	titles := func() (all string) {
		t.Helper()
		s.courier.Carry(t.Context())
		list, err := s.history.Events(t.Context(), alert.Page{Limit: 100})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range list {
			all = e.Title + ";" + all
		}
		return all
	}
	down = true
	visit(2)
	down = false
	visit(5)
	if got := titles(); got != "" {
		t.Errorf("after a moment: %s, want nothing", got)
	}
	down = true
	visit(10)
	if got := titles(); got != "x is down;" {
		t.Errorf("after a while: %s, want it once", got)
	}
	down = false
	visit(10)
	if got := titles(); got != "x is down;x is up;" {
		t.Errorf("at the end: %s, want it over", got)
	}
	if r.requests() != 2 {
		t.Fatalf("%d webhooks were sent, want 2", r.requests())
	}
	store.away = true
	down = true
	visit(10)
	if r.requests() != 3 {
		t.Fatalf("%d webhooks were sent while the database is away, want one more", r.requests())
	}
	store.away = false
	visit(1)
	if got := titles(); got != "x is down;x is up;x is down;" {
		t.Errorf("after the database is back: %s", got)
	}
	if r.requests() != 4 || r.got[3].header.Get("Webhook-Id") != r.got[2].header.Get("Webhook-Id") || r.got[3].body != r.got[2].body {
		t.Errorf("what was sent without the database comes again as %v, want its id", r.got[len(r.got)-1].header)
	}
}

// awayStore is a store that takes no reports while it is away.
type awayStore struct {
	*alltest.Store
	away bool
}

func (a *awayStore) ReportConditions(ctx context.Context, node string, now, stale time.Time, holding []alert.Condition) error {
	if a.away {
		return fault.New(fault.Unavailable, "away")
	}
	return a.Store.ReportConditions(ctx, node, now, stale, holding)
}

// fullStore is a store on a disk that may be full.
type fullStore struct {
	*alltest.Store
	full bool
}

func (f *fullStore) FanOut(ctx context.Context, now time.Time, most int, deliver func(*alert.Event, []alert.Endpoint) []alert.Delivery) (int, error) {
	if f.full {
		return 0, fault.New(fault.Unavailable, "full")
	}
	return f.Store.FanOut(ctx, now, most, deliver)
}

func (f *fullStore) ReportConditions(ctx context.Context, node string, now, stale time.Time, holding []alert.Condition) error {
	if f.full {
		return fault.New(fault.Unavailable, "full")
	}
	return f.Store.ReportConditions(ctx, node, now, stale, holding)
}

// A disk that is full is no news every second.
func TestFullDiskIsToldOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	var out strings.Builder
	log := slog.New(slog.NewTextHandler(&out, nil))
	store, opts := &fullStore{Store: s.store, full: true}, &alert.Options{Now: s.clock.now}
	courier := alert.NewCourier(store, func() alert.Settings { return s.settings }, s.post, func(string) string { return "" }, log, opts)
	t.Cleanup(courier.Close)
	watch := alert.NewWatch(store, courier, "n1", func() []alert.Sight { return nil }, log, opts)
	round := func() {
		for range 10 {
			courier.Carry(t.Context())
			alert.Visit(t.Context(), watch)
			s.clock.pass(alert.WatchEvery)
		}
	}
	round()
	if n := strings.Count(out.String(), "\n"); n != 2 {
		t.Errorf("%d lines in the log for ten attempts, want one of the courier and one of the watch:\n%s", n, &out)
	}
	out.Reset()
	store.full = false
	round()
	if n := strings.Count(out.String(), "level=INFO"); n != 2 || strings.Count(out.String(), "\n") != 2 {
		t.Errorf("%d lines say that it is over, want two and no others:\n%s", n, &out)
	}
}
