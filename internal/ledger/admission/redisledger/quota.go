package redisledger

import (
	"context"
	"errors"
	"sync"
	"time"

	"sluice/internal/ledger/admission"
)

// errNoCount means that the count of a key's month was lost as often as it was made.
var errNoCount = errors.New("the count of a key's units was lost as soon as it was made")

// quotaTotal is the name of a key's only total.
const quotaTotal = "units"

// keyMonth is the admission.Count of the nodes that share a Redis: the total of a key and month, counted by the script that
// counts the totals of accounts, see Units and scripts/units.lua. Two things differ, on purpose. Units are added before
// they are used, unless that would exceed a limit, so every addition waits for its reply. And they can be given back.
//
// A node tells how much it has added and how much it has given back in its life. So whatever was lost is repeated
// with the next message, and counts once. It also tells how many reservations it has given up because no reply came: one
// that arrives later than that is not made.
type keyMonth struct {
	l    *Ledger
	id   string
	keys []string

	mu      sync.Mutex // guards the fields below; never held during a round trip
	retired bool
	life    string
	made    int64 // identifies the hash in Redis; 0: not known, and then nothing is told
	// What this node has added and given back, and what of that Redis has counted. Redis may have counted more than was
	// added: what it has reserved and the node does not know of yet.
	all, arrived   int64
	back, returned int64
	loose          int64 // what was given back to whichever count there is, since Redis has last counted all
	gone           int64 // reservations that were given up
	asking         int   // reservations that are on their way
}

// Month implements admission.Counts.
func (l *Ledger) Month(keyID string, month time.Time) admission.Count {
	return l.keyMonth(keyID, month)
}

func (l *Ledger) keyMonth(keyID string, month time.Time) *keyMonth {
	begin := l.opts.Prefix + "{" + keyID + "}:"
	name := month.Format("2006-01")
	return &keyMonth{l: l, id: keyID, keys: []string{begin + "month:" + name, begin + "units:" + name}, life: newLife()}
}

// Correct implements admission.Counts.
func (l *Ledger) Correct(keyID string, month time.Time, delta int64) {
	c := l.keyMonth(keyID, month)
	c.Retire()
	c.Add(0, delta, delta) // a failure leaves the count too high, which is safe
}

// Reserve implements admission.Count. It asks again once it knows the count, or has made it; if it was refused while
// Redis counted a reservation that was given up; and if it was itself taken for one.
func (c *keyMonth) Reserve(limit, units int64, sum func() (int64, error)) (used, made int64, ok bool, err error) {
	for range 5 {
		r, err := c.tell(keyTold{want: units, most: limit, stored: -1}, true)
		switch {
		case err != nil:
			c.l.state.local.Add(1) // the node goes by what it knows, as for a limit of the minute
			return 0, 0, false, err
		case !r.known:
			if _, err := c.Raise(sum); err != nil {
				return 0, 0, false, err
			}
		case r.asked && (r.reserved == 1 || r.reserved == 0 && !r.excess):
			return r.used, r.made, r.reserved == 1, nil
		}
	}
	return 0, 0, false, errNoCount
}

// Hold implements admission.Count. Of a count that this node does not know, a reservation is no part: the store or the end
// of its call tells of it.
func (c *keyMonth) Hold(units int64) (made int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.made == 0 || c.retired {
		return 0
	}
	c.all += units
	return c.made
}

// Add implements admission.Count. The usual call costs what it has reserved, and then Redis has it. Only a job that gives
// something back has a whole below zero.
func (c *keyMonth) Add(made, delta, whole int64) (used int64, ok bool) {
	for range 4 {
		c.mu.Lock()
		retired, known, same := c.retired, c.made != 0, c.made == made
		if known && !retired {
			c.add(same, delta, whole)
		}
		c.mu.Unlock()
		switch {
		case retired:
			return c.addOnce(made, delta, whole)
		case known && same && delta == 0:
			return 0, false
		}
		r, err := c.tell(keyTold{stored: -1}, false)
		switch {
		case err != nil:
			if !known && whole < 0 {
				c.mu.Lock()
				c.add(false, delta, whole) // told later
				c.mu.Unlock()
			}
			return 0, false
		case known && r.known:
			return r.used, true
		case !known && !r.known:
			return 0, false // the one that is made has it from the store
		case known && whole < 0:
			delta, whole = 0, 0 // forget has kept it
		}
		// Now it is known, and has to be added; or it has been lost, and with it what was added.
	}
	return 0, false
}

// add notes what Add adds, to the same count that the call has reserved of or to another one. The caller holds the lock.
func (c *keyMonth) add(same bool, delta, whole int64) {
	if !same {
		delta = whole
	}
	c.all, c.back, c.loose = c.all+max(0, delta), c.back+max(0, -delta), c.loose+max(0, -whole)
}

// addOnce is Add for a count that this node no longer keeps. It has a life of its own, and nobody repeats it: what was
// used is in the store.
func (c *keyMonth) addOnce(made, delta, whole int64) (used int64, ok bool) {
	once := func(known, n int64) (keyReply, error) {
		return c.send(keyTold{known: known, all: max(0, n), unsure: max(0, n), back: max(0, -n), stored: -1}, c.l.node+"~", newLife())
	}
	if made != 0 {
		if delta == 0 {
			return 0, false
		}
		if r, err := once(made, delta); err != nil || r.known {
			return r.used, err == nil
		}
	}
	r, err := once(anyHash, whole)
	return r.used, err == nil && r.known
}

// Raise implements admission.Count. The sum of the store is without what was given back. What is given back after it was
// read may be part of it, so it is added to what was given back before.
func (c *keyMonth) Raise(sum func() (int64, error)) (used int64, err error) {
	r, err := c.tell(keyTold{stored: -1}, false)
	if err != nil {
		return 0, err
	}
	stored, err := sum()
	if err != nil {
		return 0, err
	}
	r, err = c.tell(keyTold{stored: stored + r.forgiven}, false)
	return r.used, err
}

// Idle implements admission.Count.
func (c *keyMonth) Idle() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.all <= c.arrived && c.back == c.returned
}

// Retire implements admission.Count. The count of the same month that this node may make later has another life, and Redis
// remembers one of each node.
func (c *keyMonth) Retire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.retired = true
}

// forget begins a new life, after Redis has lost the count. What calls have used is in the store, from which the next
// count is made. What a job has given back may be in it or not, and is given back again: a count that is too low is
// raised. The caller holds the lock.
func (c *keyMonth) forget() {
	c.life, c.made, c.gone = newLife(), 0, 0
	c.all, c.arrived, c.back, c.returned = 0, 0, c.loose, 0
}

// keyTold is what a node tells of a key's month, and asks for.
type keyTold struct {
	known      int64 // the hash
	all, back  int64
	unsure     int64 // of all, what the node does not know to be counted
	gone       int64
	stored     int64 // what the store knows, with what was given back; -1: nothing
	want, most int64 // units to reserve, and the most that may be used with them
}

// keyReply is the reply.
type keyReply struct {
	known    bool // there is a count, and it is the one that was meant
	made     int64
	used     int64 // with what Redis does not know yet
	forgiven int64
	counted  int64 // what Redis has counted of this life
	reserved int64 // as in the script
	asked    bool  // it is a reply to a reservation
	excess   bool  // it has counted a reservation that was given up
}

// tell tells Redis what this node has added and given back, and then reserves units or raises the count. If there is
// none, it begins one if it raises it.
//
// As long as the node does not know the count, it only reads or raises it. So everything that is added names the count
// that it is for, and does no harm to another one, however late it arrives.
func (c *keyMonth) tell(t keyTold, asks bool) (keyReply, error) {
	c.mu.Lock()
	if c.retired {
		t.known = c.made
		c.mu.Unlock()
		r, err := c.send(t, c.l.node+"~", newLife())
		r.asked = asks
		return r, err
	}
	life := c.life
	t.known, t.all, t.back, t.gone = c.made, c.all, c.back, c.gone
	if t.unsure = max(0, c.all-c.arrived); c.made == 0 {
		t.all, t.back, t.want, asks = -1, 0, 0, false
		if t.stored >= 0 {
			t.known = makeHash
		}
	}
	if asks {
		c.asking++
	}
	c.mu.Unlock()
	r, err := c.send(t, c.l.node, life)
	c.mu.Lock()
	defer c.mu.Unlock()
	r.asked = asks
	if asks {
		c.asking--
	}
	switch {
	case c.life != life:
	case err != nil:
		if asks {
			c.gone++
		}
	case !r.known:
		if c.made != 0 && c.made == t.known {
			c.forget()
		}
	default:
		c.heard(&t, &r)
	}
	return r, err
}

// heard notes a reply. The caller holds the lock.
func (c *keyMonth) heard(t *keyTold, r *keyReply) {
	c.made = r.made
	if r.reserved == 1 && t.want > 0 {
		c.all += t.want
	}
	c.arrived, c.returned = max(c.arrived, r.counted), max(c.returned, t.back)
	if c.returned == c.back {
		c.loose = 0
	}
	if c.asking == 0 && r.counted > c.all {
		// A reservation that was given up, and that no call holds.
		c.back += r.counted - c.all
		c.all, r.excess = r.counted, true
	}
	r.used = max(0, r.used+max(0, c.all-c.arrived)-(c.back-c.returned))
}

// send runs the script.
func (c *keyMonth) send(t keyTold, node, life string) (keyReply, error) {
	l := c.l
	if !l.state.exact() {
		return keyReply{}, errApproximate
	}
	e := l.units.begin(c.id, time.Time{}, c.keys, t.known, false)
	e.args[nodeArg], e.args[lifeArg] = node, life
	e.total(quotaTotal, "", t.all, 0, t.unsure, t.stored, -1, -1, -1, t.back, t.want, t.most, t.gone)
	e.about = append(e.about, tallied{})
	ctx, cancel := context.WithTimeout(context.Background(), l.opts.Deadline)
	defer cancel()
	answers, err := l.send(ctx, []order{{script: quotaScript, keys: e.keys, args: e.args}})
	var o outcome
	if err == nil {
		o, err = e.read(answers[0])
	}
	if err != nil {
		l.state.failed(err)
		return keyReply{}, err
	}
	l.state.answered()
	r := keyReply{known: o.ok, made: o.made}
	if o.ok {
		r.used, r.forgiven, r.counted, r.reserved = numberAt(o.totals, 0), numberAt(o.totals, 1), numberAt(o.totals, 2), numberAt(o.totals, 3)
	}
	return r, nil
}
