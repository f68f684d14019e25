package cluster

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// database is a Store in memory, whose clock is that of the test.
type database struct {
	mu        sync.Mutex
	state     State
	jobs      map[string]*job
	away      bool // statements fail
	listeners map[*func(string)]chan struct{}
	claims    atomic.Int64 // calls of ClaimJob
}

type job struct {
	holder            string
	began, until, due time.Time
}

var errAway = errors.New("the database is away")

func newDatabase() *database {
	return &database{jobs: map[string]*job{}, listeners: map[*func(string)]chan struct{}{}}
}

// do runs a statement, unless the database is away.
func (d *database) do(statement func() error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.away {
		return errAway
	}
	d.state.Now = time.Now()
	return statement()
}

func (d *database) setAway(away bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.away = away
}

// link is what one node has of the database; it can be cut.
type link struct {
	*database
	frozen atomic.Bool // statements wait for their deadline
}

func (l *link) do(ctx context.Context, statement func() error) error {
	if l.frozen.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	return l.database.do(statement)
}

func (l *link) Beat(ctx context.Context, id, life, address string, list int64) (s State, ok bool, err error) {
	err = l.do(ctx, func() error {
		i := slices.IndexFunc(l.state.Nodes, func(n Node) bool { return n.ID == id && n.Life == life })
		if ok = i >= 0; ok {
			n := &l.state.Nodes[i]
			n.SeenAt, n.List, n.Address = l.state.Now, list, address
			s = *l.state.clone()
		}
		return nil
	})
	return s, ok, err
}

func (l *link) ChangeCluster(ctx context.Context, change func(*State) error) error {
	return l.do(ctx, func() error {
		s := l.state.clone()
		if err := change(s); err != nil {
			return err
		}
		slices.SortFunc(s.Nodes, func(a, b Node) int { return cmpText(a.ID, b.ID) })
		l.state = *s
		return nil
	})
}

// clone returns a copy with rows of its own.
func (s *State) clone() *State {
	c := *s
	c.Nodes = slices.Clone(s.Nodes)
	return &c
}

func cmpText(a, b string) int {
	if a < b {
		return -1
	}
	return 1
}

func (l *link) ClaimJob(ctx context.Context, name, holder string, lease time.Duration) (claimed bool, wait time.Duration, err error) {
	l.claims.Add(1)
	err = l.do(ctx, func() error {
		j, now := l.jobs[name], l.state.Now
		if j == nil {
			j = &job{}
			l.jobs[name] = j
		}
		if claimed = !j.until.After(now) && !j.due.After(now); claimed {
			j.holder, j.began, j.until = holder, now, now.Add(lease)
		} else {
			wait = max(j.until.Sub(now), j.due.Sub(now))
		}
		return nil
	})
	return claimed, wait, err
}

func (l *link) RenewJob(ctx context.Context, name, holder string, lease time.Duration) (ok bool, err error) {
	err = l.do(ctx, func() error {
		j, now := l.jobs[name], l.state.Now
		if ok = j.holder == holder && j.until.After(now); ok {
			j.until = now.Add(lease)
		}
		return nil
	})
	return ok, err
}

func (l *link) EndJob(ctx context.Context, name, holder string, every time.Duration) error {
	return l.do(ctx, func() error {
		if j := l.jobs[name]; j.holder == holder {
			j.holder, j.until, j.due = "", time.Time{}, time.Time{}
			if every > 0 {
				j.due = j.began.Add(every)
			}
		}
		return nil
	})
}

func (l *link) Notify(ctx context.Context, message string) error {
	return l.do(ctx, func() error {
		for got := range l.listeners {
			(*got)(message)
		}
		return nil
	})
}

func (l *link) Listen(ctx context.Context, ready func(), got func(string)) error {
	broken := make(chan struct{})
	if err := l.do(ctx, func() error {
		ready()
		l.listeners[&got] = broken
		return nil
	}); err != nil {
		return err
	}
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.listeners, &got)
	}()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-broken:
		return errAway
	}
}

// hangUp breaks the connections of all that listen.
func (d *database) hangUp() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for got, broken := range d.listeners {
		close(broken)
		delete(d.listeners, got)
	}
}
