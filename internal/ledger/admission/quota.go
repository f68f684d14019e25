package admission

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"sluice/internal/account"
	"sluice/internal/kit/fault"
	"sluice/internal/kit/pace"
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
// A process that is alone counts in memory, exactly. Nodes that share a Counts count there, exactly as well. Nodes
// that share nothing, or cannot reach it, go by what was last known and assume that every other node uses as much as
// they do.
type Quota struct {
	sum  Sum
	opts QuotaOptions

	mu   sync.Mutex // guards keys; never held during a round trip
	keys map[string]*keyMonth
}

// Sum returns the thousandths of units that the store knows a key to have used or reserved since the start of a month.
type Sum func(ctx context.Context, accountID, keyID string, month time.Time) (int64, error)

// Counts is a count that several nodes share; *redisledger.Ledger is one. Amounts are thousandths of units. Made is the
// number of the count: a count that was lost and begun again has another one. Methods wait for a short time only.
type Counts interface {
	// ReserveUnits adds units to the count of a key in a month unless it would exceed the limit, and returns the count.
	// Made is 0 if there is no count yet.
	ReserveUnits(keyID, month string, limit, units int64) (used, made int64, ok bool, err error)
	// AdjustUnits adds delta to the count with the number made, or whole to one with another number, and returns the
	// count. It does nothing if there is none.
	AdjustUnits(keyID, month string, made, delta, whole int64) (used int64, err error)
	// RaiseUnits makes the count at least as high as what the store knows, and begins it if there is none.
	RaiseUnits(keyID, month string, atLeast int64) error
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

	loading sync.Mutex // held while the sum is read or a debt is paid, so that calls at the same time do it once
	mu      sync.Mutex // guards the rest
	month   string
	known   bool      // base was read
	base    int64     // what was used when the count was last read
	own     int64     // what this node has added since
	open    int64     // of that, what running calls hold; not counted with a shared count
	made    int64     // of the shared count, as seen last
	owed    int64     // what the shared count could not be told
	usedAt  time.Time // when a call last asked
}

// Reserved is what a call holds of its key's month. The zero value is nothing.
type Reserved struct {
	key   *keyMonth
	month string
	units int64
	made  int64
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

// monthOf names the month of a time, in UTC.
func monthOf(t time.Time) string { return t.UTC().Format("2006-01") }

// startOf returns the start of the month with a name that monthOf has made.
func startOf(month string) time.Time {
	t, _ := time.Parse("2006-01", month)
	return t
}

// reserve takes units of a key's month. It returns nothing reserved and what is used if the limit is in the way, and
// an error if nobody can say.
func (q *Quota) reserve(accountID, keyID string, limit account.Limit, units int64) (Reserved, int64, error) {
	k := q.key(accountID, keyID)
	now := q.opts.Now()
	month, most := monthOf(now), int64(limit)*1000
	k.turn(month, now)
	if q.opts.Shared != nil {
		if r, used, err := q.reserveShared(k, month, most, units); err == nil {
			return r, used, nil
		}
	}
	return q.reserveHere(k, month, most, units)
}

// reserveShared is reserve in the count that nodes share.
func (q *Quota) reserveShared(k *keyMonth, month string, most, units int64) (Reserved, int64, error) {
	q.pay(k)
	for try := 0; ; try++ {
		used, made, ok, err := q.opts.Shared.ReserveUnits(k.keyID, month, most, units)
		if err != nil {
			return Reserved{}, 0, err
		}
		if made == 0 {
			if try > 0 {
				return Reserved{}, 0, errNoCount
			}
			sum, err := q.read(k, month)
			if err != nil {
				return Reserved{}, 0, err
			}
			if err := q.opts.Shared.RaiseUnits(k.keyID, month, sum); err != nil {
				return Reserved{}, 0, err
			}
			continue
		}
		k.mu.Lock()
		if k.month == month {
			k.known, k.base, k.own, k.made = true, used, k.owed, made
		}
		k.mu.Unlock()
		if !ok {
			return Reserved{}, used, nil
		}
		return Reserved{k, month, units, made}, used, nil
	}
}

var errNoCount = errors.New("the count of a key's units was lost as soon as it was made")

// reserveHere is reserve by what this node knows.
func (q *Quota) reserveHere(k *keyMonth, month string, most, units int64) (Reserved, int64, error) {
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
	if q.opts.Shared == nil {
		k.open += units
	} else {
		k.owed += units
	}
	return Reserved{k, month, units, k.made}, k.base + k.own, nil
}

// settle ends a reservation with what the call cost. It does nothing for the zero value.
func (q *Quota) settle(r Reserved, units int64) {
	if r.key == nil {
		return
	}
	k, delta := r.key, units-r.units
	k.mu.Lock()
	current := k.month == r.month
	same := k.made == r.made
	if q.opts.Shared == nil && current {
		k.own += delta
		k.open -= r.units
	}
	k.mu.Unlock()
	if q.opts.Shared == nil {
		return
	}
	if delta == 0 && (same || !current) {
		return // the usual case: the count has it
	}
	used, err := q.opts.Shared.AdjustUnits(k.keyID, r.month, r.made, delta, units)
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.month != r.month:
	case err == nil:
		k.base, k.own = used, k.owed
	default:
		k.own += delta
		k.owed += delta
	}
}

// correct adds to the count of a key in a month, if there is one.
func (q *Quota) correct(keyID, month string, delta int64) {
	q.mu.Lock()
	k := q.keys[keyID]
	q.mu.Unlock()
	if q.opts.Shared != nil {
		// Whichever count it is: the one that was begun from the store has the job's units as well.
		_, _ = q.opts.Shared.AdjustUnits(keyID, month, 0, delta, delta) // a failure leaves the count too high, which is safe
		return
	}
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.known && k.month == month {
		k.own += delta
	}
}

// pay tells the shared count what it could not be told before.
func (q *Quota) pay(k *keyMonth) {
	owing := func() (owed, made int64, month string) {
		k.mu.Lock()
		defer k.mu.Unlock()
		return k.owed, k.made, k.month
	}
	if owed, _, _ := owing(); owed == 0 {
		return
	}
	k.loading.Lock() // nobody else tells it at the same time
	defer k.loading.Unlock()
	owed, made, month := owing()
	if owed == 0 {
		return
	}
	if _, err := q.opts.Shared.AdjustUnits(k.keyID, month, made, owed, 0); err != nil {
		return
	}
	k.mu.Lock()
	if k.month == month {
		k.owed -= owed
	}
	k.mu.Unlock()
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

// turn begins a month if another one was counted.
func (k *keyMonth) turn(month string, now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.month != month {
		k.month, k.known, k.base, k.own, k.open, k.made, k.owed = month, false, 0, 0, 0, 0, 0
	}
	k.usedAt = now
}

// load reads what the key has used this month, once.
func (q *Quota) load(k *keyMonth, month string) error {
	known := func() bool {
		k.mu.Lock()
		defer k.mu.Unlock()
		return k.known || k.month != month
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
	if k.month == month {
		k.known, k.base = true, sum
	}
	return nil
}

func (q *Quota) read(k *keyMonth, month string) (int64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), quotaPatience)
	defer cancel()
	return q.sum(ctx, k.accountID, k.keyID, startOf(month))
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
		if now.Sub(k.usedAt) > quotaForget && k.open == 0 && k.owed == 0 {
			delete(q.keys, id)
		} else {
			all = append(all, k)
		}
		k.mu.Unlock()
	}
	q.mu.Unlock()
	month := monthOf(now)
	for _, k := range all {
		if ctx.Err() != nil {
			return
		}
		k.turn(month, k.lastUse())
		if q.opts.Shared != nil {
			q.pay(k)
		}
		k.mu.Lock()
		before := k.own
		k.mu.Unlock()
		sum, err := q.read(k, month)
		if err == nil && q.opts.Shared != nil {
			err = q.opts.Shared.RaiseUnits(k.keyID, month, sum)
		}
		if err != nil {
			q.opts.Log.Warn("the units of a key could not be compared with the database", "key_id", k.keyID, "error", err.Error())
			continue
		}
		k.raise(month, sum, before, q.opts.Shared == nil && q.opts.Nodes() > 1)
	}
}

func (k *keyMonth) lastUse() time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.usedAt
}

// raise makes what is known at least what the store knows. Apart means that other nodes have added to the sum, too;
// before is what this node had added when it was read.
func (k *keyMonth) raise(month string, sum, before int64, apart bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.month != month || !k.known:
	case apart:
		k.base, k.own = sum, k.own-before+k.open
	default:
		k.base = max(k.base, sum-k.own)
	}
}
