package catalog

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"
	"time"
)

const (
	// KeepChanges is how long a change stays in the log. A removed model is remembered, with the
	// date on which it joined, for the same time.
	KeepChanges = 365 * 24 * time.Hour
	// MostChanges is the maximum number of changes in the log. The oldest are dropped first.
	MostChanges = 100_000

	// mostKept is the maximum number of models that are remembered, including removed ones.
	mostKept = 20_000
	// quiet is the time constant that keeps short-lived changes out of the log. A discovered model
	// must be missing for this long before its removal is logged, its other changes are logged at
	// most this often, and a configuration that no process runs any more counts for this long.
	quiet = 30 * time.Minute
	// KeepEvery is how often a process says again which catalog it has: often enough for quiet.
	KeepEvery = 10 * time.Minute
)

// ChangeType says what happened to a model.
type ChangeType string

const (
	Added   ChangeType = "added"
	Removed ChangeType = "removed"
	Changed ChangeType = "changed"
)

// Change is an entry in the log of changes. Before and After are the model's verbose form. Before
// is nil if the model was added, and After is nil if it was removed.
type Change struct {
	// Number is assigned by the store. It is 0 until then.
	Number        int64
	At            time.Time
	Type          ChangeType
	Model         string
	Before, After []byte
}

// Kept is what the database remembers about a model between starts.
type Kept struct {
	Joined time.Time
	// Listing is the model's verbose form as the log last reported it. It is nil if the model is
	// not listed.
	Listing []byte
	// Fixed means that the configuration or the program itself lists the model, so it does not
	// disappear on its own.
	Fixed bool
	// Seen is when a process last listed the model. It is updated only where it matters: for models
	// that are not fixed, and for removed ones.
	Seen time.Time
	// ChangedAt is the time of the model's last logged change.
	ChangedAt time.Time
}

// Revision is a configured catalog that at least one process runs or recently ran.
type Revision struct {
	Since time.Time // when a process first started with it or reloaded to it
	Seen  time.Time // when a process that runs it last recorded it
}

// State is what all processes on one database share about the catalog: its models by id, and the
// configured catalogs by their hash. The store loads it, calls Record, and writes it back in one
// transaction, so State itself needs no lock.
type State struct {
	Models    map[string]Kept
	Revisions map[string]Revision
}

// Process describes the process that records a catalog.
type Process struct {
	// Was is the revision that the process ran before. It is empty at its start.
	Was string
	// Alone reports whether no other process can be running on the database.
	Alone bool
}

// Record takes over the current catalog of a process. It returns the same catalog with the date on
// which each model joined, its revision, and the changes to append to the log.
//
// Processes on one database may run different configurations for a while. The newest running one
// decides what is listed. A process that starts with an older configuration changes nothing until
// the newer one has not been seen for half an hour, so a rollout is logged only once. A process
// that reloads from one configuration to another makes the latter the newest.
//
// Discovered models come and go on their own, and not all processes find the same ones. Such a
// model is removed once no process has listed it for half an hour. A process that has just started
// removes none, because it has not looked for them yet.
func (s *State) Record(c *Catalog, by Process, now time.Time) (dated *Catalog, revision string, changes []Change) {
	// Remember new models first, because their join date becomes part of what is encoded and
	// compared.
	for _, m := range c.models {
		if _, ok := s.Models[m.ID]; !ok {
			s.Models[m.ID] = Kept{Joined: now, Seen: now}
		}
	}
	dated = c.Dated(func(id string) time.Time { return s.Models[id].Joined })
	revision = dated.revision()
	decides := s.present(revision, by, now)

	// Log additions and changes of the models that this process lists.
	for _, m := range dated.models {
		k, fixed := s.Models[m.ID], m.fixed()
		switch {
		case fixed && !decides: // a newer configuration decides whether and how it is listed
			continue
		// The listing has not changed.
		case bytes.Equal(k.Listing, m.encoded):
		// Logged later, if the change lasts. What staff has decided does.
		case k.Listing != nil && !fixed && !m.Moved && now.Sub(k.ChangedAt) < quiet:
		default:
			change := Change{At: now, Type: Changed, Model: m.ID, Before: k.Listing, After: m.encoded}
			if k.Listing == nil {
				change.Type = Added
			}
			changes = append(changes, change)
			k.Listing, k.ChangedAt, k.Seen = m.encoded, now, now
		}
		// Update Seen at most every quiet/2. This saves writes and is still often enough not to
		// look gone.
		if k.Fixed = fixed; !fixed && now.Sub(k.Seen) >= quiet/2 {
			k.Seen = now
		}
		s.Models[m.ID] = k
	}
	// Log removals of the models that this process does not list. Sorting makes the order
	// deterministic.
	for _, id := range slices.Sorted(maps.Keys(s.Models)) {
		k := s.Models[id]
		if _, listed := dated.byID[id]; listed || k.Listing == nil {
			continue
		}
		if k.Fixed && decides || !k.Fixed && by.Was != "" && now.Sub(k.Seen) >= quiet {
			changes = append(changes, Change{At: now, Type: Removed, Model: id, Before: k.Listing})
			s.Models[id] = Kept{Joined: k.Joined, Seen: now, ChangedAt: now}
		}
	}
	s.forget(now)
	return dated, revision, changes
}

// present records that a process runs the revision, and reports whether it is the newest one that
// runs. It first drops the revisions that no process has recorded for a while.
func (s *State) present(revision string, by Process, now time.Time) bool {
	for hash, r := range s.Revisions {
		if now.Sub(r.Seen) >= quiet {
			delete(s.Revisions, hash)
		}
	}
	mine, ok := s.Revisions[revision]
	if !ok || by.Was != "" && by.Was != revision {
		mine.Since = now
	}
	mine.Seen = now
	s.Revisions[revision] = mine
	if by.Alone {
		return true
	}
	for hash, r := range s.Revisions {
		// Two revisions may have the same time; the hash then decides, the same way in every
		// process.
		if r.Since.After(mine.Since) || r.Since.Equal(mine.Since) && hash > revision {
			return false
		}
	}
	return true
}

// forget drops models that were removed long ago, and the longest removed ones if there are too
// many.
func (s *State) forget(now time.Time) {
	var gone []string
	for id, k := range s.Models {
		if k.Listing == nil && now.Sub(k.Seen) >= KeepChanges {
			delete(s.Models, id)
		} else if k.Listing == nil {
			gone = append(gone, id)
		}
	}
	slices.SortFunc(gone, func(a, b string) int { return s.Models[a].Seen.Compare(s.Models[b].Seen) })
	for _, id := range gone[:min(len(gone), max(0, len(s.Models)-mostKept))] {
		delete(s.Models, id)
	}
}

// Dated returns a copy of the catalog in which every model without a configured date has the date
// that joined returns for its id.
func (c *Catalog) Dated(joined func(id string) time.Time) *Catalog {
	return c.with(func(m *Model) {
		if m.Created == 0 || m.joins {
			m.Created, m.joins = joined(m.ID).Unix(), true
		}
	})
}

// with returns a copy of the catalog with a change to each model, which must leave it valid.
func (c *Catalog) with(change func(*Model)) *Catalog {
	models := make([]Model, len(c.models))
	for i, m := range c.models {
		models[i] = *m
		change(&models[i])
	}
	changed, err := New(models)
	if err != nil {
		panic("catalog: " + err.Error()) // c was valid
	}
	return changed
}

// revision returns a hash of the part of the catalog that does not change on its own: the fixed
// models.
func (c *Catalog) revision() string {
	var lines []string
	for _, m := range c.models {
		if m.fixed() {
			lines = append(lines, string(m.encoded))
		}
	}
	slices.Sort(lines) // a different order is not a change
	sum := sha256.Sum256([]byte(strings.Join(lines, "\n")))
	return hex.EncodeToString(sum[:])
}

// fixed reports whether the model stays listed for as long as the configuration stays the same. The
// router is not fixed, because its capabilities depend on what is discovered.
func (m *Model) fixed() bool { return (m.Origin == Configured || m.Origin == BuiltIn) && !m.Router }
