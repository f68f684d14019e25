package redisledger

import (
	"context"
	"fmt"
	"sync/atomic"

	"sluice/internal/ledger/admission"
)

// Members says which nodes there are. *cluster.Cluster does; it asks the database, and knows the answer from memory.
type Members interface {
	// ID names this node among the others. With a name that lasts, a node that restarts takes its own place again.
	ID() string
	// Live returns the number of living nodes.
	Live() int
	// Views returns the lists by which this node divides limits. What all nodes admit by them in a minute, whenever
	// they learn of a change, is one limit. No list at all means the whole limit.
	Views() []admission.View
	// List returns a number for these lists, which grows, and whether the others wait until this node has seen a new one.
	List() (number int64, current bool)
}

// Memory remembers outside of Redis which data is there. So a node that starts knows that Redis has lost its data,
// even if it is the first of all to see that.
type Memory interface {
	// LedgerTable returns what was kept last, or "" if nothing was.
	LedgerTable(ctx context.Context) (string, error)
	KeepLedgerTable(ctx context.Context, table string) error
}

// table is what this node knows about the data in Redis.
// Data is named by the time at which the first beat found Redis empty. Redis keeps the name. If the name changes,
// the data was lost.
type table struct {
	memory Memory
	// Whoever beats uses these: the data that this node knows, at first the one that the memory names, and the one
	// that the memory names now.
	born, kept string
	// fresh is set while the data stands for some that were lost and is less than a minute old: Redis has forgotten
	// what it had admitted, and only then nothing of that counts any more.
	fresh atomic.Bool
	// list is the number of the lists that nodes in touch with the database go by, as Redis said last. -1: not known,
	// or this node is in touch itself.
	list atomic.Int64
}

// sighting is the reply of a beat.
type sighting struct {
	now  int64  // the time of Redis
	born string // names the data
	age  int64  // of the data, in milliseconds
	lost int    // 1: some node knows other data, which was lost
	list int64
}

// readSighting reads the reply of a beat: its fields in order, separated by spaces.
func readSighting(a answer) (s sighting, err error) {
	if a.err != nil {
		return s, a.err
	}
	if _, err := fmt.Sscan(a.text, &s.now, &s.born, &s.age, &s.lost, &s.list); err != nil {
		return s, errOtherForm
	}
	return s, nil
}

// update notes what a beat has returned. It reports whether what Redis had admitted is lost, and this node did not
// know.
func (t *table) update(s sighting) (lost bool) {
	known := t.fresh.Load() && t.born == s.born
	fresh := s.lost == 1 && s.age < span
	t.born = s.born
	t.fresh.Store(fresh)
	t.list.Store(s.list)
	return fresh && !known
}

// keep makes the memory name the data. If it names older data, a node that starts takes that for a loss, which is the
// safe side, and the next beat tries again. If it names none, a node that starts would take a loss for a new Redis.
func (t *table) keep(ctx context.Context) error {
	if t.born == t.kept {
		return nil
	}
	if err := t.memory.KeepLedgerTable(ctx, t.born); err != nil {
		if t.kept == "" {
			return fmt.Errorf("remember which data is in Redis: %w", err)
		}
		return nil
	}
	t.kept = t.born
	return nil
}

// views returns the lists by which this node divides limits while it does not count in Redis. A node that is cut off
// from the database keeps its lists, unless it has learned from Redis that others go by newer ones, in which it may have
// no part.
func (l *Ledger) views() []admission.View {
	if list, current := l.members.List(); !current && l.table.list.Load() > list {
		return []admission.View{{}}
	}
	return l.members.Views()
}
