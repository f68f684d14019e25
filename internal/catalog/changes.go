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
	// KeepChanges is how long a change stays in the log, and how long a model that is gone keeps the date
	// on which it joined.
	KeepChanges = 365 * 24 * time.Hour
	// MostChanges is how many changes the log holds; the oldest go first.
	MostChanges = 100_000

	// mostKept is how many models are remembered, those that are gone included.
	mostKept = 20_000
	// quiet is how long a model that comes and goes by itself must be gone before that is a change, how far
	// apart its other changes are, and how long a configuration that no process runs any more still counts.
	quiet = 30 * time.Minute
)

// ChangeType is what happened to a model.
type ChangeType string

const (
	Added   ChangeType = "added"
	Removed ChangeType = "removed"
	Changed ChangeType = "changed"
)

// Change is an entry of the log of changes. Before and After are the model's verbose form; nil where the
// model was not listed.
type Change struct {
	Number        int64
	At            time.Time
	Type          ChangeType
	Model         string
	Before, After []byte
}

// Kept is what is remembered of a model between starts.
type Kept struct {
	Joined  time.Time
	Listing []byte // its verbose form as the log last told it; nil: it is not listed
	Fixed   bool   // the configuration or the program lists it, so it does not go by itself
	// Seen is when a process last listed it. It is written only where it matters: for a model that is not
	// fixed, and for one that is gone.
	Seen      time.Time
	ChangedAt time.Time
}

// Revision is a configured catalog that some process runs.
type Revision struct {
	Since time.Time // when a process first had it, or changed to it
	Seen  time.Time // when a process that runs it last said so
}

// State is what all processes on one database remember of the catalog: its models by id, and the configured
// catalogs by their hash.
type State struct {
	Models    map[string]Kept
	Revisions map[string]Revision
}

// Process is who records a catalog.
type Process struct {
	// Was is the revision that it ran before; empty at its start.
	Was string
	// Alone is whether no other process can be running on the database.
	Alone bool
}

// Record takes over the catalog that a process has now. It returns the same catalog with the date on which
// each model joined, its revision, and the changes to be logged.
//
// Processes on one database may run different configurations for a while. The newest one that is running
// decides what is listed: a process that starts with an older one changes nothing until the newer one has
// not been seen for half an hour, so that a rollout is logged once. A process that reloads from one
// configuration to another one makes the latter the newest.
//
// Models that were discovered come and go by themselves, and not all processes find the same ones. Such a
// model is removed once no process has listed it for half an hour; a process that has just started has not
// looked for it yet.
func (s *State) Record(c *Catalog, by Process, now time.Time) (dated *Catalog, revision string, changes []Change) {
	for _, m := range c.models {
		if _, ok := s.Models[m.ID]; !ok {
			s.Models[m.ID] = Kept{Joined: now, Seen: now}
		}
	}
	dated = c.Dated(func(id string) time.Time { return s.Models[id].Joined })
	revision = dated.revision()
	decides := s.present(revision, by, now)

	for _, m := range dated.models {
		k, fixed := s.Models[m.ID], m.fixed()
		switch {
		case fixed && !decides: // a newer configuration decides whether and how it is listed
			continue
		case bytes.Equal(k.Listing, m.encoded):
		case k.Listing != nil && !fixed && now.Sub(k.ChangedAt) < quiet: // told later, if it stays so
		default:
			change := Change{At: now, Type: Changed, Model: m.ID, Before: k.Listing, After: m.encoded}
			if k.Listing == nil {
				change.Type = Added
			}
			changes = append(changes, change)
			k.Listing, k.ChangedAt, k.Seen = m.encoded, now, now
		}
		if k.Fixed = fixed; !fixed && now.Sub(k.Seen) >= quiet/2 {
			k.Seen = now
		}
		s.Models[m.ID] = k
	}
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

// present notes that a process runs the revision, and reports whether it is the newest one.
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
		if r.Since.After(mine.Since) || r.Since.Equal(mine.Since) && hash > revision {
			return false
		}
	}
	return true
}

// forget drops the models that have been gone for long, and the longest gone of too many.
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

// Dated is the catalog with a date for every model whose configuration gives none.
func (c *Catalog) Dated(joined func(id string) time.Time) *Catalog {
	models := make([]Model, len(c.models))
	for i, m := range c.models {
		models[i] = *m
		if m.Created == 0 || m.joins {
			models[i].Created, models[i].joins = joined(m.ID).Unix(), true
		}
	}
	dated, err := New(models)
	if err != nil {
		panic("catalog: " + err.Error()) // they have been a catalog before
	}
	return dated
}

// Revision names the part of the catalog that does not change by itself.
func (c *Catalog) revision() string {
	var lines []string
	for _, m := range c.models {
		if m.fixed() {
			lines = append(lines, string(m.encoded))
		}
	}
	slices.Sort(lines) // the order of listing is no change
	sum := sha256.Sum256([]byte(strings.Join(lines, "\n")))
	return hex.EncodeToString(sum[:])
}

// fixed reports whether the model is listed for as long as the configuration is the same. What the router
// can do depends on what is discovered.
func (m *Model) fixed() bool { return (m.Origin == Configured || m.Origin == BuiltIn) && !m.Router }
