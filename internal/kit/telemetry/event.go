package telemetry

import (
	"cmp"
	"context"
	"log/slog"
	"strconv"
	"time"

	"sluice/internal/kit/excerpt"
)

// Event collects what is known about one request. Each step of the chain fills in its own
// fields, and the event is logged once at the end. One goroutine uses it at a time.
type Event struct {
	// RequestID names the request in its reply and in the log. It is the one that a trusted proxy
	// gave it, or CallID.
	RequestID string
	// CallID is our own id of the request: random and unique, whatever callers and proxies send.
	// Replies and settlements are named after it.
	CallID string
	// TraceID is that of the caller's trace, or "".
	TraceID string
	Start   time.Time
	// Remote is the client's address, as told by a trusted proxy if one is configured.
	Remote string
	Method string
	Path   string
	// Route is the pattern of the route, or "" if none matched.
	Route string
	// Probe marks the requests of load balancers and orchestrators, which come every few seconds.
	Probe bool

	AccountID string
	KeyID     string
	// Model is the requested model, if it exists.
	Model string

	// Span is the span of the request at the door; nil: it is not traced, and brings no trace of its own.
	Span *Span

	Status int
	// Final is how the request ended if that is not what Status says: a reply that had begun and broke
	// off. 0: as Status says.
	Final int
	Bytes int64
	// Fault is the type of the error object, if one was sent.
	Fault string
	// Err is the cause of the fault. It is logged but never sent.
	Err error
}

// Outcome returns the status that says how the request ended. That of a stream that broke off is not 200,
// although the caller has seen 200.
func (e *Event) Outcome() int {
	if e.Final != 0 {
		return e.Final
	}
	return e.Status
}

// Given returns the id that a proxy gave the request, or "".
func (e *Event) Given() string {
	if e.RequestID == e.CallID {
		return ""
	}
	return e.RequestID
}

// requestMessage is the log message of every event. The log handler recognises requests by it.
const requestMessage = "request"

// Log writes the event. Status 5xx is logged as an error, everything else as info: a refused
// request is routine. Probes are logged as debug; a server that is not ready says why in lines of
// its own.
func (e *Event) Log(ctx context.Context, log *slog.Logger, took time.Duration) {
	level := slog.LevelInfo
	switch {
	case e.Probe:
		level = slog.LevelDebug
	case e.Status >= 500:
		level = slog.LevelError
	}
	if !log.Enabled(ctx, level) {
		return
	}
	if level == slog.LevelInfo && e.logDirect(log, took) {
		return
	}
	attrs := make([]slog.Attr, 0, 16) // as many as there are fields; more would be allocated
	attrs = append(attrs,
		slog.String("request_id", e.RequestID), slog.String("method", e.Method), slog.String("path", excerpt.Of(e.Path, 200)),
		slog.Int("status", e.Status), slog.Float64("took_ms", float64(took.Microseconds())/1000), slog.Int64("bytes", e.Bytes),
		slog.String("remote", e.Remote))
	add := func(key, value string) {
		if value != "" {
			attrs = append(attrs, slog.String(key, value))
		}
	}
	if e.CallID != e.RequestID {
		add("call_id", e.CallID)
	}
	add("trace_id", cmp.Or(e.Span.TraceID(), e.TraceID))
	if e.Final != 0 {
		attrs = append(attrs, slog.Int("ended_as", e.Final))
	}
	add("account", e.AccountID)
	add("key", e.KeyID)
	add("model", e.Model)
	add("fault", e.Fault)
	if e.Err != nil {
		attrs = append(attrs, slog.String("error", e.Err.Error()))
	}
	log.LogAttrs(ctx, level, requestMessage, attrs...)
}

// logDirect writes the line of a request as slog would, at a third of the cost. It reports false if it cannot: the log
// is not JSON, or something in the event needs escaping.
func (e *Event) logDirect(log *slog.Logger, took time.Duration) (done bool) {
	h, ok := log.Handler().(*handler)
	if !ok || !h.direct || e.Err != nil || len(e.Path) > 200 {
		return false
	}
	now, trace, call := time.Now(), cmp.Or(e.Span.TraceID(), e.TraceID), ""
	if e.CallID != e.RequestID {
		call = e.CallID
	}
	for _, s := range [...]string{e.RequestID, e.Method, e.Path, e.Remote, call, trace, e.AccountID, e.KeyID, e.Model, e.Fault} {
		if !isPlain(s) {
			return false
		}
	}
	h.held.add(func(b []byte) []byte {
		b = now.AppendFormat(append(b, `{"time":"`...), time.RFC3339Nano)
		b = append(b, `","level":"INFO","msg":"`+requestMessage...)
		b = append(append(b, `","request_id":"`...), e.RequestID...)
		b = append(append(b, `","method":"`...), e.Method...)
		b = append(append(b, `","path":"`...), e.Path...)
		b = strconv.AppendInt(append(b, `","status":`...), int64(e.Status), 10)
		b = strconv.AppendFloat(append(b, `,"took_ms":`...), float64(took.Microseconds())/1000, 'f', -1, 64)
		b = strconv.AppendInt(append(b, `,"bytes":`...), e.Bytes, 10)
		b = append(append(append(b, `,"remote":"`...), e.Remote...), '"')
		b = appendField(b, "call_id", call)
		b = appendField(b, "trace_id", trace)
		if e.Final != 0 {
			b = strconv.AppendInt(append(b, `,"ended_as":`...), int64(e.Final), 10)
		}
		b = appendField(b, "account", e.AccountID)
		b = appendField(b, "key", e.KeyID)
		b = appendField(b, "model", e.Model)
		b = appendField(b, "fault", e.Fault)
		return append(b, "}\n"...)
	})
	return true
}

// appendField appends a field whose value needs no escaping, unless it is empty.
func appendField(b []byte, key, value string) []byte {
	if value == "" {
		return b
	}
	b = append(append(append(b, `,"`...), key...), `":"`...)
	return append(append(b, value...), '"')
}

// isPlain reports whether a string is the same inside JSON.
func isPlain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}
