package redisledger

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"sluice/internal/ledger/cluster"
)

// errCut is what a node hears of a database that it does not reach.
var errCut = errors.New("the database does not answer")

// simDatabase is the database that simulated nodes share. Its clock is the test's.
type simDatabase struct {
	memo
	mu    sync.Mutex
	state cluster.State
	seen  time.Time // when the rows that nodes get were copied; zero: something has changed since
	rows  []cluster.Node
}

// simLink is what one node has of it: a cluster.Store that carries no messages and no jobs, and a Memory.
type simLink struct {
	cluster.Store
	*simDatabase
	cut atomic.Bool
}

func (l *simLink) do(statement func() error) error {
	if l.cut.Load() {
		return errCut
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state.Now = time.Now()
	return statement()
}

func (d *simDatabase) find(id string) (int, bool) {
	return slices.BinarySearchFunc(d.state.Nodes, id, func(n cluster.Node, id string) int { return strings.Compare(n.ID, id) })
}

// Beat implements cluster.Store. A thousand nodes beat, so signs of life are copied five times a second, and what
// matters more at once.
func (l *simLink) Beat(_ context.Context, id, life, _ string, list int64) (s cluster.State, ok bool, err error) {
	err = l.do(func() error {
		i, found := l.find(id)
		if ok = found && l.state.Nodes[i].Life == life; !ok {
			return nil
		}
		n := &l.state.Nodes[i]
		if n.List != list {
			l.seen = time.Time{}
		}
		n.SeenAt, n.List = l.state.Now, list
		if l.state.Now.Sub(l.seen) >= time.Second/5 {
			l.seen, l.rows = l.state.Now, slices.Clone(l.state.Nodes)
		}
		s = l.state
		s.Nodes = l.rows
		return nil
	})
	return s, ok, err
}

// ChangeCluster implements cluster.Store.
func (l *simLink) ChangeCluster(_ context.Context, change func(*cluster.State) error) error {
	return l.do(func() error {
		s := l.state
		s.Nodes = slices.Clone(s.Nodes)
		if err := change(&s); err != nil {
			return err
		}
		slices.SortFunc(s.Nodes, func(a, b cluster.Node) int { return strings.Compare(a.ID, b.ID) })
		l.state, l.seen = s, time.Time{}
		return nil
	})
}

// LedgerTable implements Memory.
func (l *simLink) LedgerTable(ctx context.Context) (string, error) {
	if l.cut.Load() {
		return "", errCut
	}
	return l.memo.LedgerTable(ctx)
}

// KeepLedgerTable implements Memory.
func (l *simLink) KeepLedgerTable(ctx context.Context, table string) error {
	if l.cut.Load() {
		return errCut
	}
	return l.memo.KeepLedgerTable(ctx, table)
}

// smallest returns the number of nodes in the smallest list by which limits are divided.
func (d *simDatabase) smallest() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := len(d.state.Base)
	for _, list := range [][]string{d.state.Former, d.state.Next} {
		if len(list) > 0 {
			n = min(n, len(list))
		}
	}
	return n
}
