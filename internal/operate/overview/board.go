package overview

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"sluice/internal/kit/pace"
	"sluice/internal/ledger/usage"
	"sluice/internal/upstream/catalog"
	"sluice/internal/upstream/routing"
)

const (
	// sampleEvery is how often gauges are read, and how often what has changed is stored.
	sampleEvery = 5 * time.Second
	// storePatience is how long the database may take; what could not be stored is tried again.
	storePatience = 4 * time.Second
	// readEvery is how often the minutes of other nodes are read at most, while somebody looks.
	readEvery = 2 * time.Second
	// recent is how far back they are read usually, and all of them once in wholeEvery.
	recent     = 3 * time.Minute
	wholeEvery = time.Minute
)

// Store keeps the minutes of all nodes.
type Store interface {
	// StoreMinutes stores minutes of a node, over those that it has stored before, and deletes minutes of all nodes
	// that are older than before.
	StoreMinutes(ctx context.Context, node string, minutes []Minute, before time.Time) error
	// Minutes calls yield for the minutes that other nodes have stored, from a time on.
	Minutes(ctx context.Context, except string, from time.Time, yield func(node string, m Minute)) error
}

// Gauges is what is sampled.
type Gauges struct {
	Running, Streams, Journal int64
	Refused                   int64 // since the start of the process
	Targets                   []routing.TargetHealth
	// Models are the models that customers may call, with their health in a word, as routing describes it.
	Models []ModelHealth
}

// ModelHealth is the health of a model.
type ModelHealth struct{ ID, Health string }

// HealthOf returns the health of the models of a catalog that customers may call, for the record.
func HealthOf(c *catalog.Catalog, health func(*catalog.Model) string) (list []ModelHealth) {
	for _, m := range c.Models() {
		if !m.Router && !m.StaffOnly {
			list = append(list, ModelHealth{ID: m.ID, Health: health(m)})
		}
	}
	return list
}

// Options are the choices of New; the zero value is the default.
type Options struct {
	// Store and Node are set where several nodes share a database: its store, and the name of this one.
	Store Store
	Node  string
	Log   *slog.Logger // default slog.Default()
}

// Board has the minutes of this node and knows those of the others. It is safe for concurrent use.
type Board struct {
	sample func() Gauges
	opts   Options
	now    func() time.Time // replaced in tests

	mu      sync.Mutex
	minutes map[int64]*Minute // of this node, by the Unix time of their beginning
	dirty   map[int64]bool    // those that are not stored
	last    Gauges            // of the sample before; zero at the start of the process, when all sums are
	ended   int64             // minutes before it have lost their small accounts
	looked  int64             // the minute in which the health of models was last looked at

	others  sync.Mutex // guards what follows
	read    time.Time  // when minutes of other nodes were last read
	whole   time.Time  // when all of them were
	foreign map[string]map[int64]Minute

	failed bool // the last store failed; only Run uses it
}

// New returns a board. sample reads the gauges of this node. Opts may be nil.
func New(sample func() Gauges, opts *Options) *Board {
	b := &Board{sample: sample, now: time.Now, minutes: map[int64]*Minute{}, dirty: map[int64]bool{}, foreign: map[string]map[int64]Minute{}}
	if opts != nil {
		b.opts = *opts
	}
	if b.opts.Log == nil {
		b.opts.Log = slog.Default()
	}
	return b
}

// Settled counts calls that have ended. It must not be called while a caller waits.
func (b *Board) Settled(list []usage.Settlement) {
	now := b.now()
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range list {
		s := &list[i]
		// What was in the journal while the database was away still belongs to its minute. A clock that was set back does
		// not make minutes of the future.
		at := s.At.Add(s.Latency)
		if at.After(now) {
			at = now
		}
		if now.Sub(at) < Kept*time.Minute {
			b.minute(at).settled(s)
		}
	}
}

// minute returns the minute of a time, to be changed. The caller holds mu.
func (b *Board) minute(at time.Time) *Minute {
	m := b.slot(at)
	b.dirty[m.At.Unix()] = true
	return m
}

// slot returns the minute of a time. The caller holds mu.
func (b *Board) slot(at time.Time) *Minute {
	at = at.UTC().Truncate(time.Minute)
	m := b.minutes[at.Unix()]
	if m == nil {
		m = &Minute{At: at}
		b.minutes[at.Unix()] = m
	}
	return m
}

// Run samples gauges and stores minutes until ctx ends.
func (b *Board) Run(ctx context.Context) {
	for range pace.Every(ctx, sampleEvery) {
		b.look()
		if b.opts.Store != nil {
			b.store(ctx)
		}
	}
}

// look takes a sample, and drops what is too old.
func (b *Board) look() {
	g, now := b.sample(), b.now()
	b.mu.Lock()
	defer b.mu.Unlock()
	// Gauges count since the start of the process. This minute gets what was added since the last look.
	refused, targets := g.Refused-b.last.Refused, map[string]Target{}
	was := map[string]*routing.TargetHealth{}
	for i := range b.last.Targets {
		was[targetName(&b.last.Targets[i])] = &b.last.Targets[i]
	}
	for i := range g.Targets[:min(len(g.Targets), mostTargets)] {
		t := &g.Targets[i]
		old := was[targetName(t)]
		if old == nil || t.Answered < old.Answered || t.Failed < old.Failed { // it is new, or its provider was configured again
			old = &routing.TargetHealth{}
		}
		d := Target{t.Answered - old.Answered, t.Failed - old.Failed, (t.Waited - old.Waited).Milliseconds()}
		if d.Answered > 0 || d.Failed > 0 {
			targets[targetName(t)] = d
		}
	}
	b.last = g
	if refused > 0 || len(targets) > 0 || g.Running > 0 || g.Streams > 0 || g.Journal > 0 { // else nothing has to be stored
		m := b.minute(now)
		m.merge(&Minute{Refused: refused, Targets: targets})
		// The highest value of a minute says more than its last one.
		m.Running, m.Streams, m.Journal = max(m.Running, g.Running), max(m.Streams, g.Streams), max(m.Journal, g.Journal)
	}
	this := now.Truncate(time.Minute).Unix()
	if b.looked != this && len(g.Models)+len(g.Targets) > 0 {
		b.looked = this
		// Good news is not worth a row in the database every minute: the node that adds up days has looked itself.
		if bad := b.slot(now).lookedAt(&g); bad {
			b.minute(now)
		}
	}
	for key, m := range b.minutes {
		switch {
		case key <= now.Add(-Kept*time.Minute).Unix():
			delete(b.minutes, key)
			delete(b.dirty, key)
		case key < this && key >= b.ended: // over since the last look
			m.end()
		}
	}
	b.ended = this
}

// store stores what has changed.
func (b *Board) store(ctx context.Context) {
	b.mu.Lock()
	var list []Minute
	for key := range b.dirty {
		m := b.minutes[key].clone()
		m.end() // of a minute that is not over, what counts most is enough
		list = append(list, m)
	}
	clear(b.dirty)
	b.mu.Unlock()
	if len(list) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, storePatience)
	defer cancel()
	// Whatever cannot be stored now is marked again, and stored with the next look unless it is too old by then.
	err := b.opts.Store.StoreMinutes(ctx, b.opts.Node, list, b.now().Add(-Kept*time.Minute))
	if err != nil {
		b.mu.Lock()
		for i := range list {
			if key := list[i].At.Unix(); b.minutes[key] != nil {
				b.dirty[key] = true
			}
		}
		b.mu.Unlock()
	}
	if failed := err != nil; failed != b.failed && ctx.Err() == nil {
		b.failed = failed
		if failed {
			b.opts.Log.Warn("the figures of this server could not be stored for the others; they will be later", "error", err.Error())
		}
	}
}

// Minutes returns the last minutes of all nodes together, oldest first, the current one included: always Kept of them.
// While the database does not answer, those of other nodes are as they were.
func (b *Board) Minutes(ctx context.Context) []Minute {
	now := b.now().UTC()
	first := now.Truncate(time.Minute).Add(-(Kept - 1) * time.Minute)
	all := make([]Minute, Kept)
	for i := range all {
		all[i].At = first.Add(time.Duration(i) * time.Minute)
	}
	add := func(m *Minute) {
		if i := int(m.At.Sub(first) / time.Minute); i >= 0 && i < Kept && !m.At.Before(first) {
			all[i].merge(m)
		}
	}
	b.mu.Lock()
	for _, m := range b.minutes {
		add(m)
	}
	b.mu.Unlock()
	b.others.Lock()
	defer b.others.Unlock()
	b.readOthers(ctx, now)
	for _, minutes := range b.foreign {
		for _, m := range minutes {
			add(&m)
		}
	}
	return all
}

// readOthers reads the minutes of other nodes if it is time to. The caller holds others.
func (b *Board) readOthers(ctx context.Context, now time.Time) {
	if b.opts.Store == nil || now.Sub(b.read) < readEvery {
		return
	}
	from := now.Add(-recent)
	if now.Sub(b.whole) >= wholeEvery {
		from = now.Add(-Kept * time.Minute)
	}
	ctx, cancel := context.WithTimeout(ctx, storePatience)
	defer cancel()
	fresh := map[string]map[int64]Minute{}
	err := b.opts.Store.Minutes(ctx, b.opts.Node, from, func(node string, m Minute) {
		if fresh[node] == nil {
			fresh[node] = map[int64]Minute{}
		}
		fresh[node][m.At.Unix()] = m
	})
	b.read = now // also after a failure: a database that is away is not asked by everybody who looks
	if err != nil {
		b.opts.Log.Warn("the figures of other servers could not be read", "error", err.Error())
		return
	}
	if now.Sub(b.whole) >= wholeEvery {
		b.foreign, b.whole = fresh, now
		return
	}
	for node, minutes := range fresh {
		if b.foreign[node] == nil {
			b.foreign[node] = map[int64]Minute{}
		}
		maps.Copy(b.foreign[node], minutes)
	}
}

// Loader is an account and what it did lately.
type Loader struct {
	AccountID string `json:"account_id"`
	Load
}

// Loaders returns the accounts that did most in the last minutes, most first.
func Loaders(minutes []Minute, most int) []Loader {
	var sum Minute
	for i := range minutes {
		sum.merge(&Minute{Accounts: minutes[i].Accounts})
	}
	list := make([]Loader, 0, len(sum.Accounts))
	for id, l := range sum.Accounts {
		list = append(list, Loader{id, l})
	}
	slices.SortFunc(list, func(a, b Loader) int {
		return cmp.Or(b.compare(a.Load), cmp.Compare(a.AccountID, b.AccountID))
	})
	return list[:min(len(list), most)]
}

// Series returns what a target did, in as many parts of equal length as asked for.
func Series(minutes []Minute, s *routing.TargetHealth, parts int) []Target {
	out := make([]Target, parts)
	name := targetName(s)
	for i := range minutes {
		t := minutes[i].Targets[name]
		out[i*parts/len(minutes)].add(&t)
	}
	return out
}

// Watch returns an archive that tells the board of settlements when they are in the database.
func (b *Board) Watch(archive usage.Archive) usage.Archive { return watched{archive, b} }

// watched tells a board of settlements when they are in the database: while a call is served, the board costs
// nothing.
type watched struct {
	usage.Archive
	board *Board
}

// RecordSettlements implements usage.Archive.
func (w watched) RecordSettlements(ctx context.Context, list []usage.Settlement) error {
	err := w.Archive.RecordSettlements(ctx, list)
	if err == nil {
		w.board.Settled(list)
	}
	return err
}
