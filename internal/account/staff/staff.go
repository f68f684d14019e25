// Package staff decides who may use the support console and the admin API.
//
// A member of staff is an account with the flag Staff, two-step sign-in, and no suspension. In a browser, a code of
// the second factor must have been typed within the last hours. Programs use tokens: random text that is shown
// once and kept as a hash, good for some scopes and some days. What members may do is not decided here; see admin.
package staff

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"time"

	"sluice/internal/account"
	"sluice/internal/account/signin"
	"sluice/internal/kit/fault"
)

const (
	// proofLife is how long a code that was typed in a session lets its member work in the console.
	proofLife = 8 * time.Hour
	// tokensAtOnce is how many tokens a member may have.
	tokensAtOnce = 50
	// maxDays is how long a token may be good.
	maxDays = 366
	// maxName is how long the name of a token may be, in bytes.
	maxName = 100
	// usedEvery is how precisely the last use of a token is kept. Writing it at every request would cost a
	// transaction each.
	usedEvery = 5 * time.Minute

	// prefix begins every token, so that people and programs that look for leaked secrets recognize one.
	prefix     = "staff_"
	tokenBytes = len(prefix) + 2*26
)

// Token is what is stored of a token. The token itself is not.
type Token struct {
	ID         string // not secret: pages and commands name the token by it
	Hash       [sha256.Size]byte
	AccountID  string // of the member
	Name       string
	LastFour   string // characters, so that people recognize their token
	Scopes     []string
	CreatedAt  time.Time
	ExpiresAt  time.Time
	LastUsedAt time.Time // zero: never; exact to usedEvery
}

// Allows reports whether the token has a scope. The empty scope is in every token.
func (t *Token) Allows(scope string) bool { return scope == "" || slices.Contains(t.Scopes, scope) }

// Store keeps tokens. Each method is one transaction.
type Store interface {
	// AddStaffToken stores a token. It returns fault.Conflict if the account has most tokens that have not
	// expired at now; those that have are deleted.
	AddStaffToken(ctx context.Context, t *Token, now time.Time, most int) error
	// FindStaffToken returns a token that has not expired, or fault.Unauthenticated.
	FindStaffToken(ctx context.Context, hash [sha256.Size]byte, now time.Time) (*Token, error)
	// StaffTokens returns up to limit tokens of an account, or of all if it is empty, whose id is greater than
	// after, in order of id.
	StaffTokens(ctx context.Context, accountID, after string, limit int) ([]Token, error)
	// UseStaffToken records when a token was used.
	UseStaffToken(ctx context.Context, id string, at time.Time) error
	// DeleteStaffToken deletes a token of an account, or of any if it is empty, and returns it, or
	// fault.NotFound.
	DeleteStaffToken(ctx context.Context, accountID, id string) (*Token, error)
}

// Logins tells how the owner of an account signs in; *signin.Service is one.
type Logins interface {
	Login(ctx context.Context, accountID string) (signin.Login, error)
}

// Roster knows the members of staff and their tokens. Its methods may be called from several goroutines.
type Roster struct {
	store    Store
	accounts *account.Accounts
	logins   Logins
	now      func() time.Time
}

// New returns a roster.
func New(store Store, accounts *account.Accounts, logins Logins) *Roster {
	return &Roster{store: store, accounts: accounts, logins: logins, now: time.Now}
}

// Access is what somebody who is signed in lacks to be let in as a member of staff.
type Access int

const (
	Stranger Access = iota // not a member of staff: they must not even learn that there is a console
	NoFactor               // two-step sign-in is off
	Unproved               // no code was typed in this session within proofLife
	Member                 // nothing
)

// Access returns whether the holder of a session may use the console. a is the session's account as it is now.
func (r *Roster) Access(ctx context.Context, a *account.Account, s *signin.Session) (Access, error) {
	if !isStaff(a) || s.AccountID != a.ID {
		return Stranger, nil
	}
	login, err := r.logins.Login(ctx, a.ID)
	switch {
	case err != nil:
		return Stranger, err
	case !login.TOTPOn:
		return NoFactor, nil
	case r.now().Sub(s.ProvedAt) >= proofLife:
		return Unproved, nil
	}
	return Member, nil
}

// isStaff reports whether the owner of an account is staff. One that is suspended is locked out.
func isStaff(a *account.Account) bool { return a.Staff && a.Suspended == nil }

// NewToken makes a token for a member and returns it with its text, which is shown here and never again. Whether
// the scopes exist is for the caller to check.
func (r *Roster) NewToken(ctx context.Context, actor, ref, name string, scopes []string, days int) (*Token, string, error) {
	name = strings.TrimSpace(name)
	if name == "" || len(name) > maxName || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return nil, "", fault.New(fault.Invalid, "a token's name has 1 to %d bytes and no control characters", maxName).At("name")
	}
	if len(scopes) == 0 {
		return nil, "", fault.New(fault.Invalid, "a token needs at least one scope").At("scopes")
	}
	if days < 1 || days > maxDays {
		return nil, "", fault.New(fault.Invalid, "a token is valid for 1 to %d days", maxDays).At("days")
	}
	a, err := r.accounts.Find(ctx, ref)
	if err != nil {
		return nil, "", err
	}
	if !isStaff(a) {
		return nil, "", fault.New(fault.Conflict, "%s is not staff; only staff can have tokens", a.Email)
	}
	raw := prefix + rand.Text() + rand.Text()
	now := r.clock()
	scopes = slices.Compact(slices.Sorted(slices.Values(scopes)))
	t := &Token{
		ID: "tok_" + rand.Text(), Hash: sha256.Sum256([]byte(raw)), AccountID: a.ID, Name: name, LastFour: raw[len(raw)-4:], Scopes: scopes,
		CreatedAt: now, ExpiresAt: now.AddDate(0, 0, days),
	}
	if err := r.store.AddStaffToken(ctx, t, now, tokensAtOnce); err != nil {
		return nil, "", err
	}
	// The token is no use to anybody before its text is returned, so a log that fails leaves nothing open.
	if _, err := r.accounts.Record(ctx, actor, a.ID, "staff.token_create", fmt.Sprintf("%s: %s, until %s", t.ID, strings.Join(scopes, " "), t.ExpiresAt.Format(time.DateOnly))); err != nil {
		_, _ = r.store.DeleteStaffToken(ctx, a.ID, t.ID) // the first error says what is wrong
		return nil, "", err
	}
	return t, raw, nil
}

// Tokens returns up to limit tokens of a member whose id is greater than after, in order of id, those that have
// expired too. ref may be empty: then the tokens of all members.
func (r *Roster) Tokens(ctx context.Context, ref, after string, limit int) ([]Token, error) {
	id := ""
	if ref != "" {
		a, err := r.accounts.Find(ctx, ref)
		if err != nil {
			return nil, err
		}
		id = a.ID
	}
	return r.store.StaffTokens(ctx, id, after, limit)
}

// DeleteToken revokes a token. If memberID is not empty, the token must be that member's.
func (r *Roster) DeleteToken(ctx context.Context, actor, memberID, tokenID string) (*Token, error) {
	t, err := r.store.DeleteStaffToken(ctx, memberID, tokenID)
	if err != nil {
		return nil, err
	}
	_, err = r.accounts.Record(ctx, actor, t.AccountID, "staff.token_delete", t.ID)
	return t, err
}

// Authenticate returns the token with a text and the member that it belongs to. It returns fault.Unauthenticated
// for any text that is not good now: an unknown or expired token, or one of somebody who is no longer staff.
func (r *Roster) Authenticate(ctx context.Context, raw string) (*Token, *account.Account, error) {
	if len(raw) != tokenBytes || !strings.HasPrefix(raw, prefix) {
		return nil, nil, fault.New(fault.Unauthenticated, "A staff token is required: Authorization: Bearer %s…", prefix)
	}
	now := r.clock()
	t, err := r.store.FindStaffToken(ctx, sha256.Sum256([]byte(raw)), now)
	if err != nil {
		return nil, nil, err
	}
	// Read from the store and not from an index: a member who was removed on another node is out at once.
	a, err := r.accounts.Find(ctx, t.AccountID)
	if err != nil {
		return nil, nil, err
	}
	login, err := r.logins.Login(ctx, a.ID)
	if err != nil {
		return nil, nil, err
	}
	if !isStaff(a) || !login.TOTPOn {
		return nil, nil, fault.New(fault.Unauthenticated, "This token belongs to somebody who is not staff, is suspended, or has two-step sign-in off.")
	}
	if now.Sub(t.LastUsedAt) >= usedEvery {
		if r.store.UseStaffToken(ctx, t.ID, now) == nil { // otherwise the next use records it
			t.LastUsedAt = now
		}
	}
	return t, a, nil
}

// clock returns the time to the millisecond, which is what the store keeps.
func (r *Roster) clock() time.Time { return r.now().UTC().Truncate(time.Millisecond) }
