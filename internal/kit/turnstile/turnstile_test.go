package turnstile

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/kit/fault"
)

func TestReadsAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := New()
		enter := func(ctx context.Context, account string) (func(), time.Duration, error) {
			start := time.Now()
			leave, err := g.Enter(ctx, account)
			return leave, time.Since(start), err
		}
		var running []func()
		for range atOnce {
			leave, _, err := enter(t.Context(), "a")
			if err != nil {
				t.Fatal(err)
			}
			running = append(running, leave)
		}
		if _, waited, err := enter(t.Context(), "a"); !fault.Is(err, fault.RateLimited) || waited != patience {
			t.Errorf("one read more = %v after %v, want a 429 after %v", err, waited, patience)
		}
		// Another account waits for nobody.
		if leave, waited, err := enter(t.Context(), "b"); err != nil || waited != 0 {
			t.Errorf("a read of another account = %v after %v, want its turn at once", err, waited)
		} else {
			leave()
		}
		// Those that wait get the places that become free. Beyond the most that may wait, nobody waits.
		got := make(chan error, mostWaiting)
		for range mostWaiting {
			go func() {
				leave, err := g.Enter(t.Context(), "a")
				if err == nil {
					leave()
				}
				got <- err
			}()
		}
		synctest.Wait()
		if _, waited, err := enter(t.Context(), "a"); !fault.Is(err, fault.RateLimited) || waited != 0 {
			t.Errorf("a read beyond those that wait = %v after %v, want a 429 at once", err, waited)
		}
		running[0]()
		for range mostWaiting {
			if err := <-got; err != nil {
				t.Errorf("a read that waited = %v, want its turn", err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		leave, _, err := enter(ctx, "a")
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		if _, waited, err := enter(ctx, "a"); !errors.Is(err, context.Canceled) || waited != 0 {
			t.Errorf("a read whose caller has left = %v after %v, want that it is canceled", err, waited)
		}
		leave()
		for _, leave := range running[1:] {
			leave()
		}
		if len(g.reads) != 0 {
			t.Errorf("there are %d accounts that read, want none", len(g.reads))
		}
	})
}

func TestExportsAtOnce(t *testing.T) {
	t.Parallel()
	g := New()
	leave, err := g.Export("a")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.Export("a"); !fault.Is(err, fault.RateLimited) {
		t.Errorf("a second export = %v, want a 429", err)
	}
	other, err := g.Export("b")
	if err != nil {
		t.Errorf("an export of another account = %v", err)
	} else {
		other()
	}
	leave()
	if leave, err = g.Export("a"); err != nil {
		t.Errorf("an export after the first = %v", err)
	} else {
		leave()
	}
	if len(g.exports) != 0 {
		t.Errorf("there are %d accounts with exports, want none", len(g.exports))
	}
}

func TestBodiesAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := New()
		var running []func()
		for range decodedAtOnce {
			leave, err := g.Decode(t.Context(), "a")
			if err != nil {
				t.Fatal(err)
			}
			running = append(running, leave)
		}
		if leave, err := g.Decode(t.Context(), "b"); err != nil {
			t.Errorf("a body of another account = %v", err)
		} else {
			leave()
		}
		const waiting = 100
		turns := make(chan error, waiting)
		for range waiting {
			go func() {
				leave, err := g.Decode(t.Context(), "a")
				if err == nil {
					leave()
				}
				turns <- err
			}()
		}
		synctest.Wait()
		if len(turns) > 0 {
			t.Errorf("%d bodies more are decoded beside %d, want that they wait", len(turns), decodedAtOnce)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if _, err := g.Decode(ctx, "a"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a body whose caller has left = %v", err)
		}
		running[0]()
		for range waiting {
			if err := <-turns; err != nil {
				t.Errorf("a body that waited = %v, want its turn", err)
			}
		}
		for _, leave := range running[1:] {
			leave()
		}
		if len(g.bodies) != 0 {
			t.Errorf("there are %d accounts with bodies, want none", len(g.bodies))
		}
	})
}
