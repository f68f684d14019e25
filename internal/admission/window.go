package admission

// span is the length of every window: one minute, in milliseconds (docs/api.md#windows).
const span = 60_000

// window is an exact sliding window: what was taken in the last minute, entry by entry. Times are
// milliseconds of a clock that only goes forward.
//
// An entry counts from the end of the millisecond it was made in until a whole minute later, so that
// no span of sixty seconds ever holds more than was allowed. Costs are whole numbers: thousandths of a
// request, or tokens.
type window struct {
	entries []entry // by time, oldest first; entries[:head] have expired
	head    int
	sum     int64
}

type entry struct {
	at   int64
	cost int64
}

// expire forgets what is a minute old.
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

// wait is how long until a cost fits under the limit if nobody else takes anything; 0: it fits now;
// negative: never, since it exceeds the whole limit.
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

// take adds a cost and returns the time of its entry, for give.
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

// give takes a cost back out of the entry made at that time, as far as it still counts.
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

// reset is how long until nothing is left in the window.
func (w *window) reset(now int64) int64 {
	w.expire(now)
	if w.sum == 0 {
		return 0
	}
	return w.entries[len(w.entries)-1].at + span - now
}

// empty reports whether there is nothing to remember.
func (w *window) empty(now int64) bool {
	w.expire(now)
	return len(w.entries) == 0
}
