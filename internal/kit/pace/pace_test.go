package pace

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// times runs a loop and returns when its body ran, in seconds since its start, and whether it was woken.
func times(ctx context.Context, loop func(yield func(bool) bool), body func(n int) (more bool)) (seconds []int, woken []bool) {
	start := time.Now()
	for w := range loop {
		seconds, woken = append(seconds, int(time.Since(start).Seconds())), append(woken, w)
		if !body(len(seconds)) {
			break
		}
	}
	return seconds, woken
}

func TestLoops(t *testing.T) {
	t.Parallel()
	all := func(int) bool { return true }
	slow := func(n int) bool {
		if n == 1 {
			time.Sleep(25 * time.Second) // the bubble's clock
		}
		return true
	}
	for _, tt := range []struct {
		name  string
		loop  func(context.Context) func(func(bool) bool)
		body  func(int) bool
		until time.Duration
		want  []int
	}{
		{"every", func(ctx context.Context) func(func(bool) bool) { return Every(ctx, 10*time.Second) }, all, 35 * time.Second, []int{10, 20, 30}},
		{"a slow body", func(ctx context.Context) func(func(bool) bool) { return Every(ctx, 10*time.Second) }, slow, 45 * time.Second, []int{10, 35, 40}},
		{"at once", func(ctx context.Context) func(func(bool) bool) { return AtOnce(ctx, 10*time.Second) }, all, 25 * time.Second, []int{0, 10, 20}},
		{"at once, but it is over", func(ctx context.Context) func(func(bool) bool) { return AtOnce(ctx, 10*time.Second) }, all, 0, nil},
		{"the body ends it", func(ctx context.Context) func(func(bool) bool) { return AtOnce(ctx, 10*time.Second) }, func(n int) bool { return n < 2 }, time.Hour, []int{0, 10}},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), tt.until)
			defer cancel()
			if got, _ := times(ctx, tt.loop(ctx), tt.body); !slices.Equal(got, tt.want) {
				t.Errorf("%s: the body ran at %v s, want %v", tt.name, got, tt.want)
			}
		})
	}
}

func TestWoken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 25*time.Second)
		defer cancel()
		wake := make(chan struct{}, 1)
		time.AfterFunc(3*time.Second, func() { wake <- struct{}{} })
		seconds, woken := times(ctx, Woken(ctx, 10*time.Second, wake), func(int) bool { return true })
		if !slices.Equal(seconds, []int{3, 10, 20}) || !slices.Equal(woken, []bool{true, false, false}) {
			t.Errorf("the body ran at %v s, woken %v, want 3, 10 and 20, the first woken", seconds, woken)
		}
	})
}

func TestSleep(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		enough := errors.New("enough")
		ctx, cancel := context.WithTimeoutCause(t.Context(), 5*time.Second, enough)
		defer cancel()
		if err := Sleep(ctx, 3*time.Second); err != nil {
			t.Errorf("Sleep(3s) = %v, want nil", err)
		}
		start := time.Now()
		if err := Sleep(ctx, time.Minute); !errors.Is(err, enough) || time.Since(start) != 2*time.Second {
			t.Errorf("Sleep(1m) = %v after %v, want the cause after 2s", err, time.Since(start))
		}
	})
}
