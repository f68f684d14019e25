package admission

// span is the length of every window: one minute, in milliseconds (docs/api.md#windows).
const span = 60_000

// window is an exact sliding window: one entry for each millisecond of the last minute in which something
// was taken. Times are milliseconds of a monotonic clock. Costs are whole numbers: thousandths of a
// request, or tokens. A window has no lock; its shard's lock guards it.
//
// An entry counts from the end of its millisecond until a whole minute later. So no span of sixty
// seconds ever holds more than was allowed, wherever it starts.
type window struct {
	entries []entry // oldest first; entries[:head] have expired
	head    int
	sum     int64 // of the costs of entries[head:]
}

// entry is what was taken in one millisecond.
type entry struct {
	at   int64 // the end of that millisecond
	cost int64
}

// expire drops the entries that are a minute old. It moves the others to the front only once more than
// half of the slice has expired, so that the cost per entry stays constant.
func (w *window) expire(now int64) {
	for w.head < len(w.entries) && w.entries[w.head].at+span <= now {
		w.sum -= w.entries[w.head].cost
		w.head++
	}
	if w.head == len(w.entries) {
		w.entries, w.head = w.entries[:0], 0
	} else if w.head > 64 && w.head > len(w.entries)/2 {
		w.entries = append(w.entries[:0], w.entries[w.head:]...)
		w.head = 0
	}
}

// wait returns the milliseconds until a cost fits under the limit if nothing else is taken. It is 0 if the
// cost fits now, and negative if it exceeds the whole limit and never fits.
func (w *window) wait(now, cost, limit int64) int64 {
	w.expire(now)
	if cost > limit {
		return -1
	}
	over := w.sum + cost - limit
	if over <= 0 {
		return 0
	}
	for _, e := range w.entries[w.head:] {
		if over -= e.cost; over <= 0 {
			return e.at + span - now
		}
	}
	return span // cannot happen: without entries the sum is zero
}

// take adds a cost and returns the time of its entry, which give needs. Calls must not go back in time.
func (w *window) take(now, cost int64) int64 {
	at := now + 1
	if cost == 0 {
		return at
	}
	w.sum += cost
	if n := len(w.entries); n > w.head && w.entries[n-1].at == at {
		w.entries[n-1].cost += cost
	} else {
		w.entries = append(w.entries, entry{at, cost})
	}
	return at
}

// give returns a cost to the entry made at that time. It does nothing if the entry has expired.
func (w *window) give(now, at, cost int64) {
	w.expire(now)
	lo, hi := w.head, len(w.entries)
	for lo < hi {
		mid := (lo + hi) / 2
		if w.entries[mid].at < at {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo == len(w.entries) || w.entries[lo].at != at {
		return
	}
	cost = min(cost, w.entries[lo].cost)
	w.entries[lo].cost -= cost
	w.sum -= cost
}

// reset returns the milliseconds until the window is empty.
func (w *window) reset(now int64) int64 {
	w.expire(now)
	if w.sum == 0 {
		return 0
	}
	return w.entries[len(w.entries)-1].at + span - now
}

// since calls yield for each entry made after a time that still counts, oldest first.
func (w *window) since(now, after int64, yield func(entry)) {
	w.expire(now)
	for _, e := range w.entries[w.head:] {
		if e.at > after && e.cost > 0 {
			yield(e)
		}
	}
}

// empty reports whether the window holds no entry.
func (w *window) empty(now int64) bool {
	w.expire(now)
	return len(w.entries) == 0
}
