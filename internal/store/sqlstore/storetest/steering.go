package storetest

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/account"
	"sluice/internal/operate/steering"
	"sluice/internal/store/sqlstore/alltest"
)

// orders checks that orders are changed together with the audit log, which an entry without an account is not followed
// by, and that a change that is refused leaves nothing behind.
func orders(t *testing.T, open func() *alltest.Store) {
	s, ctx := open(), t.Context()
	have, before, err := s.Orders(ctx)
	if err != nil || len(have) != 0 {
		t.Fatalf("Orders = %v, %v, want none", have, err)
	}
	seen, err := s.LastChange(ctx)
	must(t, err)
	drained := steering.Order{ID: "ord_1", Kind: steering.Drain, Target: steering.Target{Provider: "a", Upstream: "m"}, From: base, At: base, Actor: "t", Reason: "r"}
	closed := steering.Order{ID: "ord_2", Kind: steering.Maintenance, Models: []string{"m", "n"}, Text: "soon", From: base, Until: base.Add(time.Hour), At: base.Add(time.Second), Actor: "t", Reason: "r"}
	put := func(action string, next ...steering.Order) error {
		return s.ChangeOrders(ctx, func([]steering.Order) ([]steering.Order, account.Entry, error) {
			return next, account.Entry{At: base, Actor: "t", Action: action, Detail: "d", Reason: "r"}, nil
		})
	}
	must(t, put("one", drained))
	must(t, put("two", drained, closed))
	have, version, err := s.Orders(ctx)
	if diff := cmp.Diff([]steering.Order{drained, closed}, have); err != nil || diff != "" || version != before+2 {
		t.Errorf("Orders: %v, version %d after %d, -want +got\n%s", err, version, before, diff)
	}
	refused := errors.New("refused")
	if err := s.ChangeOrders(ctx, func(have []steering.Order) ([]steering.Order, account.Entry, error) {
		if diff := cmp.Diff([]steering.Order{drained, closed}, have); diff != "" {
			t.Errorf("what a change sees: -want +got\n%s", diff)
		}
		return nil, account.Entry{Action: "never"}, refused
	}); !errors.Is(err, refused) {
		t.Errorf("ChangeOrders = %v, want the refusal", err)
	}
	must(t, put("three", closed))
	have, version, err = s.Orders(ctx)
	if diff := cmp.Diff([]steering.Order{closed}, have); err != nil || diff != "" || version != before+3 {
		t.Errorf("Orders after one has ended: %v, version %d after %d, -want +got\n%s", err, version, before, diff)
	}
	if got, err := s.OrdersVersion(ctx); err != nil || got != version {
		t.Errorf("OrdersVersion = %d, %v, want %d", got, err, version)
	}
	log, err := s.AuditLog(ctx, "", 0, 10)
	if err != nil || len(log) != 3 || log[0].Action != "three" || log[2].Action != "one" {
		t.Errorf("AuditLog of the service = %+v, %v", log, err)
	}
	// Nodes that follow accounts pass over these entries.
	if ids, newest, err := s.ChangedSince(ctx, seen); err != nil || len(ids) != 0 || newest != seen+3 {
		t.Errorf("ChangedSince(%d) = %v, %d, %v, want no account up to %d", seen, ids, newest, err, seen+3)
	}
}

// ordersInParallel checks that changes do not lose each other.
func ordersInParallel(t *testing.T, open func() *alltest.Store) {
	const each = 5
	stores := []*alltest.Store{open(), open()}
	var all sync.WaitGroup
	for n, s := range stores {
		all.Go(func() {
			for i := range each {
				o := steering.Order{ID: fmt.Sprintf("ord_%d_%d", n, i), Kind: steering.Announcement, Text: "t", From: base, At: base}
				if err := s.ChangeOrders(t.Context(), func(have []steering.Order) ([]steering.Order, account.Entry, error) {
					return append(have, o), account.Entry{At: base, Actor: "t", Action: "a"}, nil
				}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	have, version, err := stores[0].Orders(t.Context())
	if err != nil || len(have) != 2*each || version != 2*each {
		t.Errorf("%d orders in version %d, %v, want %d", len(have), version, err, 2*each)
	}
}
