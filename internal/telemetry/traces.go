package telemetry

import (
	"context"
	"math"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
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
	attrRequestModel = "gen_ai.request.model"

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
	tracer   trace.Tracer
	provider *sdk.TracerProvider
	exporter *exporter

	threshold atomic.Uint64 // a random number below it means that a request is traced
	follow    atomic.Bool
	content   atomic.Bool
}

// NewTracer returns a tracer. Nothing is sent before Run is called.
func NewTracer(opts TraceOptions) *Tracer {
	t := &Tracer{exporter: newExporter(&opts)}
	// The SDK's own sampler is not used: a request that is not traced must cost nothing, so Begin decides
	// before it makes a span.
	t.provider = sdk.NewTracerProvider(
		sdk.WithSampler(sdk.AlwaysSample()), sdk.WithSpanProcessor(t.exporter),
		sdk.WithResource(resource.NewSchemaless(
			attribute.String("service.name", "sluice"), attribute.String("service.version", opts.Version), attribute.String("service.instance.id", opts.Instance),
		)),
	)
	t.tracer = t.provider.Tracer("sluice", trace.WithInstrumentationVersion(opts.Version))
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
		return t.door(context.Background(), method, start)
	}
	carrier := propagation.MapCarrier{"traceparent": parent[0]}
	if len(state) == 1 && len(state[0]) <= maxTraceState {
		carrier["tracestate"] = state[0]
	}
	ctx := propagation.TraceContext{}.Extract(context.Background(), carrier)
	above := trace.SpanContextFromContext(ctx)
	sampled := above.IsValid() && above.IsSampled()
	if !above.IsValid() || !trusted && !t.follow.Load() {
		sampled = rand.Uint64() < t.threshold.Load()
	}
	switch {
	case sampled:
		return t.door(ctx, method, start)
	case above.IsValid():
		return &Span{tracer: t, ctx: ctx} // passed on as it came
	}
	return nil
}

// maxTraceState is the number of bytes of a tracestate that is passed on, as the standard recommends.
const maxTraceState = 512

// door begins the span of a whole request.
func (t *Tracer) door(ctx context.Context, method string, start time.Time) *Span {
	s := &Span{tracer: t}
	method = knownMethod(method)
	s.ctx, s.span = t.tracer.Start(ctx, method, trace.WithSpanKind(trace.SpanKindServer), trace.WithTimestamp(start),
		trace.WithAttributes(attribute.String(attrMethod, method)))
	return s
}

// Span is one step of a request. A nil *Span is a step of a request that is not traced; all methods accept
// it and do nothing, without an allocation. A Span without span is that of a caller whose trace is not
// recorded here: it is only passed on.
//
// Nothing of prompts, answers or tools may go into a span unless Content reports true.
type Span struct {
	tracer *Tracer
	ctx    context.Context //nolint:containedctx // the SDK finds the parent of a span there
	span   trace.Span      // nil: not recorded
}

// on reports whether the span is recorded.
func (s *Span) on() bool { return s != nil && s.span != nil }

// Content reports whether the operator wants prompts and answers in spans.
func (s *Span) Content() bool { return s.on() && s.tracer.content.Load() }

// TraceID returns the id of the trace, or "".
func (s *Span) TraceID() string {
	if s == nil {
		return ""
	}
	return trace.SpanContextFromContext(s.ctx).TraceID().String()
}

// Child begins a step inside this one.
func (s *Span) Child(name string) *Span {
	if !s.on() {
		return nil
	}
	return s.child(name, trace.SpanKindInternal)
}

// Attempt begins a call of a model at a provider. Unlike Child, it returns the trace of a caller that is
// only passed on.
func (s *Span) Attempt(model, upstream, provider string, n int) *Span {
	if !s.on() {
		return s
	}
	a := s.child(OperationChat+" "+model, trace.SpanKindClient)
	a.span.SetAttributes(attribute.String(attrOperation, OperationChat), attribute.String(attrProvider, provider),
		attribute.String(attrRequestModel, upstream), attribute.Int(AttrAttempt, n))
	return a
}

// Tool begins a call of a tool on an MCP server.
func (s *Span) Tool(name, id string) *Span {
	if !s.on() {
		return nil
	}
	t := s.child("execute_tool "+name, trace.SpanKindClient)
	t.span.SetAttributes(attribute.String(attrOperation, "execute_tool"), attribute.String(attrToolName, name), attribute.String(attrToolType, "extension"),
		attribute.String(attrMCPMethod, "tools/call"), attribute.String(AttrToolCallID, id))
	return t
}

func (s *Span) child(name string, kind trace.SpanKind) *Span {
	c := &Span{tracer: s.tracer}
	c.ctx, c.span = s.tracer.tracer.Start(s.ctx, name, trace.WithSpanKind(kind))
	return c
}

// Text, Int and Float set an attribute.
func (s *Span) Text(key, value string) {
	if s.on() {
		s.span.SetAttributes(attribute.String(key, value))
	}
}

func (s *Span) Int(key string, value int) {
	if s.on() {
		s.span.SetAttributes(attribute.Int(key, value))
	}
}

func (s *Span) Float(key string, value float64) {
	if s.on() {
		s.span.SetAttributes(attribute.Float64(key, value))
	}
}

// Flag sets an attribute that is true or false.
func (s *Span) Flag(key string, value bool) {
	if s.on() {
		s.span.SetAttributes(attribute.Bool(key, value))
	}
}

// List sets an attribute that is a list with one value.
func (s *Span) List(key, value string) {
	if s.on() {
		s.span.SetAttributes(attribute.StringSlice(key, []string{value}))
	}
}

// Fail marks the step as failed. The kind is one of a closed set: what an upstream said may hold a part of
// a prompt.
func (s *Span) Fail(kind string) {
	if s.on() {
		s.span.SetStatus(codes.Error, "")
		s.span.SetAttributes(attribute.String(attrErrorType, kind))
	}
}

// End ends the step. It may be called more than once; only the first call counts.
func (s *Span) End() {
	if s.on() {
		s.span.End()
	}
}

// Answered ends the span of a request with its route and its outcome.
func (s *Span) Answered(e *Event) {
	if !s.on() {
		return
	}
	route := e.Route
	if route != "" {
		s.span.SetName(knownMethod(e.Method) + " " + route)
		s.span.SetAttributes(attribute.String(attrRoute, route))
	}
	s.span.SetAttributes(attribute.Int(attrStatus, e.Status), attribute.String(AttrRequestID, e.RequestID))
	if e.AccountID != "" {
		s.span.SetAttributes(attribute.String(AttrAccount, e.AccountID))
	}
	switch {
	case e.Outcome() >= 500:
		s.Fail(e.Fault)
	case e.Fault != "": // the caller's mistake, which is not an error of a server
		s.span.SetAttributes(attribute.String(attrErrorType, e.Fault))
	}
	s.span.End()
}

// Propagate returns the traceparent and the tracestate for a call that belongs to this step; both are
// empty if it is not traced.
func (s *Span) Propagate() (parent, state string) {
	if s == nil {
		return "", ""
	}
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(s.ctx, carrier)
	return carrier["traceparent"], carrier["tracestate"]
}
