package price

import (
	"context"
	"time"
)

// Versions finds entries that are or were in force on this installation.
type Versions interface {
	// PriceVersion returns the entry with a version, or nil if this installation never had it.
	PriceVersion(ctx context.Context, version string) (*Seen, error)
}

// Seen is an entry that is or was in force on this installation.
type Seen struct {
	Number  int64     `json:"number"` // rising
	Version string    `json:"version"`
	Origin  string    `json:"origin"` // see Origin
	At      time.Time `json:"first_seen"`
	By      string    `json:"by,omitempty"` // who imported it, where that is known
	Entry   *Entry    `json:"entry"`
}

// Taken is an entry that somebody has imported. A later one has precedence over an earlier one of the same model.
type Taken struct {
	Number int64     `json:"number"` // rising
	At     time.Time `json:"at"`
	By     string    `json:"by"`
	Format string    `json:"format"` // of the file: sluice, litellm or models.dev
	Entry  *Entry    `json:"entry"`
}

// MaxTaken is how many entries can be imported in all: every node has them in memory.
const MaxTaken = 50_000

// Lists returns imported entries as lists for NewBook, the earliest first.
func Lists(taken []Taken) [][]*Entry {
	lists := make([][]*Entry, len(taken))
	for i := range taken {
		lists[i] = []*Entry{taken[i].Entry}
	}
	return lists
}
