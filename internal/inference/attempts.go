package inference

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"sluice/internal/account"
	"sluice/internal/catalog"
	"sluice/internal/chat"
	"sluice/internal/fault"
	"sluice/internal/provider"
	"sluice/internal/pulse"
	"sluice/internal/relay"
	"sluice/internal/routing"
)

const (
	// patience is how long a request looks for somebody who answers.
	patience = 30 * time.Second

	// How long an attempt may take to its first content where its provider sets no bound: a stream
	// pauses while the model thinks, a reply in one piece until all of it is written.
	streamPatience = 2 * time.Minute
	wholePatience  = 5 * time.Minute
)

// attempts is the reply of the first target of a plan that has something to say. Nothing is handed out
// before, so whatever fails until then is made good by the next one. One that is begun is never
// replaced.
type attempts struct {
	line   *Line
	ctx    context.Context //nolint:containedctx // one call's, like the stream itself
	plan   routing.Plan
	model  *catalog.Model // the one that was chosen; others stand in for it
	holds  account.Plan   // the caller's
	prompt size           // how long it is
	routed bool           // the router chose the model: others may take what it refuses
	call   provider.Call
	start  time.Time // of the call
	until  time.Time // no round but the first begins after it

	at      routing.Attempt // the last one
	running bool            // and not ended
	count   int
	stream  provider.Stream // of the last attempt; nil: it has none
	begun   bool            // the stream is the reply
	had     bool            // an upstream has been sent the prompt
	err     error           // of the last attempt that failed
	figures *chat.Usage     // what an attempt that was closed had cost by its upstream's figures; nil: it gave none
	refused error           // what the router's choice finds wrong with the request

	cancel context.CancelCauseFunc // of an attempt with a deadline
	beat   *pulse.Beat
}

// Next returns the next event of the reply.
func (a *attempts) Next() (*provider.Event, error) {
	if !a.begun {
		return a.begin()
	}
	ev, err := a.stream.Next()
	if err != nil {
		a.ended(err)
	}
	return ev, err
}

// Ready reports whether Next would return at once.
func (a *attempts) Ready() bool { return a.begun && a.stream.Ready() }

// Close ends the attempt under way.
func (a *attempts) Close() error {
	a.ended(nil)
	return a.close()
}

// begin asks one after the other until one has something to say.
func (a *attempts) begin() (*provider.Event, error) {
	for now := a.start; ; now = time.Now() {
		at, ok := a.plan.Next(now, a.fits)
		if !ok {
			if err := a.pause(now); err != nil {
				return nil, err
			}
			continue
		}
		a.at, a.running, a.count = at, true, a.count+1
		ev, err := a.try()
		if err == nil {
			a.begun = true
			a.at.Answered(time.Now())
			return ev, nil
		}
		a.ended(err)
		_ = a.close() // of a reply that failed: there is nothing to learn from it
		switch {
		case a.ctx.Err() != nil, errors.Is(err, provider.ErrWanted):
			return nil, err
		case fault.Is(err, fault.Unavailable):
			a.err = err
			if r, ok := errors.AsType[*provider.Refusal](err); ok && r.Lasting() {
				a.plan.GiveUp()
			}
		case !fault.Is(err, fault.Invalid), a.at.Model == a.model && !a.routed:
			return nil, err
		default: // a stand-in, or the router's choice, that cannot take the request is no reason to refuse it
			if a.at.Model == a.model {
				a.refused = err
			}
			a.plan.GiveUpModel()
		}
	}
}

// try asks the target and waits for something to say.
func (a *attempts) try() (*provider.Event, error) {
	ctx := a.limit()
	a.call.Upstream, a.call.MaxOutput, a.call.Thinks, a.call.Dropped = a.at.Upstream, a.at.Model.MaxOutput, a.at.Model.Thinks, nil
	var err error
	if a.stream, err = a.at.Adapter.Open(ctx, &a.call); err != nil {
		a.stream = nil
		a.had = a.had || provider.WasSent(err)
		return nil, reason(ctx, err)
	}
	a.had = true
	for {
		ev, err := a.stream.Next()
		if errors.Is(err, io.EOF) {
			return nil, provider.Cut(io.ErrUnexpectedEOF)
		}
		if err != nil {
			return nil, reason(ctx, err)
		}
		some, err := relay.Substance(ev)
		if err != nil {
			return nil, err
		}
		if some {
			if a.beat != nil {
				a.beat.Stop()
				a.beat = nil
			}
			return ev, nil
		}
	}
}

// limit gives the attempt its deadline for the first content. Where there is nobody else to ask and
// none was set, the adapter's own deadlines will do.
func (a *attempts) limit() context.Context {
	d := a.at.FirstContent
	if d == 0 && !a.plan.Alone() {
		d = wholePatience
		if a.call.Request.Stream {
			d = streamPatience
		}
	}
	if d == 0 || a.line.pulse == nil {
		return a.ctx
	}
	ctx, cancel := context.WithCancelCause(a.ctx)
	a.cancel = cancel
	a.beat = a.line.pulse.Watch(d, func() { cancel(provider.Late(d)) })
	return ctx
}

// reason is why a call failed: its deadline, where that ended it.
func reason(ctx context.Context, err error) error {
	if f, ok := errors.AsType[*fault.Fault](context.Cause(ctx)); ok {
		return f
	}
	return err
}

// ended notes how the attempt under way ended; nil: that is not the target's doing.
func (a *attempts) ended(err error) {
	if !a.running {
		return
	}
	a.running = false
	if a.ctx.Err() != nil {
		err = nil // the caller left
	}
	var now time.Time
	if err != nil && err != io.EOF { //nolint:errorlint // that is what a whole reply ends with: the usual case need not know the time
		now = time.Now()
	}
	a.at.Ended(now, err)
}

// close frees what the attempt held.
func (a *attempts) close() (err error) {
	if a.stream != nil {
		if u, ok := figuresOf(a.stream); ok {
			a.figures = &u
		}
		err = a.stream.Close()
		a.stream = nil
	}
	if a.beat != nil {
		a.beat.Stop()
		a.beat = nil
	}
	if a.cancel != nil {
		a.cancel(nil)
		a.cancel = nil
	}
	return err
}

// Figures implements provider.Metered.
func (a *attempts) Figures() (chat.Usage, bool) {
	if a.stream != nil {
		return figuresOf(a.stream)
	}
	if a.figures == nil {
		return chat.Usage{}, false
	}
	return *a.figures, true
}

func figuresOf(s provider.Stream) (chat.Usage, bool) {
	if m, ok := s.(provider.Metered); ok {
		return m.Figures()
	}
	return chat.Usage{}, false
}

// pause waits for the next round, or says why there is none.
func (a *attempts) pause(now time.Time) error {
	d, ok := a.plan.Again(now)
	if !ok || now.Add(d).After(a.until) {
		if err := cmp.Or(a.err, a.refused); err != nil {
			return err
		}
		return fault.New(fault.Unavailable, "The model %q is not available at the moment. Try again shortly.", a.model.ID).
			After(max(d, time.Second)).Because(errors.New("no target can be asked"))
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-a.ctx.Done():
		return provider.Unreachable(a.ctx.Err())
	}
}

// fits reports whether a model may stand in for the one that was chosen.
func (a *attempts) fits(m *catalog.Model) bool {
	return a.holds.Includes(m.Plan) && a.prompt.check(m) == nil
}

// introduce names whoever answers, or failed last, in the headers, and returns the model.
func (a *attempts) introduce(h http.Header) string {
	if a.count == 0 {
		return a.model.ID
	}
	a.at.SetHeader(h)
	if a.count < len(counts) {
		h["X-Sluice-Attempts"] = counts[a.count]
	} else {
		h["X-Sluice-Attempts"] = []string{strconv.Itoa(a.count)}
	}
	if len(a.call.Dropped) > 0 {
		h["X-Sluice-Dropped"] = []string{strings.Join(a.call.Dropped, ", ")}
	}
	return a.at.Model.ID
}

// used is the model that answers, or failed last, and who serves it.
func (a *attempts) used() (*catalog.Model, string) {
	if a.count == 0 {
		return a.model, a.model.Provider
	}
	return a.at.Model, a.at.Provider
}

// counts are the usual numbers of attempts.
var counts = [...][]string{{"0"}, {"1"}, {"2"}, {"3"}}
