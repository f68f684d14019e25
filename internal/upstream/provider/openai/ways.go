package openai

import (
	"context"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"sluice/internal/kit/pace"
)

// Way is the API by which a model must be asked, as its upstream has told.
type Way string

const (
	WayTools     Way = "tools"     // by Responses if the call has tools
	WayResponses Way = "responses" // always by Responses
	WayChat      Way = "chat"      // never by Responses
)

const (
	// maxWays bounds the models that are remembered. It is more than any vendor has.
	maxWays = 1000
	// lookEvery is how often a node reads what others have learned, if no message of them has come.
	lookEvery = time.Minute
	// wayPatience is how long the store may take. Nobody waits for it.
	wayPatience = 5 * time.Second
)

// WayStore keeps what was learned for the next start and for other nodes.
type WayStore interface {
	// Ways returns all that are stored, by name.
	Ways(ctx context.Context) (map[string]string, error)
	// AddWay stores one, over what was stored for its name.
	AddWay(ctx context.Context, name, way string, at time.Time) error
}

// WayOptions are the choices of Ways.Open.
type WayOptions struct {
	Shared bool                                            // other nodes use the same store
	Tell   func(ctx context.Context, message string) error // makes Heard be called on the other nodes; nil: there are none
	Log    *slog.Logger                                    // default slog.Default()
}

// Ways remembers by which API models must be asked. All adapters of a process share it. The zero value remembers until the
// process ends; Open adds a store. It is safe for concurrent use.
type Ways struct {
	// known has the ways by host, slash and name. It is replaced as a whole, so that a call costs a load and, once something
	// was learned, a look into the map.
	known atomic.Pointer[map[string]Way]

	mu    sync.Mutex // held while known is replaced
	fresh []string   // names that are not stored yet

	store WayStore
	opts  WayOptions
	wake  chan struct{} // makes Run write and read at once; holds at most one token
}

// of returns what was learned of a model; empty if nothing was. Models of the same name at other hosts may differ.
func (w *Ways) of(host, model string) Way {
	if known := w.known.Load(); known != nil {
		return (*known)[host+"/"+model]
	}
	return ""
}

// learn remembers a way that an upstream of this process has told.
func (w *Ways) learn(host, model string, way Way) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.put(host+"/"+model, way) || w.store == nil {
		return
	}
	w.opts.Log.Info("a model is called through another API from now on, because its provider requires it", "model", model, "api", string(way))
	w.fresh = append(w.fresh, host+"/"+model)
	pace.Wake(w.wake)
}

// put adds a way, and reports whether it is new. What is known stays, except that a model which takes tools by Responses may
// turn out to take everything by it: otherwise two upstreams behind one name could make it change with each call. The
// caller holds mu.
func (w *Ways) put(name string, way Way) bool {
	var known map[string]Way
	if p := w.known.Load(); p != nil {
		known = *p
	}
	was, there := known[name]
	if there && (was != WayTools || way != WayResponses) || !there && len(known) >= maxWays {
		return false
	}
	next := make(map[string]Way, len(known)+1)
	maps.Copy(next, known)
	next[name] = way
	w.known.Store(&next)
	return true
}

// Open reads what is stored. It is called once, before Run and before the first call. Opts may be nil.
func (w *Ways) Open(ctx context.Context, store WayStore, opts *WayOptions) error {
	if opts != nil {
		w.opts = *opts
	}
	if w.opts.Log == nil {
		w.opts.Log = slog.Default()
	}
	w.store, w.wake = store, make(chan struct{}, 1)
	return w.read(ctx)
}

// read takes over what is stored.
func (w *Ways) read(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, wayPatience)
	defer cancel()
	stored, err := w.store.Ways(ctx)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, way := range stored {
		w.hear(name, Way(way))
	}
	return nil
}

// hear takes over a way from elsewhere, unless a later version knows more of them. The caller holds mu.
func (w *Ways) hear(name string, way Way) {
	switch way {
	case WayTools, WayResponses, WayChat:
		w.put(name, way)
	}
}

// Heard takes over what another node has told; see WayOptions.Tell.
func (w *Ways) Heard(message string) {
	way, name, _ := strings.Cut(message, " ")
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hear(name, Way(way))
}

// Nudge makes Run read what is stored at once: messages may have been missed.
func (w *Ways) Nudge() { pace.Wake(w.wake) }

// Run stores what is learned here, tells other nodes of it, and reads what they have learned, until ctx ends. While the store is away,
// what is known stays in force, and it is tried again.
func (w *Ways) Run(ctx context.Context) {
	for range pace.Woken(ctx, lookEvery, w.wake) {
		w.write(ctx)
		if w.opts.Shared {
			if err := w.read(ctx); err != nil && ctx.Err() == nil {
				w.opts.Log.Warn("what other servers have learned of models cannot be read; it will be retried", "error", err.Error())
			}
		}
	}
	w.write(context.WithoutCancel(ctx))
}

// write stores what is not stored yet.
func (w *Ways) write(ctx context.Context) {
	for {
		w.mu.Lock()
		if len(w.fresh) == 0 {
			w.mu.Unlock()
			return
		}
		name := w.fresh[0]
		way := string((*w.known.Load())[name])
		w.mu.Unlock()
		if err := w.add(ctx, name, way); err != nil {
			w.opts.Log.Warn("what was learned of a model cannot be stored; it will be retried", "error", err.Error())
			return
		}
		w.mu.Lock()
		w.fresh = w.fresh[1:] // only Run takes from it
		w.mu.Unlock()
		if w.opts.Tell == nil {
			continue
		}
		if err := w.opts.Tell(ctx, way+" "+name); err != nil {
			w.opts.Log.Warn("other servers could not be told what was learned of a model; they read it within a minute", "error", err.Error())
		}
	}
}

// add stores one way within a deadline.
func (w *Ways) add(ctx context.Context, name, way string) error {
	ctx, cancel := context.WithTimeout(ctx, wayPatience)
	defer cancel()
	return w.store.AddWay(ctx, name, way, time.Now())
}
