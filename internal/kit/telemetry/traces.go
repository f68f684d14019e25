package telemetry

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"sluice/internal/kit/pace"
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
	AttrWrittenTokens = "gen_ai.usage.cache_creation.input_tokens"
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

// LogLost returns a function for TraceOptions.Failed that logs what is lost, once a minute at most. A tracer must not
// share it with another: it is called by one goroutine.
func LogLost(log *slog.Logger) func(err error, spans int) {
	var told time.Time
	return func(err error, spans int) {
		if time.Since(told) >= time.Minute {
			told = time.Now()
			log.Warn("traces could not be sent; sluice_trace_spans_total counts what is lost", "spans", spans, "error", err.Error())
		}
	}
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

// Tracer makes traces with OpenTelemetry's SDK. A nil *Tracer makes none. It is safe for concurrent use.
type Tracer struct {
	tracer   trace.Tracer
	exporter *exporter
	waiting  *waiting
	sampling atomic.Pointer[sampling]
}

// sampling is a Sampling, and the sampler that it makes.
type sampling struct {
	Sampling
	sampler sdk.Sampler
}

// NewTracer returns a tracer. Nothing is sent before Run is called.
func NewTracer(opts TraceOptions) *Tracer {
	t := &Tracer{exporter: newExporter(&opts)}
	t.waiting = &waiting{exporter: t.exporter}
	t.exporter.taken = t.waiting.leave
	t.tracer = sdk.NewTracerProvider(
		// Begin has asked the sampler before it makes the span of a request; the steps follow that one.
		sdk.WithSampler(sdk.ParentBased(sdk.AlwaysSample())),
		sdk.WithSpanProcessor(t.waiting),
		sdk.WithResource(resource.NewSchemaless(
			text("service.name", "sluice"), text("service.version", opts.Version), text("service.instance.id", opts.Instance),
		)),
	).Tracer("sluice", trace.WithInstrumentationVersion(opts.Version))
	t.Set(opts.Sampling)
	return t
}

// Set changes the sampling for requests that begin from now on.
func (t *Tracer) Set(s Sampling) {
	t.sampling.Store(&sampling{s, sdk.ParentBased(sdk.TraceIDRatioBased(s.Share))})
}

// Sampling returns what Set was last called with.
func (t *Tracer) Sampling() Sampling { return t.sampling.Load().Sampling }

// Run sends spans until ctx ends, and then what is left, for a moment.
func (t *Tracer) Run(ctx context.Context) {
	// A batch that is being sent when ctx ends, and what is left then, have lastPatience together.
	sending, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		defer cancel()
		_ = pace.Sleep(sending, lastPatience) // or until Run has returned
	})()
	t.exporter.until, t.exporter.sending = ctx, sending
	batches := sdk.NewBatchSpanProcessor(t.exporter, sdk.WithMaxQueueSize(mostSpans), sdk.WithMaxExportBatchSize(batchSpans),
		sdk.WithBatchTimeout(gatherFor), sdk.WithExportTimeout(0)) // the exporter has deadlines of its own
	t.waiting.open(batches)
	<-ctx.Done()
	t.waiting.close()
	_ = batches.Shutdown(context.WithoutCancel(ctx)) // the exporter returns no error: it has reported it
}

// Counts returns what became of the spans since the start, and how many are waiting.
func (t *Tracer) Counts() (sent, dropped, waiting int64) {
	return t.exporter.sent.Load(), t.exporter.dropped.Load(), t.waiting.spans.Load()
}

// Begin begins the trace of a request. Parent and state are the caller's traceparent and tracestate;
// trusted says that a trusted proxy sent them. It returns nil for a request that is not traced and brings
// no trace of its own.
//
// The SDK asks its sampler when it has already made the ids of a span and a context. Here the sampler is asked
// first, so a request that is not traced costs a random number and no allocation.
func (t *Tracer) Begin(method string, parent, state []string, trusted bool, start time.Time) *Span {
	if t == nil {
		return nil
	}
	var above place
	known := false
	if len(parent) == 1 { // two are not valid
		if above, known = parseParent(parent[0]); known && len(state) == 1 {
			above.state = checkState(state[0])
		}
	}
	now := t.sampling.Load()
	// A caller whose word does not count could choose an id that the sampler takes, so it sees a random one.
	question := sdk.SamplingParameters{ParentContext: context.Background(), TraceID: randomID(), Name: method, Kind: trace.SpanKindServer}
	if known && (trusted || now.Follow) {
		question.ParentContext, question.TraceID = above.context(), above.trace
	}
	switch {
	case now.sampler.ShouldSample(question).Decision == sdk.RecordAndSample:
		return t.door(above, known, method, start)
	case known:
		return &Span{tracer: t, place: above} // passed on as it came
	}
	return nil
}

// randomID returns an id to ask the sampler with.
func randomID() (id trace.TraceID) {
	n := rand.Uint64()
	for i := range 8 {
		id[8+i] = byte(n >> (8 * i)) // the half that the sampler looks at
	}
	return id
}

// door begins the span of a whole request, below that of the caller if it is known.
func (t *Tracer) door(above place, known bool, method string, start time.Time) *Span {
	ctx := context.Background()
	if known {
		above.sampled = true // it has been decided
		ctx = above.context()
	}
	method = knownMethod(method)
	return t.begin(ctx, method, trace.WithSpanKind(trace.SpanKindServer), trace.WithTimestamp(start), trace.WithAttributes(text(attrMethod, method)))
}

// begin begins a span below that in the context.
func (t *Tracer) begin(ctx context.Context, name string, opts ...trace.SpanStartOption) *Span {
	s := &Span{tracer: t}
	s.ctx, s.span = t.tracer.Start(ctx, valid(name), opts...)
	s.place = placeOf(s.span.SpanContext())
	return s
}

// Span is one step of a request. A nil *Span is a step of a request that is not traced; all methods accept
// it and do nothing, without an allocation. A Span without a span of the SDK is that of a caller whose trace is
// not recorded here: it is only passed on. A Span is safe for concurrent use.
//
// Nothing of prompts, answers or tools may go into a span unless Content reports true.
type Span struct {
	tracer *Tracer
	place
	ctx  context.Context //nolint:containedctx // the SDK finds the parent of a span there
	span trace.Span      // nil: not recorded
}

// on reports whether the span is recorded.
func (s *Span) on() bool { return s != nil && s.span != nil }

// Content reports whether the operator wants prompts and answers in spans.
func (s *Span) Content() bool { return s.on() && s.tracer.Sampling().Content }

// TraceID returns the id of the trace, or "".
func (s *Span) TraceID() string {
	if s == nil {
		return ""
	}
	return s.trace.String()
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
	return s.attempt(OperationChat, model, upstream, provider, n)
}

// Embedding is Attempt for a call for embeddings.
func (s *Span) Embedding(model, upstream, provider string, n int) *Span {
	return s.attempt(OperationEmbeddings, model, upstream, provider, n)
}

// attempt is Attempt and Embedding. n is the number of the attempt, counted within the request.
func (s *Span) attempt(operation, model, upstream, provider string, n int) *Span {
	if !s.on() {
		return s
	}
	a := s.child(operation+" "+model, trace.SpanKindClient)
	a.span.SetAttributes(text(attrOperation, operation), text(attrProvider, provider),
		text(attrRequestModel, upstream), attribute.Int(AttrAttempt, n))
	return a
}

// Tool begins a call of a tool on an MCP server.
func (s *Span) Tool(name, id string) *Span {
	if !s.on() {
		return nil
	}
	t := s.child("execute_tool "+name, trace.SpanKindClient)
	t.span.SetAttributes(text(attrOperation, "execute_tool"), text(attrToolName, name), text(attrToolType, "extension"),
		text(attrMCPMethod, "tools/call"), text(AttrToolCallID, id))
	return t
}

// child begins a step of a span that is recorded.
func (s *Span) child(name string, kind trace.SpanKind) *Span {
	return s.tracer.begin(s.ctx, name, trace.WithSpanKind(kind))
}

// text returns an attribute that is a text.
func text(key, value string) attribute.KeyValue { return attribute.String(key, valid(value)) }

// valid returns a text as UTF-8: one that is not would make the whole message of its batch invalid.
func valid(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }

// Text, Int and Float set an attribute.
func (s *Span) Text(key, value string) {
	if s.on() {
		s.span.SetAttributes(text(key, value))
	}
}

// Int sets an attribute that is a whole number.
func (s *Span) Int(key string, value int) {
	if s.on() {
		s.span.SetAttributes(attribute.Int(key, value))
	}
}

// Float sets an attribute that is a number.
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
		s.span.SetAttributes(attribute.StringSlice(key, []string{valid(value)}))
	}
}

// Fail marks the step as failed. The kind is one of a closed set: what an upstream said may hold a part of
// a prompt.
func (s *Span) Fail(kind string) {
	if s.on() {
		s.span.SetStatus(codes.Error, "")
		s.span.SetAttributes(text(attrErrorType, kind))
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
		s.span.SetAttributes(text(attrRoute, route))
	}
	s.span.SetAttributes(attribute.Int(attrStatus, e.Status), text(AttrRequestID, e.RequestID))
	if e.AccountID != "" {
		s.span.SetAttributes(text(AttrAccount, e.AccountID))
	}
	switch {
	case e.Outcome() >= 500:
		s.Fail(e.Fault)
	case e.Fault != "": // the caller's mistake, which is not an error of a server
		s.span.SetAttributes(text(attrErrorType, e.Fault))
	}
	s.span.End()
}

// Propagate returns the traceparent and the tracestate for a call that belongs to this step; both are
// empty if it is not traced.
func (s *Span) Propagate() (parent, state string) {
	if s == nil {
		return "", ""
	}
	return s.place.String(), s.state
}

// AddMetrics adds the metrics of the tracer, which may be nil.
func (t *Tracer) AddMetrics(m *Metrics) {
	if t == nil {
		return
	}
	m.Counters("sluice_trace_spans_total", "Spans by what became of them: sent to the collector, or dropped because it did not take them in time.", "outcome", map[string]func() int64{
		"sent":    func() int64 { sent, _, _ := t.Counts(); return sent },
		"dropped": func() int64 { _, dropped, _ := t.Counts(); return dropped },
	})
	Gauge(m, "sluice_trace_spans_waiting", "Spans that wait to be sent.", func() int64 { _, _, waiting := t.Counts(); return waiting })
}
