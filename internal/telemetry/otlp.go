package telemetry

import (
	"strings"

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
// request of the trace service.
func (e *exporter) appendMessage(b []byte, batch []*Span) []byte {
	return nested(b, 1, func(b []byte) []byte { // ResourceSpans
		b = binary(b, 1, e.resource)
		return nested(b, 2, func(b []byte) []byte { // ScopeSpans
			b = binary(b, 1, e.scope)
			for _, s := range batch {
				b = nested(b, 2, func(b []byte) []byte { return appendSpan(b, s) })
			}
			return b
		})
	})
}

// appendSpan appends the fields of a Span that has ended.
func appendSpan(b []byte, s *Span) []byte {
	b = binary(b, 1, s.trace[:])
	b = binary(b, 2, s.span[:])
	b = text(b, 3, s.state)
	if s.parent != (spanID{}) {
		b = binary(b, 4, s.parent[:])
	}
	b = text(b, 5, s.name)
	b = varint(b, 6, s.kind)
	b = fixed(b, 7, uint64(s.start.UnixNano())) //nolint:gosec // after 1970
	b = fixed(b, 8, uint64(s.end.UnixNano()))   //nolint:gosec // after 1970
	b = appendAttributes(b, 9, s.attributes)
	if s.failed {
		const code, failed = 3, 2
		b = nested(b, 15, func(b []byte) []byte { return varint(b, code, failed) })
	}
	const sampled = 1 // whatever is recorded is sampled
	b = protowire.AppendTag(b, 16, protowire.Fixed32Type)
	return protowire.AppendFixed32(b, sampled)
}

// appendAttributes appends each attribute as a field that is a KeyValue.
func appendAttributes(b []byte, field protowire.Number, list []attribute) []byte {
	for i := range list {
		b = nested(b, field, func(b []byte) []byte {
			b = text(b, 1, list[i].key)
			return nested(b, 2, func(b []byte) []byte { return appendValue(b, &list[i]) })
		})
	}
	return b
}

// appendValue appends the one field that an AnyValue has. Unlike elsewhere, it is there even if it is 0 or
// empty: it says which type the value has.
func appendValue(b []byte, a *attribute) []byte {
	switch a.kind {
	case isFlag:
		return varint(b, 2, a.bits)
	case isNumber:
		return varint(b, 3, a.bits)
	case isFloat:
		return fixed(b, 4, a.bits)
	case isList:
		return nested(b, 5, func(b []byte) []byte {
			return nested(b, 1, func(b []byte) []byte { return appendString(b, a.text) })
		})
	}
	return appendString(b, a.text)
}

// appendString appends the field of an AnyValue that is a string.
func appendString(b []byte, s string) []byte {
	return binary(b, 1, []byte(strings.ToValidUTF8(s, "\uFFFD")))
}
