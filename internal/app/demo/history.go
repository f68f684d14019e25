package demo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	mathrand "math/rand/v2"
	"net/url"
	"slices"
	"time"

	"github.com/pquerna/otp/totp"

	"sluice/internal/account"
	"sluice/internal/account/billing"
	"sluice/internal/account/billing/testpay"
	"sluice/internal/account/mail"
	"sluice/internal/account/signin"
	"sluice/internal/account/staff"
	"sluice/internal/app/config"
	"sluice/internal/app/settings"
	"sluice/internal/kit/datadir"
	"sluice/internal/ledger/usage"
	"sluice/internal/operate/alert"
	"sluice/internal/operate/incident"
	"sluice/internal/operate/notice"
	"sluice/internal/operate/steering"
	"sluice/internal/operate/ticket"
	"sluice/internal/store/installation"
	"sluice/internal/store/sqlstore"
	"sluice/internal/store/sqlstore/accounts"
	alertstore "sluice/internal/store/sqlstore/alerts"
	"sluice/internal/store/sqlstore/calls"
	"sluice/internal/store/sqlstore/logins"
	"sluice/internal/store/sqlstore/payments"
	"sluice/internal/store/sqlstore/service"
	"sluice/internal/store/sqlstore/tickets"
	"sluice/internal/web/dashboard"
)

// days is how long the history is. It is longer than a month, so that plans have been renewed once.
const days = 35

// history writes what has happened in the company. It uses the services of the product, with a clock that is set back
// and goes from one moment to the next.
type history struct {
	note     *note
	settings *settings.Settings
	from     time.Time // when the company began
	end      time.Time // the present
	clock    time.Time
	origin   string

	closers  []io.Closer
	db       *sqlstore.Store
	dir      *datadir.Dir
	calls    *calls.Store
	service  *service.Store
	conds    *alertstore.Store
	accounts *account.Accounts
	logins   *signin.Service
	billing  *billing.Billing
	office   *ticket.Office
	letters  *notice.Letters
	hooks    *alert.Hooks
	courier  *alert.Courier
	roster   *staff.Roster
	helm     *steering.Helm
	bulletin *incident.Bulletin
	books    *usage.Books

	members map[string]*member
	moments []moment
}

// moment is something that happens at a time.
type moment struct {
	at time.Time
	do func(ctx context.Context) error
}

// dropped is a mail server for mail that nobody reads.
type dropped struct{}

func (dropped) Post(mail.Message)                        {}
func (dropped) Send(context.Context, mail.Message) error { return nil }

// writeHistory fills the empty data folder of a configuration. The last hours stay in the journal, where the server that
// starts on the folder finds them, as after a restart: it counts them for its overview.
func writeHistory(ctx context.Context, cfg *config.Config, n *note, now time.Time, size float64) (err error) {
	s, err := settings.New(cfg, nil)
	if err != nil {
		return err
	}
	now = now.UTC().Truncate(time.Second)
	h := &history{note: n, settings: s, from: now.AddDate(0, 0, -days), end: now, origin: cfg.Origin(), members: map[string]*member{}}
	h.clock = h.from
	defer func() { err = errors.Join(err, h.close()) }()
	if err := h.open(ctx, cfg); err != nil {
		return err
	}
	if err := h.live(ctx); err != nil {
		return err
	}
	t := &traffic{
		rng: mathrand.New(mathrand.NewPCG(n.Seed, days)), catalog: s.Catalog, plans: s.Plans, from: h.from, now: now, size: size, accts: h.members,
	}
	t.downFrom, t.downUntil = outage(now)
	return h.record(ctx, t)
}

// open opens the stores and the services over them.
func (h *history) open(ctx context.Context, cfg *config.Config) (err error) {
	if h.dir, err = datadir.Open(cfg.Data); err != nil {
		return err
	}
	h.closers = append(h.closers, h.dir)
	h.db, err = installation.Open(ctx, cfg.Database, h.dir, "", func(ctx context.Context, database, dir string) (*sqlstore.Store, error) {
		return sqlstore.Open(ctx, database, dir, nil)
	})
	if err != nil {
		return err
	}
	h.closers = append(h.closers, h.db)
	now, log := func() time.Time { return h.clock }, slog.New(slog.DiscardHandler)
	accts, pays, told, s := accounts.New(h.db), payments.New(h.db), tickets.New(h.db), h.settings
	h.calls, h.service, h.conds = calls.New(h.db), service.New(h.db), alertstore.New(h.db)
	h.accounts = account.New(accts, &account.Options{Brand: cfg.Brand, Now: now})
	h.logins = signin.New(logins.New(h.db), h.accounts, dropped{}, func() signin.Settings { return signin.Settings{Origin: h.origin} }, &signin.Options{Now: now})
	h.letters = notice.NewLetters(notice.New(told, dropped{}, cfg.Origin, &notice.Options{Now: now}), h.find, log)
	h.billing = billing.New(pays, &billing.Options{
		Processor: testpay.New(pays, dashboard.CheckoutPath, dashboard.CardPath), Now: now, Log: log,
		Plans: func() account.Plans { return s.Plans }, Seller: s.Seller, OnChange: h.changed,
		OnEntry: func(ctx context.Context, a *account.Account, e billing.Entry) {
			h.letters.Entry(ctx, a, e, pays.BillingDetails)
		},
	})
	h.office = ticket.NewOffice(told, dropped{}, func() ticket.Settings { return ticket.Settings{Origin: h.origin} }, &ticket.Options{Now: now})
	h.hooks = alert.NewHooks(h.conds, s.Alerts, &alert.Options{Now: now})
	h.courier = alert.NewCourier(h.conds, s.Alerts, dropped{}, func(string) string { return "" }, log, &alert.Options{Now: now})
	h.roster = staff.New(accts, h.accounts, h.logins)
	h.helm = steering.New(h.service, nil)
	h.bulletin = incident.New(h.service, &incident.Options{Now: now, Origin: cfg.Origin})
	return nil
}

// close closes what open has opened, the last first.
func (h *history) close() error {
	errs := []error{}
	if h.books != nil {
		errs = append(errs, h.books.Close())
	}
	for _, c := range slices.Backward(h.closers) {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// find returns an account by its id, as far as the history knows it.
func (h *history) find(id string) *account.Account {
	for _, m := range h.members {
		if m.account.ID == id {
			return m.account
		}
	}
	return nil
}

// changed notes a change of an account, and since when it has its plan.
func (h *history) changed(a *account.Account) {
	for _, m := range h.members {
		if m.account.ID == a.ID {
			m.account = a
			m.plans = append(m.plans, planSince{h.clock, a.Plan})
		}
	}
}

// at adds a moment, some days and hours after the beginning; a negative day is counted from the end.
func (h *history) at(day int, hour float64, do func(ctx context.Context) error) {
	at := h.from.Truncate(24 * time.Hour)
	if day < 0 {
		at = h.end.Truncate(24 * time.Hour)
	}
	h.when(at.AddDate(0, 0, day).Add(time.Duration(hour*float64(time.Hour))), do)
}

// when adds a moment.
func (h *history) when(at time.Time, do func(ctx context.Context) error) {
	h.moments = append(h.moments, moment{at, do})
}

// live lets everything happen, in the order of time.
func (h *history) live(ctx context.Context) error {
	if err := h.begin(ctx); err != nil {
		return err
	}
	h.plan()
	for day := range days {
		h.at(day+1, 0.1, h.billing.VisitDue)
	}
	slices.SortStableFunc(h.moments, func(a, b moment) int { return a.at.Compare(b.at) })
	for _, m := range h.moments {
		if m.at.Before(h.clock) || m.at.After(h.end) {
			continue // the history began at another hour of the day
		}
		h.clock = m.at
		if err := m.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", h.clock.Format(time.DateTime), err)
		}
		// What the once jobs of a server do.
		if err := h.office.Gather(ctx); err != nil {
			return err
		}
		h.courier.Carry(ctx)
	}
	h.clock = h.end
	return nil
}

// begin opens the owner's account and those of the people, each on the day on which they join.
func (h *history) begin(ctx context.Context) error {
	h.note.Password = "demo " + rand.Text()
	ownerKey, err := h.accounts.CreateOwner(ctx)
	if err != nil {
		return err
	}
	h.note.Keys["owner"] = ownerKey
	if err := h.password(ctx, account.OwnerEmail); err != nil {
		return err
	}
	for _, p := range people() {
		h.clock = h.from.AddDate(0, 0, p.joins).Add(time.Duration(len(p.name)) * 17 * time.Minute)
		if err := h.join(ctx, &p); err != nil {
			return fmt.Errorf("%s joins: %w", p.name, err)
		}
	}
	h.clock = h.from
	return nil
}

// password gives an account a password, through the operator's link.
func (h *history) password(ctx context.Context, email string) error {
	link, err := h.link(ctx, email)
	if err != nil {
		return err
	}
	entry, err := h.logins.SignInByLink(ctx, link, signin.Visit{Remote: "127.0.0.1"})
	if err != nil {
		return err
	}
	s, err := h.logins.Session(ctx, entry.Session)
	if err != nil {
		return err
	}
	a, err := h.accounts.Find(ctx, email)
	if err != nil {
		return err
	}
	return h.logins.ChangePassword(ctx, signin.Owner{Account: a, Session: s}, h.note.Password)
}

// link returns the token of a link that signs somebody in, or invites them.
func (h *history) link(ctx context.Context, email string) (string, error) {
	text, err := h.logins.SignInLink(ctx, email)
	if err != nil {
		return "", err
	}
	u, err := url.Parse(text)
	if err != nil {
		return "", err
	}
	return u.Query().Get("token"), nil
}

// join opens the account of a person, with keys and a plan.
func (h *history) join(ctx context.Context, p *person) error {
	email := p.name + domain
	token, err := h.link(ctx, email)
	if err != nil {
		return err
	}
	w, err := h.logins.Join(ctx, signin.Invite, token, h.note.Password, signin.Visit{Remote: "127.0.0.1"})
	if err != nil {
		return err
	}
	m := &member{account: w.Account, keys: map[string]string{"": w.Account.Master().ID}, plans: []planSince{{h.clock, account.None}}}
	h.members[p.name], h.note.Keys[p.name] = m, w.MasterKey
	for _, k := range p.keys {
		h.clock = h.clock.Add(3 * time.Minute)
		made, raw, err := h.accounts.CreateKey(ctx, "owner", w.Account.ID, k.name, k.limits, k.tags...)
		if err != nil {
			return err
		}
		m.keys[k.name], h.note.Keys[p.name+"/"+k.name] = made.ID, raw
	}
	for _, b := range p.budgets {
		b.ID, b.CreatedAt = account.NewBudgetID(), h.clock
		if b.Scope.Key != "" {
			b.Scope.Key = m.keys[b.Scope.Key]
		}
		if m.account, err = h.accounts.SetBudget(ctx, "owner", w.Account.ID, b); err != nil {
			return err
		}
	}
	if p.name == helpdesk {
		return h.hire(ctx, w)
	}
	return h.subscribe(ctx, p, m)
}

// subscribe buys the plan of a person.
func (h *history) subscribe(ctx context.Context, p *person, m *member) error {
	pay, err := h.billing.Subscribe(ctx, "owner", m.account.ID, p.plan)
	if err != nil || pay == nil {
		return err
	}
	_, _, err = h.billing.PayTest(ctx, m.account.ID, pay.ID, p.card)
	return err
}

// hire makes somebody a member of staff, with two-step sign-in.
func (h *history) hire(ctx context.Context, w *signin.Welcome) error {
	s, err := h.logins.Session(ctx, w.Session)
	if err != nil {
		return err
	}
	o := signin.Owner{Account: w.Account, Session: s, Password: h.note.Password}
	enrolment, err := h.logins.Enrol(ctx, o, company)
	if err != nil {
		return err
	}
	h.note.Code = enrolment.Secret
	code, err := totp.GenerateCode(enrolment.Secret, h.clock)
	if err != nil {
		return err
	}
	if _, err := h.logins.Activate(ctx, o, code); err != nil {
		return err
	}
	if _, err := h.accounts.SetPlan(ctx, "cli:owner", w.Account.ID, account.Basic); err != nil {
		return err
	}
	_, err = h.accounts.SetStaff(ctx, "cli:owner", w.Account.ID, true)
	return err
}

// record stores the calls. Everything older than the overview shows goes to the database.
func (h *history) record(ctx context.Context, t *traffic) error {
	all := t.calls()
	recent, _ := slices.BinarySearchFunc(all, h.end.Add(-overviewSpan), func(s usage.Settlement, at time.Time) int { return s.At.Compare(at) })
	for part := range slices.Chunk(all[:recent], flushEach) {
		if err := errors.Join(h.journal(part), h.books.Flush(ctx)); err != nil {
			return err
		}
	}
	if err := h.journal(all[recent:]); err != nil {
		return err
	}
	last := map[string]time.Time{}
	for i := range all {
		last[all[i].KeyID] = all[i].At
	}
	return errors.Join(
		accounts.New(h.db).RecordKeyUse(ctx, last), t.refuse(ctx, h.calls, all), h.vote(ctx, t, all), h.health(ctx, t, all[:recent]), h.compare(ctx, t, all),
	)
}

// journal writes calls to the journal. It opens the journal anew, which makes room in it as a running server would.
func (h *history) journal(list []usage.Settlement) error {
	if h.books != nil {
		if err := h.books.Close(); err != nil {
			return err
		}
	}
	h.books = usage.NewBooks(h.dir.Join(installation.JournalFolder), h.calls, nil)
	if err := h.books.Open(); err != nil {
		return err
	}
	for i := range list {
		h.books.Record(list[i])
	}
	return h.books.Ready()
}

const (
	// overviewSpan is how far back the overview of a server goes.
	overviewSpan = 3 * time.Hour
	// flushEach is how many calls are moved to the database at once: less than the journal holds.
	flushEach = 5000
)
