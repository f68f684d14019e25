package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"sluice/internal/account"
	"sluice/internal/kit/fault"
	"sluice/internal/ledger/misses"
	"sluice/internal/ledger/refusal"
	"sluice/internal/ledger/usage"
	"sluice/internal/operate/finder"
	"sluice/internal/operate/signal"
)

// SearchQuery is the argument of account.search. Term is an e-mail address, its beginning or three
// characters of it, the id of an account, a key or a request, or the last four characters of a key.
type SearchQuery struct {
	Term string `json:"term"`
	Cursor
}

// Match is an account that was found.
type Match struct {
	// By is what matched: "email", "id", "key", "last_four" or "request".
	By        string    `json:"by"`
	AccountID string    `json:"account"`
	Email     string    `json:"email"`
	Plan      string    `json:"plan"`
	Status    string    `json:"status"` // as in Account
	Staff     bool      `json:"staff"`
	CreatedAt time.Time `json:"created_at"`
	// Key is the key that matched, or nil.
	Key *MatchedKey `json:"key,omitempty"`
	// RequestID is the request that matched, or empty.
	RequestID string `json:"request,omitempty"`
	Refused   bool   `json:"refused,omitempty"` // the request was refused
}

// MatchedKey is a key that was found. Status is "active", "deactivated" or "revoked".
type MatchedKey struct {
	ID       string `json:"id"`
	Kind     string `json:"kind"`
	Name     string `json:"name"`
	LastFour string `json:"last_four"`
	Status   string `json:"status"`
}

// accountSearch finds accounts, at most 50 at a time.
func (b *Backend) accountSearch(ctx context.Context, in SearchQuery) (List[Match], error) {
	place, inside := strings.CutPrefix(in.After, insideCursor)
	found, next, err := b.Finder.Search(ctx, in.Term, in.After, in.Limit) // nothing for a cursor of inside
	out := List[Match]{Data: views(found, matchView), Next: next}
	term := strings.ToLower(strings.TrimSpace(in.Term))
	exact := slices.ContainsFunc(found, func(m finder.Match) bool { return m.Kind != finder.ByEmail || m.Account.Email == term })
	if err != nil || next != "" || exact && !inside || len(term) < leastInside || b.Everyone == nil {
		return out, err
	}
	more := b.inside(term, place, in.Limit)
	out.Data, out.Next = append(out.Data, more.Data...), more.Next
	return out, nil
}

const (
	// insideCursor begins the cursors of accounts whose address has a term inside.
	insideCursor = "inside:"
	// leastInside is how many bytes a term has at least that is looked for inside addresses.
	leastInside = 3
)

// inside returns a page of the accounts whose address has a term, but not at its beginning, after an address. It looks at each
// account in memory and keeps those of the page.
func (b *Backend) inside(term, after string, limit int) List[Match] {
	if limit < 1 || limit > finder.MaxMatches {
		limit = finder.MaxMatches
	}
	compare := func(x, y *account.Account) int { return strings.Compare(x.Email, y.Email) }
	var page []*account.Account
	b.Everyone(func(a *account.Account) {
		if a.Email <= after || strings.Index(a.Email, term) <= 0 {
			return
		}
		// One more than the page has says that there is another one.
		if at, _ := slices.BinarySearchFunc(page, a, compare); at <= limit {
			page = slices.Insert(page, at, a)
			page = page[:min(len(page), limit+1)]
		}
	})
	var out List[Match]
	if len(page) > limit {
		page = page[:limit]
		out.Next = insideCursor + page[limit-1].Email
	}
	out.Data = views(page, func(a **account.Account) Match { return matchView(&finder.Match{Kind: finder.ByEmail, Account: *a}) })
	return out
}

// matchView converts a match.
func matchView(m *finder.Match) Match {
	a := m.Account
	v := Match{
		By: string(m.Kind), AccountID: a.ID, Email: a.Email, Plan: a.Plan.String(), Status: accountStatus(a), Staff: a.Staff, CreatedAt: a.CreatedAt,
		RequestID: m.Request.ID, Refused: m.Request.Refused,
	}
	if k := m.Key; k.ID != "" {
		v.Key = &MatchedKey{ID: k.ID, Kind: "sub", Name: k.Name, LastFour: k.LastFour, Status: "active"}
		if k.Master {
			v.Key.Kind = "master"
		}
		switch {
		case k.Revoked:
			v.Key.Status = "revoked"
		case a.Deactivated != nil:
			v.Key.Status = "deactivated"
		}
	}
	return v
}

// signalsOf returns what in the calls of an account is a reason to look at it.
func (b *Backend) signalsOf(ctx context.Context, a *account.Account) (signal.Report, error) {
	return signal.Of(ctx, b.Signals, a.ID, b.Plans()[a.Plan].Over(a.Overrides), time.Now())
}

// RequestQuery is the argument of request.show. ID is what the caller was told: the request id or the id of the
// completion.
type RequestQuery struct {
	ID string `json:"id"`
}

// Requests is the result of request.show. Usually it has one request, settled or refused. There may be several if a
// proxy gave one id to several requests, or if an upstream refused a call after it was admitted.
type Requests struct {
	Settled []Request     `json:"settled"`
	Refused []RefusedCall `json:"refused"`
}

// Request is the way of a request. It has nothing of its prompt and of its answer, which are not stored.
type Request struct {
	ID        string    `json:"id"`
	RequestID string    `json:"request_id,omitempty"` // given by a proxy
	At        time.Time `json:"at"`
	AccountID string    `json:"account"`
	Email     string    `json:"email"`
	Plan      string    `json:"plan"` // at the time
	KeyID     string    `json:"key"`
	KeyName   string    `json:"key_name,omitempty"`  // empty: the key is deleted, or it was a page
	KeyFour   string    `json:"last_four,omitempty"` // as KeyName
	Address   string    `json:"address,omitempty"`
	Session   string    `json:"session,omitempty"` // the caller's name of the run that it belongs to
	Tags      []string  `json:"tags,omitempty"`
	// Door is where the request came in: "chat", "responses", "messages", "embeddings" or "videos".
	Door string `json:"door"`

	ModelAsked string `json:"model_asked"`
	Reason     string `json:"reason,omitempty"` // why the router chose the model
	Marked     string `json:"marked,omitempty"` // what was marked for the cache of the vendor, and why
	Model      string `json:"model"`            // that answered, or failed last
	Provider   string `json:"provider"`
	Tier       string `json:"tier"`

	Attempts []Attempt `json:"attempts"`
	Left     int       `json:"attempts_left_out,omitempty"`
	Steps    []Step    `json:"steps"`

	PromptTokens     int         `json:"prompt_tokens"`
	CachedTokens     int         `json:"cached_tokens"`
	CacheWriteTokens int         `json:"cache_write_tokens,omitempty"`
	CompletionTokens int         `json:"completion_tokens"`
	ReasoningTokens  int         `json:"reasoning_tokens"`
	Counted          bool        `json:"counted_by_us"`
	Requests         json.Number `json:"requests"`
	Units            json.Number `json:"units"`
	CostUSD          json.Number `json:"cost_usd,omitempty"`   // missing if the model has no price
	ChargeUSD        json.Number `json:"charge_usd,omitempty"` // what the customer is told, if that is not CostUSD
	MCPCalls         int         `json:"mcp_calls,omitempty"`
	MCPFailed        int         `json:"mcp_failed,omitempty"`

	Status       int    `json:"status"` // 0: the caller left before there was one
	Outcome      string `json:"outcome"`
	FirstTokenMS int64  `json:"first_token_ms,omitempty"`
	LatencyMS    int64  `json:"latency_ms"`

	Affinity string `json:"affinity,omitempty"` // whether the conversation stayed at its target, as x-sluice-affinity had it
	// SavedUSD is what the call would have cost without caches, beyond its cost, and SavedChargeUSD what the customer is told of that.
	SavedUSD       json.Number `json:"cache_saved_usd,omitempty"`
	SavedChargeUSD json.Number `json:"cache_saved_charge_usd,omitempty"`
	// Cache is what became of the call at caches; missing if it consumed no prompt.
	Cache *misses.Reply `json:"cache,omitempty"`
}

// Attempt is one call of an upstream. Times are from the start of the request.
type Attempt struct {
	Model    string  `json:"model"`
	Provider string  `json:"provider"`
	Upstream string  `json:"upstream"`
	Outcome  string  `json:"outcome"`
	Status   int     `json:"status,omitempty"`
	StartMS  float64 `json:"start_ms"`
	EndMS    float64 `json:"end_ms"` // first content, or failure
}

// Step is what happened at a time after the start of the request.
type Step struct {
	AtMS float64 `json:"at_ms"`
	What string  `json:"what"`
}

// RefusedCall is a call that was refused.
type RefusedCall struct {
	refusal.Call
	Email string `json:"email,omitempty"` // not in the list of one account
}

// requestShow returns what is known of a request.
func (b *Backend) requestShow(ctx context.Context, in RequestQuery) (Requests, error) {
	found, err := b.Finder.Request(ctx, in.ID)
	if err != nil {
		return Requests{}, err
	}
	out := Requests{Settled: []Request{}, Refused: []RefusedCall{}}
	owner := b.owners(ctx)
	for i := range found.Settled {
		s := &found.Settled[i]
		view := requestView(s, owner(s.AccountID))
		why, err := b.Misses.Why(ctx, s)
		if err != nil {
			return Requests{}, err
		}
		view.Cache = why.Reply(true)
		out.Settled = append(out.Settled, view)
	}
	out.Refused = append(out.Refused, ofOwners(found.Refused, owner)...)
	return out, nil
}

// owners returns a function that finds accounts, each once. What is known of a request is worth showing also if its account
// cannot be found: then only the id is known.
func (b *Backend) owners(ctx context.Context) func(id string) *account.Account {
	known := map[string]*account.Account{}
	return func(id string) *account.Account {
		if known[id] == nil {
			a, err := b.Accounts.Find(ctx, id)
			if err != nil {
				a = &account.Account{ID: id}
			}
			known[id] = a
		}
		return known[id]
	}
}

// ofOwners returns refused calls of several accounts with the addresses of their owners.
func ofOwners(calls []refusal.Call, owner func(id string) *account.Account) []RefusedCall {
	return views(calls, func(c *refusal.Call) RefusedCall { return RefusedCall{*c, owner(c.AccountID).Email} })
}

// NewestQuery asks for the newest refused calls of all accounts. Status, Kind and Model leave out all others, unless they are zero.
type NewestQuery struct {
	Status int
	Kind   string // of the error, such as rate_limit_error
	Model  string
	Cursor
}

// All reports whether nothing is left out.
func (q NewestQuery) All() bool { return q.Status == 0 && q.Kind == "" && q.Model == "" }

// newestRefused is how many refused calls a page of request.newest has, of the newest lookedRefused.
const (
	newestRefused = 25
	lookedRefused = 1000
)

// requestNewest returns the newest refused calls of all accounts, newest first.
func (b *Backend) requestNewest(ctx context.Context, in NewestQuery) (List[RefusedCall], error) {
	look := lookedRefused
	if in.All() && in.After == "" {
		look = newestRefused + 1
	}
	calls, err := b.Refusals.NewestRefusals(ctx, look)
	if err != nil {
		return List[RefusedCall]{}, err
	}
	calls = slices.DeleteFunc(calls, func(c refusal.Call) bool {
		return in.Status != 0 && c.Status != in.Status || in.Kind != "" && c.Kind != in.Kind || in.Model != "" && c.Model != in.Model
	})
	page := part(calls, Cursor{After: in.After, Limit: newestRefused}, func(c refusal.Call) string { return c.ID })
	return List[RefusedCall]{Data: ofOwners(page.Data, b.owners(ctx)), Next: page.Next}, nil
}

// requestView converts a settlement and its way.
func requestView(s *usage.Settlement, owner *account.Account) Request {
	v := Request{
		ID: s.ID, At: s.At, AccountID: s.AccountID, Email: owner.Email, Plan: s.Plan, KeyID: s.KeyID, Door: s.Entrance(),
		ModelAsked: s.ModelAsked, Model: s.ModelUsed, Provider: s.Provider, Tier: s.Tier, Attempts: []Attempt{},
		PromptTokens: s.Tokens.PromptTotal(), CachedTokens: s.Tokens.Cached, CacheWriteTokens: s.Tokens.CacheWritten(), CompletionTokens: s.Tokens.CompletionTotal(), ReasoningTokens: s.Tokens.Reasoning, Counted: s.Counted,
		Requests: decimal(s.RequestMilli, 3), Units: decimal(s.UnitMilli, 3), MCPCalls: s.MCPCalls, MCPFailed: s.MCPFailed,
		Status: s.Status, Outcome: string(s.End), FirstTokenMS: s.FirstToken.Milliseconds(), LatencyMS: s.Latency.Milliseconds(),
	}
	if s.Cost != nil {
		v.CostUSD = decimal(int64(*s.Cost), 9)
	}
	if s.Saved != 0 {
		v.SavedUSD = json.Number(s.Saved.AppendJSON(nil))
	}
	if s.SavedMargin != 0 {
		v.SavedChargeUSD = json.Number(s.SavedCharge().AppendJSON(nil))
	}
	if s.Margin != 0 {
		v.ChargeUSD = decimal(int64(*s.Charge()), 9)
	}
	for i := range owner.Keys {
		if k := &owner.Keys[i]; k.ID == s.KeyID {
			v.KeyName, v.KeyFour = k.Name, k.LastFour
			if k.Master {
				v.KeyName = "master key"
			}
		}
	}
	if s.Trace != nil {
		v.Affinity = s.Trace.Affinity
		v.RequestID, v.Address, v.Reason, v.Marked, v.Left = s.Trace.RequestID, s.Trace.Address, s.Trace.Reason, s.Trace.Cache, s.Trace.Left
		for _, a := range s.Trace.Attempts {
			v.Attempts = append(v.Attempts, Attempt{a.Model, a.Provider, a.Upstream, a.Outcome, a.Status, inMillis(a.Start), inMillis(a.End)})
		}
	}
	v.Session, v.Tags, v.Steps = s.Session(), s.Terms.Tags, v.steps()
	return v
}

// inMillis returns a duration in milliseconds.
func inMillis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// steps tells the way in the order of time.
func (r *Request) steps() []Step {
	list := []Step{{0, "received"}}
	for i, a := range r.Attempts {
		if i == 0 {
			what := "admitted"
			if r.Reason != "" {
				what = fmt.Sprintf("admitted, routed to %s: %s", a.Model, r.Reason)
			}
			list = append(list, Step{a.StartMS, what})
		}
		name := fmt.Sprintf("attempt %d: %s at %s", i+1, a.Model, a.Provider)
		end := a.Outcome
		if a.Status != 0 {
			end += " with " + strconv.Itoa(a.Status)
		}
		list = append(list, Step{a.StartMS, name + " called as " + a.Upstream}, Step{a.EndMS, name + ": " + end})
	}
	// The time of the end is in whole milliseconds.
	return append(list, Step{max(float64(r.LatencyMS), list[len(list)-1].AtMS), "settled as " + r.Outcome})
}

// Refused is the result of request.refused: the last refused calls of an account, newest first, and on the first page
// how many there were in each hour.
type Refused struct {
	List[RefusedCall]
	Hours []refusal.Minute `json:"hours,omitempty"`
}

// maxRefused is how many refused calls a page has at most, and its default.
const maxRefused = 200

// requestRefused returns a page of the refused calls of an account.
func (b *Backend) requestRefused(ctx context.Context, in AccountPage) (Refused, error) {
	a, err := b.Accounts.Find(ctx, in.Ref)
	if err != nil {
		return Refused{}, err
	}
	if in.Limit < 1 || in.Limit > maxRefused {
		in.Limit = maxRefused
	}
	var out Refused
	before := refusal.Point{At: time.Now().Add(time.Minute)} // a node's clock may be ahead
	if in.After != "" {
		ms, id, _ := strings.Cut(in.After, ":")
		n, err := strconv.ParseInt(ms, 10, 64)
		if err != nil {
			return Refused{}, fault.New(fault.Invalid, "there is no such page").At("after")
		}
		before = refusal.Point{At: time.UnixMilli(n), ID: id}
	} else {
		out.Hours, err = b.Refusals.RefusedMinutes(ctx, a.ID, time.Now().Add(-refusal.KeepMinutes), time.Hour)
		if err != nil {
			return Refused{}, err
		}
	}
	calls, err := b.Refusals.Refusals(ctx, a.ID, before, in.Limit+1)
	if err != nil {
		return Refused{}, err
	}
	if len(calls) > in.Limit {
		calls = calls[:in.Limit]
		last := &calls[in.Limit-1]
		out.Next = fmt.Sprintf("%d:%s", last.At.UnixMilli(), last.ID)
	}
	out.Data = views(calls, func(c *refusal.Call) RefusedCall { return RefusedCall{Call: *c} })
	return out, nil
}
