package storetest

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/account"
	"sluice/internal/store/sqlstore/alltest"
	"sluice/internal/upstream/catalog"
)

// listed returns a catalog of configured models with the given plan and ids.
func listed(t *testing.T, plan account.Plan, ids ...string) *catalog.Catalog {
	t.Helper()
	var models []catalog.Model
	for _, id := range ids {
		models = append(models, catalog.Model{ID: id, OwnedBy: "lab", Plan: plan, RequestMilli: 1000, ContextLength: 10, MaxOutput: 5, Origin: catalog.Configured})
	}
	c, err := catalog.New(models)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// recordCatalog records a catalog as a starting process does, and returns it with its dates.
func recordCatalog(t *testing.T, s *alltest.Store, c *catalog.Catalog, now time.Time) (dated *catalog.Catalog) {
	t.Helper()
	if err := s.RecordCatalog(t.Context(), func(state *catalog.State) (changes []catalog.Change) {
		dated, _, changes = state.Record(c, catalog.Process{}, now)
		return changes
	}); err != nil {
		t.Errorf("RecordCatalog = %v", err)
		return c
	}
	return dated
}

// changesAfter returns the changes as "number type model".
func changesAfter(t *testing.T, s *alltest.Store, after int64, most int) (told []string, known bool) {
	t.Helper()
	changes, known, err := s.CatalogChanges(t.Context(), after, most)
	if err != nil {
		t.Fatalf("CatalogChanges(%d) = %v", after, err)
	}
	for _, c := range changes {
		told = append(told, fmt.Sprint(c.Number, " ", c.Type, " ", c.Model))
	}
	return told, known
}

// catalogChanges checks that a model keeps the date on which it joined, even while it is removed,
// and that changes are logged in order, with the model before and after (docs/api.md#catalog-changes).
func catalogChanges(t *testing.T, open func() *alltest.Store) {
	s := open()
	if told, known := changesAfter(t, s, 0, 10); told != nil || !known {
		t.Errorf("changes of an empty log = %v, %t, want none and a known start", told, known)
	}
	first := recordCatalog(t, s, listed(t, account.Free, "a", "b"), base)
	s = open() // as after a restart
	if again := recordCatalog(t, s, listed(t, account.Free, "a", "b"), base.Add(time.Minute)); string(again.JSON(true)) != string(first.JSON(true)) {
		t.Errorf("the catalog after a restart = %s, want %s", again.JSON(true), first.JSON(true))
	}
	recordCatalog(t, s, listed(t, account.Basic, "b"), base.Add(time.Hour))
	last := recordCatalog(t, s, listed(t, account.Basic, "a", "b"), base.Add(2*time.Hour))
	// The date is that of the first listing (docs/api.md#model-object).
	if a, _ := last.Lookup("a"); a.Created != base.Unix() {
		t.Errorf("a model that came back joined at %d, want %d", a.Created, base.Unix())
	}
	all := []string{"1 added a", "2 added b", "3 changed b", "4 removed a", "5 added a"}
	for _, tt := range []struct {
		after int64
		most  int
		want  []string
		known bool
	}{
		// 6 was never used as a number, so it is reported as unknown.
		{0, 10, all, true},
		{0, 2, all[:2], true},
		{2, 2, all[2:4], true},
		{4, 10, all[4:], true},
		{5, 10, nil, true},
		{6, 10, nil, false},
	} {
		if told, known := changesAfter(t, s, tt.after, tt.most); !cmp.Equal(told, tt.want) || known != tt.known {
			t.Errorf("CatalogChanges(%d, %d) = %v, %t, want %v, %t", tt.after, tt.most, told, known, tt.want, tt.known)
		}
	}
	changes, _, err := s.CatalogChanges(t.Context(), 2, 2)
	if err != nil {
		t.Fatal(err)
	}
	free, _ := first.Lookup("b")
	basic, _ := last.Lookup("b")
	want := []catalog.Change{
		{Number: 3, At: base.Add(time.Hour), Type: catalog.Changed, Model: "b", Before: free.JSON(), After: basic.JSON()},
		{Number: 4, At: base.Add(time.Hour), Type: catalog.Removed, Model: "a", Before: changes[1].Before},
	}
	if diff := cmp.Diff(want, changes); diff != "" {
		t.Errorf("changes: -want +got\n%s", diff)
	}
}

// catalogOnce checks that processes that start at the same time with the same catalog log its
// models once and agree on their dates.
func catalogOnce(t *testing.T, open func() *alltest.Store) {
	const processes = 4
	var starting sync.WaitGroup
	// Each process has its own clock. The first one that records decides the date for all.
	got := make([]string, processes)
	c := listed(t, account.Free, "a", "b", "c")
	for i := range processes {
		s := open()
		starting.Go(func() {
			got[i] = string(recordCatalog(t, s, c, base.Add(time.Duration(i)*time.Minute)).JSON(false))
		})
	}
	starting.Wait()
	for i := range got {
		if got[i] != got[0] {
			t.Errorf("two processes list\n%s\n%s", got[0], got[i])
		}
	}
	if told, _ := changesAfter(t, open(), 0, 100); len(told) != 3 {
		t.Errorf("changes = %v, want each model once", told)
	}
}

// dropChanges checks that changes older than a year are deleted in batches, and that the newest one
// stays: its number is where callers continue.
func dropChanges(t *testing.T, open func() *alltest.Store) {
	s := open()
	recordCatalog(t, s, listed(t, account.Free, "a", "b"), base)
	recordCatalog(t, s, listed(t, account.Free, "a", "b", "c", "d"), base.Add(time.Hour))
	year := base.Add(catalog.KeepChanges)
	for _, tt := range []struct {
		now     time.Time
		dropped int
		left    []string
	}{
		// One at a time, although two are old enough.
		{year.Add(-time.Millisecond), 0, []string{"1 added a", "2 added b", "3 added c", "4 added d"}},
		{year, 1, []string{"2 added b", "3 added c", "4 added d"}},
		{year, 1, []string{"3 added c", "4 added d"}},
		{year, 0, []string{"3 added c", "4 added d"}},
		{year.Add(time.Hour), 1, []string{"4 added d"}},
		{year.Add(2 * time.Hour), 0, []string{"4 added d"}},
	} {
		n, err := s.DropChanges(t.Context(), tt.now, 1)
		if told, _ := changesAfter(t, s, 0, 10); err != nil || n != tt.dropped || !cmp.Equal(told, tt.left) {
			t.Errorf("DropChanges(%v) = %d, %v, and %v stay, want %d and %v", tt.now, n, err, told, tt.dropped, tt.left)
		}
	}
	if _, known := changesAfter(t, s, 2, 10); known {
		t.Error("a change that was dropped is known")
	}
	if told, known := changesAfter(t, s, 4, 10); !known || told != nil {
		t.Errorf("changes after the last one = %v, %t, want none", told, known)
	}
}
