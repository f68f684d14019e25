package runaway

import (
	"hash/maphash"
	"sync"
	"time"

	"sluice/internal/account"
	"sluice/internal/ledger/price"
	"sluice/internal/prompt/chat"
)

const (
	// shards is the number of parts of what is counted, each with a lock. All calls of a key are in one, so that no key can fill more
	// than its part.
	shards = 64
	// The bounds of one part. Together the parts have room for 131,072 prompts, 8,192 conversations and 32,768 keys.
	mostPrompts, mostThreads, mostKeys = 2048, 128, 512
	// quiet is how long what was seen is not seen again, and askEvery how often the database is asked about one key.
	quiet, askEvery = time.Minute, 15 * time.Second
	// mostSeen is how much waits for Look. More is dropped, and is seen again if it goes on.
	mostSeen = 1000
	// usualFor is how long what is usual for a key is believed.
	usualFor = time.Hour
)

// Call is a call that has ended.
type Call struct {
	Account *account.Account
	KeyID   string
	Model   string    // the model that answered
	Start   time.Time // of the call
	Cost    price.Nano
	// Prompt is how many tokens the prompt had; 0: nobody knows, or it had several. Window is how many the model reads.
	Prompt, Window int
	// Request is what was asked; nil: the call is none for a completion, or continues something that is not in it.
	Request *chat.Request
}

// figures are what some calls add up to.
type figures struct {
	calls int32
	cost  price.Nano
}

// tally counts the calls of the last span: those of the running half of it and of the one before. So it covers from a half to the
// whole, and never too much.
type tally struct {
	half     int64
	was, now figures
	since    int64 // Unix milliseconds of the first call that is in it
	quiet    int64 // Unix milliseconds until when nothing is seen
}

// add adds a call. What was counted before somebody resumed the key is forgotten.
func (t *tally) add(now, resumed time.Time, cost price.Nano) figures {
	half := now.Unix() / int64(span/2/time.Second)
	switch {
	case half-t.half == 1:
		t.was, t.now = t.now, figures{}
	case half != t.half:
		t.was, t.now = figures{}, figures{}
	}
	if ms := now.UnixMilli(); t.since == 0 || t.since <= resumed.UnixMilli() {
		*t = tally{since: ms}
	}
	t.half = half
	t.now.calls++
	t.now.cost += cost
	return figures{t.was.calls + t.now.calls, t.was.cost + t.now.cost}
}

// thread is a conversation, by its last calls whose prompts grew.
type thread struct {
	steps [growing]step
	n     int
	quiet int64
}

// add adds a call, and reports whether there are enough to look at.
func (t *thread) add(s step, resumed time.Time) bool {
	if t.n > 0 && (s.tokens <= t.steps[t.n-1].tokens || t.steps[0].at <= resumed.UnixMilli()) {
		t.n = 0 // a new beginning: it was compacted, or repeated, or somebody has looked
	}
	if t.n == growing {
		copy(t.steps[:], t.steps[1:])
		t.n--
	}
	t.steps[t.n] = s
	t.n++
	return t.n == growing
}

// purse is what a key spends.
type purse struct {
	tally
	busiest price.Nano // see usual
	known   int64      // Unix milliseconds when busiest was found; 0: it is not known
}

// kept are values by their hash, at most a number of them. When recent is full it becomes older, and what was older is dropped: what
// comes again stays, without a list in the order of use.
type kept[V any] struct{ recent, older map[uint64]V }

// at returns the value of a hash; the zero value if there is none.
func (k *kept[V]) at(hash uint64) V {
	if v, ok := k.recent[hash]; ok {
		return v
	}
	return k.older[hash]
}

// put keeps a value.
func (k *kept[V]) put(hash uint64, v V, most int) {
	if _, there := k.recent[hash]; !there && len(k.recent) >= most/2 {
		k.recent, k.older = k.older, k.recent
		clear(k.recent)
	}
	if k.recent == nil {
		k.recent = map[uint64]V{}
	}
	k.recent[hash] = v
}

// part is a part of what is counted.
type part struct {
	mu      sync.Mutex
	prompts kept[tally]
	threads kept[*thread] // they are large
	keys    kept[purse]
}

// spot is a signal of a key.
type spot struct {
	accountID, keyID string
	signal           Signal
}

// sighting is what was seen at a spot, and when; empty: it has to be looked at.
type sighting struct {
	seen string
	at   time.Time
}

// Saw counts a call that has ended. It is quick, and waits for nobody. A call that cost nothing, or nobody knows what, and calls of
// accounts that have switched the watch off cost a comparison.
func (w *Watch) Saw(c *Call) {
	run := &c.Account.Runaway
	if c.Cost <= 0 || run.On == account.Off {
		return
	}
	resumed := run.ResumedAt(c.KeyID)
	if !c.Start.After(resumed) { // it ran when somebody resumed the key
		return
	}
	now := w.opts.Now()
	var h maphash.Hash
	key := w.keyed(&h, c.KeyID)
	var opening, whole uint64
	if c.Request != nil {
		_, _ = h.WriteString(c.Request.Model)
		opening, whole = c.Request.Prints(&h)
	}
	p := &w.parts[key%shards]
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.Request != nil {
		w.sawPrompt(p, whole, c, now, resumed)
		if c.Prompt > 0 {
			w.sawThread(p, opening, c, now, resumed)
		}
	}
	w.sawSpending(p, key, c, now, resumed)
}

// sawPrompt counts a prompt.
func (w *Watch) sawPrompt(p *part, hash uint64, c *Call, now, resumed time.Time) {
	t := p.prompts.at(hash)
	if sum := t.add(now, resumed, c.Cost); now.UnixMilli() >= t.quiet {
		if seen := repeats(sum, c.Model); seen != "" {
			t.quiet = now.Add(quiet).UnixMilli()
			w.note(c, SamePrompt, seen, now)
		}
	}
	p.prompts.put(hash, t, mostPrompts)
}

// sawThread counts a call of a conversation.
func (w *Watch) sawThread(p *part, hash uint64, c *Call, now, resumed time.Time) {
	t := p.threads.at(hash)
	if t == nil {
		t = &thread{}
	}
	if t.add(step{now.UnixMilli(), c.Cost, int32(min(c.Prompt, 1<<31-1))}, resumed) && now.UnixMilli() >= t.quiet {
		var room [growing - 1]int32
		if seen := grows(&t.steps, c.Window, c.Model, &room); seen != "" {
			t.quiet = now.Add(quiet).UnixMilli()
			w.note(c, GrowingContext, seen, now)
		}
	}
	p.threads.put(hash, t, mostThreads)
}

// sawSpending counts what a key spends. Of several servers, the one with most of its calls has at least its share of them. The running
// count may cover only half of the span, so half is enough to ask the database.
func (w *Watch) sawSpending(p *part, hash uint64, c *Call, now, resumed time.Time) {
	k := p.keys.at(hash)
	sum := k.add(now, resumed, c.Cost)
	if now.UnixMilli() >= k.quiet {
		least := Floor
		if now.UnixMilli()-k.known < usualFor.Milliseconds() {
			least = bar(k.busiest, c.Account.Runaway.Times())
		}
		if hourly(sum.cost)*price.Nano(2*max(1, w.opts.Nodes())) > least {
			k.quiet = now.Add(askEvery).UnixMilli()
			w.note(c, SpendRate, "", now)
		}
	}
	p.keys.put(hash, k, mostKeys)
}

// keyed begins a hash with the id of a key, and returns it.
func (w *Watch) keyed(h *maphash.Hash, keyID string) uint64 {
	h.SetSeed(w.seed) // random, so that nobody can make two prompts look alike
	_, _ = h.WriteString(keyID)
	return h.Sum64()
}

// believed returns what counts as the busiest hour of a key, and whether that is still believed.
func (w *Watch) believed(keyID string, now time.Time) (price.Nano, bool) {
	var h maphash.Hash
	key := w.keyed(&h, keyID)
	p := &w.parts[key%shards]
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.keys.at(key)
	return k.busiest, now.UnixMilli()-k.known < usualFor.Milliseconds()
}

// learn keeps what is usual for a key.
func (w *Watch) learn(keyID string, busiest price.Nano, now time.Time) {
	var h maphash.Hash
	key := w.keyed(&h, keyID)
	p := &w.parts[key%shards]
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.keys.at(key)
	k.busiest, k.known = busiest, now.UnixMilli()
	p.keys.put(key, k, mostKeys)
}

// note keeps what was seen for Look.
func (w *Watch) note(c *Call, s Signal, seen string, at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.seen) < mostSeen {
		w.seen[spot{c.Account.ID, c.KeyID, s}] = sighting{seen, at}
	}
}
