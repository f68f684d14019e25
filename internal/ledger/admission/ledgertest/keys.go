package ledgertest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"sluice/internal/account"
	"sluice/internal/account/auth"
	"sluice/internal/ledger/admission"
	"sluice/internal/ledger/usage"
)

// RunKeys runs the suite of keys that have limits of their own, beside those of their account. A node whose ledger is an
// admission.Counts counts units there; others count by themselves.
func RunKeys(t *testing.T, fresh func(t *testing.T, c *Clock) Subject) {
	for name, test := range map[string]func(*testing.T, *bench){
		"Model":    keysAgainstModel,
		"Parallel": keysInParallel,
		"Units":    unitsInParallel,
		"Churn":    keysChurn,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := NewClock()
			s := fresh(t, c)
			test(t, &bench{Subject: s, Clock: c, l: s.Nodes[0]})
		})
	}
}

// noBooks records nothing.
type noBooks struct{}

func (noBooks) Ready() error            { return nil }
func (noBooks) Record(usage.Settlement) {}

// gates returns a gate for each node. No call has settled any units before.
func (b *bench) gates() (all []*admission.Gate) {
	for _, l := range b.Nodes {
		opts := &admission.QuotaOptions{Now: func() time.Time { return time.Date(2026, 5, 3, 0, 0, 0, 0, time.UTC).Add(b.Now()) }}
		opts.Shared, _ = l.(admission.Counts)
		g := admission.New(l, noBooks{}, nil)
		g.CountUnits(admission.NewQuota(func(context.Context, string, string, time.Time) (int64, error) { return 0, nil }, opts))
		all = append(all, g)
	}
	return all
}

// holder returns an account with keys, one for each of the limits.
func (b *bench) holder(limits ...*account.KeyLimits) *account.Account {
	n := b.next.Add(1)
	a := &account.Account{ID: fmt.Sprint("acct_", n), Plan: account.Scale}
	for i, l := range limits {
		a.Keys = append(a.Keys, account.Key{ID: fmt.Sprintf("key_%d_%d", n, i), Name: fmt.Sprint("key ", i), Limits: l})
	}
	return a
}

// demandOf returns the demand of a call with one of the keys.
func demandOf(a *account.Account, key int, l account.Limits, requestMilli int64, tokens int, unitMilli int64) *admission.Demand {
	k := &a.Keys[key]
	return &admission.Demand{
		Caller: auth.Caller{Account: a, KeyID: k.ID, Limits: k.Limits}, Limits: l,
		Model: admission.Model{ID: "m", RequestMilli: requestMilli, UnitMilli: unitMilli}, PromptTokens: tokens, MaxTokens: 1,
	}
}

func limitOf(n int64) *account.Limit {
	l := account.Limit(n)
	return &l
}

// keyModel is the slow, obvious form of a key.
type keyModel struct {
	model
	units, mostUnits int64 // thousandths; -1: no limit
}

// keyCall is a call that runs.
type keyCall struct {
	lease                  *admission.Lease
	key                    int
	requests, tokens, unit int64
	keyTokens              int64
	at                     [2]int // its events in the lists of the key and the account
}

// keysAgainstModel holds gates against a model over random keys, calls and ends: a call passes if and only if it fits under
// every limit of its key and of its account, the first limit in the way is named, and what is refused has taken nothing.
func keysAgainstModel(t *testing.T, b *bench) {
	gates := b.gates()
	rapid.Check(t, func(t *rapid.T) {
		maybe := func(name string, least, most int64) *account.Limit {
			if rapid.Bool().Draw(t, "no "+name) {
				return nil
			}
			return limitOf(rapid.Int64Range(least, most).Draw(t, name))
		}
		or := func(l *account.Limit) account.Limit {
			if l == nil {
				return unlimited
			}
			return *l
		}
		var own []*account.KeyLimits
		for i := range rapid.IntRange(1, 3).Draw(t, "keys") {
			l := &account.KeyLimits{RequestsPerMinute: maybe("key rpm", 1, 8), TokensPerMinute: maybe("key tpm", 1, 700), UnitsPerMonth: maybe("key units", 1, 30)}
			if i == 0 && rapid.Bool().Draw(t, "a key without limits") {
				l = nil
			}
			own = append(own, l)
		}
		a := b.holder(own...)
		whole := model{limits: limits(or(maybe("rpm", 1, 12)), or(maybe("slots", 1, 5)), or(maybe("tpm", 1, 1000)))}
		keys := make([]keyModel, len(own))
		for i, l := range own {
			keys[i] = keyModel{model: model{limits: limits(unlimited, unlimited, unlimited)}, mostUnits: -1}
			if l != nil {
				keys[i].limits = l.PerMinute()
				if l.UnitsPerMonth != nil {
					keys[i].mostUnits = int64(*l.UnitsPerMonth) * 1000
				}
			}
		}
		var calls []keyCall
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			b.Advance(time.Duration(rapid.Int64Range(0, int64(12*time.Second)).Draw(t, "pause")))
			now := int64(b.Now() / time.Millisecond)
			if len(calls) > 0 && rapid.IntRange(0, 2).Draw(t, "end") == 0 {
				i := rapid.IntRange(0, len(calls)-1).Draw(t, "which")
				c := calls[i]
				calls = append(calls[:i], calls[i+1:]...)
				used := rapid.Int64Range(0, 900).Draw(t, "used")
				units := rapid.Int64Range(0, 6000).Draw(t, "units used")
				if rapid.Bool().Draw(t, "release") {
					c.lease.Release()
					c.requests, used, units = 0, 0, 0
				} else {
					s := usage.Settlement{RequestMilli: c.requests, UnitMilli: units}
					s.Tokens.Prompt = int(used)
					c.lease.Settle(s)
				}
				b.flush()
				k := &keys[c.key]
				if own[c.key].Counted() {
					settleModel(&k.model, c.at[0], now, c.requests, used-c.keyTokens)
				}
				if k.mostUnits >= 0 {
					k.units = max(0, k.units+units-c.unit)
				}
				settleModel(&whole, c.at[1], now, c.requests, used-c.tokens)
				whole.running--
				continue
			}
			key := rapid.IntRange(0, len(keys)-1).Draw(t, "key")
			requests, prompt, unit := rapid.Int64Range(1, 3000).Draw(t, "requests"), rapid.IntRange(0, 500).Draw(t, "prompt"), rapid.Int64Range(0, 5000).Draw(t, "units")
			d := demandOf(a, key, whole.limits, requests, prompt, unit)
			tokens := int64(prompt + 1)
			if l := whole.limits.TokensPerMinute; l != unlimited {
				tokens = min(tokens, int64(l))
			}
			keyTokens := tokens
			if l := keys[key].limits.TokensPerMinute; l != unlimited {
				keyTokens = min(tokens, int64(l))
			}
			want := ""
			k := &keys[key]
			switch {
			case k.obstacle(now, cost(requests, keyTokens)) != nil:
				want = a.Keys[key].Name
			case k.mostUnits >= 0 && k.units+unit > k.mostUnits:
				want = "units"
			case whole.obstacle(now, cost(requests, tokens)) != nil:
				want = "account"
			}
			lease, _, err := gates[rapid.IntRange(0, len(gates)-1).Draw(t, "node")].Admit(d)
			b.flush()
			switch {
			case (err == nil) != (want == ""):
				t.Fatalf("Admit at %d = %v, want a refusal by %q", now, err, want)
			case err != nil:
				byKey := strings.Contains(err.Error(), a.Keys[key].Name)
				if byKey != (want != "account") || strings.Contains(err.Error(), "units") != (want == "units") {
					t.Fatalf("Admit at %d = %v, want a refusal by %q", now, err, want)
				}
				continue
			}
			c := keyCall{lease: lease, key: key, requests: requests, tokens: tokens, keyTokens: keyTokens}
			c.at[0], c.at[1] = takeModel(&k.model, now, requests, keyTokens), takeModel(&whole, now, requests, tokens)
			whole.running++
			if k.mostUnits >= 0 {
				k.units += unit
				c.unit = unit
			}
			calls = append(calls, c)
		}
		for _, c := range calls {
			c.lease.Release()
		}
		b.flush()
	})
}

// takeModel counts a call in a model and returns the place of its events.
func takeModel(m *model, now, requests, tokens int64) int {
	m.requests = append(m.requests, event{now, requests, requests > 0})
	m.tokens = append(m.tokens, event{now, tokens, tokens > 0})
	return len(m.requests) - 1
}

// settleModel ends a call in a model: its requests are those that stay, and extra are tokens beyond the reservation. Events
// of tokens beyond it have one of requests beside them, so that both lists stay in step.
func settleModel(m *model, at int, now, requests, extra int64) {
	m.requests[at].cost = requests
	if extra <= 0 {
		m.tokens[at].cost += extra
		return
	}
	m.requests = append(m.requests, event{at: now})
	m.tokens = append(m.tokens, event{now, extra, true})
}

// keysInParallel makes many calls over several keys at once: each key admits what its own limit allows, all of them together
// what the account's allows, and not one less.
func keysInParallel(t *testing.T, b *bench) {
	for name, tt := range map[string]struct {
		account   account.Limit
		own       []int64
		most      int64   // over all keys
		each      []int64 // of each key; nil: only the sum is known
		perKey    int
		unlimited bool // the last key has no limits
	}{
		"the keys are the bound":    {40, []int64{3, 5, 7}, 15, []int64{3, 5, 7}, 20, false},
		"the account is the bound":  {9, []int64{6, 6, 6}, 9, nil, 20, false},
		"one key has no limits":     {10, []int64{2, 3, 0}, 10, nil, 30, true},
		"more room than calls":      {100, []int64{50, 50, 50}, 15, []int64{5, 5, 5}, 5, false},
		"an account without limits": {unlimited, []int64{4, 1, 9}, 14, []int64{4, 1, 9}, 15, false},
	} {
		gates := b.gates()
		own := make([]*account.KeyLimits, len(tt.own))
		for i, n := range tt.own {
			own[i] = &account.KeyLimits{RequestsPerMinute: limitOf(n)}
		}
		if tt.unlimited {
			own[len(own)-1] = nil
		}
		a := b.holder(own...)
		passed := make([]atomic.Int64, len(own))
		var wg sync.WaitGroup
		for key := range own {
			for i := range tt.perKey {
				wg.Go(func() {
					if _, _, err := gates[(key+i)%len(gates)].Admit(demandOf(a, key, limits(tt.account, unlimited, unlimited), 1000, 1, 0)); err == nil {
						passed[key].Add(1)
					}
				})
			}
		}
		wg.Wait()
		total := int64(0)
		for key := range passed {
			n := passed[key].Load()
			total += n
			if tt.each != nil && n != tt.each[key] || own[key] != nil && n > tt.own[key] {
				t.Errorf("%s: %d calls of key %d passed on an allowance of %d", name, n, key, tt.own[key])
			}
		}
		if total != tt.most {
			t.Errorf("%s: %d calls passed, want %d", name, total, tt.most)
		}
	}
}

// unitsInParallel uses up the months of several keys at once: exactly as many calls pass as there are units.
func unitsInParallel(t *testing.T, b *bench) {
	gates := b.gates()
	own := []int64{10, 25, 7}
	a := b.holder(&account.KeyLimits{UnitsPerMonth: limitOf(10)}, &account.KeyLimits{UnitsPerMonth: limitOf(25)}, &account.KeyLimits{UnitsPerMonth: limitOf(7)})
	passed := make([]atomic.Int64, len(own))
	var wg sync.WaitGroup
	for key := range own {
		for i := range 40 {
			wg.Go(func() {
				lease, _, err := gates[(key+i)%len(gates)].Admit(demandOf(a, key, limits(unlimited, unlimited, unlimited), 1000, 1, 1000))
				if err == nil {
					passed[key].Add(1)
					lease.Settle(usage.Settlement{RequestMilli: 1000, UnitMilli: 1000})
				}
			})
		}
	}
	wg.Wait()
	for key, n := range own {
		if passed[key].Load() != n {
			t.Errorf("%d calls of one unit passed on %d units a month, want %d", passed[key].Load(), n, n)
		}
	}
}

// keysChurn takes and gives back from many goroutines. In the end nothing is taken: neither of the windows nor of the month.
func keysChurn(t *testing.T, b *bench) {
	gates := b.gates()
	a := b.holder(&account.KeyLimits{RequestsPerMinute: limitOf(5), TokensPerMinute: limitOf(50), UnitsPerMonth: limitOf(5)})
	l := limits(20, 4, 1000)
	var wg sync.WaitGroup
	for i := range 12 {
		wg.Go(func() {
			for range 15 {
				if lease, _, err := gates[i%len(gates)].Admit(demandOf(a, 0, l, 1000, 1, 1000)); err == nil {
					lease.Release()
				}
			}
		})
	}
	wg.Wait()
	b.flush()
	if n := b.running(); n != 0 {
		t.Errorf("%d calls are running after all ended, want 0", n)
	}
	for i := range 4 {
		if _, _, err := gates[i%len(gates)].Admit(demandOf(a, 0, l, 1000, 1, 1000)); err != nil {
			t.Errorf("call %d after all others were given back: %v, want it to pass", i, err)
		}
	}
	if s := gates[0].Headroom(demandOf(a, 0, l, 1000, 1, 1000)); s.Requests.Limit != 5 || s.Requests.Remaining != 1 {
		t.Errorf("standing = %+v, want that of the key, with 1 request left", s.Requests)
	}
}
