package routing

import (
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"sluice/internal/upstream/provider"
)

// A provider may have replicas: servers of one's own that answer alike. Each key of each replica is a target with a
// breaker and a health of its own, and all targets at a replica share its server, which is what can be busy.

// server counts the calls of this process at one replica, or with one key of a provider that has a single address. It
// outlives reloads.
type server struct {
	running atomic.Int64            // calls under way
	tokens  atomic.Int64            // of these calls; see Plan.Weigh
	figures atomic.Pointer[Figures] // what the replica has said lately; nil: nothing
}

// address identifies a server across reloads.
type address struct {
	provider, replica string
	adapter           provider.Adapter // nil for a replica, whose keys share the server
}

// Figures are what a replica says of itself.
type Figures struct {
	Running int64 `json:"running"` // calls that it works on
	Waiting int64 `json:"waiting"` // calls that wait in its queue
	// CacheUse is the share of its cache of keys and values that is in use, and HitRate the share of prompt tokens that it
	// found there, both from 0 to 1; nil if it does not say.
	CacheUse *float64  `json:"cache_use,omitempty"`
	HitRate  *float64  `json:"hit_rate,omitempty"`
	At       time.Time `json:"at"` // when it said so

	own int64 // calls of this process that ran there when it was asked
}

// Replica is one of the servers of a provider that has several.
type Replica struct {
	Provider string
	Name     string           // host and port
	Adapter  provider.Adapter // with one of the keys
	server   *server
}

// Replicas returns the replicas of all providers, each once, in the order of the catalog.
func (r *Routes) Replicas() []Replica {
	var all []Replica
	seen := map[*server]bool{}
	for _, t := range r.targets {
		if t.Replica != "" && !seen[t.server] {
			seen[t.server] = true
			all = append(all, Replica{Provider: t.Provider, Name: t.Replica, Adapter: t.Adapter, server: t.server})
		}
	}
	return all
}

// Running returns how many calls of this process are under way at the replica.
func (r *Replica) Running() int64 { return r.server.running.Load() }

// Report keeps what the replica says of itself; nil: it says nothing. running is how many calls of this process were under
// way there when it was asked: those that have begun since are not in its figures.
func (r *Replica) Report(f *Figures, running int64) {
	if f != nil {
		f.own = running
	}
	r.server.figures.Store(f)
}

// Figures returns what the replica has said lately; nil: nothing.
func (r *Replica) Figures() *Figures { return r.server.figures.Load() }

// server returns the server of a provider's key: the old one, with its counts, if there is one. old may be nil.
func (r *Routes) server(provider string, k *Key, old *Routes) *server {
	at := address{provider: provider, replica: k.Replica}
	if k.Replica == "" {
		at.adapter = k.Adapter
	}
	if r.servers[at] == nil {
		r.servers[at] = &server{}
		if old != nil && old.servers[at] != nil {
			r.servers[at] = old.servers[at]
		}
	}
	return r.servers[at]
}

// lighter returns the less busy one of two replicas: the one at i, which was drawn by weight, and another one of the same
// provider, drawn among those that are not out. Two random choices are nearly as good as the best of all, and callers who
// choose at the same moment do not all choose the same replica. Other targets keep their shares. Conversations that stay do
// not come here; see favourite.
func (rt *route) lighter(i int, out []bool) int {
	if i < 0 || rt.targets[i].Replica == "" {
		return i
	}
	drawn, others := rt.targets[i], 0
	beside := func(j int) bool {
		t := rt.targets[j]
		return !out[j] && t.server != drawn.server && t.load == drawn.load && t.Upstream == drawn.Upstream
	}
	for j := range rt.targets {
		if beside(j) {
			others++
		}
	}
	if others == 0 {
		return i
	}
	skip := rand.IntN(others)
	for j, t := range rt.targets {
		if !beside(j) {
			continue
		}
		if skip == 0 {
			if t.pressure() < drawn.pressure() {
				return j
			}
			break
		}
		skip--
	}
	return i
}

// at returns what the log says of the address of a target.
func (t *Target) at() slog.Attr {
	if t.Replica == "" {
		return slog.Attr{} // the log leaves it out
	}
	return slog.String("replica", t.Replica)
}
