package admin

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"sluice/internal/kit/fault"
	"sluice/internal/ledger/price"
	"sluice/internal/upstream/catalog"
)

// Prices is the price book of a server.
type Prices interface {
	Book() *price.Book
	// Vendor returns the kind of a provider whose list prices apply, or "".
	Vendor(provider string) string
	// Taken returns what was imported, the earliest first.
	Taken() []price.Taken
	PriceVersions(ctx context.Context, before int64, most int) ([]price.Seen, error)
	// Import stores prices and puts them in force on all nodes.
	Import(ctx context.Context, by, format string, at time.Time, entries []*price.Entry) error
}

// PriceQuery is the argument of prices.list. Without Model and All it asks for the prices of all models of the catalog that are in
// force; with Model for all prices of that one, which may be a name on the vendors' lists, and with All for the whole book.
type PriceQuery struct {
	Model string `json:"model,omitempty"`
	All   bool   `json:"all,omitempty"`
	Cursor
}

// Price is what a model costs at a place, or that it is not known.
type Price struct {
	Model    string       `json:"model"` // the id in the catalog; of a vendor's list the vendor's name
	Provider string       `json:"provider,omitempty"`
	Upstream string       `json:"upstream,omitempty"`
	InForce  bool         `json:"in_force"`
	Unpriced bool         `json:"unpriced,omitempty"`
	Origin   string       `json:"origin,omitempty"` // list, imported, models[].pricing or prices
	Version  string       `json:"version,omitempty"`
	Entry    *price.Entry `json:"entry,omitempty"`
}

func (p *Price) cursor() string {
	return fmt.Sprintf("%s %s %s %s", p.Model, p.Provider, p.Upstream, p.Version)
}

// pricesList lists prices.
func (b *Backend) pricesList(_ context.Context, in PriceQuery) (List[Price], error) {
	var all []Price
	now := time.Now()
	switch {
	case in.All:
		all = b.inBook("", now)
	case in.Model != "":
		if m, ok := b.Catalog().Lookup(in.Model); ok {
			all = pricesOf(m, now)
		} else if all = b.inBook(in.Model, now); len(all) == 0 {
			return List[Price]{}, b.noModel(fault.NotFound, in.Model, "").At("model")
		}
	default:
		for _, m := range b.Catalog().Models() {
			all = append(all, slices.DeleteFunc(pricesOf(m, now), func(p Price) bool { return !p.InForce && !p.Unpriced })...)
		}
	}
	return part(all, in.Cursor, func(p Price) string { return p.cursor() }), nil
}

// inBook returns the prices of the book for a name of a model, or all if the name is empty. The catalog need not have the model.
func (b *Backend) inBook(name string, now time.Time) (all []Price) {
	for _, e := range b.Prices.Book().Entries() {
		if name == "" || e.Model == name {
			all = append(all, Price{Model: e.Model, Provider: e.Vendor, InForce: e.Valid(now), Origin: e.Origin.String(), Version: e.Version(), Entry: e})
		}
	}
	return all
}

// pricesOf returns the prices of a model at all of its places and times. A place without a price now has a row that says so, unless
// it is the sandbox, which needs none.
func pricesOf(m *catalog.Model, now time.Time) []Price {
	if m.Router {
		return nil
	}
	var all []Price
	for _, t := range m.Places() {
		is := t.Price.At(now.Unix())
		if is == nil && !m.Sandbox {
			all = append(all, Price{Model: m.ID, Provider: t.Provider, Upstream: t.Upstream, Unpriced: true})
		}
		for _, e := range t.Price.Entries() {
			all = append(all, Price{Model: m.ID, Provider: t.Provider, Upstream: t.Upstream, InForce: e == is, Origin: e.Origin.String(), Version: e.Version(), Entry: e})
		}
	}
	return all
}

// PriceFinding is something about prices that an operator should look at.
type PriceFinding struct {
	Model string `json:"model"`
	// Kind is unpriced, missing, tiers, ended, ends, differs, unknown or list.
	Kind string `json:"kind"`
	// Wrong means that calls have no cost because of it, now or before long.
	Wrong bool   `json:"wrong"`
	Text  string `json:"text"`
}

// pricesCheck compares the prices of the configuration, and those that were imported, with the list, and looks for what is missing.
func (b *Backend) pricesCheck(context.Context, Empty) ([]PriceFinding, error) {
	now, found := time.Now(), []PriceFinding{}
	listed, reviewed := price.Listed()
	list := price.NewBook(listed)
	for _, m := range b.Catalog().Models() {
		if m.Router || m.Sandbox {
			continue
		}
		for _, t := range m.Places() {
			e := t.Price.At(now.Unix())
			if e == nil {
				found = append(found, PriceFinding{m.ID, "unpriced", true, fmt.Sprintf("has no price at %s; add it to prices in the configuration, or import a list that has it", t.Provider)})
				continue
			}
			on := list.Find("", b.Prices.Vendor(t.Provider), t.Upstream).At(now.Unix())
			if on != nil && e.Origin != price.FromList {
				found = append(found, compared(m.ID, e, on)...)
			}
		}
	}
	for _, a := range b.Prices.Book().Aging(now) {
		found = append(found, PriceFinding{a.Entry.Model, a.Kind(now), a.Ended(now), a.Text(now)})
	}
	found = append(found, b.strangers()...)
	if text := price.Outdated(reviewed, now); text != "" {
		found = append(found, PriceFinding{"", "list", false, text})
	}
	slices.SortStableFunc(found, func(a, b PriceFinding) int { return cmp.Compare(a.Model, b.Model) })
	return slices.Compact(found), nil
}

// compared returns how an entry falls behind the list.
func compared(model string, e, list *price.Entry) []PriceFinding {
	var found []PriceFinding
	for _, bucket := range e.Lacks(list) {
		found = append(found, PriceFinding{model, "missing", true, fmt.Sprintf("has no price for %s, which the vendor charges for: calls that use it have no cost", bucket)})
	}
	for _, tier := range e.LacksTiers(list) {
		found = append(found, PriceFinding{model, "tiers", true, fmt.Sprintf("has no factor for the tier %s, which the vendor has: calls in it have no cost", tier)})
	}
	if text := e.Against(list); text != "" {
		found = append(found, PriceFinding{model, "differs", false, "differs from the vendor's list: " + text})
	}
	return found
}

// strangers returns the prices of models that the catalog does not have.
func (b *Backend) strangers() []PriceFinding {
	var found []PriceFinding
	for _, e := range b.Prices.Book().Entries() {
		if e.Vendor != "" || e.Model == b.VideoModel() {
			continue
		}
		if _, ok := b.Catalog().Lookup(e.Model); !ok {
			found = append(found, PriceFinding{e.Model, "unknown", false, "has a price in " + e.Origin.String() + ", but there is no such model"})
		}
	}
	return found
}

// PriceImport is the argument of prices.import. Without Take it only says what would change.
type PriceImport struct {
	Actor   string         `json:"actor"`
	Format  string         `json:"format,omitempty"` // of the file that the entries come from
	Entries []*price.Entry `json:"entries"`
	// All also takes prices of models that are neither in the catalog nor in the book.
	All  bool `json:"all,omitempty"`
	Take bool `json:"take,omitempty"`
}

// PriceChange is a price that an import would change or has changed.
type PriceChange struct {
	Vendor string       `json:"vendor,omitempty"`
	Model  string       `json:"model"`
	Text   string       `json:"text"` // what differs
	Old    *price.Entry `json:"old,omitempty"`
	New    *price.Entry `json:"new"`
}

// PriceChanges is the result of prices.import.
type PriceChanges struct {
	Changes []PriceChange `json:"changes"`
	Same    int           `json:"same"`    // entries that change nothing
	Skipped int           `json:"skipped"` // entries of models that are neither in the catalog nor in the book
	Taken   int           `json:"taken"`
}

// pricesImport compares entries with the book and, with Take, stores those that differ. An entry that does not say when it begins
// begins now: calls of the past keep their prices.
func (b *Backend) pricesImport(ctx context.Context, in PriceImport) (PriceChanges, error) {
	out := PriceChanges{Changes: []PriceChange{}}
	now := time.Now().UTC().Truncate(time.Second)
	relevant := b.served()
	var take []*price.Entry
	for i, e := range in.Entries {
		if e == nil {
			return out, fault.New(fault.Invalid, "an entry is null").At(fmt.Sprintf("entries[%d]", i))
		}
		old, known := b.Prices.Book().Latest(e, now)
		switch {
		case !in.All && !known && !relevant[[2]string{e.Vendor, e.Model}]:
			out.Skipped++
		case old != nil && old.Same(e):
			out.Same++
		default:
			out.Changes = append(out.Changes, PriceChange{e.Vendor, e.Model, e.Against(old), old, e})
			dated, err := e.Since(now)
			if err != nil {
				return out, fault.New(fault.Invalid, "%s %s: %v", e.Vendor, e.Model, err).At(fmt.Sprintf("entries[%d]", i))
			}
			take = append(take, dated)
		}
	}
	if !in.Take || len(take) == 0 {
		return out, nil
	}
	slices.SortStableFunc(take, func(a, b *price.Entry) int { return a.From.Compare(b.From) })
	out.Taken = len(take)
	return out, b.Prices.Import(ctx, in.Actor, cmp.Or(in.Format, "sluice"), now, take)
}

// served returns what the catalog needs prices of: vendors and their names of models, and ids without a vendor.
func (b *Backend) served() map[[2]string]bool {
	all := map[[2]string]bool{}
	for _, m := range b.Catalog().Models() {
		all[[2]string{"", m.ID}] = true
		for _, t := range m.Places() {
			for _, name := range price.Names(t.Upstream) {
				all[[2]string{b.Prices.Vendor(t.Provider), name}] = true
			}
		}
	}
	return all
}

// pricesHistory lists the prices that are or were in force, the latest first.
func (b *Backend) pricesHistory(ctx context.Context, in Cursor) (List[price.Seen], error) {
	before, err := in.number()
	if err != nil {
		return List[price.Seen]{}, err
	}
	seen, err := b.Prices.PriceVersions(ctx, before, in.limit())
	by := map[string]string{}
	for _, t := range b.Prices.Taken() {
		by[t.Entry.Version()] = t.By
	}
	for i := range seen {
		seen[i].By = by[seen[i].Version]
	}
	return listOf(seen, in.limit(), func(s *price.Seen) string { return strconv.FormatInt(s.Number, 10) }), err
}
