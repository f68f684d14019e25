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

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"google.golang.org/protobuf/encoding/protowire"
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

// exporter is a sdk.SpanExporter that sends batches to a collector: OTLP over HTTP in the binary format. The
// official one would make the program by two thirds larger (docs/decisions/0018-traces-without-grpc.md).
type exporter struct {
	url     string
	headers http.Header
	client  *http.Client
	failed  func(err error, spans int)

	taken func([]sdk.ReadOnlySpan) // is told of each batch before it is sent

	until   context.Context //nolint:containedctx // of Run: when it has ended, there is no time for pauses
	sending context.Context //nolint:containedctx // ends a little later, and with it what is being sent

	sent    atomic.Int64 // spans that the collector has taken
	dropped atomic.Int64 // spans that found no room, could not be sent, or were rejected
}

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
	e.send(ctx, batch)
	return nil
}

// Shutdown implements sdk.SpanExporter.
func (e *exporter) Shutdown(context.Context) error {
	e.client.CloseIdleConnections()
	return nil
}

// send sends a batch, and again if that may help and there is time for a pause. A batch that cannot be sent is
// dropped.
func (e *exporter) send(ctx context.Context, batch []sdk.ReadOnlySpan) {
	body := appendMessage(nil, batch)
	var err error
	pause := firstPause
	for try := 1; err == nil; try++ {
		var again time.Duration
		var rejected int64
		if again, rejected, err = e.post(ctx, body); err == nil {
			e.sent.Add(int64(len(batch)) - rejected)
			if e.dropped.Add(rejected); rejected > 0 {
				e.failed(errors.New("the collector rejected spans"), int(rejected))
			}
			return
		}
		if again < 0 || try == sendTries || !sleep(e.until, min(max(again, pause), longestPause)) {
			break
		}
		pause, err = 2*pause, nil
	}
	e.dropped.Add(int64(len(batch)))
	e.failed(err, len(batch))
}

// sleep waits, and reports false if ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// post sends a message once and returns how many of its spans the collector rejected. With an error, again
// is how long to wait before it may be sent again; negative: never.
func (e *exporter) post(ctx context.Context, body []byte) (again time.Duration, rejected int64, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url, bytes.NewReader(body))
	if err != nil {
		return -1, 0, err
	}
	req.Header = e.headers
	resp, err := e.client.Do(req)
	if err != nil {
		return 0, 0, err
	}
	defer resp.Body.Close()
	reply, err := io.ReadAll(io.LimitReader(resp.Body, maxCollectorReply))
	switch resp.StatusCode {
	case http.StatusOK:
		if err != nil {
			return 0, 0, err
		}
		return 0, rejectedIn(reply), nil
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After")) // 0 if there is none, or a date
		again = time.Duration(max(0, min(seconds, int(longestPause/time.Second)))) * time.Second
	default: // the standard forbids to send it again
		again = -1
	}
	return again, 0, fmt.Errorf("the collector answered %s", resp.Status)
}

// rejectedIn returns the number of rejected spans in an ExportTraceServiceResponse. The type itself is in a
// package that needs gRPC: partial_success is its field 1, rejected_spans field 1 in there.
func rejectedIn(reply []byte) int64 {
	success, _ := field(reply, protowire.BytesType)
	_, n := field(success, protowire.VarintType)
	return max(0, int64(n))
}

// field returns field 1 of a message if it has the type.
func field(message []byte, want protowire.Type) (inside []byte, n uint64) {
	for len(message) > 0 {
		number, t, size := protowire.ConsumeTag(message)
		if size < 0 {
			return nil, 0
		}
		message = message[size:]
		if number == 1 && t == want {
			if t == protowire.BytesType {
				inside, _ = protowire.ConsumeBytes(message)
			} else {
				n, _ = protowire.ConsumeVarint(message)
			}
			return inside, n
		}
		if size = protowire.ConsumeFieldValue(number, t, message); size < 0 {
			return nil, 0
		}
		message = message[size:]
	}
	return nil, 0
}
