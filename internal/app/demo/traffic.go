package demo

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"sluice/internal/account"
	"sluice/internal/ledger/budget"
	"sluice/internal/ledger/usage"
	"sluice/internal/prompt/chat"
	"sluice/internal/prompt/prefix"
	"sluice/internal/upstream/catalog"
)

// growth is how many calls there are at the beginning of the history for each one at its end.
const growth = 0.45

// traffic makes up calls. The same seed, time and size give the same calls, but for the ids of accounts and keys.
type traffic struct {
	rng     *rand.Rand
	catalog *catalog.Catalog
	plans   account.Plans
	from    time.Time
	now     time.Time
	size    float64 // share of the calls to make
	accts   map[string]*member

	runs map[string]task // the tasks that agents are at, by the name of the key

	downFrom, downUntil time.Time
}

// task is what an agent is at.
type task struct {
	session string
	day     time.Time
	turns   int
	last    time.Time // when the call before was made
	written int       // tokens in the cache
	model   string    // whose cache
}

// member is an account as calls need it.
type member struct {
	account *account.Account
	keys    map[string]string // ids by name
	plans   []planSince
}

// planSince is a plan and when it began.
type planSince struct {
	at   time.Time
	plan account.Plan
}

// planAt returns the plan that the account had at a time.
func (m *member) planAt(at time.Time) (plan account.Plan) {
	for _, p := range m.plans {
		if !at.Before(p.at) {
			plan = p.plan
		}
	}
	return plan
}

// calls returns the settlements of the whole history, the oldest first.
func (t *traffic) calls() (all []usage.Settlement) {
	for _, w := range workloads() {
		who := t.accts[w.person]
		end := t.now
		if w.person == intern {
			end = t.now.Add(-runawayAgo) // the loop uses up the month, and then the keys are off
		}
		for hour := who.account.CreatedAt.Truncate(time.Hour).Add(time.Hour); hour.Before(end); hour = hour.Add(time.Hour) {
			times := make([]time.Time, t.count(t.expected(&w, hour)))
			for i := range times {
				times[i] = hour.Add(time.Duration(t.rng.Int64N(int64(time.Hour))))
			}
			slices.SortFunc(times, time.Time.Compare) // an agent's calls continue each other
			for _, at := range times {
				if s, ok := t.call(&w, who, at); ok && s.At.Add(s.Latency).Before(end) {
					all = append(all, s)
				}
			}
		}
	}
	all = append(all, t.runaway()...)
	all = append(all, t.lately()...)
	slices.SortFunc(all, func(a, b usage.Settlement) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.ID, b.ID)) })
	return all
}

// expected returns how many calls a workload makes in an hour, on average.
func (t *traffic) expected(w *workload, hour time.Time) float64 {
	sum := 0.0
	for _, h := range w.when {
		sum += h
	}
	n := w.perDay * w.when[hour.UTC().Hour()] / sum
	if !workday(hour.UTC()) {
		n *= w.weekend
	}
	grown := float64(hour.Sub(t.from)) / float64(t.now.Sub(t.from))
	return t.size * n * (growth + (1-growth)*grown)
}

// count returns how often something happens that is expected to happen n times (Poisson).
func (t *traffic) count(n float64) (k int) {
	for p, floor := t.rng.Float64(), math.Exp(-n); p > floor; p *= t.rng.Float64() {
		k++
	}
	return k
}

// around returns a number near n, sometimes far from it.
func (t *traffic) around(n int) int {
	return max(1, int(float64(n)*math.Exp(t.rng.NormFloat64()*0.45)))
}

// pick chooses a model of a workload.
func (t *traffic) pick(of []share) string {
	sum := 0.0
	for _, s := range of {
		sum += s.of
	}
	at := t.rng.Float64() * sum
	for _, s := range of {
		if at -= s.of; at < 0 {
			return s.model
		}
	}
	return of[0].model
}

// call returns a call of a workload. It reports false if the account had no plan for one at the time.
func (t *traffic) call(w *workload, who *member, at time.Time) (s usage.Settlement, ok bool) {
	asked := t.pick(w.models)
	if last := t.runs[w.key].model; w.session > 0 && last != "" && t.rng.IntN(30) > 0 {
		asked = last // an agent stays with its model
	}
	used, why := asked, ""
	if asked == router {
		used, why = t.route()
	}
	m, _ := t.catalog.Lookup(used) // TestModels: the configuration has all of them
	plan := who.planAt(at)
	if !plan.Includes(m.Plan) { // as a caller learns who is told 402
		asked, used, why = luna, luna, ""
		if m, _ = t.catalog.Lookup(used); !plan.Includes(m.Plan) {
			return s, false
		}
	}
	s = usage.Settlement{
		ID: t.id(at), At: at.UTC().Truncate(time.Millisecond), AccountID: who.account.ID, KeyID: who.keys[w.key], Plan: plan.String(), Tier: m.Plan.String(),
		ModelAsked: asked, ModelUsed: used, Provider: m.Places()[0].Provider, Status: http.StatusOK, End: usage.EndComplete,
		Trace: &usage.Trace{Address: "10.20.0." + string(rune('2'+len(w.key)%8)), Reason: why},
	}
	if m.Embeds {
		s.Door = usage.DoorEmbeddings
	}
	s.Trace.Session = t.session(w, at)
	if k := who.account.Key(s.KeyID); k != nil {
		s.Terms.Tags = k.Tags
	}
	t.consume(w, m, &s)
	t.time(m, &s)
	t.fail(m, &s)
	named, _ := t.catalog.Lookup(asked)
	if s.End != usage.EndFailed {
		s.RequestMilli, s.UnitMilli = named.RequestMilli, m.UnitMilli
		s.Price(m.Priced(s.At), 0)
		for _, due := range budget.Of(who.account, s.KeyID, s.Terms.Tags, s.Trace.Session) {
			period, _ := budget.PeriodOf(due.Budget, s.At)
			s.Terms.Budgets = append(s.Terms.Budgets, usage.Charge{Count: due.Count(), Period: period})
		}
	}
	return s, true
}

// session returns the task that an agent is at; empty if the workload is no agent's. A task ends on the day on which it began.
func (t *traffic) session(w *workload, at time.Time) string {
	if w.session == 0 {
		return ""
	}
	if t.runs == nil {
		t.runs = map[string]task{}
	}
	day := at.UTC().Truncate(24 * time.Hour)
	last := t.runs[w.key]
	if !last.day.Equal(day) || t.rng.IntN(w.session) == 0 {
		last = task{session: fmt.Sprintf("review-%08x", t.rng.Uint32()), day: day, model: last.model}
	}
	last.turns++
	t.runs[w.key] = last
	return last.session
}

// route returns a model that the router may choose, and why.
func (t *traffic) route() (model, why string) {
	switch n := t.rng.IntN(10); {
	case n < 6:
		return luna, "chat, easy; the cheapest of 5"
	case n < 8:
		return haiku, "chat, not hard; the best balance of quality and price of 5"
	}
	return sonnet, "code, hard; the best of 5"
}

// id returns the id of a request: the second and random bits, as the API makes them.
func (t *traffic) id(at time.Time) string {
	b := make([]byte, 16)
	for i := range b {
		b[i] = byte(t.rng.Uint32())
	}
	second := uint32(at.Unix())
	b[0], b[1], b[2], b[3] = byte(second>>24), byte(second>>16), byte(second>>8), byte(second)
	return hex.EncodeToString(b)
}

// consume fills in the tokens of a call, and its tools.
func (t *traffic) consume(w *workload, m *catalog.Model, s *usage.Settlement) {
	prompt := t.around(w.prompt)
	s.Tokens = chat.Usage{Prompt: prompt}
	if m.Embeds {
		return
	}
	s.Tokens.Completion = t.around(w.reply)
	if m.Thinks && t.rng.IntN(3) == 0 {
		s.Tokens.Reasoning = t.around(w.reply)
	}
	if s.Trace.Session != "" && w.cached > 0 {
		t.reuse(w, m, s)
		return
	}
	// A prompt is written to the cache once in a while, and read from it by the calls after that.
	if kept := int(float64(prompt) * w.cached); kept > 0 && t.rng.IntN(8) == 0 {
		switch m.OwnedBy {
		case "anthropic":
			s.Tokens.CacheWrite5m = kept
		case "openai":
			s.Tokens.CacheWrite = kept
		} // Google does not tell what it writes to caches, and has no price for it
	} else if kept > 0 {
		s.Tokens.Prompt, s.Tokens.Cached = prompt-kept, kept
	}
	if t.rng.Float64() < w.tools {
		s.MCPCalls = 1 + t.rng.IntN(3)
		if t.rng.IntN(40) == 0 {
			s.MCPFailed = 1
		}
	}
}

// printKey is what the fingerprints of the history are made under. They are compared with each other alone.
var printKey = prefix.NewKey([]byte("the history of a made-up company"))

// reuse fills in what a task's calls read from a cache and write to it: each continues the one before, unless that is long ago, or
// the program has changed what it begins with.
func (t *traffic) reuse(w *workload, m *catalog.Model, s *usage.Settlement) {
	run := t.runs[w.key]
	total := s.Tokens.Prompt
	if run.turns > 1 {
		total = run.written + total/8
	}
	changed := run.turns > 1 && t.rng.IntN(25) == 0
	read := 0
	if run.turns > 1 && !changed && run.model == m.ID && s.At.Sub(run.last) < time.Hour && s.At.After(run.last) {
		read = run.written
	}
	s.Tokens.Prompt, s.Tokens.Cached = total-read, read
	if m.OwnedBy == "anthropic" {
		s.Tokens.CacheWrite1h = (total - read) * 9 / 10
	}
	run.last, run.written, run.model = s.At, min(total, 90_000), m.ID
	t.runs[w.key] = run
	var p prefix.Printer
	p.Reset(printKey)
	p.Begin(prefix.System)
	system := bytes.Repeat([]byte("Review with care. "), 300)
	if changed {
		copy(system[1204:], s.ID)
	}
	p.Write(system)
	for i := range 2*run.turns - 1 {
		p.Begin(prefix.Messages)
		p.Write(fmt.Append(nil, run.session, i))
	}
	s.Trace.Prefix = &usage.Prefix{Conversation: printKey.Name([]byte(run.session)), Print: p.Print()}
}

// time fills in how long a call took.
func (t *traffic) time(m *catalog.Model, s *usage.Settlement) {
	if m.Embeds {
		s.Latency = time.Duration(t.around(70)) * time.Millisecond
		s.Trace.Tried(usage.Attempt{Model: m.ID, Provider: s.Provider, Upstream: m.ID, Outcome: usage.Answered, End: s.Latency})
		return
	}
	s.FirstToken = time.Duration(t.around(340)+s.Tokens.PromptTotal()/40) * time.Millisecond
	s.Latency = s.FirstToken + time.Duration(s.Tokens.CompletionTotal())*time.Second/speed(m.ID)
	s.Latency += time.Duration(s.MCPCalls*t.around(420)) * time.Millisecond
	s.Latency, s.FirstToken = s.Latency.Truncate(time.Millisecond), s.FirstToken.Truncate(time.Millisecond)
	s.Trace.Tried(usage.Attempt{Model: m.ID, Provider: s.Provider, Upstream: m.ID, Outcome: usage.Answered, End: s.FirstToken})
}

// speed returns how many tokens a model writes in a second.
func speed(model string) time.Duration {
	return cmp.Or(map[string]time.Duration{sonnet: 85, haiku: 170, sol: 70, luna: 190, flash: 210}[model], 400)
}

// fail makes some calls end badly: those that met the outage, and a few others.
func (t *traffic) fail(m *catalog.Model, s *usage.Settlement) {
	if s.Provider == outageProvider && !s.At.Before(t.downFrom) && s.At.Before(t.downUntil) {
		first := usage.Attempt{Model: m.ID, Provider: outageProvider, Upstream: m.ID, Outcome: "refused", Status: http.StatusServiceUnavailable, End: 160 * time.Millisecond}
		if places := m.Places(); len(places) > 1 {
			answered := s.Trace.Attempts[0]
			answered.Provider, answered.Start = places[1].Provider, first.End
			answered.End += first.End
			s.Provider, s.FirstToken, s.Latency = places[1].Provider, s.FirstToken+first.End, s.Latency+first.End
			s.Trace.Attempts = []usage.Attempt{first, answered}
			return
		}
		s.Trace.Attempts = []usage.Attempt{first}
		t.end(s, usage.EndFailed, http.StatusServiceUnavailable, first.End)
		return
	}
	switch n := t.rng.IntN(1000); {
	case n < 1:
		s.Trace.Attempts[0].Outcome, s.Trace.Attempts[0].Status = "refused", http.StatusBadGateway
		t.end(s, usage.EndFailed, http.StatusServiceUnavailable, max(s.FirstToken, time.Millisecond))
	case n < 2 && !m.Embeds:
		t.end(s, usage.EndCut, http.StatusOK, (s.FirstToken+s.Latency)/2)
		s.Tokens.Completion /= 2
	case n < 9 && !m.Embeds:
		t.end(s, usage.EndHangUp, http.StatusOK, (s.FirstToken+s.Latency)/2)
		s.Tokens.Completion /= 2
	}
}

// end ends a call in another way than it should.
func (t *traffic) end(s *usage.Settlement, how usage.End, status int, after time.Duration) {
	s.End, s.Status, s.Latency = how, status, after
	if how == usage.EndFailed {
		s.Tokens, s.FirstToken, s.MCPCalls, s.MCPFailed = chat.Usage{}, 0, 0, 0
	}
}

// lately returns calls of the last minutes, so that somebody is busy at any hour.
func (t *traffic) lately() (all []usage.Settlement) {
	for i, w := range workloads() {
		if w.person == intern {
			continue
		}
		if s, ok := t.call(&w, t.accts[w.person], t.now.Add(-time.Duration(1+i)*time.Minute/3-time.Minute)); ok {
			all = append(all, s)
		}
	}
	return all
}

// The loop that the intern has left running: its calls, how long ago it began, and the pause between two calls.
const (
	runawayCalls = 398
	runawayAgo   = 26 * time.Hour
	runawayPause = 9 * time.Second
)

// runaway returns the calls of a loop that used up the month of an account.
func (t *traffic) runaway() (all []usage.Settlement) {
	who := t.accts[intern]
	w := workload{person: intern, key: "thesis", models: []share{{sandbox, 1}}, prompt: 700, reply: 220}
	for i := range runawayCalls {
		if s, ok := t.call(&w, who, t.now.Add(-runawayAgo+time.Duration(i)*runawayPause)); ok {
			all = append(all, s)
		}
	}
	return all
}
