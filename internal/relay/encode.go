package relay

import (
	"strconv"

	"sluice/internal/chat"
	"sluice/internal/jsonscan"
	"sluice/internal/provider"
)

// appendHead appends what every object begins with, up to and including the key of the choices.
func appendHead(b []byte, h Head, object string) []byte {
	b = append(b, `{"id":"chatcmpl-`...)
	b = append(b, h.RequestID...)
	b = append(b, `","object":"`...)
	b = append(b, object...)
	b = append(b, `","created":`...)
	b = strconv.AppendInt(b, h.Created, 10)
	b = append(b, `,"model":`...)
	b = jsonscan.AppendQuoted(b, h.Model)
	return append(b, `,"choices":`...)
}

// appendDelta appends a choices array with one delta; the caller closes the object.
func appendDelta(b []byte, index int, delta func([]byte) []byte) []byte {
	b = append(b, `[{"index":`...)
	b = strconv.AppendInt(b, int64(index), 10)
	b = append(b, `,"delta":{`...)
	b = delta(b)
	return append(b, `},"finish_reason":null}]`...)
}

// appendFinish appends the last choice chunk's choices.
func appendFinish(b []byte, index int, f chat.Finish) []byte {
	b = append(b, `[{"index":`...)
	b = strconv.AppendInt(b, int64(index), 10)
	b = append(b, `,"delta":{},"finish_reason":"`...)
	b = append(b, f...)
	return append(b, `"}]`...)
}

// appendPiece appends a piece of a tool call.
func appendPiece(b []byte, p provider.ToolPiece) []byte {
	b = append(b, `"tool_calls":[{"index":`...)
	b = strconv.AppendInt(b, int64(p.Index), 10)
	if p.ID != "" {
		b = append(b, `,"id":`...)
		b = jsonscan.AppendQuoted(b, p.ID)
		b = appendCalled(b, p.Custom, p.Name)
	} else if p.Custom {
		b = append(b, `,"custom":{"input":`...)
	} else {
		b = append(b, `,"function":{"arguments":`...)
	}
	b = jsonscan.AppendQuoted(b, p.Arguments)
	return append(b, `}}]`...)
}

// appendCalled appends what is called, up to what is handed to it.
func appendCalled(b []byte, custom bool, name string) []byte {
	if custom {
		b = append(b, `,"type":"custom","custom":{"name":`...)
		return append(jsonscan.AppendQuoted(b, name), `,"input":`...)
	}
	b = append(b, `,"type":"function","function":{"name":`...)
	return append(jsonscan.AppendQuoted(b, name), `,"arguments":`...)
}

// appendUsage appends a usage object; the parts that the wire counts twice are named in its details.
func appendUsage(b []byte, u chat.Usage) []byte {
	b = append(b, `{"prompt_tokens":`...)
	b = strconv.AppendInt(b, int64(u.PromptTotal()), 10)
	b = append(b, `,"completion_tokens":`...)
	b = strconv.AppendInt(b, int64(u.CompletionTotal()), 10)
	b = append(b, `,"total_tokens":`...)
	b = strconv.AppendInt(b, int64(u.Total()), 10)
	b = append(b, `,"prompt_tokens_details":{"cached_tokens":`...)
	b = strconv.AppendInt(b, int64(u.Cached), 10)
	b = append(b, `},"completion_tokens_details":{"reasoning_tokens":`...)
	b = strconv.AppendInt(b, int64(u.Reasoning), 10)
	return append(b, `}}`...)
}
