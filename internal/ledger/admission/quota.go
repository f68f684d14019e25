package admission

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"sluice/internal/account"
	"sluice/internal/kit/fault"
	"sluice/internal/kit/pace"
	"sluice/internal/ledger/usage"
)

const (
	// quotaPatience is how long a call waits for the units that its key has used this month to be read.
	quotaPatience = 2 * time.Second
	// quotaEvery is how often the counts are compared with the store.
	quotaEvery = 30 * time.Second
	// quotaForget is how long the count of a key that is not used stays in memory.
	quotaForget = time.Hour
)

// Quota counts the units that keys with a monthly limit use (docs/api.md#limits-of-a-key). The count of a key is what
// calls have reserved and what they turned out to cost. It begins with what the store has added up, when the key is
// first used in a month or after a start; that is the only time a call waits for the store.
//
// A process that is alone counts in memory, exactly. Nodes that share a Counts count there, exactly as well: what a node
// could not tell it, or may have told it, is told again and counts once. Nodes that share nothing, or cannot reach it, go
// by what was last known and assume that every other node uses as much as they do.
type Quota struct {
	sum  Sum
	opts QuotaOptions

	mu   sync.Mutex // guards keys; never held during a round trip
	keys map[string]*keyMonth
}

// Sum returns the thousandths of units that the store knows a key to have used or reserved since the start of a month.
type Sum func(ctx context.Context, accountID, keyID string, month time.Time) (int64, error)

// Counts has the counts that several nodes share; *redisledger.Ledger is one. Amounts are thousandths of units.
type Counts interface {
	// Month returns the count of a key in a month. A node keeps one of each at a time, and retires it.
	Month(keyID string, month time.Time) Count
	// Correct adds to the count of a key that this node does not keep, if there is one.
	Correct(keyID string, month time.Time, delta int64)
}

// Count is a count that several nodes share. Its number says which: one that was lost and begun again has another
// number, and 0 is none. Methods wait for a short time only. After an error, what they were to add or give back is told
// with the next of them, and counts once.
type Count interface {
	// Reserve adds units unless that would exceed the limit. It returns what is used and the number of the count. If there
	// is no count, it begins with the sum of the store. After an error nothing is reserved.
	Reserve(limit, units int64, sum func() (int64, error)) (used, made int64, ok bool, err error)
	// Hold adds units that the node has reserved by itself, because the count is away. It tells nobody yet.
	Hold(units int64) (made int64)
	// Add adds delta to the count with the number made, or whole to one with another number. It returns what is used, and
	// reports whether it knows: not after an error, and not if there was nothing to add.
	Add(made, delta, whole int64) (used int64, ok bool)
	// Raise makes the count at least what the store knows, and begins it if there is none. It returns what is used.
	Raise(sum func() (int64, error)) (used int64, err error)
	// Idle reports whether there is nothing to tell.
	Idle() bool
	// Retire ends the count on this node. What calls that still run cost can be added.
	Retire()
}

// QuotaOptions are the choices of NewQuota; the zero value is the default.
type QuotaOptions struct {
	// Shared counts over all nodes; nil: this process counts by itself.
	Shared Counts
	// Nodes returns how many nodes share the limits without counting together. Default: this one alone.
	Nodes func() int
	// Now is the clock. Default time.Now.
	Now func() time.Time
	// Log gets what could not be compared. Default: no log.
	Log *slog.Logger
}

// keyMonth is what a node knows of a key's month.
type keyMonth struct {
	accountID, keyID string

	loading sync.Mutex // held while the sum is read, so that calls at the same time do it once
	mu      sync.Mutex // guards the rest
	month   time.Time
	shared  Count // nil: nodes share none
	// The month before the last turn: calls of it still run, and the clock may return to it.
	wasMonth  time.Time
	wasShared Count

	known  bool      // base was read
	base   int64     // what was used when the count was last read
	own    int64     // what this node has added since
	open   int64     // of that, what running calls hold; not counted with a shared count
	usedAt time.Time // when a call last asked
}

// Reserved is what a call holds of its key's month. The zero value is nothing.
type Reserved struct {
	key    *keyMonth // nil: nothing
	shared Count     // of the month, as in keyMonth
	month  time.Time
	units  int64
	made   int64
}

// NewQuota returns a quota that has counted nothing yet. Opts may be nil.
func NewQuota(sum Sum, opts *QuotaOptions) *Quota {
	q := &Quota{sum: sum, keys: map[string]*keyMonth{}}
	if opts != nil {
		q.opts = *opts
	}
	if q.opts.Nodes == nil {
		q.opts.Nodes = func() int { return 1 }
	}
	if q.opts.Now == nil {
		q.opts.Now = time.Now
	}
	if q.opts.Log == nil {
		q.opts.Log = slog.New(slog.DiscardHandler)
	}
	return q
}

// reserve takes units of a key's month. It returns nothing reserved and what is used if the limit is in the way, and
// an error if nobody can say.
func (q *Quota) reserve(accountID, keyID string, limit account.Limit, units int64) (Reserved, int64, error) {
	k := q.key(accountID, keyID)
	now := q.opts.Now()
	month, most := usage.MonthOf(now), int64(limit)*1000
	shared := q.turn(k, month, now)
	if shared != nil {
		used, made, ok, err := shared.Reserve(most, units, func() (int64, error) { return q.read(k, month) })
		if err == nil {
			k.learn(month, used)
			if !ok {
				return Reserved{}, used, nil
			}
			return Reserved{k, shared, month, units, made}, used, nil
		}
	}
	return q.reserveHere(k, shared, month, most, units)
}

// reserveHere is reserve by what this node knows.
func (q *Quota) reserveHere(k *keyMonth, shared Count, month time.Time, most, units int64) (Reserved, int64, error) {
	if err := q.load(k, month); err != nil {
		return Reserved{}, 0, fault.New(fault.Unavailable, "How much this key has used this month cannot be read at the moment. Try again shortly.").After(5 * time.Second).Because(err)
	}
	nodes := int64(max(1, q.opts.Nodes()))
	k.mu.Lock()
	defer k.mu.Unlock()
	if used := k.base + k.own*nodes; used+units*nodes > most && (nodes == 1 || k.base+k.own+units > most || units*nodes <= most) {
		return Reserved{}, min(used, max(most, k.base+k.own)), nil
	}
	k.own += units
	made := int64(0)
	if shared == nil {
		k.open += units
	} else {
		made = shared.Hold(units)
	}
	return Reserved{k, shared, month, units, made}, k.base + k.own, nil
}

// settle ends a reservation with what the call cost. It does nothing for the zero value.
func (q *Quota) settle(r Reserved, units int64) {
	if r.key == nil {
		return
	}
	k, delta := r.key, units-r.units
	if r.shared != nil {
		if used, ok := r.shared.Add(r.made, delta, units); ok {
			k.learn(r.month, used)
			return
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.month.Equal(r.month) {
		k.own += delta
		if r.shared == nil {
			k.open -= r.units
		}
	}
}

// correct adds to the count of a key in a month, if there is one.
func (q *Quota) correct(keyID string, month time.Time, delta int64) {
	q.mu.Lock()
	k := q.keys[keyID]
	q.mu.Unlock()
	if k == nil {
		k = &keyMonth{}
	}
	k.mu.Lock()
	current, shared := k.known && k.month.Equal(month), k.shared
	if current && shared == nil {
		k.own += delta
	}
	k.mu.Unlock()
	switch {
	case q.opts.Shared == nil:
	case !current:
		q.opts.Shared.Correct(keyID, month, delta)
	default:
		// Whichever count it is: the one that was begun from the store has the job's units as well.
		if used, ok := shared.Add(0, delta, delta); ok {
			k.learn(month, used)
		}
	}
}

// learn notes what is used, as the shared count says.
func (k *keyMonth) learn(month time.Time, used int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.month.Equal(month) {
		k.known, k.base, k.own = true, used, 0
	}
}

// key returns the entry of a key.
func (q *Quota) key(accountID, keyID string) *keyMonth {
	q.mu.Lock()
	defer q.mu.Unlock()
	k := q.keys[keyID]
	if k == nil {
		k = &keyMonth{accountID: accountID, keyID: keyID}
		q.keys[keyID] = k
	}
	return k
}

// turn begins a month if another one was counted, and returns the count that nodes share.
func (q *Quota) turn(k *keyMonth, month, now time.Time) Count {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.month.Equal(month) {
		shared := k.wasShared
		if q.opts.Shared != nil && !k.wasMonth.Equal(month) {
			retire(shared)
			shared = q.opts.Shared.Month(k.keyID, month)
		}
		k.wasMonth, k.wasShared = k.month, k.shared
		k.month, k.shared, k.known, k.base, k.own, k.open = month, shared, false, 0, 0, 0
	}
	k.usedAt = now
	return k.shared
}

// retire ends a shared count, which may be nil.
func retire(c Count) {
	if c != nil {
		c.Retire()
	}
}

// load reads what the key has used this month, once.
func (q *Quota) load(k *keyMonth, month time.Time) error {
	known := func() bool {
		k.mu.Lock()
		defer k.mu.Unlock()
		return k.known || !k.month.Equal(month)
	}
	if known() {
		return nil
	}
	k.loading.Lock()
	defer k.loading.Unlock()
	if known() {
		return nil
	}
	sum, err := q.read(k, month)
	if err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.month.Equal(month) {
		k.known, k.base = true, sum
	}
	return nil
}

func (q *Quota) read(k *keyMonth, month time.Time) (int64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), quotaPatience)
	defer cancel()
	return q.sum(ctx, k.accountID, k.keyID, month)
}

// Run compares the counts with the store from time to time, until ctx ends. A count that is too low, because calls ran
// when the limit was set or because what counted it has lost its data, is raised.
func (q *Quota) Run(ctx context.Context) {
	for range pace.Every(ctx, quotaEvery) {
		q.compare(ctx)
	}
}

// compare compares all counts with the store, and forgets those that nobody uses.
func (q *Quota) compare(ctx context.Context) {
	now := q.opts.Now()
	q.mu.Lock()
	all := make([]*keyMonth, 0, len(q.keys))
	for id, k := range q.keys {
		k.mu.Lock()
		if now.Sub(k.usedAt) > quotaForget && k.open == 0 && (k.shared == nil || k.shared.Idle()) {
			retire(k.shared)
			retire(k.wasShared)
			delete(q.keys, id)
		} else {
			all = append(all, k)
		}
		k.mu.Unlock()
	}
	q.mu.Unlock()
	month := usage.MonthOf(now)
	for _, k := range all {
		if ctx.Err() != nil {
			return
		}
		if err := q.compareOne(k, month); err != nil {
			q.opts.Log.Warn("the units of a key could not be compared with the database", "key_id", k.keyID, "error", err.Error())
		}
	}
}

// compareOne compares the count of a key with the store.
func (q *Quota) compareOne(k *keyMonth, month time.Time) error {
	if shared := q.turn(k, month, k.lastUse()); shared != nil {
		used, err := shared.Raise(func() (int64, error) { return q.read(k, month) })
		if err == nil {
			k.learn(month, used)
		}
		return err
	}
	k.mu.Lock()
	before := k.own
	k.mu.Unlock()
	sum, err := q.read(k, month)
	if err == nil {
		k.raise(month, sum, before, q.opts.Nodes() > 1)
	}
	return err
}

func (k *keyMonth) lastUse() time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.usedAt
}

// raise makes what is known at least what the store knows. Apart means that other nodes have added to the sum, too;
// before is what this node had added when it was read.
func (k *keyMonth) raise(month time.Time, sum, before int64, apart bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case !k.month.Equal(month) || !k.known:
	case apart:
		k.base, k.own = sum, k.own-before+k.open
	default:
		k.base = max(k.base, sum-k.own)
	}
}
