package routing

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"pgregory.net/rapid"

	"sluice/internal/kit/fault"
	"sluice/internal/upstream/provider"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// TestBreaker are stories: what calls came to, one after the other, and the state after each. A digit
// lets so many seconds pass; g and b are calls that went well and badly, r one that was refused, R one
// that was asked to come back after seven seconds, n one that says nothing, - one that is not let
// through; N and M are calls in need, that went well and badly, X one that is not let through.
func TestBreaker(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		story string
		want  State
	}{
		"nothing happened":                  {"", Closed},
		"all is well":                       {"gggg", Closed},
		"one failure":                       {"gb", Closed},
		"two failures":                      {"gbb", Closed},
		"three in a row":                    {"gbbb", Open},
		"half of them":                      {"gbgbgbgbgbgb", Closed},
		"two of three":                      {"bbgbb", Open},
		"callers who left or erred":         {"nnnnnn", Closed},
		"refused once":                      {"gr", Open},
		"left alone":                        {"r-", Open},
		"a second later":                    {"r1", HalfOpen},
		"the probe is well":                 {"r1g", Closed},
		"the probe says nothing":            {"r1n", HalfOpen},
		"another probe after that":          {"r1ng", Closed},
		"the probe fails":                   {"r1b", Open},
		"and again for twice as long":       {"r1b1-", Open},
		"until two seconds are over":        {"r1b2", HalfOpen},
		"five at most":                      {"r1b2b4b5b5", HalfOpen},
		"less is not enough":                {"r1b2b4b5b4-", Open},
		"well again: one failure is little": {"r1b2gb", Closed},
		"the next rest is short again":      {"r1b2gbbb1g", Closed},
		"as long as the upstream asks":      {"R6-", Open},
		"in need, if it answered just now":  {"gbbbN", Closed},
		"in need, and it fails":             {"gbbbM1", HalfOpen},
		"in need, if it never answered":     {"bbbX", Open},
		"in need, a while after its answer": {"g9bbbX", Open},
		"in need, when the upstream said":   {"gRX", Open},
		"no longer":                         {"R7g", Closed},
	} {
		h, now := &Health{}, epoch
		for i, what := range tt.story {
			if what >= '0' && what <= '9' {
				now = now.Add(time.Duration(what-'0') * time.Second)
				continue
			}
			p, ok := h.begin(now, inNeed(what == 'N' || what == 'M' || what == 'X'))
			if ok == (what == '-' || what == 'X') {
				t.Fatalf("%s: call %d of %s: begin = %t", name, i, tt.story, ok)
			}
			switch what {
			case 'g', 'N':
				h.answered(&p, now, time.Second)
				h.end(p, good, now, 0)
			case 'b', 'M':
				h.end(p, bad, now, 0)
			case 'r':
				h.end(p, refused, now, 0)
			case 'R':
				h.end(p, refused, now, 7*time.Second)
			case 'n':
				h.end(p, neither, now, 0)
			}
		}
		var s TargetHealth
		if h.look(now, &s); s.State != tt.want {
			t.Errorf("%s: after %s the breaker is %v, want %v", name, tt.story, s.State, tt.want)
		}
	}
}

// inNeed is the need of a request that finds nobody healthy, or does.
func inNeed(yes bool) need {
	if yes {
		return sought
	}
	return wanted
}

// TestOneProbe: of many who wait, one is let through; calls from before say nothing any more.
func TestOneProbe(t *testing.T) {
	t.Parallel()
	h, now := &Health{}, epoch
	early, _ := h.begin(now, wanted)
	late, _ := h.begin(now, wanted)
	last, _ := h.begin(now, wanted)
	h.end(last, refused, now, 0)
	now = now.Add(firstRest)
	probe, ok := h.begin(now, wanted)
	if _, again := h.begin(now, wanted); !ok || again {
		t.Errorf("begin = %t and then %t, want one probe alone", ok, again)
	}
	h.end(early, refused, now, time.Minute)
	h.answered(&late, now, time.Second)
	if _, again := h.begin(now, wanted); again || !h.open {
		t.Error("calls from before the opening decided what the probe has to")
	}
	h.answered(&probe, now, time.Second)
	for range 2 {
		if _, ok := h.begin(now, wanted); !ok {
			t.Error("the first content of the probe does not close the breaker")
		}
	}
	h.end(probe, bad, now, 0)
	var s TargetHealth
	if h.look(now, &s); s.ErrorRate == 0 || s.Latency != time.Second {
		t.Errorf("after the probe broke off: %+v, want that it counts", s)
	}
}

// TestBreakerProperties are what holds in every history.
func TestBreakerProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		h, now := &Health{}, epoch
		var running []permit
		probes, badInRow := 0, 0
		var openedAt time.Time
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			switch step := rapid.IntRange(0, 3).Draw(t, "step"); {
			case step == 0:
				now = now.Add(time.Duration(rapid.IntRange(1, 3000).Draw(t, "ms")) * time.Millisecond)
			case step == 1 || len(running) == 0:
				need := rapid.Bool().Draw(t, "need")
				p, ok := h.begin(now, inNeed(need))
				switch {
				case !ok && !h.open:
					t.Fatal("a closed breaker let nobody through")
				case !ok && need && !h.held && now.Sub(h.alive) < lively:
					t.Fatal("nobody was let through in need")
				case ok && h.open && now.Before(h.until) && (!need || h.held || now.Sub(h.alive) >= lively):
					t.Fatal("an open breaker let somebody through")
				}
				if ok {
					running = append(running, p)
					if p.probe {
						probes++
					}
				}
			default:
				i := rapid.IntRange(0, len(running)-1).Draw(t, "which")
				p := running[i]
				running = append(running[:i], running[i+1:]...)
				if p.probe {
					probes--
				}
				how := outcome(rapid.IntRange(int(neither), int(denied)).Draw(t, "how"))
				counts := p.epoch == h.epoch
				wasOpen := h.open
				if how == good {
					h.answered(&p, now, time.Second)
					if counts && h.open {
						t.Fatal("the first content of a call that counts left the breaker open")
					}
				}
				h.end(p, how, now, 0)
				switch {
				case !counts:
					if h.open != wasOpen {
						t.Fatal("a call of an earlier time changed the breaker")
					}
				case how >= bad:
					badInRow++
					if (wasOpen || how >= refused || badInRow >= 3) && !h.open {
						t.Fatalf("closed after %d failures in a row", badInRow)
					}
					if how >= refused && !h.held {
						t.Fatal("what the upstream said is not held")
					}
				case how == good:
					badInRow = 0
				}
			}
			if h.open && !openedAt.Equal(h.until) {
				badInRow, openedAt = 0, h.until
			}
			if probes > 1 {
				// A probe of an earlier opening may still run; of the present one there is one at most.
				n := 0
				for _, p := range running {
					if p.probe && p.epoch == h.epoch {
						n++
					}
				}
				if n > 1 {
					t.Fatalf("%d probes at once", n)
				}
			}
			if h.open && h.until.Sub(now) > longestRest {
				t.Fatalf("left alone for %v", h.until.Sub(now))
			}
			if h.errorRate < 0 || h.errorRate > 1 {
				t.Fatalf("an error rate of %v", h.errorRate)
			}
		}
		// Whatever happened: once it is well, it is asked again within the longest rest.
		for _, p := range running {
			h.end(p, neither, now, 0)
		}
		now = now.Add(longestRest)
		p, ok := h.begin(now, wanted)
		if !ok {
			t.Fatal("nobody was let through after the longest rest")
		}
		h.answered(&p, now, time.Second)
		if _, ok := h.begin(now, wanted); !ok {
			t.Fatal("a call that went well did not close the breaker")
		}
	})
}

func TestJudge(t *testing.T) {
	t.Parallel()
	status := func(code int, after string) error {
		h := http.Header{}
		if after != "" {
			h.Set("Retry-After", after)
		}
		return provider.Refused(code, h, nil)
	}
	for _, tt := range []struct {
		err   error
		want  outcome
		after time.Duration
	}{
		{nil, neither, 0},
		{io.EOF, good, 0},
		{errors.New("a bug"), neither, 0},
		{fault.New(fault.Invalid, "too hot"), neither, 0},
		{status(400, ""), neither, 0},
		{status(401, ""), denied, 0},
		{status(402, ""), denied, 0},
		{status(403, ""), bad, 0},
		{status(404, ""), bad, 0},
		{status(413, ""), neither, 0},
		{status(429, ""), bad, 0},
		{status(429, "3"), refused, 3 * time.Second},
		{status(500, ""), bad, 0},
		{status(503, "9"), refused, 9 * time.Second},
		{provider.Unreachable(errors.New("x")), unreached, 0},
		{provider.Stalled(time.Second), bad, 0},
		{provider.Cut(io.ErrUnexpectedEOF).Because(provider.ErrWanted), neither, 0},
		{provider.Late(time.Second), bad, 0},
		{fmt.Errorf("wrapped: %w", provider.Garbled(errors.New("x"))), bad, 0},
	} {
		if got, after := judge(tt.err); got != tt.want || after != tt.after {
			t.Errorf("judge(%v) = %d, %v, want %d, %v", tt.err, got, after, tt.want, tt.after)
		}
	}
}

func TestStateNames(t *testing.T) {
	t.Parallel()
	for s := Closed; s <= HalfOpen; s++ {
		text, err := s.MarshalText()
		var back State
		if err != nil || back.UnmarshalText(text) != nil || back != s {
			t.Errorf("%v is %s, %v, and back %v", s, text, err, back)
		}
	}
	if err := new(State).UnmarshalText([]byte("ajar")); err == nil {
		t.Error("UnmarshalText(ajar) = nil, want an error")
	}
}
