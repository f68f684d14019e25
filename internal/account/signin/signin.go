// Package signin lets people in to the pages: by password, by a link, or through an identity provider.
//
// A session and a link are both a random token. Its holder has the token; the store keeps a hash of
// it, so a stolen database opens nothing. Forms that take an address answer the same whether an
// account has it or not, and take as long: only the mail that is sent differs. The steps and what
// each needs, gives and ends are one table; see rules.go. Who may call the API is not decided here;
// see auth.
package signin

import (
	"context"
	"crypto/rand"
	"sync"
	"time"

	"sluice/internal/account"
	"sluice/internal/account/mail"
)

// Login is how an account's owner proves who they are.
type Login struct {
	AccountID  string
	Password   string // the argon2id hash; empty: the account has no password
	TOTPSecret string // empty: no second factor was ever set up
	TOTPOn     bool   // false while the secret waits for its first code; see Activate
	Passkeys   int    // how many passkeys the account has
}

// TwoSteps reports whether a password alone does not let the owner in.
func (l Login) TwoSteps() bool { return l.TOTPOn || l.Passkeys > 0 }

// LoginStore keeps logins. Each method is one transaction.
type LoginStore interface {
	// FindLogin returns the login of an account, or the zero Login if it has none.
	FindLogin(ctx context.Context, accountID string) (Login, error)
	// SetPassword replaces the password hash and does what EndAccess does, in one step: no session
	// survives the password that it was opened with. The proof that keepSession holds ends, too.
	SetPassword(ctx context.Context, accountID, password, keepSession string) error
	// EndAccess closes every session of an account but keepSession, which may be empty, and deletes
	// every link.
	EndAccess(ctx context.Context, accountID, keepSession string) error
	// EraseLogin deletes the login, the sessions and the links of an account.
	EraseLogin(ctx context.Context, accountID string) error
}

// Store is all that a Service keeps; sqlstore/logins implements it. The parts stand beside the code that
// uses them.
type Store interface {
	LoginStore
	FactorStore
	RecoveryStore
	PasskeyStore
	SessionStore
	LinkStore
}

// Poster takes mail; *mail.Outbox is one. Post must not block: how long it takes would tell whether
// an address has an account.
type Poster interface{ Post(m mail.Message) }

// Settings is what a reload may change.
type Settings struct {
	Origin string // where the pages are, for links: scheme and host, without a slash at the end
	Open   bool   // anybody may sign up
	Closed bool   // nobody may, not even with an invitation
	// Support is how customers reach support besides the pages. May be empty.
	Support string
	// Brand is what mail calls the service. May be empty.
	Brand string
}

// Options are the choices of New; the zero value is the default.
type Options struct {
	// Now is the clock. Default time.Now.
	Now func() time.Time
	// Tries counts attempts over all nodes; nil: this process is the only one and counts in memory.
	Tries Tries
}

// Service signs people up and in. Its methods may be called from several goroutines.
type Service struct {
	store    Store
	accounts *account.Accounts
	poster   Poster
	settings func() Settings
	now      func() time.Time
	limits   *limits
	// decoy returns the hash that a password is compared with when no account has the address, so
	// that the answer takes as long.
	decoy func() string
}

// New returns a service. settings is called for every request and returns the settings in force.
func New(store Store, accounts *account.Accounts, poster Poster, settings func() Settings, opts *Options) *Service {
	d := &Service{store: store, accounts: accounts, poster: poster, settings: settings, now: time.Now}
	if opts != nil && opts.Now != nil {
		d.now = opts.Now
	}
	d.limits = newLimits(newMemoryTries(d.clock))
	if opts != nil && opts.Tries != nil {
		d.limits = newLimits(opts.Tries)
	}
	// Made at the first use: hashing at every start would cost 30 ms and 9 MiB for nothing.
	d.decoy = sync.OnceValue(func() string { return hashPassword(rand.Text()) })
	return d
}

// Visit is where a request came from. The visitor chooses all of it but Remote.
type Visit struct {
	Remote string // the IP address
	Agent  string // the User-Agent header, of any length
	Device string // the token of a browser that signed in before; may be empty or anything
}

// CurrentSettings returns the settings in force.
func (d *Service) CurrentSettings() Settings { return d.settings() }

// Login returns how an account's owner signs in.
func (d *Service) Login(ctx context.Context, accountID string) (Login, error) {
	return d.store.FindLogin(ctx, accountID)
}

// Erase deletes everything that lets an account's owner in.
func (d *Service) Erase(ctx context.Context, accountID string) error {
	return d.store.EraseLogin(ctx, accountID)
}

// end ends what the rule of a step ends, besides the session that the step happens in.
func (d *Service) end(ctx context.Context, step Step, accountID, keepSession string) error {
	if ruleOf(step).Ends&EndsAccess == 0 {
		return nil
	}
	return d.store.EndAccess(ctx, accountID, keepSession)
}

// person is an account and how its owner proves who they are.
type person struct {
	*account.Account
	Login
}

// person returns the owner of an account, or fault.NotFound. ref is that of account.Accounts.
func (d *Service) person(ctx context.Context, ref string) (*person, error) {
	acct, err := d.accounts.Find(ctx, ref)
	if err != nil {
		return nil, err
	}
	login, err := d.store.FindLogin(ctx, acct.ID)
	return &person{acct, login}, err
}

// Entry is the outcome of a step that lets somebody in: a session, or the need for a code first.
type Entry struct {
	Session string // the token of a new session; empty: a code is needed
	Device  string // the token that makes the browser a known one
	Code    string // the token to send with the code; empty: none is needed
}

// letIn opens a session, or asks for a code if the rule of the step and the account need one.
func (d *Service) letIn(ctx context.Context, step Step, p *person, v Visit) (Entry, error) {
	if ruleOf(step).Needs&NeedsCode != 0 && p.TwoSteps() {
		token, _, err := d.link(ctx, Link{Purpose: Code, AccountID: p.ID, Email: p.Email}, codeLife, 0)
		return Entry{Code: token}, err
	}
	return d.open(ctx, step, p, v)
}

// clock returns the time to the millisecond, because that is what the store keeps: a time that was
// stored and read again must equal the original.
func (d *Service) clock() time.Time { return d.now().UTC().Truncate(time.Millisecond) }
