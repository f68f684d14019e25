package replicas

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"sluice/internal/kit/health"
	"sluice/internal/kit/pace"
)

const (
	// lookEvery is how often names are looked up, give or take a fifth, so that many nodes do not ask at once.
	lookEvery = 5 * time.Second
	// lookPatience is how long a lookup may take.
	lookPatience = 2 * time.Second
	// looksAtOnce bounds the lookups at the same time.
	looksAtOnce = 8
)

// Names knows what the names of sources stand for. It is safe for concurrent use.
type Names struct {
	resolver *net.Resolver
	log      *slog.Logger

	mu    sync.Mutex // guards known
	known map[Source]*answer
}

// answer is what lookups of one name came to.
type answer struct {
	found   []string // of the last lookup that succeeded, in order; empty before the first
	trouble health.Trouble
	told    bool // the log knows that there are too many
}

// NewNames returns a Names that has looked nothing up. A nil resolver is that of the system, a nil log slog.Default().
func NewNames(resolver *net.Resolver, log *slog.Logger) *Names {
	return &Names{resolver: cmp.Or(resolver, net.DefaultResolver), log: cmp.Or(log, slog.Default()), known: map[Source]*answer{}}
}

// Places returns the replicas of the sources, each host and port once. A name that has not been looked up stands for
// itself, so there is always a place. n may be nil, which has looked nothing up.
func (n *Names) Places(sources []Source) []Place {
	var all []Place
	taken := map[string]bool{}
	for _, s := range sources {
		places := []Place{s.Place()}
		if found := n.found(s); len(found) > 0 {
			places = s.places(found)
		}
		for _, p := range places {
			if !taken[p.Name] && len(all) < Most {
				taken[p.Name] = true
				all = append(all, p)
			}
		}
	}
	return all
}

// found returns what the last lookup of a source that succeeded has found.
func (n *Names) found(s Source) []string {
	if n == nil {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if a := n.known[s]; a != nil {
		return a.found
	}
	return nil
}

// Run looks the names of the sources up until ctx ends, and calls changed after each round that has found something else.
func (n *Names) Run(ctx context.Context, current func() []Source, changed func()) {
	for pace.Sleep(ctx, lookEvery*4/5+rand.N(lookEvery*2/5)) == nil {
		list := current()
		n.forget(list)
		if n.Look(ctx, list) && ctx.Err() == nil {
			changed()
		}
	}
}

// Learn looks up the names among the sources that have not been looked up with success. It takes lookPatience at most.
func (n *Names) Learn(ctx context.Context, sources []Source) {
	var list []Source
	for _, s := range sources {
		if len(n.found(s)) == 0 {
			list = append(list, s)
		}
	}
	n.Look(ctx, list)
}

// Look looks the names among the sources up, and reports whether they stand for something else than before. A name that
// cannot be looked up, or that has no address, keeps what it stood for: its servers may well be there while the DNS is
// not, and one that is gone is noticed by its breaker.
func (n *Names) Look(ctx context.Context, sources []Source) (changed bool) {
	ctx, cancel := context.WithTimeout(ctx, lookPatience)
	defer cancel()
	var all sync.WaitGroup
	var mu sync.Mutex // guards changed
	places := make(chan struct{}, looksAtOnce)
	for _, s := range sources {
		if !s.Found() {
			continue
		}
		all.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			found, err := n.look(ctx, s)
			differs := n.keep(ctx, s, found, err)
			mu.Lock()
			changed = changed || differs
			mu.Unlock()
		})
	}
	all.Wait()
	return changed
}

// errEmpty means that a name exists and stands for nothing.
var errEmpty = errors.New("it has no address")

// look looks up one name. The result is in order and not empty.
func (n *Names) look(ctx context.Context, s Source) ([]string, error) {
	host, _, err := net.SplitHostPort(s.at(""))
	if err != nil {
		return nil, err
	}
	var found []string
	if s.look == srv {
		// Records that are no names are left out, and come with an error that says so. The others count.
		_, records, err := n.resolver.LookupSRV(ctx, "", "", host)
		if len(records) == 0 && err != nil {
			return nil, err
		}
		for _, r := range records {
			found = append(found, net.JoinHostPort(strings.TrimSuffix(r.Target, "."), strconv.Itoa(int(r.Port))))
		}
		slices.Sort(found)
		found = slices.Compact(found)
	} else {
		list, err := n.resolver.LookupNetIP(ctx, "ip", host)
		if err != nil {
			return nil, err
		}
		found = addresses(list)
	}
	if len(found) == 0 {
		return nil, errEmpty
	}
	return found, nil
}

// keep takes account of a lookup, and reports whether the name stands for something else than before.
func (n *Names) keep(ctx context.Context, s Source, found []string, err error) (changed bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	a := n.known[s]
	if a == nil {
		a = &answer{}
		n.known[s] = a
	}
	if err != nil {
		if !errors.Is(ctx.Err(), context.Canceled) { // the process stops
			a.trouble.Failed(n.log, "the replicas of a provider cannot be looked up; those that are known stay", err, "name", s.String(), "known", len(a.found))
		}
		return false
	}
	a.trouble.Works(n.log, fmt.Sprintf("the replicas at %s are looked up again", s))
	if many := len(found) > Most; many != a.told {
		if a.told = many; many {
			n.log.Warn("a name stands for too many replicas; the first ones are used", "name", s.String(), "found", len(found), "used", Most)
		}
	}
	found = found[:min(len(found), Most)]
	if slices.Equal(found, a.found) {
		return false
	}
	n.log.Info("the replicas of a provider have changed", "name", s.String(), "before", len(a.found), "now", len(found))
	a.found = found
	return true
}

// forget drops the names that no source has any more.
func (n *Names) forget(sources []Source) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for s := range n.known {
		if !slices.Contains(sources, s) {
			delete(n.known, s)
		}
	}
}
