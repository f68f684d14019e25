package budgettest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/ledger/budget"
	"sluice/internal/ledger/price"
	"sluice/internal/ledger/usage"
)

// settledOnce checks that a settlement moves what was spent out of the grant, once, however often it is recorded.
func settledOnce(t *testing.T, s Subject) {
	a := askOf("node/a/1", 50, 0)
	s.grants(t, "first", a, budget.Figures{Amount: 100, Granted: 50, Free: 50})
	batch := []usage.Settlement{call("1", 10, charge(a.Holder, 30)), call("2", 7, charge(a.Holder, 20))}
	want := budget.Figures{Amount: 100, Spent: 10, Granted: 50, Committed: 10, Free: 50}
	must(t, s.Record(t.Context(), batch[:1]))
	s.stands(t, "settled", a, want)
	must(t, s.Record(t.Context(), batch[:1]))
	s.stands(t, "settled again", a, want)
	must(t, s.Record(t.Context(), slices.Concat(batch, batch)))
	s.stands(t, "settled with another one", a, budget.Figures{Amount: 100, Spent: 17, Granted: 50, Committed: 17, Free: 50})
	s.stands(t, "for others", askOf("", 0, 0), budget.Figures{Amount: 100, Spent: 17, Others: 33, Free: 50})
	s.grants(t, "given back", having(askOf(a.Holder, 80, 0), 17, 0), budget.Figures{Amount: 100, Spent: 17, Granted: 97, Committed: 17, Free: 3})
}

// unpriced checks that a call whose cost is not known takes what it had reserved, and a failed one nothing.
func unpriced(t *testing.T, s Subject) {
	a := askOf("node/a/1", 50, 0)
	s.grants(t, "first", a, budget.Figures{Amount: 100, Granted: 50, Free: 50})
	unknown, failed := call("1", 0, charge(a.Holder, 30)), call("2", 0, charge(a.Holder, 20))
	unknown.Cost, failed.Cost, failed.End = nil, nil, usage.EndFailed
	must(t, s.Record(t.Context(), []usage.Settlement{unknown, failed}))
	s.stands(t, "settled", a, budget.Figures{Amount: 100, Spent: 30, Granted: 50, Committed: 30, Free: 50})
}

// onlyWarns checks that a budget of which nothing is reserved counts, too, and that a call counts for each of its budgets.
func onlyWarns(t *testing.T, s Subject) {
	soft := askOf("", 0, 0)
	soft.Count = "bud_soft"
	must(t, s.Record(t.Context(), []usage.Settlement{
		call("1", 70, usage.Charge{Count: soft.Count, Period: day}, charge("node/a/1", 90)), call("2", 60, usage.Charge{Count: soft.Count, Period: day}), call("3", 5),
	}))
	s.stands(t, "soft", soft, budget.Figures{Amount: 100, Spent: 130, Free: -30})
	s.stands(t, "hard", askOf("", 0, 0), budget.Figures{Amount: 100, Spent: 70, Free: 30})
}

// rowGone checks that the settlement of a holder that was forgotten counts, and gives the holder nothing back.
func rowGone(t *testing.T, s Subject) {
	a := askOf("node/a/1", 50, 0)
	s.grants(t, "first", a, budget.Figures{Amount: 100, Granted: 50, Free: 50})
	must(t, s.Store.Forget(t.Context(), "node/a/", ""))
	must(t, s.Record(t.Context(), []usage.Settlement{call("1", 20, charge(a.Holder, 30))}))
	s.stands(t, "settled", a, budget.Figures{Amount: 100, Spent: 20, Committed: 20, Free: 80})
	want := budget.Figures{Amount: 100, Spent: 20, Free: 80}
	s.stands(t, "for others", askOf("", 0, 0), want)
	// Others may have what the holder believes that it has, also now that a settlement has made its row again.
	s.keeps(t, grantsOf(having(a, 50, 30)), having(a, 50, 30).Grant)
	s.stands(t, "kept", askOf("", 0, 0), want)
}

// handed checks that what is handed to a video stays with it until it is settled, also if the server is forgotten.
func handed(t *testing.T, s Subject) {
	ctx := t.Context()
	a, job := askOf("node/a/1", 50, 0), askOf("job/v1", 0, 0)
	s.grants(t, "first", a, budget.Figures{Amount: 100, Granted: 50, Free: 50})
	for range 2 {
		must(t, s.Store.Hand(ctx, grantsOf(having(a, 20, 5)), grantsOf(having(job, 30, 30))))
		s.stands(t, "handed", a, budget.Figures{Amount: 100, Others: 30, Reserved: 30, Granted: 20, Free: 50})
		s.stands(t, "handed to", job, budget.Figures{Amount: 100, Others: 20, Reserved: 5, Granted: 30, Free: 50})
	}
	must(t, s.Store.Forget(ctx, "node/a/", "node/a/2/"))
	s.stands(t, "without the server", askOf("", 0, 0), budget.Figures{Amount: 100, Others: 30, Reserved: 30, Free: 70})
	must(t, s.Record(ctx, []usage.Settlement{call("1", 25, charge(job.Holder, 30))}))
	want := budget.Figures{Amount: 100, Spent: 25, Free: 75}
	s.stands(t, "settled", askOf("", 0, 0), want)
	// The server may not know that it has handed it over, and that the video has ended since.
	must(t, s.Store.Hand(ctx, grantsOf(having(a, 0, 0)), grantsOf(having(job, 30, 30))))
	s.stands(t, "handed too late", askOf("", 0, 0), want)
}

// grantsOf returns the grants of asks.
func grantsOf(asks ...budget.Ask) (grants []budget.Grant) {
	for _, a := range asks {
		grants = append(grants, a.Grant)
	}
	return grants
}

// dropped checks that all that a video holds is taken back, and nothing of others.
func dropped(t *testing.T, s Subject) {
	ctx := t.Context()
	a := askOf("node/a/1", 0, 0)
	other := a
	other.Count = "bud_2"
	for _, job := range []string{"job/v1", "job/v10"} {
		to := grantsOf(having(a, 30, 30), having(other, 30, 30))
		to[0].Holder, to[1].Holder = job, job
		must(t, s.Store.Hand(ctx, grantsOf(a, other), to))
	}
	for range 2 {
		must(t, s.Store.Drop(ctx, "job/v1"))
		for _, of := range []budget.Ask{a, other} {
			s.stands(t, of.Count, of, budget.Figures{Amount: 100, Others: 30, Reserved: 30, Free: 70})
		}
	}
}

// forgotten checks that names are compared sign by sign, and that the holders of this process stay.
func forgotten(t *testing.T, s Subject) {
	ctx := t.Context()
	var grants []budget.Grant
	for _, holder := range []string{"node/a_%25/1/1", "node/a_%25/1/2", "node/a_%25/2/1", "node/ax%25/1/1", "node/a_x25/1/1", "NODE/A_%25/1/1", "job/v"} {
		grants = append(grants, having(askOf(holder, 0, 0), 10, 1).Grant)
	}
	have(t, s, grants...)
	must(t, s.Store.Forget(ctx, "node/a_%25/", "node/a_%25/2/"))
	s.keeps(t, grants, grants[:2]...) // what was taken back stays so
	for i, g := range grants {
		want := price.Nano(10)
		if i < 2 {
			want = 0
		}
		if got, err := s.Store.Figures(ctx, []budget.Ask{{Grant: g, Since: day}}); err != nil || got[0].Granted != want {
			t.Errorf("Forget leaves %q %+v, %v, want %d", g.Holder, got, err, want)
		}
	}
}

// keeps checks which grants a store takes back when it is told of some.
func (s Subject) keeps(t *testing.T, grants []budget.Grant, want ...budget.Grant) {
	t.Helper()
	var back *budget.TakenBack
	err := s.Store.Keep(t.Context(), grants)
	if !errors.As(err, &back) || !cmp.Equal(back.Grants, want) {
		t.Errorf("Keep = %v, want %+v taken back", err, want)
	}
}

// many checks that the figures of many counts come in the order of the asks, and those of unknown counts, too.
func many(t *testing.T, s Subject) {
	var asks []budget.Ask
	var want []budget.Figures
	var grants []budget.Grant
	for i := range 130 {
		a := askOf("node/a/1", 0, 0)
		a.Count = fmt.Sprintf("bud_%03d", (i*37)%130)
		f := budget.Figures{Amount: 100, Free: 100}
		if i%3 != 0 {
			f.Granted, f.Free = price.Nano(i%50), 100-price.Nano(i%50)
			grants = append(grants, having(a, f.Granted, 0).Grant)
		}
		asks, want = append(asks, a), append(want, f)
	}
	have(t, s, grants...)
	got, err := s.Store.Figures(t.Context(), asks)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("Figures: %v, -want +got\n%s", err, diff)
	}
	if got, err := s.Store.Figures(t.Context(), nil); err != nil || len(got) != 0 {
		t.Errorf("Figures of nothing = %v, %v", got, err)
	}
}

// grantsExpire checks that the grant of a server that is gone is given back in the end, and that of a video is not.
func grantsExpire(t *testing.T, s Subject) {
	ctx := t.Context()
	lives, gone, video, ended, never := askOf("node/a/1", 0, 0), askOf("node/b/1", 0, 0), askOf("job/v1", 0, 0), askOf("job/v2", 0, 0), askOf("job/v3", 0, 0)
	have(t, s, grantsOf(having(lives, 10, 0), having(gone, 20, 4), having(video, 25, 25), having(ended, 40, 40), having(never, 5, 5))...)
	must(t, s.Video(ctx, "v1"))
	must(t, s.Record(ctx, []usage.Settlement{call("1", 5, charge(ended.Holder, 40))}))
	rest := budget.Figures{Amount: 100, Spent: 5, Others: 60, Reserved: 34, Free: 35}
	must(t, s.Age(ctx, budget.Abandoned-time.Minute))
	must(t, s.Expire(ctx))
	s.stands(t, "in time", askOf("", 0, 0), rest)
	must(t, s.Store.Keep(ctx, []budget.Grant{having(lives, 10, 0).Grant}))
	must(t, s.Age(ctx, 2*time.Minute))
	must(t, s.Expire(ctx))
	// The server that died between a grant and the video that it was for has left the last one.
	s.stands(t, "too late", askOf("", 0, 0), budget.Figures{Amount: 100, Spent: 5, Others: 35, Reserved: 25, Free: 60})
	// Nothing is left of what the other video had, so its row is gone, and what it has spent with it.
	s.stands(t, "a video that has ended", ended, budget.Figures{Amount: 100, Spent: 5, Others: 35, Reserved: 25, Free: 60})
}

// spentExpires checks that what was spent is forgotten more than a year later, except by a budget without an end.
func spentExpires(t *testing.T, s Subject) {
	ctx, daily := t.Context(), 24*time.Hour
	now := time.Now()
	for i, tt := range []struct {
		period int64
		want   price.Nano
	}{{now.Add(-399 * daily).UnixMilli(), 5}, {now.Add(-401 * daily).UnixMilli(), 0}, {0, 5}} {
		a := askOf("", 0, 0)
		a.Period, a.Since = tt.period, tt.period
		c := charge("", 0)
		c.Period = tt.period
		must(t, s.Record(ctx, []usage.Settlement{call(fmt.Sprint(i), 5, c)}))
		must(t, s.Expire(ctx))
		s.stands(t, fmt.Sprint("period ", i), a, budget.Figures{Amount: 100, Spent: tt.want, Free: 100 - tt.want})
	}
}

// sessionsExpire checks that nothing is left of a session that nobody continues, and that the budget itself stays.
func sessionsExpire(t *testing.T, s Subject) {
	ctx, daily := t.Context(), 24*time.Hour
	whole := askOf("", 0, 0)
	whole.Period, whole.Since = 0, 0
	must(t, s.Video(ctx, "v1"))
	var asks []budget.Ask
	for i, count := range []string{"bud_1", "bud_1/old", "bud_1/used"} {
		a := whole
		a.Count = count
		asks = append(asks, a)
		must(t, s.Record(ctx, []usage.Settlement{call(count, price.Nano(5+i), usage.Charge{Count: count, Holder: "job/" + count, Reserved: 10})}))
		_, err := s.Store.Raise(ctx, accountID, count, 50)
		must(t, err)
		have(t, s, budget.Grant{Key: a.Key, Holder: "job/v1", Granted: 20})
	}
	must(t, s.Age(ctx, 89*daily))
	must(t, s.Expire(ctx))
	again := call("again", 1, usage.Charge{Count: "bud_1/used"})
	again.At = time.Now()
	must(t, s.Record(ctx, []usage.Settlement{again}))
	stays := []budget.Figures{
		{Amount: 150, Spent: 5, Others: 20, Free: 125}, {Amount: 150, Spent: 6, Others: 20, Free: 124}, {Amount: 150, Spent: 8, Others: 20, Free: 122},
	}
	check := func(what string, want []budget.Figures) {
		t.Helper()
		got, err := s.Store.Figures(ctx, asks)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: Figures: %v, -want +got\n%s", what, err, diff)
		}
	}
	check("in time", stays)
	must(t, s.Age(ctx, 2*daily))
	must(t, s.Expire(ctx))
	stays[1] = budget.Figures{Amount: 100, Free: 100}
	check("too late", stays)
}

// parallel checks that servers that are granted, spend and give back at the same time never have more than the amount together, and
// that all of it is accounted for in the end.
func parallel(t *testing.T, s Subject) {
	const servers, steps, amount = 8, 40, price.Nano(3000)
	ctx := t.Context()
	look := func() {
		a := askOf("", 0, 0)
		a.Amount = amount
		f, err := s.Store.Figures(ctx, []budget.Ask{a})
		if err != nil || f[0].Spent+f[0].Others > amount || f[0].Free < 0 || f[0].Spent+f[0].Others+f[0].Free != amount {
			t.Errorf("Figures = %+v, %v, want no more than %d", f, err, amount)
		}
	}
	spent := make([]price.Nano, servers)
	var wg sync.WaitGroup
	for i := range servers {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(38, uint64(i)))
			a := askOf(fmt.Sprintf("node/%d/1/1", i), 0, 0)
			a.Amount = amount
			for n := range steps {
				a.Need, a.Share = 1+price.Nano(r.IntN(40)), price.Nano(r.IntN(200))
				switch f, err := s.Store.Grant(ctx, a); {
				case err != nil:
					t.Errorf("Grant = %v", err)
					return
				case r.IntN(6) > 0: // other answers are lost
					a.Granted = f.Granted
				}
				if a.Granted-spent[i] >= a.Need {
					cost := a.Need - price.Nano(r.IntN(int(a.Need)))
					st := call(fmt.Sprintf("%d-%d", i, n), cost, usage.Charge{Count: a.Count, Period: a.Period, Holder: a.Holder, Reserved: a.Need, Amount: amount})
					for range 1 + r.IntN(2) {
						if err := s.Record(ctx, []usage.Settlement{st}); err != nil {
							t.Errorf("Record = %v", err)
						}
					}
					spent[i] += cost
				}
				if r.IntN(3) == 0 {
					a.Granted = spent[i]
					if err := s.Store.Keep(ctx, []budget.Grant{a.Grant}); err != nil {
						t.Errorf("Keep = %v", err)
					}
				}
				look()
			}
			a.Granted = spent[i]
			if err := s.Store.Keep(ctx, []budget.Grant{a.Grant}); err != nil {
				t.Errorf("Keep = %v", err)
			}
		})
	}
	wg.Wait()
	var sum price.Nano
	for _, n := range spent {
		sum += n
	}
	a := askOf("", 0, 0)
	a.Amount = amount
	if s.stands(t, "in the end", a, budget.Figures{Amount: amount, Spent: sum, Free: amount - sum}); sum < amount/2 {
		t.Errorf("%d of %d was spent, too little to mean anything", sum, amount)
	}
}

// noDeadlock checks that servers can tell of the same counts in any order while settlements change them, and others forget them.
func noDeadlock(t *testing.T, s Subject) {
	ctx := t.Context()
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(38, uint64(i)))
			for n := range 15 {
				var grants []budget.Grant
				var batch []usage.Settlement
				for _, c := range r.Perm(60) {
					count, holder := fmt.Sprint("bud_", c%20), fmt.Sprint("node/", c/20, "/1")
					grants = append(grants, budget.Grant{Key: budget.Key{Count: count, Period: day}, Holder: holder, Granted: 10})
					batch = append(batch, call(fmt.Sprint(i, "-", n, "-", c), 1, usage.Charge{Count: count, Period: day, Holder: holder}))
				}
				var err error
				switch (i + n) % 3 {
				case 0:
					err = s.Record(ctx, batch)
				case 1:
					var back *budget.TakenBack
					if err = s.Store.Keep(ctx, grants); errors.As(err, &back) {
						err = nil
					}
				case 2:
					err = s.Store.Forget(ctx, "node/", "")
				}
				if err != nil {
					t.Errorf("step %d of server %d = %v", n, i, err)
				}
			}
		})
	}
	wg.Wait()
}
