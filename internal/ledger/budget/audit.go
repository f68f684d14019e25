package budget

import (
	"cmp"
	"container/heap"
	"slices"
	"strings"
	"time"

	"sluice/internal/ledger/price"
	"sluice/internal/ledger/usage"
)

const (
	// clocks is by how much the clocks of servers may differ, and fine how exactly settlements say when something was.
	clocks = 2 * time.Second
	fine   = 2 * time.Millisecond
	// news is how long a server may take to learn of another amount.
	news = 5 * time.Second
	// stored is how long it may take until a call is in the database that a budget did not bound, because it only warned.
	stored = time.Minute
	// longest is longer than any window that ends.
	longest = 32 * 24 * time.Hour
	// cleanEvery is after how many calls a sweep forgets what can matter no more.
	cleanEvery = 10_000
	// mostRequests is how many calls an overspend names.
	mostRequests = 20
)

// Overspend is an instant at which calls had reserved and spent more than a hard budget has: the worst one of a period.
type Overspend struct {
	Count    string     `json:"budget"` // see usage.Charge
	Period   int64      `json:"period"` // see PeriodOf
	At       time.Time  `json:"at"`
	Amount   price.Nano `json:"amount_nano"`
	Reserved price.Nano `json:"reserved_nano"`
	Spent    price.Nano `json:"spent_nano"`
	Instants int        `json:"instants"` // at which a call passed that should not have
	Requests []string   `json:"requests"` // that ran then, the one that passed last; at most 20
}

// Over returns by how much the amount was passed.
func (o *Overspend) Over() price.Nano { return o.Reserved + o.Spent - o.Amount }

// Sweep goes through settlements and looks for overspends. The zero value is ready for use. It remembers the calls that run at an
// instant, and a few numbers for each count and period.
type Sweep struct {
	starts charged // whose turn has not come
	counts map[Key]*tally
	found  map[Key]*Overspend
	seen   int
}

// charge is what one call takes from one budget.
type charge struct {
	*usage.Charge
	id         string
	start, end time.Time
	spent      price.Nano
	at         time.Time // its turn in a heap
}

// tally is how a count stands at an instant.
type tally struct {
	open            charged // by their ends
	reserved, spent price.Nano
	parts           []part // of a window that rolls
	amounts         map[price.Nano]time.Time
	node            string
	several         bool // nodes have calls
}

// part is what was spent in a part of a window that rolls, the last of it at a time.
type part struct {
	period int64
	last   time.Time
	spent  price.Nano
}

// Add takes the next settlement, by the time at which calls started.
func (w *Sweep) Add(s *usage.Settlement) {
	if w.counts == nil {
		w.counts, w.found = map[Key]*tally{}, map[Key]*Overspend{}
	}
	for i := range s.Terms.Budgets {
		c := s.Terms.Budgets[i]
		x := charge{Charge: &c, id: s.ID, start: s.At.Add(c.After), end: s.At.Add(s.Latency), spent: s.Spent(&c)}
		if x.end.Before(x.start) {
			x.end = x.start
		}
		x.at = x.start
		heap.Push(&w.starts, x)
		// Whether a count has calls of several servers must be known before their first turn.
		w.tally(&x).meet(c.Holder)
	}
	w.run(s.At.Add(-clocks))
	if w.seen++; w.seen%cleanEvery == 0 {
		w.clean(s.At)
	}
}

// End returns what was found, by count and period.
func (w *Sweep) End() []Overspend {
	for len(w.starts) > 0 {
		w.run(w.starts[0].at)
	}
	for k, t := range w.counts {
		for len(t.open) > 0 {
			w.finish(k, t)
		}
	}
	all := make([]Overspend, 0, len(w.found))
	for _, o := range w.found {
		all = append(all, *o)
	}
	slices.SortFunc(all, func(a, b Overspend) int {
		return cmp.Or(cmp.Compare(a.Count, b.Count), cmp.Compare(a.Period, b.Period))
	})
	return all
}

// run lets all calls start whose turn has come.
func (w *Sweep) run(until time.Time) {
	for len(w.starts) > 0 && !w.starts[0].at.After(until) {
		x := heap.Pop(&w.starts).(charge)
		w.begin(w.tally(&x), x)
	}
}

func (w *Sweep) tally(x *charge) *tally {
	k := Key{x.Count, x.Period}
	t := w.counts[k]
	if t == nil {
		t = &tally{amounts: map[price.Nano]time.Time{}}
		w.counts[k] = t
	}
	return t
}

// meet notes which server a call is from.
func (t *tally) meet(holder string) {
	if holder == "" {
		return
	}
	kind, rest, _ := strings.Cut(holder, "/")
	node, _, _ := strings.Cut(rest, "/")
	node = kind + "/" + node
	t.several = t.several || t.node != "" && t.node != node
	t.node = node
}

// begin lets a call start, after those that have ended by then.
func (w *Sweep) begin(t *tally, x charge) {
	k, slack := Key{x.Count, x.Period}, fine
	if t.several {
		slack = clocks
	}
	for len(t.open) > 0 && !t.open[0].at.After(x.start.Add(slack)) {
		w.finish(k, t)
	}
	t.roll(k.Period, x.start)
	if x.at = x.end; x.Holder == "" {
		x.Reserved, x.at = 0, x.end.Add(stored)
		heap.Push(&t.open, x)
		return
	}
	t.reserved += x.Reserved
	heap.Push(&t.open, x)
	t.amounts[x.Amount] = x.start
	w.compare(k, t, &x, x.start)
}

// finish lets the call end that ends first.
func (w *Sweep) finish(k Key, t *tally) {
	x := heap.Pop(&t.open).(charge)
	t.reserved -= x.Reserved
	t.spent += x.spent
	if k.Period < 0 && x.spent != 0 {
		t.add(SpentIn(k.Period, x.end), x.end, x.spent)
	}
	if x.Holder != "" && x.spent > x.Reserved {
		t.roll(k.Period, x.end)
		t.amounts[x.Amount] = x.end
		w.compare(k, t, &x, x.end)
	}
}

// compare notes an overspend if there is one, after the call x has reserved or spent.
func (w *Sweep) compare(k Key, t *tally, x *charge, at time.Time) {
	amount := x.Amount
	for other, last := range t.amounts {
		if last.Before(at.Add(-news)) {
			delete(t.amounts, other)
			continue
		}
		amount = max(amount, other)
	}
	over := t.reserved + t.spent - amount
	if over <= 0 {
		return
	}
	o := w.found[k]
	if o == nil {
		o = &Overspend{Count: k.Count, Period: k.Period}
		w.found[k] = o
	}
	o.Instants++
	if o.Instants > 1 && over <= o.Over() {
		return
	}
	o.At, o.Amount, o.Reserved, o.Spent, o.Requests = at.UTC(), amount, t.reserved, t.spent, nil
	for i := range t.open {
		if t.open[i].id != x.id && len(o.Requests) < mostRequests-1 {
			o.Requests = append(o.Requests, t.open[i].id)
		}
	}
	o.Requests = append(o.Requests, x.id)
}

// add adds to a part of a window that rolls.
func (t *tally) add(period int64, end time.Time, spent price.Nano) {
	i, found := slices.BinarySearchFunc(t.parts, period, func(p part, period int64) int { return cmp.Compare(p.period, period) })
	if !found {
		t.parts = slices.Insert(t.parts, i, part{period: period})
	}
	p := &t.parts[i]
	p.spent += spent
	if end.After(p.last) {
		p.last = end
	}
}

// roll takes out what has left the window by a time. What was spent counts for as long as the window is, and with it all that was
// spent earlier in its part.
func (t *tally) roll(period int64, now time.Time) {
	span := spanOf(period)
	for len(t.parts) > 0 && !t.parts[0].last.Add(span).After(now) {
		t.spent -= t.parts[0].spent
		t.parts = t.parts[1:]
	}
}

// spanOf returns how long the window that rolls is whose parts PeriodOf names.
func spanOf(period int64) time.Duration {
	if period == -part24.Milliseconds() {
		return 24 * time.Hour
	}
	return 30 * 24 * time.Hour
}

// clean forgets counts of periods that are over.
func (w *Sweep) clean(now time.Time) {
	waiting := map[Key]bool{}
	for i := range w.starts {
		waiting[Key{w.starts[i].Count, w.starts[i].Period}] = true
	}
	for k, t := range w.counts {
		t.roll(k.Period, now.Add(-clocks))
		over := k.Period < 0 && len(t.parts) == 0 || k.Period > 0 && now.Sub(time.UnixMilli(k.Period)) > longest
		if over && len(t.open) == 0 && !waiting[k] {
			delete(w.counts, k)
		}
	}
}

// charged is a heap of charges by the time of their turn.
type charged []charge

func (h charged) Len() int           { return len(h) }
func (h charged) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h charged) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push is for package heap.
func (h *charged) Push(x any) { *h = append(*h, x.(charge)) }

// Pop is for package heap.
func (h *charged) Pop() any {
	last := (*h)[len(*h)-1]
	(*h)[len(*h)-1] = charge{} // the array must not hold on to it
	*h = (*h)[:len(*h)-1]
	return last
}
