package storetest

import (
	"errors"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/ledger/cluster"
	"sluice/internal/store/sqlstore/alltest"
)

// node returns a node as it joins.
func node(id, life string, now time.Time) cluster.Node {
	return cluster.Node{ID: id, Life: life, Host: "machine-" + id, Address: "http://machine-" + id + ":1", Version: "v1", Mode: cluster.Approximate, StartedAt: now, SeenAt: now, List: 3}
}

func clusterNodes(t *testing.T, open func() *alltest.Store) {
	s := open()
	ctx := t.Context()
	if _, ok, err := s.Beat(ctx, "a", "a1", "", 0); ok || err != nil {
		t.Fatalf("Beat without a row = %t, %v, want false", ok, err)
	}
	var joined time.Time
	join := func(id, life string) {
		t.Helper()
		if err := s.ChangeCluster(ctx, func(st *cluster.State) error {
			joined = st.Now
			st.Nodes = append(st.Nodes, node(id, life, st.Now))
			return nil
		}); err != nil {
			t.Fatalf("ChangeCluster = %v", err)
		}
	}
	join("b", "b1")
	if d := time.Since(joined).Abs(); d > time.Minute {
		t.Errorf("the database's clock is off by %v, want its real time", d)
	}
	join("a", "a1")
	if err := s.ChangeCluster(ctx, func(st *cluster.State) error {
		st.List, st.Base, st.Next, st.Since = 7, []string{"a"}, []string{"a", "b"}, base
		return nil
	}); err != nil {
		t.Fatalf("ChangeCluster = %v", err)
	}
	st, ok, err := s.Beat(ctx, "a", "a1", "http://a:1", 7)
	if err != nil || !ok || st.List != 7 || !reflect.DeepEqual(st.Base, []string{"a"}) || !reflect.DeepEqual(st.Next, []string{"a", "b"}) || !st.Since.Equal(base) {
		t.Fatalf("Beat = %+v, %t, %v, want the lists that were stored", st, ok, err)
	}
	if len(st.Nodes) != 2 || st.Nodes[0].ID != "a" || st.Nodes[0].List != 7 || st.Nodes[0].SeenAt.Before(joined) || st.Nodes[1].List != 3 {
		t.Errorf("Beat = %+v, want a seen now, going by list 7, and then b", st.Nodes)
	}
	want := node("a", "a1", joined)
	want.SeenAt, want.List, want.Address = st.Nodes[0].SeenAt, 7, "http://a:1"
	if st.Nodes[0] != want {
		t.Errorf("the row is %+v, want %+v", st.Nodes[0], want)
	}
	if _, ok, err := s.Beat(ctx, "a", "a2", "http://a:2", 7); ok || err != nil {
		t.Errorf("Beat of another life = %t, %v, want false", ok, err)
	}

	refused := errors.New("no")
	if err := s.ChangeCluster(ctx, func(st *cluster.State) error {
		st.List, st.Nodes = 8, nil
		return refused
	}); !errors.Is(err, refused) {
		t.Errorf("ChangeCluster = %v, want the error of the change", err)
	}
	// One row is replaced, the other goes.
	if err := s.ChangeCluster(ctx, func(st *cluster.State) error {
		if len(st.Nodes) != 2 || st.List != 7 {
			t.Errorf("the state is %+v after a change that failed, want it as before", st)
		}
		st.Nodes = []cluster.Node{node("a", "a2", st.Now)}
		return nil
	}); err != nil {
		t.Fatalf("ChangeCluster = %v", err)
	}
	if st, ok, err = s.Beat(ctx, "a", "a2", "http://a:2", 7); err != nil || !ok || len(st.Nodes) != 1 || st.Nodes[0].Life != "a2" {
		t.Errorf("Beat = %+v, %t, %v, want the new life alone", st, ok, err)
	}
}

// Changes see each other: no two nodes find the same place free.
func clusterOnce(t *testing.T, open func() *alltest.Store) {
	s := open()
	var won atomic.Int64
	taken := errors.New("taken")
	var joining sync.WaitGroup
	for _, id := range []string{"a", "b", "c", "d"} {
		joining.Go(func() {
			err := s.ChangeCluster(t.Context(), func(st *cluster.State) error {
				if len(st.Nodes) > 0 {
					return taken
				}
				st.Nodes = append(st.Nodes, node(id, id, st.Now))
				return nil
			})
			if err == nil {
				won.Add(1)
			} else if !errors.Is(err, taken) {
				t.Errorf("ChangeCluster = %v", err)
			}
		})
	}
	joining.Wait()
	if won.Load() != 1 {
		t.Errorf("%d nodes found the place free, want 1", won.Load())
	}
}

func clusterJobs(t *testing.T, open func() *alltest.Store) {
	s := open()
	ctx := t.Context()
	claim := func(holder string, want bool) time.Duration {
		t.Helper()
		got, wait, err := s.ClaimJob(ctx, "job", holder, time.Minute)
		if err != nil || got != want {
			t.Fatalf("ClaimJob by %s = %t, %v, want %t", holder, got, err, want)
		}
		return wait
	}
	renew := func(holder string, want bool) {
		t.Helper()
		if got, err := s.RenewJob(ctx, "job", holder, time.Minute); err != nil || got != want {
			t.Errorf("RenewJob by %s = %t, %v, want %t", holder, got, err, want)
		}
	}
	end := func(holder string, every time.Duration) {
		t.Helper()
		if err := s.EndJob(ctx, "job", holder, every); err != nil {
			t.Errorf("EndJob by %s = %v", holder, err)
		}
	}
	claim("a", true)
	if wait := claim("b", false); wait <= 0 || wait > time.Minute {
		t.Errorf("a claimed job comes free in %v, want within the lease", wait)
	}
	renew("a", true)
	renew("b", false)
	end("b", time.Hour) // not its own
	claim("b", false)
	end("a", 0) // given back undone
	claim("b", true)
	renew("a", false)
	end("b", time.Hour)
	if wait := claim("a", false); wait <= 58*time.Minute || wait > time.Hour {
		t.Errorf("a job that was done is due in %v, want an hour after its beginning", wait)
	}
	renew("b", false)

	// A lease that has ended: anybody may take the job, and the holder has lost it.
	if got, _, err := s.ClaimJob(ctx, "other", "a", -time.Second); err != nil || !got {
		t.Fatalf("ClaimJob = %t, %v, want true", got, err)
	}
	if got, err := s.RenewJob(ctx, "other", "a", time.Minute); err != nil || got {
		t.Errorf("RenewJob after the end = %t, %v, want false", got, err)
	}
	if got, _, err := s.ClaimJob(ctx, "other", "b", time.Minute); err != nil || !got {
		t.Errorf("ClaimJob after the end = %t, %v, want true", got, err)
	}
}

// However many claim a job, one gets it.
func clusterJobOnce(t *testing.T, open func() *alltest.Store) {
	s := open()
	for range 5 {
		var won atomic.Int64
		var claiming sync.WaitGroup
		for _, holder := range []string{"a", "b", "c", "d"} {
			claiming.Go(func() {
				got, _, err := s.ClaimJob(t.Context(), "job", holder, time.Minute)
				if err != nil {
					t.Errorf("ClaimJob = %v", err)
				}
				if got {
					won.Add(1)
				}
			})
		}
		claiming.Wait()
		if won.Load() != 1 {
			t.Fatalf("%d of 4 claimed the job, want 1", won.Load())
		}
		for _, holder := range []string{"a", "b", "c", "d"} {
			if err := s.EndJob(t.Context(), "job", holder, 0); err != nil {
				t.Errorf("EndJob = %v", err)
			}
		}
	}
}
