package video_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/account"
	"sluice/internal/kit/fault"
	"sluice/internal/ledger/budget"
	"sluice/internal/ledger/price"
	"sluice/internal/video"
)

// dollars returns an amount.
func dollars(text string) price.Nano {
	n, err := price.Parse(text)
	if err != nil {
		panic(err)
	}
	return n
}

// inBudget is inWorld with a budget of a dollar for all videos of the account. A video of three seconds costs 45 cents.
func inBudget(t *testing.T, hard bool, r renderer, test func(w *world)) {
	t.Helper()
	inWorld(t, r, func(w *world) {
		w.caller.Account.Budgets = []account.Budget{{ID: "bud_1", Name: "films", Amount: int64(dollars("1")), Window: account.Total, Scope: account.BudgetScope{Account: true}, Hard: hard}}
		w.restart(w.store)
		test(w)
	})
}

// restart puts another process in the place of this one.
func (w *world) restart(store budget.Store) {
	w.t.Helper()
	w.budgets = budget.New(store, nil)
	if err := w.budgets.Begin(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	w.line = w.open("node1")
}

// stands checks how the budget stands.
func (w *world) stands(what, spent, reserved string) {
	w.t.Helper()
	all, err := w.budgets.Statuses(w.t.Context(), w.caller.Account, budget.Of(w.caller.Account, w.caller.KeyID, nil, ""))
	if err != nil {
		w.t.Fatal(err)
	}
	if all[0].Spent != dollars(spent) || all[0].Reserved != dollars(reserved) {
		w.t.Errorf("%s: $%s are spent and $%s reserved, want %s and %s", what, all[0].Spent, all[0].Reserved, spent, reserved)
	}
}

// refuses checks that a job is refused with a budget object, and that this costs nothing.
func (w *world) refuses(what string, o video.Order, want map[string]any) {
	w.t.Helper()
	before := w.used()
	_, _, _, err := w.line.Create(w.t.Context(), o)
	var got map[string]any
	f := fault.From(err)
	if f.Kind != fault.BudgetExceeded || json.Unmarshal(f.Budget, &got) != nil {
		w.t.Fatalf("%s: Create = %v, want a 402 with its budget", what, err)
	}
	for name, value := range want {
		if got[name] != value {
			w.t.Errorf("%s: the %s of the budget in the way is %v, want %v: %s", what, name, got[name], value, f.Budget)
		}
	}
	if used := w.used(); used != before {
		w.t.Errorf("%s: a refused job counts %d thousandths of a request", what, used-before)
	}
}

func TestBudget(t *testing.T) {
	inBudget(t, true, film, func(w *world) {
		first, second := w.create("one"), w.create("two")
		w.stands("two jobs wait", "0", "0.90")
		w.refuses("a third one", w.order("three"), map[string]any{"id": "bud_1", "needed": "0.45", "reserved": "0.90", "left": "0.10", "spent": "0.00", "amount": "1.00"})
		// Another process works on them, and the first one is gone.
		w.restart(w.store)
		w.stands("after a restart", "0", "0.90")
		defer w.run(w.line)()
		w.await(first.ID, video.Succeeded)
		w.await(second.ID, video.Succeeded)
		w.stands("both are made", "0.90", "0")
		w.refuses("another one", w.order("three"), map[string]any{"spent": "0.90", "reserved": "0.00", "left": "0.10"})
	})
}

// A job that ends without a video costs nothing and leaves nothing reserved, whichever way it ends.
func TestBudgetWithoutVideo(t *testing.T) {
	refuse := func(context.Context, io.Writer, *video.Task) error { return video.Refuse(video.Moderated, "no") }
	for name, tt := range map[string]struct {
		renderer renderer
		end      func(w *world, id string)
	}{
		"failed": {refuse, func(w *world, id string) {
			defer w.run(w.line)()
			w.await(id, video.Failed)
		}},
		"cancelled while it waits": {film, func(w *world, id string) { w.cancel(id) }},
		"cancelled while it runs": {endless, func(w *world, id string) {
			defer w.run(w.line)()
			w.await(id, video.Running)
			w.stands("running", "0", "0.45")
			w.cancel(id)
		}},
		"deleted": {film, func(w *world, id string) {
			if err := w.line.Delete(w.t.Context(), w.caller.Account.ID, id); err != nil {
				w.t.Fatal(err)
			}
		}},
		"overdue": {endless, func(w *world, _ string) {
			defer w.run(w.line)()
			time.Sleep(keep + time.Minute) // the bubble's clock
			synctest.Wait()
		}},
		"expired": {film, func(w *world, id string) {
			w.settings.Workers = 0
			w.line.Apply(w.settings)
			time.Sleep(keep + time.Minute) // the bubble's clock
			defer w.run(w.line)()
			w.await(id, video.Failed)
		}},
		"dearer by now": {film, func(w *world, id string) {
			engine := w.settings.Engine
			engine.Credential, engine.Price = "c2", nil
			w.settings.Engine, w.settings.Engines = engine, append(w.settings.Engines, engine)
			w.line.Apply(w.settings)
			defer w.run(w.line)()
			w.await(id, video.Failed)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			inBudget(t, true, tt.renderer, func(w *world) {
				j := w.create("x")
				w.stands("created", "0", "0.45")
				tt.end(w, j.ID)
				w.stands("ended", "0", "0")
			})
		})
	}
}

func (w *world) cancel(id string) {
	w.t.Helper()
	if j, err := w.line.Cancel(w.t.Context(), w.caller.Account.ID, id); err != nil || j.Status != video.Cancelled {
		w.t.Fatalf("Cancel = %+v, %v", j, err)
	}
}

// What is reserved for a job that is then not created is given back.
func TestBudgetNotCreated(t *testing.T) {
	inBudget(t, true, film, func(w *world) {
		w.settings.AccountBytes = 0
		w.line.Apply(w.settings)
		if _, _, _, err := w.line.Create(w.t.Context(), w.order("x")); !fault.Is(err, fault.RateLimited) {
			w.t.Errorf("Create = %v, want a 429", err)
		}
		w.stands("refused", "0", "0")
	})
}

// lost is a store that hands over and then says that it did not.
type lost struct{ budget.Store }

func (l lost) Hand(ctx context.Context, from, to []budget.Grant) error {
	return errors.Join(l.Store.Hand(ctx, from, to), errors.New("the answer was lost"))
}

func TestBudgetNotHanded(t *testing.T) {
	inBudget(t, true, film, func(w *world) {
		w.restart(lost{w.store})
		if _, _, _, err := w.line.Create(w.t.Context(), w.order("x")); !fault.Is(err, fault.Unavailable) || w.used() != 0 {
			w.t.Errorf("Create = %v with %d thousandths of a request used, want a 503 that costs nothing", err, w.used())
		}
		if jobs, _, err := w.line.List(w.t.Context(), w.caller.Account.ID, "", 10); err != nil || len(jobs) != 0 {
			w.t.Errorf("List = %v, %v, want no job", jobs, err)
		}
		w.stands("not handed over", "0", "0")
	})
}

// A budget that only warns counts what videos cost and refuses none.
func TestBudgetWarns(t *testing.T) {
	inBudget(t, false, film, func(w *world) {
		var last *video.Job
		defer w.run(w.line)()
		for range 3 {
			last = w.create("x")
			w.await(last.ID, video.Succeeded)
		}
		w.stands("three jobs", "1.35", "0")
	})
}

func TestMaxCost(t *testing.T) {
	inWorld(t, film, func(w *world) {
		o := w.order("x")
		o.Request.MaxCost = new(dollars("0.44"))
		w.refuses("too dear", o, map[string]any{"id": nil, "name": "max_cost", "amount": "0.44", "needed": "0.45"})
		o.Request.MaxCost = new(dollars("0.45"))
		if _, _, _, err := w.line.Create(w.t.Context(), o); err != nil {
			w.t.Errorf("Create of a video that costs just max_cost = %v", err)
		}
		w.settings.Engine.Price, w.settings.Engines[0].Price = nil, nil
		w.line.Apply(w.settings)
		w.refuses("without a price", o, map[string]any{"name": "max_cost", "needed": nil})
	})
}
