// Package signin lets people in to the pages: by password, by a link, or through an identity provider.
//
// Whatever opens a door — a session, a link that is good once — is a random text that its holder has and
// the Store keeps as a hash. Forms that take an address answer the same whether an account has it or
// not, and take as long: what differs is the mail that is sent. Who may call the API is not decided
// here; see auth.
package signin

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"sync"
	"time"

	"sluice/internal/account"
	"sluice/internal/excerpt"
	"sluice/internal/fault"
	"sluice/internal/mail"
)

const (
	sessionIdle = 14 * 24 * time.Hour
	sessionLife = 90 * 24 * time.Hour
	seenEvery   = 5 * time.Minute // how precise a session's last visit is kept

	codeLife   = 5 * time.Minute
	resetLife  = time.Hour
	emailLife  = time.Hour
	signUpLife = 24 * time.Hour
	signInLife = 24 * time.Hour // of the operator's link
	inviteLife = 7 * 24 * time.Hour
	deviceLife = 90 * 24 * time.Hour

	// fresh is how long a new session stands for a password that an account does not have.
	fresh = 15 * time.Minute
)

// How many there may be. Of what is bounded by an account the oldest gives way.
const (
	mailsAnHour     = 5      // links of one purpose to one address; see Desk.mayMail
	linksPerAddress = 20     // of one purpose
	signUpsAtOnce   = 10_000 // links that strangers had mailed to addresses without an account
	sessionsAtOnce  = 50     // of one account

	// tokenBytes is how long a token of ours is. Anything else is not looked up.
	tokenBytes = 2 * 26
)

// Login is how an account's owner proves who they are.
type Login struct {
	AccountID  string
	Password   string // argon2id; empty: none
	TOTPSecret string
	TOTPOn     bool
}

// Session is one browser that is signed in.
type Session struct {
	ID        string
	Token     Hash
	AccountID string
	CreatedAt time.Time
	SeenAt    time.Time
	ExpiresAt time.Time
	Remote    string
	Agent     string
	Via       Step // how it was opened; empty: not known
}

// Purpose is what a link is for.
type Purpose string

const (
	SignUp Purpose = "signup" // opens an account: its holder reads the mail of the address
	Invite Purpose = "invite" // opens an account: the operator gave it to its holder
	SignIn Purpose = "signin" // signs in: the operator gave it to its holder
	Code   Purpose = "code"   // the second step of signing in
	Reset  Purpose = "reset"  // sets a new password
	Email  Purpose = "email"  // confirms a new address
	Device Purpose = "device" // names a browser that has signed in before; good more than once
)

// Link is good once, until it expires, for one purpose and one address.
type Link struct {
	Token     Hash
	Purpose   Purpose
	AccountID string // empty where there is none yet
	Email     string
	ExpiresAt time.Time
}

// Room bounds how many links are kept. A field that is zero bounds nothing.
type Room struct {
	// Recent is how many links to the address may expire after Since. One more is not kept.
	Recent int
	Since  time.Time
	// PerAddress and InAll are how many links of the purpose there may be to the address, and to all. The
	// oldest are dropped for a new one.
	PerAddress, InAll int
}

// Hash is the SHA-256 of a random text; like API keys these need no slower one.
type Hash [sha256.Size]byte

func hash(token string) Hash { return sha256.Sum256([]byte(token)) }

// Store keeps logins, sessions and links. Each method is one transaction.
type Store interface {
	// FindLogin returns an account's login; the zero one where it has none.
	FindLogin(ctx context.Context, accountID string) (Login, error)
	// SetPassword replaces the password and does what EndAccess does.
	SetPassword(ctx context.Context, accountID, password, keepSession string) error
	// EndAccess closes every session of an account but one, and deletes every link.
	EndAccess(ctx context.Context, accountID, keepSession string) error
	// SetTOTP replaces the second factor.
	SetTOTP(ctx context.Context, accountID, secret string, on bool) error
	// UseTOTP reports whether a code of the step may still be taken, and takes it.
	UseTOTP(ctx context.Context, accountID string, step int64) (bool, error)
	// EraseLogin forgets the login, the sessions and the links of an account.
	EraseLogin(ctx context.Context, accountID string) error

	// OpenSession keeps a session; where the account has more than most, those not seen for longest are closed.
	OpenSession(ctx context.Context, s *Session, most int) error
	// FindSession returns a session that has not expired; fault.Unauthenticated: there is none.
	FindSession(ctx context.Context, token Hash, now time.Time) (*Session, error)
	// SeeSession notes a visit and puts the end off.
	SeeSession(ctx context.Context, id string, now, expires time.Time) error
	// Sessions returns an account's sessions, the last seen first.
	Sessions(ctx context.Context, accountID string, now time.Time) ([]Session, error)
	// CloseSession ends one session of an account.
	CloseSession(ctx context.Context, accountID, id string) error

	// KeepLink keeps a link, if there is room and it has not expired. It takes the same time if not.
	KeepLink(ctx context.Context, l *Link, now time.Time, room Room) (kept bool, err error)
	// FindLink returns a link that is still good; fault.NotFound: it is not.
	FindLink(ctx context.Context, token Hash, now time.Time) (*Link, error)
	// TakeLink is FindLink for the one caller that uses it.
	TakeLink(ctx context.Context, token Hash, now time.Time) (*Link, error)
	// DropSignins deletes sessions and links that have expired.
	DropSignins(ctx context.Context, now time.Time) error
}

// Poster takes mail; *mail.Outbox is one.
type Poster interface{ Post(m mail.Message) }

// Settings is what a reload may change.
type Settings struct {
	Origin string // where the pages are, for links
	Open   bool   // anybody may sign up
	Closed bool   // nobody may, not even with an invitation
}

// Options are the choices of New; the zero value is the default.
type Options struct {
	// Now is the clock. Default time.Now.
	Now func() time.Time
}

// Desk signs people up and in.
type Desk struct {
	store    Store
	accounts *account.Accounts
	poster   Poster
	settings func() Settings
	now      func() time.Time
	limits   *limits
	decoy    func() string // what the password of nobody is held against
}

// New returns a desk.
func New(store Store, accounts *account.Accounts, poster Poster, settings func() Settings, opts *Options) *Desk {
	d := &Desk{store: store, accounts: accounts, poster: poster, settings: settings, now: time.Now}
	if opts != nil && opts.Now != nil {
		d.now = opts.Now
	}
	d.limits = newLimits(d.clock)
	d.decoy = sync.OnceValue(func() string { return hashPassword(rand.Text()) })
	return d
}

// Visit is where a request came from.
type Visit struct {
	Remote string
	Agent  string
	Device string // the token of a browser that signed in before; may be empty or anything
}

// Settings is what holds now.
func (d *Desk) Settings() Settings { return d.settings() }

// Session finds the session of a token and notes the visit.
func (d *Desk) Session(ctx context.Context, token string) (*Session, error) {
	now := d.clock()
	if len(token) != tokenBytes {
		return nil, fault.New(fault.Unauthenticated, "You are not signed in.")
	}
	s, err := d.store.FindSession(ctx, hash(token), now)
	if err != nil {
		return nil, err
	}
	if now.Sub(s.SeenAt) >= seenEvery {
		expires := earlier(now.Add(sessionIdle), s.CreatedAt.Add(sessionLife))
		if d.store.SeeSession(ctx, s.ID, now, expires) == nil { // else the next visit notes it
			s.SeenAt, s.ExpiresAt = now, expires
		}
	}
	return s, nil
}

// Sessions lists where an account is signed in.
func (d *Desk) Sessions(ctx context.Context, accountID string) ([]Session, error) {
	return d.store.Sessions(ctx, accountID, d.clock())
}

// SignOut ends one session of an account.
func (d *Desk) SignOut(ctx context.Context, accountID, sessionID string) error {
	return d.store.CloseSession(ctx, accountID, sessionID)
}

// SignOutEverywhere ends what could let anybody else in to an account: every session but one, and every link.
func (d *Desk) SignOutEverywhere(ctx context.Context, accountID, keepSession string) error {
	return d.end(ctx, SignOutEverywhere, accountID, keepSession)
}

// end ends what a step ends besides the session it happens in.
func (d *Desk) end(ctx context.Context, step Step, accountID, keepSession string) error {
	if ruleOf(step).Ends&EndsAccess == 0 {
		return nil
	}
	return d.store.EndAccess(ctx, accountID, keepSession)
}

// Login tells how an account's owner signs in.
func (d *Desk) Login(ctx context.Context, accountID string) (Login, error) {
	return d.store.FindLogin(ctx, accountID)
}

// Erase forgets everything that lets an account's owner in.
func (d *Desk) Erase(ctx context.Context, accountID string) error {
	return d.store.EraseLogin(ctx, accountID)
}

// DropExpired deletes what is no longer good for anything.
func (d *Desk) DropExpired(ctx context.Context) error { return d.store.DropSignins(ctx, d.clock()) }

// person is an account and how its owner proves who they are.
type person struct {
	*account.Account
	Login
}

// Entry is the outcome of a step that lets somebody in: a session, or the need for a code first.
type Entry struct {
	Session string // the token of a new session
	Device  string // the token that makes the browser a known one
	Code    string // the token that the code must come with
}

// letIn opens a session, or asks for a code where the step and the account need one.
func (d *Desk) letIn(ctx context.Context, step Step, p *person, v Visit) (Entry, error) {
	if ruleOf(step).Needs&NeedsCode != 0 && p.TOTPOn {
		token, _, err := d.link(ctx, Link{Purpose: Code, AccountID: p.ID, Email: p.Email}, codeLife, 0)
		return Entry{Code: token}, err
	}
	return d.open(ctx, step, p, v)
}

// open starts a session and returns the tokens its browser keeps.
func (d *Desk) open(ctx context.Context, via Step, p *person, v Visit) (Entry, error) {
	now, entry := d.clock(), Entry{Session: newToken(), Device: v.Device}
	s := &Session{
		ID: "ses_" + rand.Text(), Token: hash(entry.Session), AccountID: p.ID, Via: via,
		CreatedAt: now, SeenAt: now, ExpiresAt: now.Add(sessionIdle), Remote: excerpt.Head(v.Remote, 100), Agent: excerpt.Head(v.Agent, 300),
	}
	if err := d.store.OpenSession(ctx, s, sessionsAtOnce); err != nil {
		return Entry{}, err
	}
	if !d.known(ctx, p.Email, v) {
		var err error
		if entry.Device, _, err = d.link(ctx, Link{Purpose: Device, AccountID: p.ID, Email: p.Email}, deviceLife, 0); err != nil {
			return Entry{}, err
		}
	}
	return entry, nil
}

// link keeps a new link and returns its token. Recent is how many such links the address may be sent in an
// hour, 0 for any number; where one more is not kept, it is not to be mailed either.
func (d *Desk) link(ctx context.Context, l Link, life time.Duration, recent int) (token string, kept bool, err error) {
	now := d.clock()
	token = newToken()
	l.Token, l.ExpiresAt = hash(token), now.Add(life)
	room := Room{Recent: recent, Since: l.ExpiresAt.Add(-time.Hour), PerAddress: linksPerAddress}
	if l.Purpose == SignUp {
		room.InAll = signUpsAtOnce
	}
	kept, err = d.store.KeepLink(ctx, &l, now, room)
	return token, kept, err
}

// newToken is what opens a door: 260 random bits.
func newToken() string { return rand.Text() + rand.Text() }

// url is the address of a link.
func (d *Desk) url(p Purpose, token string) string {
	return d.settings().Origin + "/link/" + string(p) + "?token=" + token
}

// Peek looks at a link without using it.
func (d *Desk) Peek(ctx context.Context, p Purpose, token string) (*Link, error) {
	if len(token) != tokenBytes {
		return nil, fault.New(fault.NotFound, "This link is not complete. Open it as it is in the mail, or ask for a new one.")
	}
	return fits(p)(d.store.FindLink(ctx, hash(token), d.clock()))
}

// take uses a link.
func (d *Desk) take(ctx context.Context, p Purpose, token string) (*Link, error) {
	if _, err := d.Peek(ctx, p, token); err != nil {
		return nil, err // a link of another purpose is not used up here
	}
	return fits(p)(d.store.TakeLink(ctx, hash(token), d.clock()))
}

func fits(p Purpose) func(*Link, error) (*Link, error) {
	return func(l *Link, err error) (*Link, error) {
		if err == nil && l.Purpose != p {
			return nil, fault.New(fault.NotFound, "This link is not for this page.")
		}
		return l, err
	}
}

// clock reads the time to the millisecond, as it is stored.
func (d *Desk) clock() time.Time { return d.now().UTC().Truncate(time.Millisecond) }

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
