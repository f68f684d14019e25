package redisledger

import (
	"slices"
	"time"

	"sluice/internal/account"
	"sluice/internal/ledger/abuse"
	"sluice/internal/ledger/usage"
)

// errand is one run of the script count.lua, alone or as a part of free.lua, while it is put
// together and until its reply is read. The arguments are: the time, an empty word where free has
// its slot, the numbers of the errand, the node, its life, and then three words for each total.
type errand struct {
	u     *Units
	id    string
	month time.Time
	keys  []string
	args  []string
	about []tallied
	room  [1]tallied // most errands are about one total
	tells bool       // it tells Redis what the store knows, and is no proof
}

// tallied is a total that an errand is about.
type tallied struct {
	plan, tier account.Plan
	sent       int64           // what this node has added to it; 0: nothing
	told       int64           // of what was settled, what the errand is about
	checked    map[string]bool // unproven settlements that it is about
	more       int64           // those of them that the store does not have
}

// keys returns the keys of the script.
func (u *Units) keys(accountID string, month time.Time) []string {
	return []string{u.l.opts.Prefix + "{" + accountID + "}:units:" + month.Format("2006-01"), u.l.epochKey(accountID)[0]}
}

const (
	// Instead of the hash that a node knows, an errand may name one of these.
	anyHash  = 0  // there is one
	makeHash = -1 // if there is none
)

// begin returns an errand that is about no total yet. Known identifies the hash.
func (u *Units) begin(accountID string, month time.Time, keys []string, known int64, unmark bool) *errand {
	e := &errand{u: u, id: accountID, month: month, keys: keys}
	e.about = e.room[:0]
	var room [40]byte
	text := appendNumber(room[:0], u.l.clock.number())
	for _, n := range []int64{known, (31*24*time.Hour + keepUnits).Milliseconds(), keepEpoch.Milliseconds(), flag(unmark)} {
		text = appendNumber(text, n)
	}
	numbers := string(text)
	e.args = append(make([]string, 0, 8), numbers[:8], "", numbers[8:], u.l.node, "")
	return e
}

// The indexes of the node and its life in the arguments.
const nodeArg, lifeArg = 3, 4

// of makes the errand one of the tally's life. Only such an errand can add something.
func (e *errand) of(y *tally) *errand {
	e.args[lifeArg] = y.life
	return e
}

// add makes the errand be about one more total. sent is what this node has added in its life, and included how much of that the total
// includes already; units and forgiven are what the store knows, or
// -1; hours is the history of the last day. late says that an earlier errand got no reply. The
// caller holds the lock of the account, if x belongs to a tally.
func (e *errand) add(x *total, sent, included int64, late bool, units, forgiven int64, hours string) {
	open := int64(0)
	for i := range x.unproven {
		open += x.unproven[i].UnitMilli
	}
	e.about = append(e.about, tallied{plan: x.plan, tier: x.tier, sent: sent, told: x.settled - open})
	all := sent
	if sent == 0 {
		all = -1 // it adds nothing
	}
	e.total(x.name, hours, all, included, flag(late), units, forgiven, abuse.FullAt(x.budget), abuse.SteepAt(x.budget))
}

// total appends the three words of a total.
func (e *errand) total(name, hours string, numbers ...int64) {
	var room [88]byte
	text := room[:0]
	for _, n := range numbers {
		text = appendNumber(text, n)
	}
	e.args = append(e.args, name, string(text), hours)
}

// flag is a truth value as scripts read it.
func flag(on bool) int64 {
	if on {
		return 1
	}
	return 0
}

// order returns the errand as a script of its own.
func (e *errand) order() order {
	return order{script: countScript, keys: e.keys, args: e.args, errand: e}
}

// with makes the errand a part of an order that frees a slot: one script costs about half of two.
func (e *errand) with(o order) order {
	o.keys = append(o.keys[:len(o.keys):len(o.keys)], e.keys[0])
	o.args = append(o.args[:len(o.args):len(o.args)], e.args[2:]...) // the order has the clock
	o.errand = e
	return o
}

// outcome is the reply of the script.
type outcome struct {
	ok         bool
	made, seen int64
	totals     string // four numbers for each total
}

// read decodes the reply: whether the hash is the one that the errand names, when it was made, the
// sum u of all additions, and four numbers for each total. If it is another hash, the totals are
// missing.
func (e *errand) read(a answer) (outcome, error) {
	if a.err != nil {
		return outcome{}, a.err
	}
	ok := len(a.text) >= 24 && numberAt(a.text, 0) == 1
	if len(a.text) < 24 || ok && len(a.text) != 24+32*len(e.about) {
		return outcome{}, errOtherForm
	}
	return outcome{ok, numberAt(a.text, 1), numberAt(a.text, 2), a.text[24:]}, nil
}

// heard notes the reply and tells the listener.
//
// A reply about another month or another life is of no use to the tally; it only wakes those who
// wait, so that they look again.
func (e *errand) heard(r answer) {
	u := e.u
	o, err := e.read(r)
	if err != nil {
		u.lost(e.id)
		return
	}
	sh := u.shard(e.id)
	sh.mu.Lock()
	y := sh.of(e.id)
	if !y.month.Equal(e.month) || y.life != e.args[lifeArg] {
		y.tell()
		sh.mu.Unlock()
		return
	}
	if !o.ok {
		// Redis has lost what it knew, or never knew it. This node's settlements are in the store, or will be
		// after a flush.
		y.made, y.lost, y.seen, y.asked = 0, true, 0, u.l.clock.now()
		sh.mu.Unlock()
		u.hear.Unknown(e.id, true)
		return
	}
	if !e.tells || !y.unproven() && !y.lost {
		y.made, y.lost = o.made, false
	}
	y.hears(o.seen, u.l.clock.now())
	for i := range e.about {
		e.heardOf(&e.about[i], y, o.seen, o.totals[32*i:])
	}
	queue := y.made != 0 && !y.queued && !y.paused && y.unsent()
	y.queued = y.queued || queue
	ask := y.made != 0 && y.unproven()
	y.tell()
	sh.mu.Unlock()
	if queue {
		u.l.put(e.id, op{units: true})
		u.l.queue.nudge()
	}
	if ask { // additions of the last moment, which nobody has looked up
		u.hear.Unknown(e.id, false)
	}
}

// heardOf notes the reply about one total: units before and after, units of the last day, and whether that is to
// be reviewed. The caller holds the lock of the account.
func (e *errand) heardOf(m *tallied, y *tally, seen int64, reply string) {
	x := y.total(m.plan, m.tier)
	before, after := numberAt(reply, 0), numberAt(reply, 1)
	if seen >= x.at {
		x.units, x.at = after, seen
	}
	e.u.hear.Counted(abuse.Total{AccountID: e.id, Plan: m.plan, Tier: m.tier, Month: e.month}, abuse.Change{
		Before: before, After: after, Total: x.units, LastDay: numberAt(reply, 2), Review: numberAt(reply, 3) == 1, Unsure: x.unsure,
	})
	if m.checked != nil {
		x.unproven = slices.DeleteFunc(x.unproven, func(s usage.Settlement) bool { _, ok := m.checked[s.ID]; return ok })
		x.all += m.more
	}
	if m.sent > 0 || m.checked != nil {
		x.sent, x.arrived = max(x.sent, m.sent), max(x.arrived, m.sent)
		x.told, x.unsure = max(x.told, m.told), false
	}
}

// raiseOrder returns the script that tells Redis what the store knows, and with it what this node has added.
// If the node is in a later month already, the order is about no total.
func (u *Units) raiseOrder(accountID string, k *abuse.Known) order {
	sh := u.shard(accountID)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	y := sh.of(accountID)
	y.turn(k.Month)
	y.raised = u.l.clock.now()
	known := int64(anyHash)
	if k.Introduce {
		known = makeHash
	}
	e := u.begin(accountID, k.Month, u.keys(accountID, k.Month), known, k.Unmark).of(y)
	e.tells = !k.Introduce
	if y.month.After(k.Month) {
		return e.order()
	}
	for i := range k.Counts {
		if n := &k.Counts[i]; n.AccountID == accountID {
			y.total(n.Plan, n.Tier)
		}
	}
	for i := range k.Hours {
		if n := &k.Hours[i]; n.AccountID == accountID {
			y.total(n.Plan, n.Tier)
		}
	}
	for i := range y.totals {
		e.raise(&y.totals[i], k, k.Introduce || y.made != 0)
	}
	return e.order()
}

// raise adds a total to the errand, with what this node has added if it may. The caller holds the lock of the
// account.
//
// Unproven additions are resolved here. The store was asked for each by its id: those it has are
// part of its total, those it does not have are added to this node's sum, and those it was not
// asked about stay unproven.
func (e *errand) raise(x *total, k *abuse.Known, mine bool) {
	if k.Budget != nil {
		x.budget = k.Budget(x.plan)
	}
	var stored abuse.Count
	for _, n := range k.Counts {
		if n.AccountID == e.id && n.Plan == x.plan && n.Tier == x.tier {
			stored = n
		}
	}
	sent, more, checked := int64(0), int64(0), int64(0)
	if mine {
		sent = x.all
	}
	if k.Introduce { // what the store does not have is added to what it has
		for i := range x.unproven {
			s := &x.unproven[i]
			if stored, ok := k.Stored[s.ID]; ok {
				checked += s.UnitMilli
				if !stored {
					more += s.UnitMilli
				}
			}
		}
	}
	e.add(x, sent+more, x.all, false, stored.Units, stored.Forgiven, hours(k, e.id, x, stored.Units))
	if m := &e.about[len(e.about)-1]; k.Introduce {
		m.checked, m.more, m.told = k.Stored, more, m.told+checked
		if m.checked == nil {
			m.checked = map[string]bool{}
		}
	}
}

// hours returns the units at the beginning of each hour of the last day, as the script keeps them.
// The store knows how much was added in each hour. Subtracting all of it from the total gives the
// value before the first hour, and adding hour by hour gives the others.
func hours(k *abuse.Known, accountID string, x *total, units int64) string {
	var text []byte
	// Backwards from the total of now. Before the beginning of the month this is negative.
	byHour := map[int64]int64{}
	first, last := int64(0), int64(0)
	for _, h := range k.Hours {
		if h.AccountID == accountID && h.Plan == x.plan && h.Tier == x.tier {
			byHour[h.Hour] += h.Units
			units -= h.Units
			if first == 0 || h.Hour < first {
				first = h.Hour
			}
			last = max(last, h.Hour)
		}
	}
	for h := first; h <= last && h > 0; h++ {
		if n := byHour[h]; n > 0 {
			text = appendNumber(appendNumber(text, h), units)
			units += n
		}
	}
	return string(text)
}
