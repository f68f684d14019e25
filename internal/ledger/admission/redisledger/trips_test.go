package redisledger

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// fakeTrips returns trips that take a while each and answer every order with its first argument, and what has travelled.
func fakeTrips(took time.Duration) (*trips, *[]string) {
	var mu sync.Mutex
	var seen []string
	t := &trips{patience: 100 * time.Millisecond}
	t.travel = func(ctx context.Context, orders []order, answers []answer) {
		until, _ := ctx.Deadline()
		left := time.Until(until)
		time.Sleep(min(took, left)) // the bubble's clock
		var words []string
		for i := range orders {
			words = append(words, orders[i].args[0])
			if answers[i].text = orders[i].args[0]; took > left {
				answers[i] = answer{err: context.DeadlineExceeded}
			}
		}
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, fmt.Sprintf("%s within %s", strings.Join(words, " "), left))
	}
	return t, &seen
}

// start runs orders with a deadline of 250 ms and returns what was answered, once the group has been waited for.
func (t *trips) start(group *sync.WaitGroup, words ...string) *[]string {
	var got []string
	group.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 250*time.Millisecond)
		defer cancel()
		var orders []order
		for _, w := range words {
			orders = append(orders, order{args: []string{w}})
		}
		answers := make([]answer, len(orders))
		t.run(ctx, orders, answers)
		for _, a := range answers {
			if a.err != nil {
				a.text = a.err.Error()
			}
			got = append(got, a.text)
		}
	})
	synctest.Wait() // until it is under way, or waits
	return &got
}

// Those who come during a trip go together in the next one, in their order, and each gets its own answers.
func TestTrips(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		trips, seen := fakeTrips(10 * time.Millisecond)
		var group sync.WaitGroup
		a := trips.start(&group, "a")
		b := trips.start(&group, "b1", "b2")
		time.Sleep(5 * time.Millisecond)
		c := trips.start(&group, "c")
		time.Sleep(10 * time.Millisecond) // the second trip is under way
		d := trips.start(&group, "d")
		group.Wait()
		e := trips.start(&group, "e")
		group.Wait()
		want := []string{"a within 250ms", "b1 b2 c within 240ms", "d within 245ms", "e within 250ms"}
		if !slices.Equal(*seen, want) {
			t.Errorf("trips = %q, want %q", *seen, want)
		}
		for i, got := range []string{fmt.Sprint(*a), fmt.Sprint(*b), fmt.Sprint(*c), fmt.Sprint(*d), fmt.Sprint(*e)} {
			if want := []string{"[a]", "[b1 b2]", "[c]", "[d]", "[e]"}[i]; got != want {
				t.Errorf("answers of caller %d = %s, want %s", i, got, want)
			}
		}
	})
}

// A trip that stalls fails at the deadline of its caller. The next one has its time even if those who waited for it have
// none left.
func TestTripsThatStall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		trips, seen := fakeTrips(time.Hour)
		var group sync.WaitGroup
		began := time.Now()
		a := trips.start(&group, "a")
		b := trips.start(&group, "b")
		group.Wait()
		if want := []string{"a within 250ms", "b within 100ms"}; !slices.Equal(*seen, want) {
			t.Errorf("trips = %q, want %q", *seen, want)
		}
		if took := time.Since(began); took != 350*time.Millisecond {
			t.Errorf("both have ended after %v, want 350ms", took)
		}
		for _, got := range []string{fmt.Sprint(*a), fmt.Sprint(*b)} {
			if want := "[context deadline exceeded]"; got != want {
				t.Errorf("answers = %s, want %s", got, want)
			}
		}
	})
}

// A trip takes about a batch. What is more than that goes in the next one.
func TestTripsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		trips, seen := fakeTrips(10 * time.Millisecond)
		var group sync.WaitGroup
		trips.start(&group, "first")
		for range batch + 10 {
			trips.start(&group, "x")
		}
		trips.start(&group, slices.Repeat([]string{"y"}, batch+1)...) // one caller is never split
		trips.start(&group, "z")
		group.Wait()
		var sizes []int
		for _, words := range *seen {
			sizes = append(sizes, len(strings.Fields(words))-2)
		}
		if want := []int{1, batch, 10, batch + 1, 1}; !slices.Equal(sizes, want) {
			t.Errorf("orders of the trips = %v, want %v", sizes, want)
		}
	})
}
