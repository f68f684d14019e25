package telemetry

import (
	"context"
	"encoding/hex"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// Attributes of spans. The names are those of OpenTelemetry's conventions, of which the GenAI part is
// still moving: this is the one place to follow it. What has no name there begins with "sluice.".
const (
	attrOperation    = "gen_ai.operation.name"
	attrProvider     = "gen_ai.provider.name"
	attrErrorType    = "error.type"
	attrRoute        = "http.route"
	attrMethod       = "http.request.method"
	attrStatus       = "http.response.status_code"
	attrToolName     = "gen_ai.tool.name"
	attrToolType     = "gen_ai.tool.type"
	attrMCPMethod    = "mcp.method.name"
	attrRequestModel = AttrModel

	AttrRequestID     = "sluice.request.id"
	AttrAccount       = "sluice.account.id"
	AttrOutcome       = "sluice.outcome"
	AttrReason        = "sluice.route.reason"
	AttrAttempt       = "sluice.attempt"
	AttrCost          = "sluice.cost.usd"
	AttrModel         = "gen_ai.request.model"
	AttrAnswered      = "gen_ai.response.model"
	AttrStream        = "gen_ai.request.stream"
	AttrMaxTokens     = "gen_ai.request.max_tokens" //nolint:gosec // the name of a field, not a credential
	AttrChoices       = "gen_ai.request.choice.count"
	AttrFinish        = "gen_ai.response.finish_reasons"
	AttrInputTokens   = "gen_ai.usage.input_tokens"
	AttrOutputTokens  = "gen_ai.usage.output_tokens"
	AttrCachedTokens  = "gen_ai.usage.cache_read.input_tokens"
	AttrThoughtTokens = "gen_ai.usage.reasoning.output_tokens"
	AttrInput         = "gen_ai.input.messages"
	AttrOutput        = "gen_ai.output.messages"
	AttrToolCallID    = "gen_ai.tool.call.id"
	AttrToolArguments = "gen_ai.tool.call.arguments"
	AttrToolResult    = "gen_ai.tool.call.result"
)

// MaxContent is the number of bytes of a prompt, a reply, or the arguments or the result of a tool that a
// span keeps, if the operator wants contents at all.
const MaxContent = 32 << 10

// TraceOptions are the choices of NewTracer.
type TraceOptions struct {
	// Endpoint is the base URL of the collector; the spans go to Endpoint/v1/traces. Required.
	Endpoint string
	// Headers go out with every batch, such as an API key.
	Headers map[string]string
	// Version and Instance describe this process.
	Version, Instance string
	Sampling
	// Failed is called when a batch could not be sent, with the number of spans that were lost.
	Failed func(err error, spans int)
}

// Sampling is what a reload may change.
type Sampling struct {
	// Share is the share of requests that are traced, from 0 to 1.
	Share float64
	// Follow makes every caller's traceparent decide whether a request is traced. Otherwise only that of a
	// trusted proxy does: anybody could fill the collector.
	Follow bool
	// Content adds prompts, replies, and what goes to and comes from tools.
	Content bool
}

// Tracer makes traces. A nil *Tracer makes none. It is safe for concurrent use.
type Tracer struct {
	exporter *exporter

	threshold atomic.Uint64 // a random number below it means that a request is traced
	follow    atomic.Bool
	content   atomic.Bool
}

// NewTracer returns a tracer. Nothing is sent before Run is called.
func NewTracer(opts TraceOptions) *Tracer {
	t := &Tracer{exporter: newExporter(&opts)}
	t.Set(opts.Sampling)
	return t
}

// Set changes the sampling for requests that begin from now on.
func (t *Tracer) Set(s Sampling) {
	threshold := uint64(math.MaxUint64)
	if s.Share < 1 {
		threshold = uint64(max(0, s.Share) * math.MaxUint64)
	}
	t.threshold.Store(threshold)
	t.follow.Store(s.Follow)
	t.content.Store(s.Content)
}

// Run sends spans until ctx ends, and then what is left, for a moment.
func (t *Tracer) Run(ctx context.Context) { t.exporter.run(ctx) }

// Counts returns what became of the spans since the start, and how many are waiting.
func (t *Tracer) Counts() (sent, dropped, waiting int64) {
	return t.exporter.sent.Load(), t.exporter.dropped.Load(), int64(len(t.exporter.queue))
}

// Begin begins the trace of a request. Parent and state are the caller's traceparent and tracestate;
// trusted says that a trusted proxy sent them. It returns nil for a request that is not traced and brings
// no trace of its own: that costs a random number.
func (t *Tracer) Begin(method string, parent, state []string, trusted bool, start time.Time) *Span {
	if t == nil {
		return nil
	}
	if len(parent) != 1 { // none; or two, which is not valid
		if rand.Uint64() >= t.threshold.Load() {
			return nil
		}
		return t.door(place{}, method, start)
	}
	above, ok := parseParent(parent[0])
	if ok && len(state) == 1 {
		above.state = checkState(state[0])
	}
	sampled := above.sampled
	if !ok || !trusted && !t.follow.Load() {
		sampled = rand.Uint64() < t.threshold.Load()
	}
	switch {
	case sampled:
		return t.door(above, method, start)
	case ok:
		return &Span{tracer: t, place: above} // passed on as it came
	}
	return nil
}

// door begins the span of a whole request. above is the caller's span, which may be none.
func (t *Tracer) door(above place, method string, start time.Time) *Span {
	method = knownMethod(method)
	s := t.begin(above, method, kindServer, start)
	s.set(textOf(attrMethod, method))
	return s
}

// begin begins a span below another one, or a new trace if there is none above.
func (t *Tracer) begin(above place, name string, kind uint64, start time.Time) *Span {
	s := &Span{tracer: t, place: above, parent: above.span, recorded: true, name: name, kind: kind, start: start}
	if above.trace == (traceID{}) {
		s.trace = newTraceID()
	}
	s.span, s.sampled = newSpanID(), true
	return s
}

// Kinds of spans, as OTLP numbers them.
const (
	kindInternal uint64 = 1
	kindServer   uint64 = 2
	kindClient   uint64 = 3
)

// Span is one step of a request. A nil *Span is a step of a request that is not traced; all methods accept
// it and do nothing, without an allocation. A Span that is not recorded is that of a caller whose trace is
// not recorded here: it is only passed on. A Span is safe for concurrent use.
//
// Nothing of prompts, answers or tools may go into a span unless Content reports true.
type Span struct {
	tracer *Tracer
	place
	parent   spanID // zero: it begins the trace
	recorded bool
	kind     uint64
	start    time.Time

	mu         sync.Mutex // guards what follows until the span has ended; then nothing changes it any more
	name       string
	attributes []attribute
	failed     bool
	end        time.Time // zero: it has not ended
}

// on reports whether the span is recorded.
func (s *Span) on() bool { return s != nil && s.recorded }

// Content reports whether the operator wants prompts and answers in spans.
func (s *Span) Content() bool { return s.on() && s.tracer.content.Load() }

// TraceID returns the id of the trace, or "".
func (s *Span) TraceID() string {
	if s == nil {
		return ""
	}
	return hex.EncodeToString(s.trace[:])
}

// Child begins a step inside this one.
func (s *Span) Child(name string) *Span {
	if !s.on() {
		return nil
	}
	return s.child(name, kindInternal)
}

// Attempt begins a call of a model at a provider. Unlike Child, it returns the trace of a caller that is
// only passed on.
func (s *Span) Attempt(model, upstream, provider string, n int) *Span {
	return s.attempt(OperationChat, model, upstream, provider, n)
}

// Embedding is Attempt for a call for embeddings.
func (s *Span) Embedding(model, upstream, provider string, n int) *Span {
	return s.attempt(OperationEmbeddings, model, upstream, provider, n)
}

func (s *Span) attempt(operation, model, upstream, provider string, n int) *Span {
	if !s.on() {
		return s
	}
	a := s.child(operation+" "+model, kindClient)
	a.set(textOf(attrOperation, operation), textOf(attrProvider, provider), textOf(attrRequestModel, upstream), numberOf(AttrAttempt, n))
	return a
}

// Tool begins a call of a tool on an MCP server.
func (s *Span) Tool(name, id string) *Span {
	if !s.on() {
		return nil
	}
	t := s.child("execute_tool "+name, kindClient)
	t.set(textOf(attrOperation, "execute_tool"), textOf(attrToolName, name), textOf(attrToolType, "extension"), textOf(attrMCPMethod, "tools/call"), textOf(AttrToolCallID, id))
	return t
}

func (s *Span) child(name string, kind uint64) *Span {
	return s.tracer.begin(s.place, name, kind, time.Now())
}

// attribute is something that a span says about its step.
type attribute struct {
	key  string
	kind attributeKind
	text string
	bits uint64 // a number, or 1 for true
}

type attributeKind uint8

const (
	isText attributeKind = iota
	isNumber
	isFloat
	isFlag
	isList // of one text
)

func textOf(key, value string) attribute { return attribute{key: key, text: value} }
func numberOf(key string, n int) attribute {
	return attribute{key: key, kind: isNumber, bits: uint64(n)} //nolint:gosec // as the format has it
}

// set sets attributes of a span that has not ended. A later value replaces an earlier one.
func (s *Span) set(list ...attribute) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.end.IsZero() {
		return
	}
next:
	for _, a := range list {
		for i := range s.attributes {
			if s.attributes[i].key == a.key {
				s.attributes[i] = a
				continue next
			}
		}
		s.attributes = append(s.attributes, a)
	}
}

// Text, Int and Float set an attribute.
func (s *Span) Text(key, value string) {
	if s.on() {
		s.set(textOf(key, value))
	}
}

func (s *Span) Int(key string, value int) {
	if s.on() {
		s.set(numberOf(key, value))
	}
}

func (s *Span) Float(key string, value float64) {
	if s.on() {
		s.set(attribute{key: key, kind: isFloat, bits: math.Float64bits(value)})
	}
}

// Flag sets an attribute that is true or false.
func (s *Span) Flag(key string, value bool) {
	if s.on() {
		a := attribute{key: key, kind: isFlag}
		if value {
			a.bits = 1
		}
		s.set(a)
	}
}

// List sets an attribute that is a list with one value.
func (s *Span) List(key, value string) {
	if s.on() {
		s.set(attribute{key: key, kind: isList, text: value})
	}
}

// Fail marks the step as failed. The kind is one of a closed set: what an upstream said may hold a part of
// a prompt.
func (s *Span) Fail(kind string) {
	if !s.on() {
		return
	}
	s.set(textOf(attrErrorType, kind))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed = s.failed || s.end.IsZero()
}

// End ends the step. It may be called more than once; only the first call counts.
func (s *Span) End() {
	if !s.on() {
		return
	}
	s.mu.Lock()
	first := s.end.IsZero()
	if first {
		// By the monotonic clock, so that no span ends before it began.
		s.end = s.start.Add(time.Since(s.start))
	}
	s.mu.Unlock()
	if first {
		s.tracer.exporter.take(s)
	}
}

// Answered ends the span of a request with its route and its outcome.
func (s *Span) Answered(e *Event) {
	if !s.on() {
		return
	}
	if e.Route != "" {
		s.mu.Lock()
		s.name = knownMethod(e.Method) + " " + e.Route
		s.mu.Unlock()
		s.set(textOf(attrRoute, e.Route))
	}
	s.set(numberOf(attrStatus, e.Status), textOf(AttrRequestID, e.RequestID))
	if e.AccountID != "" {
		s.set(textOf(AttrAccount, e.AccountID))
	}
	switch {
	case e.Outcome() >= 500:
		s.Fail(e.Fault)
	case e.Fault != "": // the caller's mistake, which is not an error of a server
		s.set(textOf(attrErrorType, e.Fault))
	}
	s.End()
}

// Propagate returns the traceparent and the tracestate for a call that belongs to this step; both are
// empty if it is not traced.
func (s *Span) Propagate() (parent, state string) {
	if s == nil {
		return "", ""
	}
	return s.place.String(), s.state
}
