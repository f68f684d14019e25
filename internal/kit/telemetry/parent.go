package telemetry

import (
	"context"
	"encoding/hex"
	"strings"

	"go.opentelemetry.io/otel/trace"
)

// place is where a span is: what goes from one service to the next in the headers traceparent and tracestate.
//
// The headers are read here and not by OpenTelemetry's propagator, which makes a context and a span of them: most
// requests that bring a traceparent are not recorded and need neither.
type place struct {
	trace   trace.TraceID
	span    trace.SpanID
	sampled bool
	state   string
}

// placeOf returns where a span of the SDK is.
func placeOf(s trace.SpanContext) place {
	return place{s.TraceID(), s.SpanID(), s.IsSampled(), s.TraceState().String()}
}

// context returns the place as the SDK takes it, in a context.
func (p *place) context() context.Context {
	to := trace.SpanContextConfig{TraceID: p.trace, SpanID: p.span, Remote: true}
	if p.sampled {
		to.TraceFlags = trace.FlagsSampled
	}
	to.TraceState, _ = trace.ParseTraceState(p.state) // checkState has accepted it
	return trace.ContextWithRemoteSpanContext(context.Background(), trace.NewSpanContext(to))
}

// String returns the traceparent.
func (p *place) String() string {
	flags := "-00"
	if p.sampled {
		flags = "-01"
	}
	return "00-" + hex.EncodeToString(p.trace[:]) + "-" + hex.EncodeToString(p.span[:]) + flags
}

// parentBytes is the length of a traceparent of version 00. Those of later versions may continue after a dash.
const parentBytes = 55

// parseParent reads a traceparent, and reports whether it is valid
// (https://www.w3.org/TR/trace-context/#traceparent-header). Of the flags only the one that says whether
// the caller records the trace is read.
func parseParent(text string) (p place, ok bool) {
	if len(text) < parentBytes || len(text) > maxTraceState || text[2] != '-' || text[35] != '-' || text[52] != '-' {
		return place{}, false
	}
	var version, flags [1]byte
	if !unhex(version[:], text[:2]) || !unhex(p.trace[:], text[3:35]) || !unhex(p.span[:], text[36:52]) || !unhex(flags[:], text[53:55]) ||
		version[0] == 0xff || !p.trace.IsValid() || !p.span.IsValid() {
		return place{}, false
	}
	if len(text) > parentBytes && (version[0] == 0 || text[parentBytes] != '-') {
		return place{}, false
	}
	p.sampled = flags[0]&1 == 1
	return p, true
}

// TraceID returns the id of the trace that a traceparent header names, or "" if the header is not valid. It allocates
// nothing: the id is a part of the header.
func TraceID(traceparent string) string {
	if _, ok := parseParent(traceparent); !ok {
		return ""
	}
	return traceparent[3:35]
}

// unhex decodes hexadecimal digits, which must be in lower case.
func unhex(to []byte, text string) bool {
	_, err := hex.Decode(to, []byte(text))
	return err == nil && !strings.ContainsAny(text, "ABCDEF")
}

// maxTraceState is the number of bytes of a tracestate that is passed on, as the standard recommends.
const maxTraceState = 512

// checkState returns a tracestate if it may be passed on, and else "".
func checkState(text string) string {
	if len(text) > maxTraceState {
		return ""
	}
	if _, err := trace.ParseTraceState(text); err != nil {
		return ""
	}
	return text
}
