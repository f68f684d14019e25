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
	"sluice/internal/kit/fault"
	"sluice/internal/kit/pace"
	"sluice/internal/kit/pulse"
	"sluice/internal/kit/telemetry"
	"sluice/internal/ledger/price"
	"sluice/internal/ledger/usage"
	"sluice/internal/line/relay"
	"sluice/internal/prompt/chat"
	"sluice/internal/prompt/embeddings"
	"sluice/internal/upstream/catalog"
	"sluice/internal/upstream/provider"
	"sluice/internal/upstream/routing"
)

const (
	// patience is how long a request keeps trying after every target has failed once.
	patience = 30 * time.Second

	// How long an attempt may take to its first content if its provider sets no bound. A stream is silent
	// only while the model thinks; a reply in one piece is silent until all of it is written.
	streamPatience = 2 * time.Minute
	wholePatience  = 5 * time.Minute
)

// attempts is the reply of the first target of a plan that has something to say. It is a provider.Stream.
//
// Start tries the targets; Next returns nothing before one of them has produced something of substance.
// So a failure until then is repaired by the next target, and the caller does not notice. A reply that has
// begun is never replaced: the caller may have read part of it.
//
// One goroutine uses it. It must be closed.
type attempts struct {
	line  *Line
	ctx   context.Context //nolint:containedctx // one call's, like the stream itself
	plan  routing.Plan
	model *catalog.Model // the model that was chosen; others may stand in for it
	holds account.Plan   // the caller's plan
	staff bool           // the caller is staff
	// account is the id of the caller's, and session the caller's name of the run that the call belongs to.
	account, session string
	routed           bool  // the router chose the model, so another one may take what it refuses
	prompt           *size // of the request
	call             provider.Call
	namer            relay.Namer // of the caller's dialect; nil: it is that of chat completions
	// embed is the request of a call for embeddings, and vectors its result; nil: it is a completion.
	embed        *embeddings.Request
	vectors      *embeddings.Vectors
	start        time.Time       // of the call, or of its turn
	trace        *telemetry.Span // the span that those of attempts belong to; nil: not traced
	wait         *telemetry.Wait // gets the time that upstreams take; nil: it is not measured
	requestTrace *usage.Trace    // gets what became of each attempt; of the whole call
	since        time.Time       // of the call: the times in requestTrace count from it
	until        time.Time       // no round after the first begins after it

	count   int             // attempts so far
	at      routing.Attempt // the last attempt
	began   time.Time       // when it began
	stream  provider.Stream // of the last attempt; nil: it has none
	running bool            // the last attempt has not ended
	begun   bool            // stream is the reply
	had     bool            // an upstream has been sent the prompt
	first   *provider.Event // the first event of the reply, until Next has returned it
	err     error           // of the last attempt that failed
	figures *chat.Usage     // what the upstream of a closed attempt said it cost; nil: it said nothing
	served  int             // calls of tools that the upstreams of closed attempts have run
	billed  provider.Bill   // that of the last attempt that was closed, without its calls of tools
	refused error           // why the router's choice does not take the request; nil: it did not refuse
	afford  *affordable     // what the call may cost; nil: nothing bounds it
	marks   marking         // of what the vendor is to keep of the prompt

	affinity []string // the value of x-sluice-affinity; nil: it has none

	span *telemetry.Span // of the last attempt; nil: not traced

	cancel context.CancelCauseFunc // of an attempt with a deadline; nil: it has none
	beat   *pulse.Beat             // watches the deadline until the first content; nil: none
}

// attempts returns the attempts of one turn of a call, along the plan. They have not been started.
func (l *Line) attempts(ctx context.Context, plan routing.Plan, m *catalog.Model, call *Call) *attempts {
	a := &attempts{line: l, ctx: ctx, plan: plan, model: m, holds: call.Caller.Account.Plan, staff: call.Caller.Account.Staff, start: call.Start, until: call.Start.Add(l.patience)}
	a.account, a.session = call.Caller.Account.ID, call.Session
	a.call = provider.Call{Request: call.Request, ID: call.ID}
	a.namer, _ = call.Dialect.(relay.Namer)
	a.since, a.afford = call.Start, call.afford
	a.marks = l.marksOf(call)
	a.trace, a.wait = call.Span, call.Wait
	a.embed = call.Inputs
	if call.Request != nil {
		l.router.Stay(&a.plan, call.Caller.Account.ID, call.Session, call.Request)
	}
	if l.states != nil {
		a.call.Memory = l.states.For(call.Caller.Account.ID)
	}
	return a
}

// Next returns the next event of a reply that was started.
func (a *attempts) Next() (*provider.Event, error) {
	if ev := a.first; ev != nil {
		a.first = nil
		return ev, nil
	}
	ev, err := a.stream.Next()
	if err != nil {
		if errors.Is(err, io.EOF) && a.call.Threaded {
			a.keepThread()
		}
		a.ended(err)
		err = a.Told(err)
	} else if ev.Kind == provider.Usage {
		a.marks.heard(ev.Usage)
	}
	return ev, err
}

// Ready reports whether Next would return at once.
func (a *attempts) Ready() bool { return a.first != nil || a.begun && a.stream.Ready() }

// Close ends the attempt that is running. It may be called more than once.
func (a *attempts) Close() error {
	a.ended(nil)
	return a.close()
}

// Start tries one target after the other until one has something to say. It returns the fault of the last
// attempt if none has.
func (a *attempts) Start() error {
	a.weigh()
	for now := a.start; ; now = time.Now() {
		at, ok := a.plan.Next(now, a.fits)
		if !ok {
			if err := a.pause(now); err != nil {
				return err
			}
			continue
		}
		a.at, a.running, a.count = at, true, a.count+1
		began := a.begin()
		ev, err := a.try()
		if err == nil {
			a.first, a.begun = ev, true
			now := time.Now()
			a.at.Answered(now)
			a.stayed(now)
			a.tell(now, nil)
			began.End()
			// The wait is over unless a reply in one piece still has to be read.
			if a.wait != nil && (ev.Kind == provider.Whole || a.call.Request.Stream) {
				a.wait.End(now)
			}
			return nil
		}
		a.ended(err)
		a.tell(time.Now(), err)
		err = a.Told(err)
		began.End()
		_ = a.close() // of a reply that failed: its error is known already
		switch {
		case a.ctx.Err() != nil, errors.Is(err, provider.ErrWanted):
			return err
		case fault.Is(err, fault.Unavailable):
			a.err = err
			if r, ok := errors.AsType[*provider.Refusal](err); ok && r.Lasting() || errors.Is(err, provider.ErrTooLong) {
				a.plan.GiveUp()
			}
		case !callersMistake(err), a.at.Model == a.model && !a.routed:
			return err // our own bug, or the caller's mistake: no other target would change it
		default: // a stand-in, or the router's choice, cannot take the request: another model may
			if a.at.Model == a.model {
				a.refused = err
			}
			a.plan.GiveUpModel()
		}
	}
}

// callersMistake reports whether an upstream refused the request itself.
func callersMistake(err error) bool {
	return fault.Is(err, fault.Invalid) || fault.Is(err, fault.NotFound) || fault.Is(err, fault.Conflict) || fault.Is(err, fault.TooLarge)
}

// Told implements relay.Teller: it makes a refusal of the last attempt's upstream one that the caller can use.
func (a *attempts) Told(err error) error {
	if err == io.EOF { //nolint:errorlint // the usual end, which costs nothing here
		return err
	}
	to := provider.Listener{Model: a.at.Model.ID, Upstream: a.at.Upstream, Window: a.at.Model.ContextLength}
	if a.embed == nil {
		to.Same, to.Tokens = a.call.Chat, a.prompt.estimate
		if a.namer != nil {
			to.Same = a.call.Quoted
		}
		if o := a.call.Request.Original; o != nil {
			to.Dialect = o.Dialect
		}
	}
	return provider.Tell(err, to)
}

// weigh tells the plan how large the request is. One of vectors counts as any other: they are made in one step.
func (a *attempts) weigh() {
	if a.embed == nil {
		longest := a.model.MaxOutput
		if most := a.call.Request.MaxTokens; most > 0 && (longest == 0 || most < longest) {
			longest = most
		}
		a.plan.Weigh(a.prompt.estimate() + longest)
	}
}

// begin begins the span and the wait of an attempt. It returns the span that lasts until the first token.
func (a *attempts) begin() (first *telemetry.Span) {
	a.began = time.Now()
	if a.wait != nil {
		a.wait.Begin(a.began)
	}
	if a.trace == nil {
		return nil
	}
	if a.embed != nil {
		a.span = a.trace.Embedding(a.at.Model.ID, a.at.Upstream, a.at.Provider, a.count)
	} else {
		a.span = a.trace.Attempt(a.at.Model.ID, a.at.Upstream, a.at.Provider, a.count)
	}
	a.call.TraceParent, a.call.TraceState = a.span.Propagate()
	return a.span.Child("first token")
}

// tell adds the last attempt to the way of the call. A nil error means that its upstream has something to say.
func (a *attempts) tell(now time.Time, err error) {
	t := usage.Attempt{
		Model: a.at.Model.ID, Provider: a.at.Provider, Upstream: a.at.Upstream, Key: a.at.LastFour, Outcome: usage.Answered,
		Start: a.began.Sub(a.since), End: now.Sub(a.since),
	}
	switch {
	case err != nil && a.ctx.Err() != nil:
		t.Outcome = "caller gone"
	case err != nil:
		t.Outcome, t.Status = provider.Word(err)
	}
	a.requestTrace.Tried(t)
	if a.requestTrace.Cache == "" || err == nil { // of the turn that answered last
		a.requestTrace.Cache = a.marks.reason
	}
}

// stayed remembers which target has answered. The header tells of the first turn of a call.
func (a *attempts) stayed(now time.Time) {
	a.affinity = a.plan.Stayed(&a.at, now)
	if a.affinity != nil && a.requestTrace.Affinity == "" {
		a.requestTrace.Affinity = a.affinity[0]
	}
}

// try calls the target of the last attempt and returns its first event of substance. Events before that,
// such as a chunk with only a role, are dropped: relay adds the role where it is missing.
func (a *attempts) try() (*provider.Event, error) {
	ctx := a.limit()
	// The call is reused for every attempt, so what belongs to the target is set each time.
	a.call.Upstream, a.call.MaxOutput, a.call.Thinks, a.call.Inside = a.at.Upstream, a.at.Model.MaxOutput, a.at.Model.Thinks, a.at.Model.NoImageURLs
	if h, ok := a.at.Adapter.(provider.Hinter); ok && h.Hints() && a.call.Conversation == "" && a.model.Affinity != catalog.AffinityOff {
		a.call.Conversation = Conversation(a.account, a.session, a.call.Request)
	}
	if a.afford != nil {
		a.call.MaxOutput, a.call.Bounded = a.afford.output(a.at.Model), true
	}
	a.call.Dropped, a.call.Quoted, a.call.Chat, a.call.Threaded = nil, false, false, false
	a.call.Allow, a.call.Efforts = a.at.Allow, a.at.Model.Efforts
	var err error
	if a.embed != nil {
		return a.tryEmbed(ctx)
	}
	a.call.Marks = a.marks.decide(&place{a.at.Model, a.at.Adapter, a.at.Provider, a.at.Upstream, a.at.LastFour}, a.call.Request, a.start, a.prompt.estimate)
	if a.stream, err = a.at.Adapter.Open(ctx, &a.call); err != nil {
		// Adapters may return a typed nil with an error. An upstream that got the prompt may charge for it, so the
		// settlement must know.
		a.stream = nil
		a.had = a.had || provider.WasSent(err)
		_, refused := errors.AsType[*provider.Refusal](err) // which costs nothing
		a.marks.sent = provider.WasSent(err) && !refused
		return nil, reason(ctx, err)
	}
	a.had, a.marks.sent = true, true
	for {
		ev, err := a.stream.Next()
		if errors.Is(err, io.EOF) { // it ended without a word
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
			a.unlimit()
			return ev, nil
		}
	}
}

// limit returns the context of the attempt, with a deadline for the first content. An attempt without an
// alternative gets no deadline unless its provider sets one: there the adapter's own deadlines are enough.
// The pulse keeps the deadline, because a timer for each call would cost more.
func (a *attempts) limit() context.Context {
	d := a.at.FirstContent
	if d == 0 && !a.plan.Alone() {
		d = wholePatience
		if a.embed == nil && a.call.Request.Stream {
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

// unlimit ends the deadline, which was for the first content. From here on the reply may take as long as it needs.
func (a *attempts) unlimit() {
	if a.beat != nil {
		a.beat.Stop()
		a.beat = nil
	}
}

// reason returns why an attempt failed: its deadline if that ended it, else err.
func reason(ctx context.Context, err error) error {
	if f, ok := errors.AsType[*fault.Fault](context.Cause(ctx)); ok {
		return f
	}
	return err
}

// ended records how the running attempt ended; nil: the end says nothing about the target. It does nothing
// if no attempt is running, so every path may call it.
func (a *attempts) ended(err error) {
	if !a.running {
		return
	}
	a.running = false
	if a.ctx.Err() != nil {
		err = nil // the caller hung up, which is not the target's fault
	}
	if a.wait != nil && a.wait.Waiting() {
		a.wait.End(time.Now())
	}
	if a.span != nil {
		a.endSpan(err)
	}
	// Only a failure needs the time. The usual reply ends with io.EOF itself and saves the clock.
	var now time.Time
	if err != nil && err != io.EOF { //nolint:errorlint // see above
		now = time.Now()
	}
	a.at.Ended(now, err)
}

// endSpan ends the span of the attempt. That of the reply stays open until the call is settled, when its
// figures are known; see settling.tell.
func (a *attempts) endSpan(err error) {
	if err != nil && !errors.Is(err, io.EOF) {
		a.span.Fail(fault.From(err).Kind.String())
	}
	if !a.begun {
		a.span.End()
	}
}

// close frees what the last attempt held. It keeps the figures of its upstream, since settling needs them
// after the stream is gone.
func (a *attempts) close() (err error) {
	if a.stream != nil {
		if u, ok := figuresOf(a.stream); ok {
			a.figures = &u
			if !a.marks.knows {
				a.marks.heard(u)
			}
		}
		a.billed = provider.BillOf(a.stream)
		a.served, a.billed.Calls = a.served+a.billed.Calls, 0
		err = a.stream.Close()
		a.stream = nil
	}
	a.marks.settle()
	a.unlimit()
	if a.cancel != nil {
		a.cancel(nil)
		a.cancel = nil
	}
	return err
}

// Figures implements provider.Metered: what the upstream has said so far about the cost of the attempt.
func (a *attempts) Figures() (chat.Usage, bool) {
	if a.stream != nil {
		return figuresOf(a.stream)
	}
	if a.figures == nil {
		return chat.Usage{}, false
	}
	return *a.figures, true
}

// figuresOf returns the early figures of a stream that has some.
func figuresOf(s provider.Stream) (chat.Usage, bool) {
	if m, ok := s.(provider.Metered); ok {
		return m.Figures()
	}
	return chat.Usage{}, false
}

// pause waits for the next round of the plan. It returns an error if there is none: the fault of the last
// attempt, or a 503 if no target could be called at all. The caller is told when the next call may go through.
func (a *attempts) pause(now time.Time) error {
	if a.call.Continues && a.count == 0 { // another target can begin the conversation anew
		return provider.LostThread()
	}
	d, ok := a.plan.Again(now)
	if !ok || now.Add(d).After(a.until) {
		// What an upstream said is more useful than that nobody is left. A refusal by the router's choice
		// counts only if no other model failed for its own reasons.
		if err := cmp.Or(a.err, a.refused); err != nil {
			if f, is := errors.AsType[*fault.Fault](err); is && !ok {
				f.RetryAfter = max(f.RetryAfter, d)
			}
			return err
		}
		return fault.New(fault.Unavailable, "The model %q is not available at the moment. Try again shortly.", a.model.ID).
			After(max(d, time.Second)).Because(errors.New("no target can be asked"))
	}
	// A request that pauses is rare and has failed once already, so a timer of its own is fine here.
	if pace.Sleep(a.ctx, d) != nil {
		return provider.Unreachable(a.ctx.Err())
	}
	return nil
}

// fits reports whether a model may stand in for the one that was chosen: the caller may call it, it is not under
// maintenance, and it can take the request.
func (a *attempts) fits(m *catalog.Model) bool {
	if a.embed != nil {
		return false // vectors of different models cannot be compared
	}
	return a.holds.Includes(m.Plan) && (!m.StaffOnly || a.staff) && a.line.closed(m.ID, a.start) == nil && a.prompt.check(m) == nil && a.afford.fits(m)
}

// introduce sets the headers that name the target which answers, or which failed last, and returns the id
// of its model. It sets none if no target was called.
func (a *attempts) introduce(h http.Header) string {
	if a.count == 0 {
		return a.model.ID
	}
	a.at.SetHeader(h)
	// The names are canonical, so the map is used directly.
	if a.count < len(counts) {
		h["X-Sluice-Attempts"] = counts[a.count]
	} else {
		h["X-Sluice-Attempts"] = []string{strconv.Itoa(a.count)}
	}
	if a.affinity != nil {
		h["X-Sluice-Affinity"] = a.affinity
	}
	if t, ok := a.namer.(relay.Threader); ok && a.call.Threaded {
		t.Threaded()
	}
	if !a.had { // nobody got the request, with or without a field
		return a.at.Model.ID
	}
	if a.marks.reason != "" {
		h["X-Sluice-Cache"] = []string{a.marks.reason}
	}
	dropped := a.call.Dropped
	if a.namer != nil {
		dropped = a.namer.Dropped(dropped, a.call.Quoted)
	}
	if len(dropped) > 0 {
		h["X-Sluice-Dropped"] = []string{strings.Join(dropped, ", ")}
	}
	return a.at.Model.ID
}

// used returns the model that answers, or that failed last, and the name of its provider.
func (a *attempts) used() (*catalog.Model, string) {
	if a.count == 0 {
		return a.model, a.model.Provider
	}
	return a.at.Model, a.at.Provider
}

// prices returns the prices at the place of the last attempt, or nil if they are not known. served is the vendor's name of
// the model that answered, if that is not the one that was called.
func (a *attempts) prices(served string) *price.Series {
	if a.count == 0 {
		return nil
	}
	return a.at.Model.Prices(a.at.Provider, a.at.Upstream).Served(served)
}

// counts holds the header values of the usual numbers of attempts, so that they cost no allocation.
var counts = [...][]string{{"0"}, {"1"}, {"2"}, {"3"}}
