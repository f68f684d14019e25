package admin

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"sluice/internal/kit/excerpt"
	"sluice/internal/kit/fault"
	"sluice/internal/ledger/price"
	"sluice/internal/ledger/reconcile"
	"sluice/internal/ledger/usage"
)

// CallReader reads the settlements of all accounts.
type CallReader interface {
	// EachCall calls each with the calls of a span, oldest first. each must not keep what it gets. Its error ends the read.
	EachCall(ctx context.Context, span usage.Span, each func(*usage.Settlement) error) error
	// EachCharged calls each with all calls that count against budgets, oldest first, as they were settled.
	EachCharged(ctx context.Context, each func(*usage.Settlement) error) error
	// SettlementsDropped returns the time before which settlements may have been deleted; zero: none were.
	SettlementsDropped(ctx context.Context) (time.Time, error)
}

// Reconciliations keeps the last comparisons with vendors' exports.
type Reconciliations interface {
	AddReconciliation(ctx context.Context, r *reconcile.Report) error
	Reconciliations(ctx context.Context) ([]reconcile.Report, error)
	Reconciliation(ctx context.Context, id string) (*reconcile.Report, error)
}

// ReconcileOrder is the argument of reconcile.run.
type ReconcileOrder struct {
	Actor   string             `json:"actor"`
	Exports []reconcile.Export `json:"exports"`
	// Providers are those whose calls are compared; empty: all of the vendor's kind.
	Providers []string `json:"providers,omitempty"`
	// From and To are the first and the last day; empty: those of the export.
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
	// Models are ids of models by what the vendor calls them, where the names are not alike.
	Models map[string]string `json:"models,omitempty"`
}

// ReportQuery is the argument of reconcile.show.
type ReportQuery struct {
	ID string `json:"id"`
}

const (
	mostExports  = 8
	mostSpan     = 400  // days
	mostFindings = 2000 // that are listed
)

// reconcileRun compares the settlements with a vendor's exports, and keeps the report.
func (b *Backend) reconcileRun(ctx context.Context, in ReconcileOrder) (reconcile.Report, error) {
	none := reconcile.Report{}
	if len(in.Exports) == 0 || len(in.Exports) > mostExports {
		return none, fault.New(fault.Invalid, "there must be 1 to %d exports", mostExports).At("exports")
	}
	vendor := in.Exports[0].Vendor
	for i := range in.Exports {
		if err := in.Exports[i].Check(); err != nil || in.Exports[i].Vendor != vendor {
			return none, fault.New(fault.Invalid, "export %d cannot be compared: %v", i+1, err).At("exports")
		}
	}
	providers, err := b.providersOf(vendor, in.Providers)
	if err != nil {
		return none, err
	}
	first, last, err := in.span()
	if err != nil {
		return none, err
	}
	kept, err := b.keptSince(ctx)
	if err != nil {
		return none, err
	}
	ours, err := b.settled(ctx, vendor, providers, first, last)
	if err != nil {
		return none, err
	}
	r := reconcile.Compare(ours, in.Exports, reconcile.Options{From: in.From, To: in.To, Kept: kept, Models: b.upstreamNames(in.Models, providers)})
	r.ID, r.At, r.Actor, r.Providers = "rec_"+strings.ToLower(rand.Text()[:16]), time.Now().UTC().Truncate(time.Millisecond), in.Actor, providers
	b.remark(r, in.Exports)
	r.Trim(mostFindings)
	return *r, b.Reconciliations.AddReconciliation(ctx, r)
}

// remark adds what must be known to read the report.
func (b *Backend) remark(r *reconcile.Report, exports []reconcile.Export) {
	keys := map[string]bool{}
	for i := range exports {
		for _, key := range exports[i].Keys {
			keys[key] = true
		}
	}
	if len(keys) > 1 {
		r.Notes = append(r.Notes, fmt.Sprintf("The export has calls of %d API keys (%s). Settlements name the provider, not its key: if a key is not used by this gateway, leave it out with --key.", len(keys), excerpt.Of(strings.Join(slices.Sorted(maps.Keys(keys)), ", "), 300)))
	}
	if len(r.Others) > 0 {
		r.Notes = append(r.Notes, "The export has charges that no call is compared with; see others.")
	}
	if r.Unpriced > 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("Calls here that have no cost, because something that they used has no price: %d.", r.Unpriced))
	}
}

// providersOf returns the names of the providers whose calls a vendor charges for.
func (b *Backend) providersOf(v reconcile.Vendor, named []string) ([]string, error) {
	kinds := b.Vendors()
	if len(named) == 0 {
		for name, kind := range kinds {
			if kind == v.Kind() {
				named = append(named, name)
			}
		}
	}
	if len(named) == 0 {
		return nil, fault.New(fault.Invalid, "no provider of the kind %s is configured; name those whose calls %s charges for with --provider", v.Kind(), v).At("providers")
	}
	slices.Sort(named)
	return named, nil
}

// span returns the first moment that is compared, and the first one that is not.
func (in *ReconcileOrder) span() (from, to time.Time, err error) {
	first, last := reconcile.Span(in.Exports)
	if in.From != "" {
		first = in.From
	}
	if in.To != "" {
		last = in.To
	}
	if from, err = time.Parse(time.DateOnly, first); err == nil {
		to, err = time.Parse(time.DateOnly, last)
	}
	if err != nil || to.Before(from) || to.Sub(from) > mostSpan*24*time.Hour {
		return from, to, fault.New(fault.Invalid, "from and to must be days such as 2026-11-18, at most %d days apart", mostSpan).At("from")
	}
	return from, to.AddDate(0, 0, 1), nil
}

// keptSince returns the first day whose calls are all kept; empty: all are.
func (b *Backend) keptSince(ctx context.Context) (string, error) {
	if err := b.Usage.Flush(ctx); err != nil {
		return "", err
	}
	dropped, err := b.Calls.SettlementsDropped(ctx)
	if err != nil || dropped.IsZero() || dropped.Unix() == 0 {
		return "", err
	}
	return usage.DayOf(dropped.Add(24*time.Hour - time.Nanosecond)).Format(time.DateOnly), nil
}

// settled adds up the calls of providers.
func (b *Backend) settled(ctx context.Context, v reconcile.Vendor, providers []string, from, to time.Time) (*reconcile.Ours, error) {
	ours, prices := reconcile.NewOurs(v), map[string]*price.Entry{}
	err := b.Calls.EachCall(ctx, usage.Span{From: from, To: to}, func(s *usage.Settlement) error {
		if !slices.Contains(providers, s.Provider) {
			return nil
		}
		upstream := b.upstreamOf(s)
		c := reconcile.Call{
			Day: s.At.UTC().Format(time.DateOnly), ID: s.ModelUsed, Model: upstream, Tier: s.Terms.Tier, Region: s.Terms.Region,
			Counts: s.Counts(), Cost: s.Cost, Terms: s.Priced(), Estimated: s.Terms.Estimated || s.Counted,
		}
		var err error
		if c.Entry, err = b.priceOf(ctx, s, upstream, prices); err != nil {
			return err
		}
		ours.Add(&c)
		return nil
	})
	return ours, err
}

// priceOf returns the prices that a call was settled with, also if others are in force now; of a call without a cost, those of its
// time. It returns nil if they are not known. found has those that were looked up before.
func (b *Backend) priceOf(ctx context.Context, s *usage.Settlement, upstream string, found map[string]*price.Entry) (*price.Entry, error) {
	if s.Cost == nil {
		m, ok := b.Catalog().Lookup(s.ModelUsed)
		if !ok {
			return nil, nil
		}
		return m.Prices(s.Provider, upstream).At(s.At.Unix()), nil
	}
	e, ok := found[s.Terms.Version]
	if ok || s.Terms.Version == "" {
		return e, nil
	}
	e, err := b.Versions.Entry(ctx, s.Terms.Version)
	found[s.Terms.Version] = e
	return e, err
}

// upstreamOf returns what the provider calls the model that answered.
func (b *Backend) upstreamOf(s *usage.Settlement) string {
	if s.Terms.Model != "" {
		return s.Terms.Model
	}
	if s.Trace != nil {
		for _, a := range slices.Backward(s.Trace.Attempts) {
			if a.Provider == s.Provider && a.Upstream != "" {
				return a.Upstream
			}
		}
	}
	if m, ok := b.Catalog().Lookup(s.ModelUsed); ok {
		for _, t := range m.Places() {
			if t.Provider == s.Provider {
				return t.Upstream
			}
		}
	}
	return s.ModelUsed
}

// upstreamNames returns the names of models at the providers, for ids of the catalog; other names stay.
func (b *Backend) upstreamNames(ids map[string]string, providers []string) map[string]string {
	out := map[string]string{}
	for theirs, id := range ids {
		out[theirs] = id
		if m, ok := b.Catalog().Lookup(id); ok {
			for _, t := range m.Places() {
				if slices.Contains(providers, t.Provider) {
					out[theirs] = t.Upstream
				}
			}
		}
	}
	return out
}

// reconcileList returns the last reports without their findings, newest first.
func (b *Backend) reconcileList(ctx context.Context, in Cursor) (List[reconcile.Report], error) {
	list, err := b.Reconciliations.Reconciliations(ctx)
	return part(list, in, func(r reconcile.Report) string { return r.ID }), err
}

func (b *Backend) reconcileShow(ctx context.Context, in ReportQuery) (reconcile.Report, error) {
	r, err := b.Reconciliations.Reconciliation(ctx, in.ID)
	if err == nil && r == nil {
		err = fault.New(fault.NotFound, "there is no reconciliation %q; \"sluice reconcile list\" shows the last ones", excerpt.Of(in.ID, 60))
	}
	if err != nil {
		return reconcile.Report{}, err
	}
	return *r, nil
}
