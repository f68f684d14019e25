package sqlstore_test

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"testing"
	"time"

	"sluice/internal/kit/fault"
	"sluice/internal/ledger/usage"
	"sluice/internal/store/sqlstore"
	"sluice/internal/store/sqlstore/alltest"
	"sluice/internal/testkit/pgtest"
	"sluice/internal/testkit/wiretest"
)

// hasty is how long calls wait in these tests, and enough is by when all of them must have ended, also on a machine
// that is busy.
const hasty, enough = 2 * time.Second, time.Minute

// frozen are the ways in which a database stops to answer while its connections stay open. freeze returns what
// mends it.
var frozen = []struct {
	name  string
	start func(t *testing.T) (url string, freeze func() (mend func()))
}{
	{"the server is stopped by SIGSTOP", func(t *testing.T) (string, func() func()) {
		s := pgtest.Own(t)
		must := func(err error) {
			if err != nil {
				t.Error(err)
			}
		}
		return s.URL(), func() func() { must(s.Freeze()); return func() { must(s.Thaw()) } }
	}},
	{"nothing passes", func(t *testing.T) (string, func() func()) {
		w, url := wiretest.To(t, pgtest.URL(t))
		return url, w.Freeze
	}},
	{"open connections are silent, new ones work", func(t *testing.T) (string, func() func()) {
		w, url := wiretest.To(t, pgtest.URL(t))
		return url, func() func() { w.Swallow(); return func() {} }
	}},
}

// A frozen database holds nobody for ever, whatever is asked of it and without a deadline of the caller. When it
// is back, everything works again.
func TestFrozen(t *testing.T) {
	t.Parallel()
	for _, kind := range frozen {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			url, freeze := kind.start(t)
			s, err := alltest.Open(t.Context(), url, "")
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			connect(t, s)
			sqlstore.Hasten(s.Kernel(), hasty, hasty)
			mend := freeze()
			defer mend()
			began := time.Now()
			ended, total := callAll(t, s)
			if ended < total {
				t.Fatalf("%d of %d methods have not returned after %s", total-ended, total, time.Since(began).Round(time.Second))
			}
			if !isOld(kind.name) {
				if err := s.RecordSettlements(context.Background(), settlements(3)); !fault.Is(err, fault.Unavailable) {
					t.Errorf("RecordSettlements on a frozen database = %v, want it unavailable", err)
				}
				if h := s.Health(); h.Failing.IsZero() || time.Since(h.Answered) < hasty {
					t.Errorf("Health = %+v, want a failure since about %s ago", h, time.Since(began))
				}
			}
			t.Logf("all calls had returned after %s", time.Since(began).Round(100*time.Millisecond))
			mend()
			for ctx := t.Context(); ; {
				if err := s.RecordSettlements(ctx, settlements(4)); err == nil {
					break
				}
				if time.Since(began) > 2*enough {
					t.Fatal("the database is not used again")
				}
			}
			if h := s.Health(); !h.Failing.IsZero() {
				t.Errorf("Health = %+v of a database that answers", h)
			}
		})
	}
}

// isOld reports whether only old connections are silent: then calls soon work again, on new ones.
func isOld(name string) bool { return name == frozen[2].name }

// connect makes as many connections as a Store keeps, so that there are some to freeze.
func connect(t *testing.T, s *alltest.Store) {
	t.Helper()
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			if err := s.RecordSettlements(t.Context(), settlements(i%2)); err != nil {
				t.Error(err)
			}
			if _, err := s.Health(), s.Notify(t.Context(), "hello"); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

func settlements(n int) (list []usage.Settlement) {
	for i := range n {
		list = append(list, usage.Settlement{ID: fmt.Sprintf("frozen-%d", i), AccountID: "acct_frozen", At: time.Now(), End: "complete"})
	}
	return list
}

// callAll calls every method that takes a context, at the same time and twice, with one that has no deadline. It
// returns how many have ended after enough time. What they return does not matter here, nor that some do not like
// the arguments.
func callAll(t *testing.T, s *alltest.Store) (ended, total int) {
	t.Helper()
	done := make(chan string, 1000)
	var running sync.Map
	v := reflect.ValueOf(s)
	for i := range v.NumMethod() {
		name, method := v.Type().Method(i).Name, v.Method(i)
		if kind := method.Type(); kind.NumIn() == 0 || kind.In(0) != reflect.TypeFor[context.Context]() || name == "Listen" {
			continue // Listen waits for messages; see package cluster
		}
		for i := range 2 {
			total++
			name := fmt.Sprintf("%s, call %d,", name, i+1)
			running.Store(name, true)
			go func() {
				defer func() {
					_ = recover() // nil is not what it takes
					running.Delete(name)
					done <- name
				}()
				method.Call(arguments(method.Type()))
			}()
		}
	}
	timer := time.NewTimer(enough)
	defer timer.Stop()
	for ; ended < total; ended++ {
		select {
		case <-done:
		case <-timer.C:
			running.Range(func(name, _ any) bool { t.Logf("%s hangs", name); return true })
			return ended, total
		}
	}
	if total < 100 {
		t.Errorf("%d calls were made, which are not all", total)
	}
	return ended, total
}

// arguments returns a context without an end, and values that get a method as far as its first statement.
func arguments(kind reflect.Type) []reflect.Value {
	in := []reflect.Value{reflect.ValueOf(context.Background())}
	for i := 1; i < kind.NumIn(); i++ {
		in = append(in, argument(kind.In(i)))
	}
	if kind.IsVariadic() {
		in = in[:len(in)-1]
	}
	return in
}

func argument(kind reflect.Type) reflect.Value {
	v := reflect.New(kind).Elem()
	switch kind.Kind() {
	case reflect.String:
		v.SetString("x")
	case reflect.Int, reflect.Int64:
		v.SetInt(1)
	case reflect.Slice: // of one element
		v.Set(reflect.MakeSlice(kind, 1, 1))
		v.Index(0).Set(argument(kind.Elem()))
	case reflect.Pointer:
		v.Set(reflect.New(kind.Elem()))
	case reflect.Func: // that changes nothing
		v.Set(reflect.MakeFunc(kind, func([]reflect.Value) []reflect.Value {
			out := make([]reflect.Value, kind.NumOut())
			for i := range out {
				out[i] = reflect.Zero(kind.Out(i))
			}
			return out
		}))
	}
	return v
}

// A start on a database that is frozen from the beginning, or in the middle, ends with an error.
func TestOpenFrozen(t *testing.T) {
	t.Parallel()
	w, url := wiretest.To(t, pgtest.URL(t))
	w.Freeze()
	for name, open := range map[string]func() error{
		"Open":     func() error { _, err := alltest.Open(context.Background(), url, ""); return err },
		"OpenAsIs": func() error { _, err := sqlstore.OpenAsIs(context.Background(), url, ""); return err },
		"Inspect":  func() error { _, err := sqlstore.Inspect(context.Background(), url, ""); return err },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ended := make(chan error, 1)
			go func() { ended <- open() }()
			select {
			case err := <-ended:
				if err == nil {
					t.Errorf("%s succeeds on a frozen database", name)
				}
			case <-time.After(enough):
				t.Errorf("%s has not returned after %s", name, enough)
			}
		})
	}
}
