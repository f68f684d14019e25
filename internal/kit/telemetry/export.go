package telemetry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"sluice/internal/kit/pace"
)

const (
	// mostSpans and mostSpanBytes bound the spans that wait for the collector. Further ones are dropped and
	// counted: a request never waits.
	mostSpans     = 4096
	mostSpanBytes = 16 << 20
	// batchSpans is the number of spans in one message, gatherFor how long the first of them waits for
	// others.
	batchSpans = 512
	gatherFor  = time.Second

	sendPatience = 10 * time.Second // for one attempt to send a batch
	lastPatience = 3 * time.Second  // for all that is left when the server stops
	// sendTries is the number of attempts to send a batch, with pauses that double from firstPause, or are
	// as long as the collector says, up to longestPause.
	sendTries    = 4
	firstPause   = time.Second
	longestPause = 15 * time.Second

	maxCollectorReply = 64 << 10 // bytes that are read of what the collector answers
)

// exporter is a sdk.SpanExporter that counts what becomes of batches. The official exporter turns their spans into
// messages of OTLP, and has them sent by what is below: its own client brings gRPC with it and would make the program
// larger by two thirds (docs/decisions/0029-official-metrics-and-traces.md).
type exporter struct {
	otlp    *otlptrace.Exporter
	url     string
	headers http.Header
	client  *http.Client
	failed  func(err error, spans int)

	taken func([]sdk.ReadOnlySpan) // gets each batch before it is sent

	until   context.Context //nolint:containedctx // of Run: when it has ended, there is no time for pauses
	sending context.Context //nolint:containedctx // ends a little later, and with it what is being sent

	sent    atomic.Int64 // spans that the collector has taken
	dropped atomic.Int64 // spans that found no room, could not be sent, or were rejected
}

// newExporter returns an exporter. An endpoint may be given with or without /v1/traces,.
func newExporter(opts *TraceOptions) *exporter {
	e := &exporter{
		url: strings.TrimSuffix(strings.TrimSuffix(opts.Endpoint, "/"), "/v1/traces") + "/v1/traces", headers: http.Header{}, failed: opts.Failed,
		client: &http.Client{
			// A transport of its own, so that its connections can be closed with it.
			Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: 1, IdleConnTimeout: time.Minute, TLSHandshakeTimeout: sendPatience, MaxResponseHeaderBytes: maxCollectorReply},
			// The headers may hold a key, which must not go to another host.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
			Timeout:       sendPatience,
		},
	}
	e.otlp = otlptrace.NewUnstarted((*sender)(e))
	if e.failed == nil {
		e.failed = func(error, int) {}
	}
	for name, value := range opts.Headers {
		e.headers.Set(name, value)
	}
	e.headers.Set("Content-Type", "application/x-protobuf")
	e.headers.Set("User-Agent", "sluice/"+opts.Version)
	return e
}

// ExportSpans implements sdk.SpanExporter. It returns no error, which the SDK would write to standard error: what
// cannot be sent is counted and reported here.
func (e *exporter) ExportSpans(ctx context.Context, batch []sdk.ReadOnlySpan) error {
	e.taken(batch)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(e.sending, cancel)()
	lost := 0
	if err := e.otlp.ExportSpans(ctx, batch); err != nil {
		lost = len(batch)
		var some rejected
		if errors.As(err, &some) {
			lost = min(lost, int(some))
		}
		e.failed(errors.Unwrap(err), lost)
	}
	e.sent.Add(int64(len(batch) - lost))
	e.dropped.Add(int64(lost))
	return nil
}

// Shutdown implements sdk.SpanExporter.
func (e *exporter) Shutdown(context.Context) error {
	e.client.CloseIdleConnections()
	return nil
}

// rejected is the error of a message of which the collector rejected some spans.
type rejected int64

// Error implements error.
func (rejected) Error() string { return "the collector rejected spans" }

// sender is the otlptrace.Client of an exporter: OTLP over HTTP in the binary format.
type sender exporter

// Start and Stop implement otlptrace.Client.
func (*sender) Start(context.Context) error { return nil }
func (*sender) Stop(context.Context) error  { return nil }

// UploadTraces implements otlptrace.Client. It sends a message, and again if that may help and there is time for a
// pause. TracesData has the same fields as the request of the trace service, whose type is in a package that needs gRPC.
func (e *sender) UploadTraces(ctx context.Context, spans []*otlp.ResourceSpans) error {
	body, err := proto.Marshal(&otlp.TracesData{ResourceSpans: spans})
	if err != nil {
		return err
	}
	pause := firstPause
	for try := 1; ; try++ {
		again, err := e.post(ctx, body)
		if again < 0 || err == nil || try == sendTries || pace.Sleep(e.until, min(max(again, pause), longestPause)) != nil {
			return err
		}
		pause *= 2
	}
}

// post sends a message once. With an error, again is how long to wait before it may be sent again; negative: never.
func (e *sender) post(ctx context.Context, body []byte) (again time.Duration, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url, bytes.NewReader(body))
	if err != nil {
		return -1, err
	}
	req.Header = e.headers
	resp, err := e.client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	reply, err := io.ReadAll(io.LimitReader(resp.Body, maxCollectorReply))
	switch resp.StatusCode {
	case http.StatusOK:
		if n := rejectedIn(reply); err == nil && n > 0 {
			return -1, rejected(n)
		}
		return 0, err
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After")) // 0 if there is none, or a date
		again = time.Duration(max(0, min(seconds, int(longestPause/time.Second)))) * time.Second
	default: // the standard forbids to send it again
		again = -1
	}
	return again, fmt.Errorf("the collector answered %s", resp.Status)
}

// rejectedIn returns the number of rejected spans in an ExportTraceServiceResponse. The type itself is in a
// package that needs gRPC: partial_success is its field 1, rejected_spans field 1 in there.
func rejectedIn(reply []byte) int64 {
	success, _ := protowire.ConsumeBytes(fieldOne(reply, protowire.BytesType))
	n, _ := protowire.ConsumeVarint(fieldOne(success, protowire.VarintType))
	return max(0, int64(n)) //nolint:gosec // as the format has it
}

// fieldOne returns a message from the value of its field 1 on, or nil if it has none of that type.
func fieldOne(message []byte, want protowire.Type) []byte {
	for len(message) > 0 {
		number, t, tag := protowire.ConsumeTag(message)
		if tag < 0 {
			return nil
		}
		if number == 1 && t == want {
			return message[tag:]
		}
		size := protowire.ConsumeFieldValue(number, t, message[tag:])
		if size < 0 {
			return nil
		}
		message = message[tag+size:]
	}
	return nil
}
