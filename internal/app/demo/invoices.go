package demo

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"sluice/internal/ledger/price"
	"sluice/internal/ledger/reconcile"
	"sluice/internal/ledger/usage"
)

// The days of the invoices that are compared, before the end of the history, and what one of the vendors does on the last of them:
// it charges more for replies of a model than its list says. On another day a program with a key of its own called that vendor.
const (
	invoicedFrom, invoicedTo = 31, 2
	dearerDays               = 6
	dearerModel, dearer      = sol, 120 // percent of the list price
	strangerDay              = 17
	strangerTokens           = 412_000
)

// billed is a bucket of a model on a day, as invoices have lines.
type billed struct{ day, model, bucket string }

// compare keeps comparisons of the calls with the invoices of two vendors, as "sluice reconcile" makes them: one is in order, and the
// other one is not.
func (h *history) compare(ctx context.Context, t *traffic, all []usage.Settlement) error {
	for i, v := range []reconcile.Vendor{reconcile.Anthropic, reconcile.OpenAI} {
		ours, export := t.invoice(v, all)
		if v == reconcile.OpenAI {
			t.spoil(&export)
		}
		r := reconcile.Compare(ours, []reconcile.Export{export}, reconcile.Options{From: t.invoiced(invoicedFrom), To: t.invoiced(invoicedTo)})
		r.ID, r.Actor, r.Providers = "rec_"+strings.ToLower(rand.Text()[:16]), staffName, []string{string(v)}
		r.At = h.end.Truncate(24*time.Hour).AddDate(0, 0, -1).Add(9*time.Hour + time.Duration(12+4*i)*time.Minute)
		if err := h.service.AddReconciliation(ctx, r); err != nil {
			return fmt.Errorf("compare with the invoice of %s: %w", v, err)
		}
	}
	return nil
}

// invoiced returns a day before the present one, as invoices write it.
func (t *traffic) invoiced(ago int) string {
	return t.now.UTC().AddDate(0, 0, -ago).Format(time.DateOnly)
}

// invoice returns the calls at a vendor as a comparison adds them up, and an invoice that agrees with them.
func (t *traffic) invoice(v reconcile.Vendor, all []usage.Settlement) (*reconcile.Ours, reconcile.Export) {
	ours, from, to := reconcile.NewOurs(v), t.invoiced(invoicedFrom), t.invoiced(invoicedTo)
	counts, costs := map[billed]int64{}, map[billed]int64{} // a cost is in millionths of a nano-dollar
	for i := range all {
		s := &all[i]
		day := s.At.UTC().Format(time.DateOnly)
		m, ok := t.catalog.Lookup(s.ModelUsed)
		if s.Provider != string(v) || !ok || s.Cost == nil || day < from || day > to {
			continue
		}
		e := m.Priced(s.At)
		c := reconcile.Call{Day: day, ID: m.ID, Model: m.ID, Counts: s.Counts(), Cost: s.Cost, Entry: e, Terms: s.Priced()}
		ours.Add(&c)
		for _, l := range e.Lines(&c.Counts, c.Terms) {
			key := billed{day, m.ID, l.Name}
			if l.Name == price.Reasoning.String() { // no vendor tells it apart
				key.bucket = price.Output.String()
			}
			counts[key] += l.Count
			costs[key] += l.Count * int64(l.Rate)
		}
	}
	export := reconcile.Export{Vendor: v, Files: []string{string(v) + "-usage.csv", string(v) + "-costs.csv"}, Unit: 1}
	keys := slices.SortedFunc(maps.Keys(counts), func(a, b billed) int {
		return strings.Compare(a.day+a.model+a.bucket, b.day+b.model+b.bucket)
	})
	for i, k := range keys {
		if !slices.Contains(export.Buckets, k.bucket) {
			export.Buckets = append(export.Buckets, k.bucket)
		}
		export.Lines = append(export.Lines, reconcile.Line{
			Day: k.day, Model: k.model, Bucket: k.bucket, Count: counts[k], Counted: 1, Cost: reconcile.Money((costs[k] + 500_000) / 1_000_000), Charged: 1, Row: i + 2,
		})
	}
	return ours, export
}

// spoil changes an invoice that is in order.
func (t *traffic) spoil(e *reconcile.Export) {
	since, stranger := t.invoiced(invoicedTo+dearerDays-1), t.invoiced(strangerDay)
	for i := range e.Lines {
		switch l := &e.Lines[i]; {
		case l.Model == dearerModel && l.Bucket == price.Output.String() && l.Day >= since:
			l.Cost = l.Cost * dearer / 100
		case l.Model == embed && l.Day == stranger:
			l.Cost += l.Cost * strangerTokens / reconcile.Money(l.Count)
			l.Count += strangerTokens
		}
	}
	e.Others = []reconcile.Other{{Name: "file search storage", Rows: invoicedFrom - invoicedTo + 1, Cost: 3_100_000_000}}
}
