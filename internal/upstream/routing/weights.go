package routing

import (
	"log/slog"
	"sync"

	"sluice/internal/upstream/routing/learned"
)

// Weights are what the router has learned about prompts. They are read when they are first needed. Weights that
// cannot be read leave the router with its estimates.
type Weights struct {
	path string // empty: those of the program itself
	load func() (*learned.Model, error)
}

// NewWeights returns the weights in a file; those of the program itself if path is empty.
func NewWeights(path string) *Weights {
	if path == "" {
		return &Weights{load: learned.Builtin}
	}
	return &Weights{path, sync.OnceValues(func() (*learned.Model, error) { return learned.Load(path) })}
}

// Err returns why the file of the weights cannot be used; nil if it can, or if there is none. It reads the file.
func (w *Weights) Err() error {
	if w.path == "" {
		return nil // a test has read them
	}
	_, err := w.load()
	return err
}

// Check logs if the weights cannot be used. It reads the file.
func (w *Weights) Check(log *slog.Logger) {
	if err := w.Err(); err != nil {
		log.Warn("the router's weights cannot be used; it uses its estimates", "file", w.path, "error", err)
	}
}

// Note says in a sentence that the weights cannot be used; empty if they can.
func (w *Weights) Note() string {
	if w.Err() == nil {
		return ""
	}
	return "the file of learned weights cannot be used: the router goes by its estimates"
}

// model returns the weights, or nil if there are none. W may be nil.
func (w *Weights) model() *learned.Model {
	if w == nil {
		return nil
	}
	m, err := w.load()
	if err != nil {
		return nil
	}
	return m
}
