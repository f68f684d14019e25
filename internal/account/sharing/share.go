// Package sharing keeps copies of conversations that their owners show to others by a link.
//
// A copy does not follow its conversation. Whoever has the link can read it until it expires or its owner deletes it. The
// link holds a random token. The store has neither the token nor the text: a copy is found by a hash of the token, and is
// sealed under the token and the key of the service. What the owner needs for a list is sealed under the key alone.
//
// The pages of package dashboard make, list and show shares.
package sharing

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"slices"
	"time"

	"sluice/internal/kit/fault"
	"sluice/internal/kit/seal"
)

const (
	// MaxBody is how large a conversation may be that is shared, as JSON with its pictures.
	MaxBody = 1 << 20
	// MaxShares is how many an account may have at once.
	MaxShares = 50
	// maxAccount is how many bytes they may take.
	maxAccount = 16 << 20
	// maxEntries is how many messages of a model, pictures of a message and so on there may be.
	maxEntries = 500
	// maxLanes is how many models may be compared.
	maxLanes = 4
	// maxTitle is the length of a title in bytes.
	maxTitle = 200
)

// Lives returns the times after which a share can expire, in days.
func Lives() []int { return []int{1, 7, 30} }

// Record is a share as it is stored.
type Record struct {
	ID        []byte // a hash of the token
	AccountID string
	CreatedAt time.Time
	ExpiresAt time.Time
	Head      []byte // the sealed head
	Sealed    []byte // the sealed conversation; nil in a list
}

// Bound is what the shares of an account may take.
type Bound struct {
	Entries, Bytes int64
}

// Store stores shares. Its methods know nothing of those that have expired.
type Store interface {
	// KeepShare stores a share, unless the shares of its account would exceed the bound then. It reports whether it has.
	KeepShare(ctx context.Context, r *Record, most Bound, now time.Time) (bool, error)
	// ShareOwner returns the account of the share with an id, or "".
	ShareOwner(ctx context.Context, id []byte, now time.Time) (string, error)
	// FindShare returns the share with an id, or nil.
	FindShare(ctx context.Context, id []byte, now time.Time) (*Record, error)
	// ListShares returns the shares of an account, the newest first, without what was shared.
	ListShares(ctx context.Context, accountID string, now time.Time) ([]Record, error)
	// DropShare deletes a share of an account, and reports whether it was there.
	DropShare(ctx context.Context, accountID string, id []byte) (bool, error)
	// ForgetShares deletes all shares of an account.
	ForgetShares(ctx context.Context, accountID string) error
}

// Share is a share as its owner sees it.
type Share struct {
	Token     string
	Title     string
	CreatedAt time.Time
	ExpiresAt time.Time
}

// head is what is sealed for the list of the owner.
type head struct {
	Token string `json:"token"`
	Title string `json:"title"`
}

// Shares are the shares of all accounts. It is safe for concurrent use.
type Shares struct {
	store Store
	key   seal.Key
	now   func() time.Time
}

// Options may be nil.
type Options struct {
	Now func() time.Time // nil: time.Now
}

// New returns Shares that are sealed under a key.
func New(store Store, key seal.Key, opts *Options) *Shares {
	s := &Shares{store: store, key: key, now: time.Now}
	if opts != nil && opts.Now != nil {
		s.now = opts.Now
	}
	return s
}

// box seals what was shared.
func (s *Shares) box(token string) seal.Box { return s.key.Box("shared chat", "", token) }

// headBox seals the head of a share.
func (s *Shares) headBox(accountID string, id []byte) seal.Box {
	return s.key.Box("shared chat head", accountID+" "+string(id), "")
}

// Create shares a conversation, which is JSON, for a number of days.
func (s *Shares) Create(ctx context.Context, accountID string, body []byte, days int) (*Share, error) {
	if !slices.Contains(Lives(), days) {
		return nil, fault.New(fault.Invalid, "A link expires after 1, 7 or 30 days.").At("days")
	}
	chat, err := parse(body)
	if err != nil {
		return nil, err
	}
	// The text is encoded again, so that nothing is stored but what was understood.
	text, err := json.Marshal(chat)
	if err != nil {
		return nil, err
	}
	made := &Share{Token: rand.Text(), Title: chat.Title, CreatedAt: s.now().Truncate(time.Millisecond)}
	made.ExpiresAt = made.CreatedAt.AddDate(0, 0, days)
	top, err := json.Marshal(head{made.Token, made.Title})
	if err != nil {
		return nil, err
	}
	box := s.box(made.Token)
	id := box.ID()
	r := &Record{ID: id[:], AccountID: accountID, CreatedAt: made.CreatedAt, ExpiresAt: made.ExpiresAt, Sealed: box.Seal(text)}
	r.Head = s.headBox(accountID, r.ID).Seal(top)
	kept, err := s.store.KeepShare(ctx, r, Bound{MaxShares, maxAccount}, made.CreatedAt)
	if err != nil {
		return nil, err
	}
	if !kept {
		return nil, fault.New(fault.Conflict, "An account has at most %d shared conversations, and %d MiB of them. Delete one first.", MaxShares, maxAccount>>20)
	}
	return made, nil
}

// Owner returns the account that shares something with a token, or "" if there is none. It costs little, whatever the
// size of what is shared.
func (s *Shares) Owner(ctx context.Context, token string) (accountID string, err error) {
	id := s.box(token).ID()
	return s.store.ShareOwner(ctx, id[:], s.now())
}

// Find returns what was shared with a token; nil if there is nothing.
func (s *Shares) Find(ctx context.Context, token string) (chat *Chat, r *Record, err error) {
	box := s.box(token)
	id := box.ID()
	r, err = s.store.FindShare(ctx, id[:], s.now())
	if err != nil || r == nil {
		return nil, nil, err
	}
	text, err := box.OpenInPlace(r.Sealed)
	if err != nil {
		return nil, nil, err
	}
	chat = &Chat{}
	if err := json.Unmarshal(text, chat); err != nil {
		return nil, nil, err
	}
	return chat, r, nil
}

// List returns the shares of an account, the newest first.
func (s *Shares) List(ctx context.Context, accountID string) ([]Share, error) {
	all, err := s.store.ListShares(ctx, accountID, s.now())
	if err != nil {
		return nil, err
	}
	list := make([]Share, 0, len(all))
	for i := range all {
		r := &all[i]
		text, err := s.headBox(accountID, r.ID).Open(r.Head)
		if err != nil {
			return nil, err
		}
		var h head
		if err := json.Unmarshal(text, &h); err != nil {
			return nil, err
		}
		list = append(list, Share{Token: h.Token, Title: h.Title, CreatedAt: r.CreatedAt, ExpiresAt: r.ExpiresAt})
	}
	return list, nil
}

// Delete deletes a share of an account, and reports whether it was there.
func (s *Shares) Delete(ctx context.Context, accountID, token string) (bool, error) {
	id := s.box(token).ID()
	return s.store.DropShare(ctx, accountID, id[:])
}

// Forget deletes all shares of an account.
func (s *Shares) Forget(ctx context.Context, accountID string) error {
	return s.store.ForgetShares(ctx, accountID)
}
