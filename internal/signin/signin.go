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
	"strings"
	"sync"
	"time"

	"sluice/internal/account"
	"sluice/internal/fault"
	"sluice/internal/mail"
)

const (
	sessionIdle = 14 * 24 * time.Hour
	sessionLife = 90 * 24 * time.Hour
	seenEvery   = 5 * time.Minute // how precise a session's last visit is kept

	codeLife   = 5 * time.Minute
	resetLife  = time.Hour
	mailLife   = 24 * time.Hour // of links that confirm an address
	inviteLife = 7 * 24 * time.Hour
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
}

// Purpose is what a link is for.
type Purpose string

const (
	SignUp Purpose = "signup" // confirms the address of a new account
	Invite Purpose = "invite" // opens an account without a further check of its address
	SignIn Purpose = "signin" // signs in
	Code   Purpose = "code"   // the second step of signing in
	Reset  Purpose = "reset"  // sets a new password
	Email  Purpose = "email"  // confirms a new address
)

// Link is good once, until it expires.
type Link struct {
	Token     Hash
	Purpose   Purpose
	AccountID string // empty where there is none yet
	Email     string
	Password  string // argon2id, of an account to come
	ExpiresAt time.Time
}

// Hash is the SHA-256 of a random text; like API keys these need no slower one.
type Hash [sha256.Size]byte

func hash(token string) Hash { return sha256.Sum256([]byte(token)) }

// Store keeps logins, sessions and links. Each method is one transaction.
type Store interface {
	// FindLogin returns an account's login; the zero one where it has none.
	FindLogin(ctx context.Context, accountID string) (Login, error)
	// SetPassword replaces the password and closes every session but one.
	SetPassword(ctx context.Context, accountID, password, keepSession string) error
	// SetTOTP replaces the second factor.
	SetTOTP(ctx context.Context, accountID, secret string, on bool) error
	// UseTOTP reports whether a code of the step may still be taken, and takes it.
	UseTOTP(ctx context.Context, accountID string, step int64) (bool, error)
	// EraseLogin forgets the login, the sessions and the links of an account.
	EraseLogin(ctx context.Context, accountID string) error

	OpenSession(ctx context.Context, s *Session) error
	// FindSession returns a session that has not expired; fault.Unauthenticated: there is none.
	FindSession(ctx context.Context, token Hash, now time.Time) (*Session, error)
	// SeeSession notes a visit and puts the end off.
	SeeSession(ctx context.Context, id string, now, expires time.Time) error
	// Sessions returns an account's sessions, the last seen first.
	Sessions(ctx context.Context, accountID string, now time.Time) ([]Session, error)
	// CloseSession ends one session of an account.
	CloseSession(ctx context.Context, accountID, id string) error

	KeepLink(ctx context.Context, l *Link) error
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
}

// Settings is what holds now.
func (d *Desk) Settings() Settings { return d.settings() }

// Session finds the session of a token and notes the visit.
func (d *Desk) Session(ctx context.Context, token string) (*Session, error) {
	now := d.clock()
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

// open starts a session and returns the token its browser keeps.
func (d *Desk) open(ctx context.Context, accountID string, v Visit) (string, error) {
	now, token := d.clock(), rand.Text()+rand.Text()
	s := &Session{
		ID: "ses_" + rand.Text(), Token: hash(token), AccountID: accountID,
		CreatedAt: now, SeenAt: now, ExpiresAt: now.Add(sessionIdle), Remote: clip(v.Remote, 100), Agent: clip(v.Agent, 300),
	}
	if err := d.store.OpenSession(ctx, s); err != nil {
		return "", err
	}
	return token, nil
}

// link keeps a new link and returns its token.
func (d *Desk) link(ctx context.Context, l Link, life time.Duration) (string, error) {
	token := rand.Text() + rand.Text()
	l.Token, l.ExpiresAt = hash(token), d.clock().Add(life)
	return token, d.store.KeepLink(ctx, &l)
}

// url is the address of a link.
func (d *Desk) url(p Purpose, token string) string {
	return d.settings().Origin + "/link/" + string(p) + "?token=" + token
}

// Peek looks at a link without using it.
func (d *Desk) Peek(ctx context.Context, p Purpose, token string) (*Link, error) {
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

// clip bounds what we keep of a stranger's text.
func clip(text string, most int) string {
	if len(text) > most {
		text = text[:most]
	}
	return strings.ToValidUTF8(text, "")
}
