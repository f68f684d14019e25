// Package finder finds an account by what its owner can say to support, and shows the way of a request.
//
// The form of a term says what it may be: an e-mail address or its beginning, the id of an account or a key, the last
// four characters of a key, the id of a request. Each possibility is one query that an index answers, however much
// there is to search. What a request said, and what it was answered, is not stored and cannot be found.
package finder

import (
	"context"
	"strings"
	"time"

	"sluice/internal/account"
	"sluice/internal/kit/fault"
	"sluice/internal/ledger/refusal"
	"sluice/internal/ledger/usage"
)

const (
	// MaxTerm is the length of a term at most, in bytes. The longest is an e-mail address.
	MaxTerm = 254
	// MaxMatches is how many matches a search returns at most, and its default.
	MaxMatches = 50
	// maxSame is how many requests with one id are shown. Our own ids are unique; those of a proxy need not be.
	maxSame = 20
)

// Kind says what of an account matched.
type Kind string

const (
	ByEmail   Kind = "email"
	ByID      Kind = "id"
	ByKey     Kind = "key"       // the id of a key
	ByFour    Kind = "last_four" // of a key
	ByRequest Kind = "request"
)

// Match is an account that was found.
type Match struct {
	Kind    Kind
	Account *account.Account // without its keys
	Key     Key              // the one that matched; zero if none did
	Request Request          // the one that matched; zero if none did
}

// Key is a key that matched. A revoked one does, too: its owner may still ask about it.
type Key struct {
	ID       string
	Name     string
	LastFour string
	Master   bool
	Revoked  bool
}

// Request is a request that matched.
type Request struct {
	ID      string
	At      time.Time
	Refused bool // it is a refused call
}

// Store searches. Lists are in ascending order of what they continue after, and have at most limit entries.
type Store interface {
	// AccountsByEmail returns the accounts whose address begins with a text, after an address.
	AccountsByEmail(ctx context.Context, prefix, after string, limit int) ([]Match, error)
	// AccountsByID returns the account with an id, or with a key of that id.
	AccountsByID(ctx context.Context, id string) ([]Match, error)
	// AccountsByLastFour returns the accounts with a key that ends so, after the id of a key.
	AccountsByLastFour(ctx context.Context, four, after string, limit int) ([]Match, error)
	// AccountsByRequest returns the accounts of the calls, settled or refused, that have an id.
	AccountsByRequest(ctx context.Context, id string, limit int) ([]Match, error)
	// Requests returns the settlements with an id, which may be one that a proxy gave, and their ways.
	Requests(ctx context.Context, id string, limit int) ([]usage.Settlement, error)
	// RefusalsOf returns the refused calls with an id, which may be one that a proxy gave.
	RefusalsOf(ctx context.Context, id string, limit int) ([]refusal.Call, error)
}

// Finder finds accounts and requests. It is safe for concurrent use.
type Finder struct {
	store Store
	flush func(ctx context.Context)
}

// New returns a finder. flush moves the calls that have just ended to the store, if that can be done quickly; it is
// called only if a request is not found. It may be nil.
func New(store Store, flush func(ctx context.Context)) *Finder {
	if flush == nil {
		flush = func(context.Context) {}
	}
	return &Finder{store, flush}
}

// Search returns the accounts that a term finds, at most limit of each kind, and where the next page begins; that is
// empty if there is none. after is empty, or what the page before said.
func (f *Finder) Search(ctx context.Context, term, after string, limit int) (found []Match, next string, err error) {
	term = strings.TrimSpace(term)
	switch {
	case term == "":
		return nil, "", fault.New(fault.Invalid, "Enter an e-mail address or its beginning, an account or key id, the last four characters of a key, or a request id.").At("term")
	case len(term) > MaxTerm || len(after) > MaxTerm:
		return nil, "", fault.New(fault.Invalid, "A search term has at most %d bytes.", MaxTerm).At("term")
	}
	if limit < 1 || limit > MaxMatches {
		limit = MaxMatches
	}
	only, after := cursor(after)
	for _, q := range f.queries(term, after, limit+1) { // one more, to know whether there is a next page
		if only != "" && q.kind != only {
			continue
		}
		list, err := q.ask(ctx)
		if err != nil {
			return nil, "", err
		}
		if len(list) > limit && q.place != nil {
			list = list[:limit]
			if next == "" {
				next = string(q.kind) + ":" + q.place(&list[limit-1])
			}
		}
		found = append(found, list...)
	}
	return found, next, nil
}

// query is one way to read a term.
type query struct {
	kind  Kind
	ask   func(ctx context.Context) ([]Match, error)
	place func(*Match) string // what the next page continues after; nil: there is never one
}

// queries returns what a term may be.
func (f *Finder) queries(term, after string, limit int) (list []query) {
	id := RequestID(term)
	switch {
	case strings.HasPrefix(term, "acct_"):
		return []query{{ByID, func(ctx context.Context) ([]Match, error) { return f.store.AccountsByID(ctx, term) }, nil}}
	case strings.HasPrefix(term, "key_"):
		return []query{{ByKey, func(ctx context.Context) ([]Match, error) { return f.store.AccountsByID(ctx, term) }, nil}}
	case id != term || isOwnID(term):
		return []query{f.byRequest(id)}
	}
	list = append(list, query{ByEmail, func(ctx context.Context) ([]Match, error) {
		return f.store.AccountsByEmail(ctx, strings.ToLower(term), after, limit)
	}, func(m *Match) string { return m.Account.Email }})
	if len(term) == 4 && !strings.ContainsFunc(term, func(r rune) bool { return !isAlnum(r) }) {
		list = append(list, query{ByFour, func(ctx context.Context) ([]Match, error) {
			return f.store.AccountsByLastFour(ctx, term, after, limit)
		}, func(m *Match) string { return m.Key.ID }})
	}
	// A proxy may name requests as it likes.
	return append(list, f.byRequest(term))
}

func (f *Finder) byRequest(id string) query {
	return query{ByRequest, func(ctx context.Context) ([]Match, error) {
		list, err := f.store.AccountsByRequest(ctx, id, maxSame)
		if err == nil && len(list) == 0 && isOwnID(id) {
			f.flush(ctx)
			list, err = f.store.AccountsByRequest(ctx, id, maxSame)
		}
		return list, err
	}, nil}
}

// cursor takes apart where a page begins: the kind of its matches, and what they come after.
func cursor(after string) (only Kind, place string) {
	kind, place, ok := strings.Cut(after, ":")
	if !ok {
		return "", ""
	}
	return Kind(kind), place
}

// RequestID returns the id of a request from the id of its completion, response or message, or the text itself.
func RequestID(text string) string {
	// An e-mail address may begin with one of these, too.
	for _, prefix := range []string{"resp_", "msg_"} {
		if id, ok := strings.CutPrefix(text, prefix); ok && isOwnID(id) {
			return id
		}
	}
	return strings.TrimPrefix(text, "chatcmpl-")
}

// isOwnID reports whether a text looks like an id that this service gives requests: 32 hexadecimal digits.
func isOwnID(text string) bool {
	return len(text) == 32 && strings.Trim(text, "0123456789abcdef") == ""
}

func isAlnum(r rune) bool {
	return '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
}

// Found is what is known of a request. Usually one list has one entry and the other none: a call that an upstream
// refused has one in both.
type Found struct {
	Settled []usage.Settlement
	Refused []refusal.Call
}

// Request returns what is known of the request with an id, which may be that of its completion or one that a proxy
// gave. It returns a fault of kind NotFound if nothing is known.
func (f *Finder) Request(ctx context.Context, id string) (Found, error) {
	id = RequestID(strings.TrimSpace(id))
	if id == "" || len(id) > MaxTerm {
		return Found{}, fault.New(fault.Invalid, "A request id has 1 to %d bytes.", MaxTerm).At("id")
	}
	found, err := f.request(ctx, id)
	if err == nil && found.Settled == nil && found.Refused == nil {
		f.flush(ctx)
		if found, err = f.request(ctx, id); err == nil && found.Settled == nil && found.Refused == nil {
			err = fault.New(fault.NotFound, "No request with this id is known. Requests are kept as long as usage is, and only the last %d refused ones of an account.", refusal.Kept)
		}
	}
	return found, err
}

func (f *Finder) request(ctx context.Context, id string) (found Found, err error) {
	if found.Settled, err = f.store.Requests(ctx, id, maxSame); err != nil {
		return Found{}, err
	}
	found.Refused, err = f.store.RefusalsOf(ctx, id, maxSame)
	return found, err
}
