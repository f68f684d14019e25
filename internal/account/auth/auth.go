// Package auth finds out who sent a request, from its Authorization header, and for keys that are limited to
// some addresses from its address.
//
// An Authenticator looks keys up in an Index in memory. Every change of an account reaches the Index
// before the change is confirmed to whoever made it; a Follower does the same for the changes of other
// nodes. So a key costs no database call, and a database that is down locks nobody out. What the caller
// may then do is not decided here; see admission.
package auth

import (
	"context"
	"errors"
	"strings"
	"time"

	"sluice/internal/account"
	"sluice/internal/kit/excerpt"
	"sluice/internal/kit/fault"
)

// Caller is who sent a request. Account is its state when the request arrived: it is never nil, is
// shared by all requests, and must not be changed. A request keeps it until it ends, even if the
// account changes meanwhile.
type Caller struct {
	Account *account.Account
	KeyID   string
	// Limits narrow what the key may do; nil: nothing does. They must not be changed.
	Limits *account.KeyLimits
	// Tags are those of every call with the key. They must not be changed.
	Tags []string

	holder *holder // of the account; nil if the caller was identified in another way, such as by a session
	remote string  // the address that the request came from
}

// Authenticator checks the Authorization header of requests. It may be used by several goroutines.
type Authenticator struct {
	index    *Index
	brand    string
	follower *Follower // nil: no other node changes accounts
}

// New returns an Authenticator for keys that begin with the brand and a dash. The follower of the index is
// nil if no other process can change accounts.
func New(index *Index, brand string, follower *Follower) *Authenticator {
	return &Authenticator{index: index, brand: brand, follower: follower}
}

// Authenticate returns the caller whose key is in the Authorization header. header holds all values
// of it, and remote is the address of the client. The faults are those of docs/api.md#authentication, in this
// order: 401 for a key that is missing, malformed, unknown, expired or used from another address, 401
// key_deactivated, 423. A key that another node may have made is 503 while the database cannot say.
//
// The caller that it returns may have been revoked on another node a moment ago. Confirm finds that out, or
// admission, which asks the ledger anyway. A key that it refuses may have been made on another node a moment
// ago, and that it finds out itself.
func (a *Authenticator) Authenticate(ctx context.Context, header []string, remote string) (Caller, error) {
	raw, err := a.rawKey(header)
	if err != nil {
		return Caller{}, err
	}
	hash := account.HashKey(raw)
	c, err := a.lookUp(hash, remote)
	if err != nil && a.follower != nil {
		current := a.follower.refresh(ctx, c)
		// A program that is told that its key is not known stops for good.
		if c, err = a.lookUp(hash, remote); err != nil && c.holder == nil && !current {
			err = fault.New(fault.Unavailable, "Whether this API key exists cannot be checked at the moment. Try again shortly.").After(time.Second)
		}
	}
	if err != nil {
		return Caller{}, err
	}
	return c, nil
}

// lookUp returns the caller with a key that hashes to hash. With an error it returns what is known of it.
func (a *Authenticator) lookUp(hash account.Hash, remote string) (Caller, error) {
	now := time.Now()
	h, k := a.index.find(hash, now)
	if h == nil {
		return Caller{}, unknownKey()
	}
	c := Caller{Account: h.account, KeyID: k.ID, Limits: k.Limits, Tags: k.Tags, holder: h, remote: remote}
	if err := c.confined(now); err != nil {
		return c, err
	}
	return c, Admit(c.Account)
}

// confined returns a fault if the key has expired, or may not be used from where the request came from
// (docs/api.md#limits-of-a-key).
func (c *Caller) confined(now time.Time) error {
	switch {
	case c.Limits == nil:
	case c.Limits.Expired(now):
		return fault.New(fault.Unauthenticated, "This API key expired on %s. Use another key, or give this one a later date in the dashboard.", c.Limits.ExpiresAt.Format("2 January 2006 at 15:04 UTC"))
	case !c.Limits.Reaches(c.remote):
		return fault.New(fault.Unauthenticated, "This API key may not be used from the address %s. Use it from one of its own addresses, or change them in the dashboard.", excerpt.Of(c.remote, 100))
	}
	return nil
}

// Confirm returns the caller with the state of its account that holds on all nodes now. It is for requests
// that admission does not see. It costs a round trip to the ledger that nodes share, if there is one.
func (a *Authenticator) Confirm(c Caller) (Caller, error) {
	if a.follower == nil || a.follower.opts.Epoch == nil {
		return c, nil
	}
	epoch, deactivated := a.follower.opts.Epoch(c.Account.ID)
	err := a.follower.Confirm(c, epoch, deactivated)
	if errors.Is(err, ErrChanged) {
		return a.Again(c)
	}
	return c, err
}

// Again returns the caller with its account as it is now, after Confirm has returned ErrChanged. Its key may
// be gone.
func (a *Authenticator) Again(c Caller) (Caller, error) {
	acct := a.index.Account(c.Account.ID)
	if acct == nil {
		return Caller{}, unknownKey()
	}
	if c.holder != nil {
		k := acct.Key(c.KeyID)
		if k == nil {
			return Caller{}, unknownKey()
		}
		c.Limits, c.Tags = k.Limits, k.Tags
		if err := c.confined(time.Now()); err != nil {
			return Caller{}, err
		}
	}
	c.Account = acct
	return c, Admit(acct)
}

func unknownKey() *fault.Fault {
	return fault.New(fault.Unauthenticated, "This API key is not known. It may have been deleted or regenerated; use one that your account still has.")
}

func keysOff() *fault.Fault {
	return fault.New(fault.KeyDeactivated, "This API key has been deactivated by abuse control. Contact support to have it restored.")
}

// Admit returns a fault if an account's keys are deactivated or it is suspended. Deactivation is
// checked first, so an account that is both gets 401. Requests whose caller is known without a key,
// such as those of the pages, are checked by Admit alone.
func Admit(acct *account.Account) error {
	if acct.Deactivated != nil {
		return keysOff()
	}
	if acct.Suspended != nil {
		return fault.New(fault.Suspended, "This account is suspended. Contact support.")
	}
	return nil
}

// rawKey returns the key in the header. It refuses what cannot be a key without looking it up, and
// says what is wrong with it. The messages never repeat the key.
func (a *Authenticator) rawKey(header []string) (string, error) {
	if len(header) == 0 {
		return "", fault.New(fault.Unauthenticated, "No API key was given. Send it as the header \"Authorization: Bearer %s-…\".", a.brand)
	}
	scheme, raw, _ := strings.Cut(header[0], " ")
	raw = strings.Trim(raw, " ")
	if len(header) > 1 || !strings.EqualFold(scheme, "Bearer") || raw == "" { // of two headers, nobody can tell which one counts
		return "", fault.New(fault.Unauthenticated, "The Authorization header must have the form \"Bearer %s-…\".", a.brand)
	}
	if len(raw) <= len(a.brand) || raw[:len(a.brand)] != a.brand || raw[len(a.brand)] != '-' {
		return "", fault.New(fault.Unauthenticated, "This is not a key of this service: keys begin with \"%s-\".", a.brand)
	}
	if !account.Wellformed(a.brand, raw) {
		return "", fault.New(fault.Unauthenticated, "This API key is mistyped or incomplete. Copy it again, whole.")
	}
	return raw, nil
}
