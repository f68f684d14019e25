package runaway_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/internal/account"
	"sluice/internal/ledger/price"
	"sluice/internal/ledger/runaway"
	"sluice/internal/prompt/chat"
)

const cent = price.Nano(10_000_000)

// watched is an account with a master key and a sub-key in virtual time. It is the store and the accounts of its Watch.
type watched struct {
	*testing.T
	*runaway.Watch
	account  *account.Account
	now      time.Time
	spent    map[string][]paid // by key
	key, all runaway.Past
	noted    map[string]noted
	fail     error
	asked    int
	told     []string // the signals, in capitals if the key is paused
	seen     string   // of the last one
}

type paid struct {
	at   time.Time
	cost price.Nano
}

type noted struct {
	at     time.Time
	paused bool
}

// usualWeek is what an account has spent that works with agents every day.
var usualWeek = runaway.Past{Busiest: 20 * 100 * cent, First: start.Add(-6 * 24 * time.Hour)}

var start = time.Date(2026, 11, 18, 2, 0, 0, 0, time.UTC)

func watch(t *testing.T, on account.OnRunaway) *watched {
	w := &watched{
		T: t, now: start, key: usualWeek, all: usualWeek, spent: map[string][]paid{}, noted: map[string]noted{},
		account: &account.Account{ID: "acct_1", Keys: []account.Key{{ID: "key_m", Master: true}, {ID: "key_1", Name: "night"}}, Runaway: account.Runaway{On: on}},
	}
	w.Watch = w.another()
	return w
}

// another returns the Watch of a server that has seen nothing.
func (w *watched) another() *runaway.Watch {
	return runaway.New(w, w, func(string) *account.Account { return w.account }, &runaway.Options{Now: func() time.Time { return w.now }, Tell: func(_ context.Context, a *runaway.Alarm) {
		signal := string(a.Signal)
		if a.Paused {
			signal = strings.ToUpper(signal)
		}
		w.told, w.seen = append(w.told, signal), a.Seen
	}})
}

func (w *watched) Spent(_ context.Context, _, keyID string, since time.Time) (sum price.Nano, _ error) {
	w.asked++
	for _, p := range w.spent[keyID] {
		if !p.at.Before(since) {
			sum += p.cost
		}
	}
	return sum, w.fail
}

func (w *watched) Past(context.Context, string, string, time.Time, time.Time) (key, all runaway.Past, err error) {
	return w.key, w.all, w.fail
}

func (w *watched) NoteAlarm(_ context.Context, a *runaway.Alarm, since time.Time) (bool, error) {
	at := a.Key.ID + string(a.Signal)
	if was, there := w.noted[at]; w.fail != nil || there && was.at.After(since) && (was.paused || !a.Paused) {
		return false, w.fail
	}
	w.noted[at] = noted{a.At, a.Paused}
	return true, nil
}

func (w *watched) PauseKey(_ context.Context, _, _ string, p account.PausedKey) (*account.Account, error) {
	if w.fail != nil {
		return nil, w.fail
	}
	changed := *w.account // one that was published never changes
	changed.Runaway.Paused = append(slices.Clone(changed.Runaway.Paused), p)
	w.account = &changed
	return w.account, nil
}

// resume lets the calls of all keys pass again.
func (w *watched) resume() {
	changed := *w.account
	changed.Runaway.Resumed = []account.ResumedKey{{KeyID: "key_1", At: w.now}}
	changed.Runaway.Paused = nil
	w.account = &changed
}

// request returns a request.
func request(t testing.TB, texts ...string) *chat.Request {
	var b strings.Builder
	for i, text := range texts {
		fmt.Fprintf(&b, `%s{"role":%q,"content":%q}`, ","[:min(i, 1)], []string{"user", "assistant"}[i%2], text)
	}
	req, err := chat.Parse(fmt.Appendf(nil, `{"model":"lab/large","messages":[%s]}`, b.String()))
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// call makes a call that takes a second.
func (w *watched) call(req *chat.Request, prompt, window int, cost price.Nano) {
	w.callWith("key_1", req, prompt, window, cost)
}

func (w *watched) callWith(key string, req *chat.Request, prompt, window int, cost price.Nano) {
	begun := w.now
	w.now = w.now.Add(time.Second)
	w.spent[key] = append(w.spent[key], paid{begun, cost})
	w.Saw(&runaway.Call{Account: w.account, KeyID: key, Model: "lab/large", Start: begun, Cost: cost, Prompt: prompt, Window: window, Request: req})
}

// tells looks, and checks of what people were told since the last time.
func (w *watched) tells(what string, want ...string) {
	w.Helper()
	w.Look(w.Context())
	slices.Sort(w.told)
	if !slices.Equal(w.told, want) {
		w.Errorf("%s: told %q, want %q", what, w.told, want)
	}
	w.told = nil
}

func TestSamePrompt(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		times int
		every time.Duration
		cost  price.Nano
		texts int // how many different prompts
		keys  []string
		want  []string
	}{
		{"a loop", 20, 10 * time.Second, 2 * cent, 1, nil, []string{"same_prompt"}},
		{"a slow loop", 20, 29 * time.Second, 2 * cent, 1, nil, []string{"same_prompt"}},
		{"once less", 19, 10 * time.Second, 2 * cent, 1, nil, nil},
		{"one that takes 25 minutes", 20, 75 * time.Second, 2 * cent, 1, nil, nil},
		{"asking whether the service is well", 200, 30 * time.Second, cent / 100, 1, nil, nil},
		{"without a cost", 200, time.Second, 0, 1, nil, nil},
		{"different prompts", 100, 5 * time.Second, 2 * cent, 6, nil, nil},
		{"of two keys", 38, 10 * time.Second, 2 * cent, 1, []string{"key_1", "key_m"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := watch(t, account.Alert)
			for i := range c.times {
				key := "key_1"
				if c.keys != nil {
					key = c.keys[i%len(c.keys)]
				}
				w.callWith(key, request(t, fmt.Sprint("say hi ", i%c.texts*(i/c.texts+1))), 100, 1_000_000, c.cost)
				w.now = w.now.Add(c.every - time.Second)
			}
			w.tells(c.name, c.want...)
		})
	}
}

// walk is a conversation whose prompt grows with every call.
func (w *watched) walk(from, calls, window int, every time.Duration, cost price.Nano, by func(i int) int) {
	texts := []string{"Fix the failing test."}
	for i := range calls {
		w.call(request(w.T, texts...), from, window, cost)
		w.now = w.now.Add(every - time.Second)
		from += by(i)
		texts = append(texts, "I call a tool.", fmt.Sprint("its result ", i))
	}
}

func TestGrowingContext(t *testing.T) {
	t.Parallel()
	same := func(n int) func(int) int { return func(int) int { return n } }
	nearly := func(i int) int { return 600 + i%3*20 }
	for _, c := range []struct {
		name               string
		from, calls, model int
		every              time.Duration
		cost               price.Nano
		by                 func(int) int
		want               []string
	}{
		{"the same again and again", 90_000, 30, 1_000_000, 10 * time.Second, 5 * cent, same(500), []string{"growing_context"}},
		{"nearly the same", 90_000, 30, 1_000_000, 19 * time.Second, 5 * cent, nearly, []string{"growing_context"}},
		{"tiny steps", 100_000, 30, 1_000_000, 10 * time.Second, 5 * cent, func(i int) int { return 1 + i*7%16 }, []string{"growing_context"}},
		{"up to the window of a small model", 2_000, 30, 8_192, 10 * time.Second, 2 * cent, same(150), []string{"growing_context"}},
		{"a call less", 100_000, 29, 1_000_000, 10 * time.Second, 5 * cent, same(500), nil},
		{"at the pace of a person", 100_000, 60, 1_000_000, 30 * time.Second, 5 * cent, same(500), nil},
		{"a short conversation", 1_000, 60, 1_000_000, 5 * time.Second, 2 * cent, same(500), nil},
		{"one that costs next to nothing", 100_000, 60, 1_000_000, 5 * time.Second, cent / 100, same(500), nil},
		{"one that is compacted", 100_000, 60, 1_000_000, 5 * time.Second, 5 * cent, func(i int) int {
			if i%25 == 24 {
				return -11_000
			}
			return 500
		}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := watch(t, account.Alert)
			w.walk(c.from, c.calls, c.model, c.every, c.cost, c.by)
			w.tells(c.name, c.want...)
		})
	}
}

// An agent at work makes many calls whose prompts grow fast and far. It is left alone, in an account that is used to agents and in one
// that is new.
func TestAgent(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		for name, past := range map[string]runaway.Past{"an account used to it": usualWeek, "a new account": {}} {
			w, random := watch(t, account.Pause), rand.New(rand.NewPCG(seed, 1))
			w.key, w.all = past, past
			// Results of tools: a few lines most of the time, a file or the output of tests now and then.
			w.walk(60_000, 60, 200_000, 9*time.Second, 7*cent, func(int) int { return int(min(9_000, 80+math.Exp(6.5+1.3*random.NormFloat64()))) })
			w.tells(fmt.Sprint("an agent in ", name, ", seed ", seed))
		}
	}
}

func TestSpendRate(t *testing.T) {
	t.Parallel()
	dollar := 100 * cent
	old := func(busiest price.Nano) runaway.Past {
		return runaway.Past{Busiest: busiest, First: start.Add(-48 * time.Hour)}
	}
	young := func(busiest price.Nano) runaway.Past {
		return runaway.Past{Busiest: busiest, First: start.Add(-2 * time.Hour)}
	}
	for _, c := range []struct {
		name     string
		spent    price.Nano // within ten minutes
		key, all runaway.Past
		factor   int
		want     bool
	}{
		{"six times the busiest hour", 2 * dollar, old(2 * dollar), old(2 * dollar), 0, true},
		{"four and a half times", 150 * cent, old(2 * dollar), old(2 * dollar), 0, false},
		{"of a factor of two", 150 * cent, old(2 * dollar), old(2 * dollar), 2, true},
		{"cents after a week of less", 16 * cent, old(cent), old(cent), 0, false},
		{"a dollar and a half after a week of cents", 25 * cent, old(cent), old(cent), 0, true},
		{"a new key in an old account", 2 * dollar, runaway.Past{}, old(20 * dollar), 0, false},
		{"a new key that spends far more than the account", 20 * dollar, runaway.Past{}, old(20 * dollar), 0, true},
		{"an agent in a new account", 5 * dollar, runaway.Past{}, runaway.Past{}, 0, false},
		{"an account that is two hours old", 5 * dollar, young(dollar), young(dollar), 0, false},
		{"a new account that burns", 9 * dollar, runaway.Past{}, runaway.Past{}, 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := watch(t, account.Alert)
			w.key, w.all, w.account.Runaway.Factor = c.key, c.all, c.factor
			for i := range 10 {
				w.call(request(t, fmt.Sprint("task ", i)), 1000, 200_000, c.spent/10)
				w.now = w.now.Add(50 * time.Second)
				w.Look(t.Context())
			}
			if got := len(w.told) > 0; got != c.want || len(w.told) > 1 {
				t.Errorf("told %q %q, want an alarm: %t", w.told, w.seen, c.want)
			}
		})
	}
}

// What other servers have stored counts, and each asks the database only if its own part may be enough.
func TestSpendingOfAllServers(t *testing.T) {
	t.Parallel()
	w := watch(t, account.Alert)
	for i := range 9 {
		w.spent["key_1"] = append(w.spent["key_1"], paid{w.now, 200 * cent})
		w.call(request(t, fmt.Sprint("task ", i)), 1000, 200_000, 1)
	}
	w.tells("a server with next to nothing of it")
	if w.asked != 0 {
		t.Errorf("a server with next to nothing of the spending asked %d times", w.asked)
	}
	w.Watch = runaway.New(w, w, func(string) *account.Account { return w.account }, &runaway.Options{
		Nodes: func() int { return 3 }, Now: func() time.Time { return w.now },
		Tell: func(_ context.Context, a *runaway.Alarm) { w.told = append(w.told, string(a.Signal)) },
	})
	w.call(request(t, "task"), 1000, 200_000, 600*cent)
	w.tells("one of three with a third", "spend_rate")
}

// A loop in an account that wants pauses is paused once, and after somebody has resumed it only when it is seen anew.
func TestPause(t *testing.T) {
	t.Parallel()
	w := watch(t, account.Pause)
	loop := func(times int) {
		for range times {
			w.call(request(t, "say hi"), 100, 200_000, 2*cent)
		}
	}
	loop(20)
	w.tells("a loop", "SAME_PROMPT")
	if p := w.account.Runaway.Pause("key_1"); p == nil || p.Signal != "same_prompt" || p.Seen != w.seen || !strings.Contains(p.Seen, "20 times within 10 minutes to the model lab/large") || !strings.Contains(p.Seen, "$0.40") {
		t.Errorf("the pause = %+v, want what was seen", p)
	}
	loop(3) // they ran when the key was paused
	w.tells("the rest of the loop")
	late := w.now
	w.now = w.now.Add(time.Second)
	w.resume()
	w.now = w.now.Add(time.Second)
	w.Saw(&runaway.Call{Account: w.account, KeyID: "key_1", Model: "lab/large", Start: late, Cost: 100 * 100 * cent, Prompt: 100, Request: request(t, "say hi")})
	loop(19)
	w.tells("after it was resumed")
	loop(1)
	w.tells("the loop again", "SAME_PROMPT")
	if len(w.account.Runaway.Paused) != 1 {
		t.Errorf("paused: %+v, want the key once", w.account.Runaway.Paused)
	}
}

// What a key has spent before somebody resumed it does not pause it again.
func TestResumedSpending(t *testing.T) {
	t.Parallel()
	w := watch(t, account.Pause)
	w.call(request(t, "a"), 1000, 200_000, 5000*cent)
	w.tells("a burst", "SPEND_RATE")
	w.now = w.now.Add(time.Second)
	w.resume()
	w.now = w.now.Add(time.Second)
	w.call(request(t, "b"), 1000, 200_000, 900*cent)
	w.tells("less than is unusual")
	w.now = w.now.Add(time.Minute)
	w.call(request(t, "c"), 1000, 200_000, 900*cent)
	w.tells("more since then", "SPEND_RATE")
}

// A loop is told once in an hour, by all servers together; and its pause, if its owner asks for that meanwhile.
func TestTold(t *testing.T) {
	t.Parallel()
	w := watch(t, account.Alert)
	loop := func() {
		for range 20 {
			w.call(request(t, "say hi"), 100, 200_000, 2*cent)
		}
	}
	loop()
	w.tells("a loop", "same_prompt")
	loop()
	w.tells("it goes on")
	w.Watch = w.another()
	loop()
	w.tells("another server")
	w.now = w.now.Add(time.Hour)
	loop()
	w.tells("an hour later", "same_prompt")
	w.account.Runaway.On = account.Pause
	w.now = w.now.Add(time.Minute)
	loop()
	w.tells("its owner wants it paused", "SAME_PROMPT")
}

// Nobody looks at the calls of accounts that do not want it.
func TestOff(t *testing.T) {
	t.Parallel()
	w := watch(t, account.Off)
	for range 50 {
		w.call(request(t, "say hi"), 100, 200_000, 1000*cent)
	}
	w.tells("a loop")
	if w.asked > 0 {
		t.Errorf("the database was asked %d times", w.asked)
	}
}

// What was seen while the database was away is told when it is back.
func TestDatabaseAway(t *testing.T) {
	t.Parallel()
	w := watch(t, account.Pause)
	w.fail = errors.New("away")
	for range 20 {
		w.call(request(t, "say hi"), 100, 200_000, 2*cent)
	}
	w.tells("away")
	w.fail = nil
	w.tells("back", "SAME_PROMPT")
	if w.account.Runaway.Pause("key_1") == nil {
		t.Error("the key is not paused")
	}
}

// Whatever callers send, memory is bounded, and a loop among other calls of other keys is found.
func TestCrowd(t *testing.T) {
	t.Parallel()
	w := watch(t, account.Alert)
	other := &account.Account{ID: "acct_2"}
	for i := range 20 {
		for j := range 500 {
			n := fmt.Sprint(i*500 + j)
			w.Saw(&runaway.Call{Account: other, KeyID: "key_" + n, Model: "lab/large", Start: w.now, Cost: 1, Prompt: 10, Request: request(t, n)})
		}
		w.call(request(t, "say hi"), 100, 200_000, 2*cent)
	}
	w.tells("a loop among others", "same_prompt")
	one := &account.Account{ID: "acct_3"}
	prompts, threads, _ := w.Kept()
	for i := range 5000 {
		w.Saw(&runaway.Call{Account: one, KeyID: "key_x", Model: "lab/large", Start: w.now, Cost: 1, Prompt: 10, Request: request(t, fmt.Sprint(i))})
	}
	if p, c, _ := w.Kept(); p-prompts > runaway.MostPrompts || c-threads > runaway.MostThreads {
		t.Errorf("one key fills places of %d prompts and %d conversations, want at most %d and %d", p-prompts, c-threads, runaway.MostPrompts, runaway.MostThreads)
	}
	for i := range 64 * runaway.MostKeys * 5 / 4 {
		w.Saw(&runaway.Call{Account: one, KeyID: fmt.Sprint("key_y", i), Model: "lab/large", Start: w.now, Cost: 1})
	}
	if _, _, keys := w.Kept(); keys > 64*runaway.MostKeys {
		t.Errorf("%d keys are kept, want at most %d", keys, 64*runaway.MostKeys)
	}
}

// What waits while nobody looks is bounded.
func TestSignalsThatWait(t *testing.T) {
	t.Parallel()
	w := watch(t, account.Alert)
	for i := range runaway.MostSeen * 3 / 2 {
		w.Saw(&runaway.Call{Account: w.account, KeyID: fmt.Sprint("key_", i), Model: "lab/large", Start: w.now, Cost: 100_000 * cent})
	}
	if n := w.Waiting(); n != runaway.MostSeen {
		t.Errorf("%d signals wait, want %d", n, runaway.MostSeen)
	}
}

// What the watch costs a call: nothing to speak of for an account that has switched it off, and a hash of the prompt for the others.
func BenchmarkSaw(b *testing.B) {
	long := request(b, strings.Repeat("a line of code\n", 7000)) // about 100 KB
	for _, c := range []struct {
		name string
		on   account.OnRunaway
		req  *chat.Request
	}{{"off", account.Off, long}, {"short", account.Alert, request(b, "say hi")}, {"long", account.Alert, long}} {
		b.Run(c.name, func(b *testing.B) {
			w := runaway.New(nil, nil, nil, nil)
			call := runaway.Call{Account: &account.Account{ID: "acct_1", Runaway: account.Runaway{On: c.on}}, KeyID: "key_1", Model: "m", Start: start, Cost: 1, Prompt: 100, Window: 1000, Request: c.req}
			b.ReportAllocs()
			for b.Loop() {
				w.Saw(&call)
			}
		})
	}
}
