package storetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"sluice/internal/ledger/receipt"
	"sluice/internal/ledger/usage"
	"sluice/internal/store/sqlstore/alltest"
)

// receipts checks that each receipt is stored once, that the end of a chain never moves back, whatever the order of batches, and
// that it stays when receipts are deleted.
func receipts(t *testing.T, open func() *alltest.Store) {
	s, ctx := open(), t.Context()
	n := receipt.NewNotary(s.Ring(), func() string { return "" })
	var batch []usage.Settlement
	for i := range 5 {
		r := newSettlement(i, base, "key", "m")
		r.Receipt = &usage.Receipt{}
		n.State(&r)
		n.Link(&r)
		batch = append(batch, r)
	}
	accountID, month := batch[0].AccountID, receipt.MonthOf(time.Now())
	// A journal that is replayed, and in another order.
	for _, part := range [][]usage.Settlement{batch[3:], batch[:1], batch, batch[1:3]} {
		again := slices.Clone(part)
		for i := range again {
			again[i].Receipt = &usage.Receipt{Statement: again[i].Receipt.Statement}
		}
		must(t, s.RecordSettlements(ctx, again))
	}
	keys, err := receipt.ParseSet(s.Ring().Set())
	must(t, err)
	var all []*receipt.Receipt
	until := time.Now().Add(time.Hour)
	for after := (receipt.Point{}); ; {
		list, err := open().Receipts(ctx, accountID, base, until, after, 2)
		must(t, err)
		for _, stored := range list {
			r, err := keys.Check(stored.Signed)
			must(t, err)
			all, after = append(all, r), stored.Point
		}
		if len(list) < 2 {
			break
		}
	}
	chains, err := s.ReceiptChains(ctx, accountID, month)
	must(t, err)
	if len(all) != 5 || len(chains) != 1 || chains[0].N != 5 {
		t.Fatalf("%d receipts in chains that end with %+v, want 5 in one", len(all), chains)
	}
	must(t, receipt.CheckMonth(all, receipt.Root(chains)))
	for owner, there := range map[string]bool{accountID: true, "acct_other": false} {
		if got, err := s.Receipt(ctx, owner, batch[2].ID); err != nil || (got != "") != there {
			t.Errorf("Receipt for %s = %q, %v; want one: %t", owner, got, err, there)
		}
	}
	if _, err := s.DropSettlements(ctx, until, 100); err != nil {
		t.Fatal(err)
	}
	left, err := s.Receipts(ctx, accountID, base, until, receipt.Point{}, 10)
	must(t, err)
	kept, err := s.ReceiptChains(ctx, accountID, month)
	must(t, err)
	if len(left) != 0 || !slices.Equal(kept, chains) {
		t.Errorf("%d receipts are left, and the chains end with %+v; want none, and %+v", len(left), kept, chains)
	}
}

// receiptKeys checks that the first key of an installation is made once, by however many nodes, and that a retired key loses its
// private half.
func receiptKeys(t *testing.T, open func() *alltest.Store) {
	ctx := t.Context()
	stores := []*alltest.Store{open(), open(), open()}
	errs := make(chan error, len(stores))
	for _, s := range stores {
		go func() { errs <- s.Ring().Open(ctx) }()
	}
	for range stores {
		must(t, <-errs)
	}
	s := stores[0]
	keys, err := s.ReceiptKeys(ctx)
	must(t, err)
	if len(keys) != 1 || keys[0].Private == nil || keys[0].Damaged {
		t.Fatalf("%d keys were made, want 1 that signs", len(keys))
	}
	next := keys[0]
	next.ID, next.From = "next", next.From.Add(time.Minute)
	must(t, s.AddReceiptKey(ctx, next, false, []string{keys[0].ID}))
	keys, err = s.ReceiptKeys(ctx)
	must(t, err)
	got := ""
	for _, k := range keys {
		got += fmt.Sprint(len(k.Private), k.Damaged, len(k.Public), " ")
	}
	if want := "0 false 32 64 false 32 "; got != want {
		t.Errorf("the keys are %q, want %q: a retired one without its private half, and the new one", got, want)
	}
}
