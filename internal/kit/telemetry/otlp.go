package telemetry

import (
	"math"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/protobuf/encoding/protowire"
)

// This file writes spans as OTLP has them, a protocol of protobuf messages. The generated types would bring
// the reflection of protobuf with them, which is larger than the rest of this package; the tests read what is
// written here with those types. The numbers are those of the fields in OpenTelemetry's trace.proto,
// resource.proto and common.proto.

// nested appends a field that is a message, which inside appends.
func nested(b []byte, field protowire.Number, inside func([]byte) []byte) []byte {
	b = protowire.AppendTag(b, field, protowire.BytesType)
	return protowire.AppendBytes(b, inside(nil))
}

// text appends a field that is a string, unless it is empty. Text that is not UTF-8 would make the whole
// message invalid.
func text(b []byte, field protowire.Number, s string) []byte {
	if s == "" {
		return b
	}
	b = protowire.AppendTag(b, field, protowire.BytesType)
	return protowire.AppendString(b, strings.ToValidUTF8(s, "\uFFFD"))
}

// binary appends a field that holds bytes.
func binary(b []byte, field protowire.Number, v []byte) []byte {
	b = protowire.AppendTag(b, field, protowire.BytesType)
	return protowire.AppendBytes(b, v)
}

// varint appends a field that is a number of variable length.
func varint(b []byte, field protowire.Number, v uint64) []byte {
	b = protowire.AppendTag(b, field, protowire.VarintType)
	return protowire.AppendVarint(b, v)
}

// fixed appends a field that is a number of eight bytes.
func fixed(b []byte, field protowire.Number, v uint64) []byte {
	b = protowire.AppendTag(b, field, protowire.Fixed64Type)
	return protowire.AppendFixed64(b, v)
}

// appendMessage appends spans as the message that goes out, a TracesData, which has the same fields as the
// request of the trace service. All spans have the resource and the scope of the one tracer there is.
func appendMessage(b []byte, batch []sdk.ReadOnlySpan) []byte {
	return nested(b, 1, func(b []byte) []byte { // ResourceSpans
		b = nested(b, 1, func(b []byte) []byte { // Resource
			return appendAttributes(b, 1, batch[0].Resource().Attributes())
		})
		return nested(b, 2, func(b []byte) []byte { // ScopeSpans
			scope := batch[0].InstrumentationScope()
			b = nested(b, 1, func(b []byte) []byte { return text(text(b, 1, scope.Name), 2, scope.Version) })
			for _, s := range batch {
				b = nested(b, 2, func(b []byte) []byte { return appendSpan(b, s) })
			}
			return b
		})
	})
}

// appendSpan appends the fields of a Span.
func appendSpan(b []byte, s sdk.ReadOnlySpan) []byte {
	self, parent := s.SpanContext(), s.Parent()
	traceID, spanID := self.TraceID(), self.SpanID()
	b = binary(b, 1, traceID[:])
	b = binary(b, 2, spanID[:])
	b = text(b, 3, self.TraceState().String())
	if id := parent.SpanID(); id.IsValid() {
		b = binary(b, 4, id[:])
	}
	b = text(b, 5, s.Name())
	b = varint(b, 6, kinds[s.SpanKind()])
	b = fixed(b, 7, uint64(s.StartTime().UnixNano())) //nolint:gosec // after 1970
	b = fixed(b, 8, uint64(s.EndTime().UnixNano()))   //nolint:gosec // after 1970
	b = appendAttributes(b, 9, s.Attributes())
	if n := s.DroppedAttributes(); n > 0 {
		b = varint(b, 10, uint64(n))
	}
	if s.Status().Code == codes.Error {
		const code, failed = 3, 2
		b = nested(b, 15, func(b []byte) []byte { return varint(b, code, failed) })
	}
	b = protowire.AppendTag(b, 16, protowire.Fixed32Type)
	return protowire.AppendFixed32(b, uint32(self.TraceFlags()))
}

// kinds are the numbers of SpanKind.
var kinds = map[trace.SpanKind]uint64{trace.SpanKindInternal: 1, trace.SpanKindServer: 2, trace.SpanKindClient: 3}

// appendAttributes appends each attribute as a field that is a KeyValue.
func appendAttributes(b []byte, field protowire.Number, list []attribute.KeyValue) []byte {
	for _, a := range list {
		b = nested(b, field, func(b []byte) []byte {
			b = text(b, 1, string(a.Key))
			return nested(b, 2, func(b []byte) []byte { return appendValue(b, a.Value) })
		})
	}
	return b
}

// appendValue appends the one field that an AnyValue has. Unlike elsewhere, it is there even if it is 0 or
// empty: it says which type the value has.
func appendValue(b []byte, v attribute.Value) []byte {
	switch v.Type() {
	case attribute.BOOL:
		return varint(b, 2, protowire.EncodeBool(v.AsBool()))
	case attribute.INT64:
		return varint(b, 3, uint64(v.AsInt64())) //nolint:gosec // as the format has it
	case attribute.FLOAT64:
		return fixed(b, 4, math.Float64bits(v.AsFloat64()))
	case attribute.STRINGSLICE:
		return nested(b, 5, func(b []byte) []byte {
			for _, s := range v.AsStringSlice() {
				b = nested(b, 1, func(b []byte) []byte { return appendString(b, s) })
			}
			return b
		})
	}
	return appendString(b, v.AsString())
}

// appendString appends the field of an AnyValue that is a string.
func appendString(b []byte, s string) []byte {
	return binary(b, 1, []byte(strings.ToValidUTF8(s, "\uFFFD")))
}
