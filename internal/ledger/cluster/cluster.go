// Package cluster knows which servers share a database, lets work run on one of them at a time, and carries
// small messages between them.
//
// Each server is a node. It has a row in the database, and shows every two seconds that it lives. Join puts
// the row there and keeps it up to date until Leave; Nodes says from memory who else lives. All rules about
// the rows are methods of State and look at nothing but a State, whose times are those of the database: the
// clocks of the nodes do not matter. A Store applies them in one transaction.
//
// Servers that do not count limits together divide them (see admission.Divided). The lists of nodes that
// they divide by change here, in a way in which the parts of all nodes never add up to more than a limit; see
// State.advance.
//
// With SQLite there is one process, and nothing of this costs it anything: Single returns a Cluster of one.
package cluster

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"sluice/internal/kit/fault"
	"sluice/internal/kit/health"
	"sluice/internal/kit/pace"
	"sluice/internal/ledger/admission"
)

const (
	// beatEvery is how often a node shows that it lives. forget is several times as long, so one lost beat means nothing.
	beatEvery = 2 * time.Second
	// deadline bounds one question to the database. A connection that is frozen costs one beat.
	deadline = 2 * time.Second
	// forget is how long a node may be silent before it counts as dead.
	forget = 15 * time.Second
	// watchFor is how long a node must have been in touch with the database, without a break, before it
	// judges that others are silent: three beats. After an outage of the database everybody seems to be.
	watchFor = 6 * time.Second
	// patience is how long a server waits for another to stop that it cannot run beside. A restart that starts
	// the new process before the old one has gone is common.
	patience = 20 * time.Second
	// tryEvery is how often it looks meanwhile.
	tryEvery = 500 * time.Millisecond
	// remindEvery is how often a server that has lost its place says so.
	remindEvery = time.Minute
)

// Mode is how a node counts the limits of accounts.
type Mode string

const (
	// Alone counts in memory, as if there were no other node; so there must be none.
	Alone Mode = "alone"
	// Approximate divides each limit by the number of nodes.
	Approximate Mode = "approximate"
	// Exact counts together with other nodes, in Redis.
	Exact Mode = "exact"
)

// ModeOf returns the mode of a node that counts in Redis or not, and divides limits or not. Redis comes first: it
// counts what dividing only estimates.
func ModeOf(redis, divides bool) Mode {
	switch {
	case redis:
		return Exact
	case divides:
		return Approximate
	}
	return Alone
}

// Store is the database that the nodes share. Each method is one transaction or one statement. Times are those
// of the database's clock.
type Store interface {
	// Beat notes that a node lives, where it is reached and which list it has seen, and returns the state. It reports
	// false, and changes nothing, if the node has no row with this life.
	Beat(ctx context.Context, id, life, address string, list int64) (State, bool, error)
	// ChangeCluster applies change to the state under a lock and stores the result. If change returns an error,
	// nothing is stored and ChangeCluster returns that error.
	ChangeCluster(ctx context.Context, change func(*State) error) error
	JobStore
	BusStore
}

// Options are the choices of Join; the zero value is the default.
type Options struct {
	Version string       // of the program, for people
	Host    string       // the name of the machine, for people
	Log     *slog.Logger // default: nothing is logged
}

// Cluster is this node's view of the nodes. It is safe for concurrent use.
type Cluster struct {
	store Store // nil for a cluster of one
	me    Node
	log   *slog.Logger
	bus   bus

	state atomic.Pointer[State] // as the last beat saw it; nil for a cluster of one
	views atomic.Pointer[[]admission.View]
	heard atomic.Pointer[time.Time] // when the last beat succeeded

	address atomic.Pointer[string] // where other nodes reach this one; nil: not known yet
	wake    chan struct{}          // of size 1; makes the next beat come at once

	stop    context.CancelFunc
	beating sync.WaitGroup

	// The fields below belong to whoever beats: Join, and then its goroutine.
	seen    int64                // the list that views are from
	contact time.Time            // since when every beat has succeeded; zero: the last one has failed
	missing map[string]time.Time // nodes of State.Base that have no row, and since when they were seen to have none
	warned  time.Time            // when the log was last told that this node has lost its place

	lost atomic.Pointer[loss] // nil if this node has its place
}

// loss is why a node has no place.
type loss struct{ err error }

// Single returns the cluster of a server that shares its database with nobody.
func Single() *Cluster { return &Cluster{log: slog.New(slog.DiscardHandler)} }

// Join makes this process one of the nodes on a database, and keeps it one until Leave. id names the node and
// stays the same when it restarts; no two living processes may have the same. opts may be nil.
//
// A node in mode Alone, and any node beside it, waits for the other to go. If it does not within 20 seconds,
// Join returns an error that says what to do.
//
// Join starts a goroutine, so that the node counts as alive during a long start; Leave ends it.
func Join(ctx context.Context, store Store, id string, mode Mode, opts *Options) (*Cluster, error) {
	c := Single()
	c.store, c.missing, c.wake = store, map[string]time.Time{}, make(chan struct{}, 1)
	c.me = Node{ID: id, Life: strings.ToLower(rand.Text()), Mode: mode}
	if opts != nil {
		c.me.Version, c.me.Host = opts.Version, opts.Host
		if opts.Log != nil {
			c.log = opts.Log
		}
	}
	c.bus.init(store, c.me.Life, c.log)
	if err := c.enter(ctx); err != nil {
		return nil, err
	}
	if err := c.beat(ctx); err != nil {
		c.remove(ctx)
		return nil, fmt.Errorf("join the servers on this database: %w", err)
	}
	// The node must look alive until Leave, also while a stop lasts, so the beats do not end with ctx.
	beating, stop := context.WithCancel(context.WithoutCancel(ctx))
	c.stop = stop
	c.beating.Go(func() { c.keepBeating(beating) })
	c.awaitShare(ctx)
	if mode == Approximate {
		rank, nodes := c.Share()
		c.log.Warn("limits are approximate: each server on this database admits its share of them", "rank", rank, "servers", nodes, "hint", "set redis on all servers to share exact limits")
	}
	return c, nil
}

// enter gives the node its row, and waits while another node is in the way.
func (c *Cluster) enter(ctx context.Context) error {
	began := time.Now()
	for told := false; ; {
		c.contact = began // nothing but a failure breaks it, and that ends the wait
		blocker, err := c.tryEnter(ctx, false)
		if err != nil {
			return fmt.Errorf("join the servers on this database: %w", err)
		}
		if blocker == nil {
			return nil
		}
		if time.Since(began) >= patience {
			return refusal(c.me.Mode, blocker)
		}
		if !told {
			told = true
			c.log.Warn("another server is using this database; waiting for it to stop", "node", blocker.ID, "host", blocker.Host, "up_to", patience.String())
		}
		if pace.Sleep(ctx, tryEvery) != nil {
			return ctx.Err()
		}
	}
}

// tryEnter puts the node's row into the table, or returns the node in the way. Again says that the node had a
// row before, in this life.
func (c *Cluster) tryEnter(ctx context.Context, again bool) (blocker *Node, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*deadline)
	defer cancel()
	err = c.store.ChangeCluster(ctx, func(s *State) error {
		if blocker = s.admit(&c.me, again, c.watched()); blocker != nil {
			return errInTheWay
		}
		return nil
	})
	if errors.Is(err, errInTheWay) {
		return blocker, nil
	}
	return nil, err
}

// errInTheWay undoes a transaction; its caller knows which node it is.
var errInTheWay = errors.New("another server is in the way")

// refusal says why a node may not run beside another, and what to do.
func refusal(mode Mode, other *Node) error {
	who := fmt.Sprintf("another server uses this database: node %s, version %s, running since %s", NodeName(other.ID, other.Host), other.Version, other.StartedAt.Format(time.RFC3339))
	if mode != Alone {
		return fmt.Errorf("%s; it was started as the only one and counts limits by itself. Give it the same redis or cluster setting as this one, and restart it first", who)
	}
	return fmt.Errorf("%s. Two servers that know nothing of each other would admit twice of every limit. To run several, give all of them redis: redis://host:6379, to share exact limits, or cluster: approximate, to divide each limit among them. To run one, stop the other first", who)
}

// awaitShare waits until the node may admit calls, if that is a matter of seconds: nodes that start together
// wait for each other. A server that begins to serve without a part of the limits would refuse its first calls.
func (c *Cluster) awaitShare(ctx context.Context) {
	var most time.Duration
	if s := c.state.Load(); s.Next != nil || s.mayPropose() {
		most = gather + 2*beatEvery
	}
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	for c.Ready() != nil {
		if pace.Sleep(ctx, beatEvery/20) != nil {
			c.log.Warn("not ready yet", "reason", errNoShare.Error())
			return
		}
	}
}

// Leave removes the node's row, so that the others know at once. If the database does not answer within
// seconds, they notice by the silence.
func (c *Cluster) Leave(ctx context.Context) {
	if c.store == nil {
		return
	}
	c.stop()
	c.beating.Wait()
	c.remove(ctx)
}

// remove takes the node's row away. It runs after ctx has ended as well, because a stop is when it is needed.
func (c *Cluster) remove(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*deadline)
	defer cancel()
	if err := c.store.ChangeCluster(ctx, func(s *State) error { s.remove(&c.me); return nil }); err != nil {
		c.log.Warn("this server could not be removed from the list; others will notice that it is gone", "error", err.Error())
	}
}

// Nodes returns who has a row in the database, dead nodes as well, ordered by id, as the last beat saw it. There are
// none in a cluster of one.
func (c *Cluster) Nodes() []Node {
	s := c.state.Load()
	if s == nil {
		return nil
	}
	nodes := slices.Clone(s.Nodes)
	for i := range nodes {
		n := &nodes[i]
		n.Alive, n.Me = s.alive(n), n.ID == c.me.ID && n.Life == c.me.Life
	}
	return nodes
}

// Announce tells the other nodes where they reach this one, as a URL without a path. They learn it within two beats.
func (c *Cluster) Announce(address string) {
	if c.store == nil {
		return
	}
	c.address.Store(&address)
	pace.Wake(c.wake)
}

// Now returns the time of the database's clock, as far as this node knows it: nodes that compare times compare these.
// With nodes around it is right within a few seconds. A cluster of one has its own clock.
func (c *Cluster) Now() time.Time {
	s := c.state.Load()
	if s == nil {
		return time.Now()
	}
	return s.Now.Add(time.Since(*c.heard.Load()))
}

// Views returns the lists of nodes by which this node must divide limits now. It takes no lock.
func (c *Cluster) Views() []admission.View {
	if v := c.views.Load(); v != nil {
		return *v
	}
	return nil
}

// Share returns the rank of this node and the number of nodes, for a ledger that must divide limits for a
// while. 0 nodes mean that this one has no part of them.
func (c *Cluster) Share() (rank, nodes int) {
	if c.store == nil {
		return 0, 1
	}
	var most admission.View
	for _, v := range c.Views() {
		if v.Nodes == 0 {
			return 0, 0
		}
		if v.Nodes > most.Nodes {
			most = v
		}
	}
	return most.Rank, most.Nodes
}

// Live returns the number of living nodes.
func (c *Cluster) Live() int {
	s := c.state.Load()
	if s == nil {
		return 1
	}
	n := 0
	for i := range s.Nodes {
		if s.alive(&s.Nodes[i]) {
			n++
		}
	}
	return n
}

// List returns the number of the lists that this node goes by. Current: the other nodes wait for this one before
// they go by others. If it has been cut off from the database for a while, they do not.
func (c *Cluster) List() (number int64, current bool) {
	s := c.state.Load()
	if s == nil {
		return 0, true
	}
	return s.List, time.Since(*c.heard.Load()) < forget
}

// Ready returns nil if this node may serve, and otherwise why not: another has taken its place, or it has no
// part of the limits yet. That the database does not answer is no reason: a node that knew its place keeps it.
func (c *Cluster) Ready() error {
	if c.store == nil {
		return nil
	}
	if err := c.Lost(); err != nil {
		return err
	}
	if _, n := c.Share(); c.me.Mode == Approximate && n == 0 {
		return errNoShare
	}
	return nil
}

// Lost returns an error if another node has taken the place of this one, which must not admit calls then. It takes no
// lock.
func (c *Cluster) Lost() error {
	if l := c.lost.Load(); l != nil {
		return l.err
	}
	return nil
}

// Admits is Lost for admission: the fault that callers get.
func (c *Cluster) Admits() error {
	if err := c.Lost(); err != nil {
		return fault.New(fault.Unavailable, "Another server has taken the place of this one, so it lets no call in. Try again shortly.").After(5 * time.Second).Because(err)
	}
	return nil
}

// Look says whether this node is one of those that serve.
func (c *Cluster) Look(context.Context) health.Finding {
	if err := c.Ready(); err != nil {
		return health.Finding{Failed: true, Message: err.Error(), Err: err}
	}
	return health.Finding{Message: c.Note()}
}

// errNoShare lasts at most a minute: lists of nodes change no faster.
var errNoShare = errors.New("this server has just joined the others, has no part of the limits yet, and refuses calls; it gets one within a minute")

// Note returns a remark for operators, or "".
func (c *Cluster) Note() string {
	if c.store == nil {
		return ""
	}
	var notes []string
	if c.me.Mode == Approximate {
		_, n := c.Share()
		notes = append(notes, fmt.Sprintf("limits are approximate: each of %d servers admits its share of them", n))
	}
	for _, n := range c.Nodes() {
		if n.Alive && n.Mode != c.me.Mode {
			notes = append(notes, "some servers share limits in Redis and others divide them, so accounts may get up to twice their limits; give all the same setting")
			break
		}
	}
	if !c.Connected() {
		notes = append(notes, "messages of other servers do not arrive at the moment")
	}
	return strings.Join(notes, "; ")
}

// ID returns the name of this node, which stays the same when it restarts; empty for a cluster of one.
func (c *Cluster) ID() string { return c.me.ID }

// Life returns what tells this process from every other one; empty for a cluster of one.
func (c *Cluster) Life() string { return c.me.Life }

// Mode returns how this node counts limits; empty for a cluster of one.
func (c *Cluster) Mode() Mode { return c.me.Mode }

// Shared reports whether other nodes may serve the same accounts.
func (c *Cluster) Shared() bool { return c.me.Mode == Exact || c.me.Mode == Approximate }
