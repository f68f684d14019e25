package signin

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"time"

	"sluice/internal/kit/fault"
)

// How long links of each purpose are good. The ones that give access are short-lived; an invitation is
// not, because people read it days later.
const (
	codeLife   = 5 * time.Minute
	resetLife  = time.Hour
	emailLife  = time.Hour
	signUpLife = 24 * time.Hour
	signInLife = 24 * time.Hour // of the operator's link
	inviteLife = 7 * 24 * time.Hour
	deviceLife = 90 * 24 * time.Hour
)

// How many links there may be. For a new one beyond linksPerAddress or signUpsAtOnce the oldest is
// dropped.
const (
	mailsAnHour     = 5      // links of one purpose mailed to one address in an hour; see Service.mayMail
	linksPerAddress = 20     // of one purpose
	signUpsAtOnce   = 10_000 // sign-up links of all addresses, and challenges: strangers cause them, so they need a bound of their own
)

// tokenBytes is the length of a token; see newToken. Text of any other length is not looked up.
const tokenBytes = 2 * 26

// Purpose is what a link is for.
type Purpose string

const (
	SignUp Purpose = "signup" // opens an account: its holder reads the mail of the address
	Invite Purpose = "invite" // opens an account: the operator gave it to its holder
	SignIn Purpose = "signin" // signs in: the operator gave it to its holder
	Code   Purpose = "code"   // the second step of signing in
	Reset  Purpose = "reset"  // sets a new password
	Email  Purpose = "email"  // confirms a new address
	// Challenge is what a passkey signs. Its Email is not an address: see bound.
	Challenge Purpose = "passkey"
	Device    Purpose = "device" // names a browser that has signed in before; good more than once
)

// Link is good once, until it expires, for one purpose and one address. Only a Device link is good more
// than once.
type Link struct {
	Token     Hash
	Purpose   Purpose
	AccountID string // empty if there is no account yet: SignUp and Invite
	Email     string
	ExpiresAt time.Time
}

// Room bounds how many links are kept. A field that is zero bounds nothing.
type Room struct {
	// Recent is how many links to the address may expire after Since. One more is not kept.
	Recent int
	Since  time.Time
	// PerAddress and InAll are how many links of the purpose there may be to the address, and to
	// all addresses. The oldest are dropped for a new one.
	PerAddress, InAll int
}

// Hash is the SHA-256 of a token. A token is 260 random bits, so nobody can guess it from its hash,
// and no slower hash is needed.
type Hash [sha256.Size]byte

// hash returns the hash that a token is looked up by.
func hash(token string) Hash { return sha256.Sum256([]byte(token)) }

// LinkStore keeps links. Each method is one transaction.
type LinkStore interface {
	// KeepLink stores a link if there is room and it has not expired, and reports whether it did.
	// It takes the same time either way.
	KeepLink(ctx context.Context, l *Link, now time.Time, room Room) (kept bool, err error)
	// FindLink returns a link that is still good, or fault.NotFound.
	FindLink(ctx context.Context, token Hash, now time.Time) (*Link, error)
	// TakeLink is FindLink, and deletes the link. Of several callers at once only one gets it.
	TakeLink(ctx context.Context, token Hash, now time.Time) (*Link, error)
	// DropSignins deletes sessions and links that have expired.
	DropSignins(ctx context.Context, now time.Time) error
}

// DropExpired deletes sessions, links and counts of attempts that have expired.
func (d *Service) DropExpired(ctx context.Context) error {
	return errors.Join(d.store.DropSignins(ctx, d.clock()), d.limits.tries.DropAttempts(ctx, maxTries))
}

// link stores a new link and returns its token. recent is how many such links may be mailed to the
// address in an hour; 0 means any number. A link that is not kept because of recent must not be
// mailed either.
func (d *Service) link(ctx context.Context, l Link, life time.Duration, recent int) (token string, kept bool, err error) {
	now := d.clock()
	token = newToken()
	l.Token, l.ExpiresAt = hash(token), now.Add(life)
	room := Room{Recent: recent, Since: l.ExpiresAt.Add(-time.Hour), PerAddress: linksPerAddress}
	if l.Purpose == SignUp || l.Purpose == Challenge {
		room.InAll = signUpsAtOnce
	}
	kept, err = d.store.KeepLink(ctx, &l, now, room)
	return token, kept, err
}

// newToken returns a token of 260 random bits.
func newToken() string { return rand.Text() + rand.Text() }

// url returns the address of a link.
func (d *Service) url(p Purpose, token string) string {
	return d.settings().Origin + "/link/" + string(p) + "?token=" + token
}

// Peek returns a link without using it. Mail programs open links before people do, so the page
// behind a link only peeks, and its form uses the link.
func (d *Service) Peek(ctx context.Context, p Purpose, token string) (*Link, error) {
	if len(token) != tokenBytes {
		return nil, fault.New(fault.NotFound, "This link is incomplete. Copy all of it from the e-mail, or request a new one.")
	}
	return fits(p)(d.store.FindLink(ctx, hash(token), d.clock()))
}

// take uses a link. A link of another purpose is refused before it is used up. TakeLink decides a race
// between two uses; the Peek before it only keeps a link from being wasted.
func (d *Service) take(ctx context.Context, p Purpose, token string) (*Link, error) {
	if _, err := d.Peek(ctx, p, token); err != nil {
		return nil, err
	}
	return fits(p)(d.store.TakeLink(ctx, hash(token), d.clock()))
}

// fits returns a function that refuses links of another purpose than p and passes on errors.
func fits(p Purpose) func(*Link, error) (*Link, error) {
	return func(l *Link, err error) (*Link, error) {
		if err == nil && l.Purpose != p {
			return nil, fault.New(fault.NotFound, "This link is not for this page.")
		}
		return l, err
	}
}
