package whatif

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"sluice/internal/kit/excerpt"
	"sluice/internal/kit/fault"
	"sluice/internal/ledger/price"
	"sluice/internal/ledger/usage"
)

// Calculator replays the calls of a store. It is safe for concurrent use.
type Calculator struct {
	Calls Calls
	// Flush moves what is in the journal to the store. It may be nil.
	Flush func(ctx context.Context)
	// Prices returns the operator's prices of this moment.
	Prices func() Prices
	// Versions finds the prices of calls that are in force no more. It may be nil.
	Versions Versions
}

// Versions finds prices by their version. It returns nil if nobody knows them any more.
type Versions interface {
	Entry(ctx context.Context, version string) (*price.Entry, error)
}

// Calls reads settled calls.
type Calls interface {
	// EachCall calls each with the calls of a span, oldest first. each must not keep what it gets. Its error ends the read.
	EachCall(ctx context.Context, span usage.Span, each func(*usage.Settlement) error) error
	// SettlementsDropped returns the time before which calls were deleted.
	SettlementsDropped(ctx context.Context) (time.Time, error)
}

// Prices are the operator's.
type Prices struct {
	Book *price.Book
	// Own returns the prices of what answered a call; nil: they are not known.
	Own func(Place) *price.Series
	// Vendor returns the kind of a place's provider, and what the provider calls the model.
	Vendor func(Place) (kind, upstream string)
	// Model returns the prices of a model of the catalog. It returns false if there is no such model.
	Model func(id string) (*price.Series, bool)
	// Markup returns what an account's costs are multiplied with. It may be nil.
	Markup func(accountID, plan string) price.Factor
}

// Question asks for a replay.
type Question struct {
	usage.Span
	// List is a list of prices in one of the formats that price.Import knows; empty: prices are as they are.
	List string
	// Models are pairs of the form a=b: what a answered is priced as b.
	Models []string
	TTL    string
	// Batched is the share of calls that are sent in batches, a decimal number from 0 to 1.
	Batched string
	Told    bool
	// Most is how many calls are read at most; 0: all.
	Most int64
}

// maxModels bounds the pairs of a question.
const maxModels = 100

// errEnough ends a read.
var errEnough = errors.New("enough calls were read")

// Run replays calls.
func (c *Calculator) Run(ctx context.Context, q Question) (*Report, error) {
	scenario, err := c.scenario(&q)
	if err != nil {
		return nil, err
	}
	if c.Flush != nil {
		c.Flush(ctx)
	}
	dropped, err := c.Calls.SettlementsDropped(ctx)
	if err != nil {
		return nil, err
	}
	var failed error
	scenario.Past = c.past(ctx, &failed)
	replay, n, until := New(scenario), int64(0), time.Time{}
	err = c.Calls.EachCall(ctx, q.Span, func(s *usage.Settlement) error {
		if n++; q.Most > 0 && n > q.Most {
			return errEnough
		}
		until = s.At
		replay.Add(s)
		return failed
	})
	if err != nil && !errors.Is(err, errEnough) {
		return nil, err
	}
	report := replay.Report()
	if err != nil {
		report.Until = until
	}
	report.note(&q, dropped)
	return report, nil
}

// past returns what finds earlier prices, and notes why it could not.
func (c *Calculator) past(ctx context.Context, failed *error) func(string) *price.Entry {
	if c.Versions == nil {
		return nil
	}
	return func(version string) *price.Entry {
		e, err := c.Versions.Entry(ctx, version)
		if err != nil {
			*failed = err
		}
		return e
	}
}

// scenario reads a question.
func (c *Calculator) scenario(q *Question) (Scenario, error) {
	if q.List == "" && len(q.Models) == 0 && q.TTL == "" && q.Batched == "" {
		return Scenario{}, fault.New(fault.Invalid, "nothing is different: name other prices, a model in place of another, a time in the cache, or a share of batches")
	}
	if !q.To.After(q.From) {
		return Scenario{}, fault.New(fault.Invalid, "the time must end after it begins").At("to")
	}
	prices := c.Prices()
	s := Scenario{TTL: TTL(q.TTL), Told: q.Told, Markup: prices.Markup, Own: prices.Own}
	switch s.TTL {
	case AsIs, FiveMinutes, Hour, NoCache:
	default:
		return s, fault.New(fault.Invalid, "%q is no time in the cache: use 5m, 1h or none", excerpt.Of(q.TTL, 40)).At("cache_ttl")
	}
	var list *price.Book
	if q.List != "" {
		in, err := price.Import(strings.NewReader(q.List))
		if err != nil {
			return s, fault.New(fault.Invalid, "%v", err).At("prices")
		}
		list = price.NewBook(in.Entries)
		s.Prices = func(p Place) *price.Series {
			kind, upstream := prices.Vendor(p)
			return list.Find(p.Model, kind, upstream)
		}
	}
	var err error
	if s.Batched, err = shareOf(q.Batched); err != nil {
		return s, err
	}
	s.Models, err = moves(q.Models, list, &prices)
	return s, err
}

// moves reads pairs of models. The prices of the second are those of the list, of the catalog, or of the book for a vendor's
// model, in this order.
func moves(pairs []string, list *price.Book, prices *Prices) (map[string]*price.Series, error) {
	if len(pairs) > maxModels {
		return nil, fault.New(fault.Invalid, "at most %d models can be replaced", maxModels).At("models")
	}
	out := map[string]*price.Series{}
	for _, pair := range pairs {
		from, to, ok := strings.Cut(pair, "=")
		if !ok || from == "" || to == "" {
			return nil, fault.New(fault.Invalid, "%q must have the form a=b: what a answered is priced as b", excerpt.Of(pair, 200)).At("models")
		}
		if out[from] != nil {
			return nil, fault.New(fault.Invalid, "%q is replaced twice", excerpt.Of(from, 100)).At("models")
		}
		vendor, name, _ := strings.Cut(to, "/")
		var found *price.Series
		if list != nil {
			found = list.Find(to, vendor, name)
		}
		if found == nil {
			known := false
			if found, known = prices.Model(to); known && found == nil {
				return nil, fault.New(fault.Invalid, "the model %q has no price; give it one, or name another", excerpt.Of(to, 100)).At("models")
			}
		}
		if found == nil {
			found = prices.Book.Find(to, vendor, name)
		}
		if found == nil {
			return nil, fault.New(fault.Invalid, "nobody knows a price of %q: name a model of the catalog, or a vendor and its model, such as openai/gpt-4.1", excerpt.Of(to, 100)).At("models")
		}
		out[from] = found
	}
	return out, nil
}

// shareOf reads a share in millionths.
func shareOf(text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	n, err := price.Parse(text)
	if err != nil || n > 1_000_000_000 || n%1000 != 0 {
		return 0, fault.New(fault.Invalid, "%q is no share of calls: use a number from 0 to 1 with at most six decimals, such as 0.3", excerpt.Of(text, 40)).At("batch_share")
	}
	return int64(n) / 1000, nil
}

// note adds what the replay cannot know, and what it did not see.
func (r *Report) note(q *Question, dropped time.Time) {
	say := func(when bool, format string, args ...any) {
		if when {
			r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
		}
	}
	requests := func(n int64) string {
		if n == 1 {
			return "1 request"
		}
		return strconv.FormatInt(n, 10) + " requests"
	}
	c, t := &r.Counts, &r.Total
	say(len(q.Models) > 0, "Tokens are those of the real requests. Another model counts them differently, and its replies would have been longer or shorter.")
	say(len(q.Models) > 0 && c.Moved == 0, "No request of this time was answered by a model that is replaced.")
	say(c.Misses+c.Hits > 0, "Cache: %s would have missed it, and %d would have hit it, judged by the time since the request before in the same session.", requests(c.Misses), c.Hits)
	say(c.Sessionless > 0, "Cache as it was: %s without a session. It is not known what they would have found there.", requests(c.Sessionless))
	say(q.Batched != "", "Batched: %s. A batch takes up to a day and cannot be streamed; which requests could have waited is not known.", requests(c.Batched))
	say(c.Unbatched > 0, "Not batched: %s to models without a price for batches.", requests(c.Unbatched))
	say(c.Restated > 0, "At today's prices: %s whose price of then is not known any more.", requests(c.Restated))
	both := t.Unpriced == t.WouldUnpriced && t.OnlyCost == 0 && t.OnlyWould == 0 // the same ones
	say(t.Unpriced > 0 && both, "Left out of the difference: %s without a price.", requests(t.Unpriced))
	say(t.Unpriced > 0 && !both, "Left out of the difference: %s that had no price.", requests(t.Unpriced))
	say(t.WouldUnpriced > 0 && !both, "Left out of the difference: %s without a price in this scenario.", requests(t.WouldUnpriced))
	say(q.From.Before(dropped), "Requests before %s have been deleted.", dropped.UTC().Format(time.DateTime)+" UTC")
	say(!r.Until.IsZero(), "Only the first %s requests were replayed, those until %s.", strconv.FormatInt(q.Most, 10), r.Until.UTC().Format(time.DateTime)+" UTC")
}
