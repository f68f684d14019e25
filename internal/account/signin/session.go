package signin

import (
	"context"
	"crypto/rand"
	"slices"
	"time"

	"sluice/internal/kit/excerpt"
	"sluice/internal/kit/fault"
)

const (
	sessionIdle = 14 * 24 * time.Hour // a session ends when it was not used for so long
	sessionLife = 90 * 24 * time.Hour // and in any case so long after it was opened

	// seenEvery is how precisely the last visit is kept. Writing it at every request would cost a
	// transaction each.
	seenEvery = 5 * time.Minute

	// fresh is how long a new session counts as proof for an account that has no password.
	fresh = 15 * time.Minute

	// sessionsAtOnce bounds the sessions of one account. The one not used for longest is closed for
	// a new one.
	sessionsAtOnce = 50
)

// Session is one browser that is signed in.
type Session struct {
	ID        string    `json:"id"` // not secret: pages show it, to close the session by
	Token     Hash      `json:"-"`  // of the token in the browser's cookie
	AccountID string    `json:"-"`
	CreatedAt time.Time `json:"created_at"`
	SeenAt    time.Time `json:"seen_at"` // exact to seenEvery
	ExpiresAt time.Time `json:"-"`
	Remote    string    `json:"remote"`        // the IP address that opened it, at most 100 bytes
	Agent     string    `json:"agent"`         // its User-Agent, at most 300 bytes
	Via       Step      `json:"via,omitempty"` // how it was opened; empty: not known
	ProvedAt  time.Time `json:"-"`             // when a code or a passkey was last used in it; zero: never
	OwnerAt   time.Time `json:"-"`             // when its owner last gave the whole proof of Demand in it; zero: never
}

// SessionStore keeps sessions. Each method is one transaction.
type SessionStore interface {
	// OpenSession stores a session. If the account has more than most, those not seen for longest
	// are deleted.
	OpenSession(ctx context.Context, s *Session, most int) error
	// FindSession returns a session that has not expired, or fault.Unauthenticated.
	FindSession(ctx context.Context, token Hash, now time.Time) (*Session, error)
	// SeeSession records a visit and the new time at which the session expires.
	SeeSession(ctx context.Context, id string, now, expires time.Time) error
	// ProveSession records when a code of the second factor was typed in a session.
	ProveSession(ctx context.Context, id string, at time.Time) error
	// HoldProof records when the owner proved in a session that the account is theirs.
	HoldProof(ctx context.Context, id string, at time.Time) error
	// Sessions returns an account's sessions, the last seen first.
	Sessions(ctx context.Context, accountID string, now time.Time) ([]Session, error)
	// CloseSession deletes one session of an account. A session of another account is left alone.
	CloseSession(ctx context.Context, accountID, id string) error
}

// Session returns the session of a token and records the visit. Recording extends the session, up to
// sessionLife. It returns fault.Unauthenticated for any token that opens no session.
func (d *Service) Session(ctx context.Context, token string) (*Session, error) {
	now := d.clock()
	if len(token) != tokenBytes {
		return nil, fault.New(fault.Unauthenticated, "You are not signed in.")
	}
	s, err := d.store.FindSession(ctx, hash(token), now)
	if err != nil {
		return nil, err
	}
	if now.Sub(s.SeenAt) >= seenEvery {
		expires := slices.MinFunc([]time.Time{now.Add(sessionIdle), s.CreatedAt.Add(sessionLife)}, time.Time.Compare)
		if d.store.SeeSession(ctx, s.ID, now, expires) == nil { // otherwise the next visit records it
			s.SeenAt, s.ExpiresAt = now, expires
		}
	}
	return s, nil
}

// Sessions returns where an account is signed in, the last seen first.
func (d *Service) Sessions(ctx context.Context, accountID string) ([]Session, error) {
	return d.store.Sessions(ctx, accountID, d.clock())
}

// SignOut closes one session of an account.
func (d *Service) SignOut(ctx context.Context, accountID, sessionID string) error {
	return d.store.CloseSession(ctx, accountID, sessionID)
}

// SignOutEverywhere ends everything that could let somebody else into an account: every session but
// keepSession, and every link.
func (d *Service) SignOutEverywhere(ctx context.Context, accountID, keepSession string) error {
	return d.end(ctx, SignOutEverywhere, accountID, keepSession)
}

// open starts a session and returns the tokens that its browser keeps. via is the step that led here.
func (d *Service) open(ctx context.Context, via Step, p *person, v Visit) (Entry, error) {
	now, entry := d.clock(), Entry{Session: newToken(), Device: v.Device}
	s := &Session{
		ID: "ses_" + rand.Text(), Token: hash(entry.Session), AccountID: p.ID, Via: via,
		CreatedAt: now, SeenAt: now, ExpiresAt: now.Add(sessionIdle), Remote: excerpt.Head(v.Remote, 100), Agent: excerpt.Head(v.Agent, 300),
	}
	if via == EnterCode || via == EnterPasskey {
		s.ProvedAt = now
	}
	if err := d.store.OpenSession(ctx, s, sessionsAtOnce); err != nil {
		return Entry{}, err
	}
	// A browser that is known keeps its token, which is good for the rest of its life.
	if !d.known(ctx, p.Email, v) {
		var err error
		if entry.Device, _, err = d.link(ctx, Link{Purpose: Device, AccountID: p.ID, Email: p.Email}, deviceLife, 0); err != nil {
			return Entry{}, err
		}
	}
	return entry, nil
}
