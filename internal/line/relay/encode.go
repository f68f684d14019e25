package relay

import (
	"strconv"

	"sluice/internal/kit/jsonscan"
	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/provider"
)

// appendHead appends the beginning of every object, up to and including the key of the choices.
// The request id needs no quoting: it is one of ours.
func appendHead(b []byte, h Head, object string) []byte {
	b = append(b, `{"id":"chatcmpl-`...)
	b = append(b, h.RequestID...)
	b = append(b, `","object":"`...)
	b = append(b, object...)
	b = append(b, `","created":`...)
	b = strconv.AppendInt(b, h.Created, 10)
	b = append(b, `,"model":`...)
	b = jsonscan.AppendQuoted(b, h.Model)
	if h.Tier != "" {
		b = append(append(append(b, `,"service_tier":"`...), h.Tier...), '"')
	}
	return append(b, `,"choices":`...)
}

// appendDelta appends a choices array with one delta, whose members the function appends. The caller closes
// the object.
func appendDelta(b []byte, index int, delta func([]byte) []byte) []byte {
	b = append(b, `[{"index":`...)
	b = strconv.AppendInt(b, int64(index), 10)
	b = append(b, `,"delta":{`...)
	b = delta(b)
	return append(b, `},"finish_reason":null}]`...)
}

// appendFinish appends the choices array of the chunk that ends a choice.
func appendFinish(b []byte, index int, f chat.Finish) []byte {
	b = append(b, `[{"index":`...)
	b = strconv.AppendInt(b, int64(index), 10)
	b = append(b, `,"delta":{},"finish_reason":"`...)
	b = append(b, f...)
	return append(b, `"}]`...)
}

// appendPiece appends a delta with a piece of a tool call. The first piece has an id.
// Later pieces have only the index and more of the arguments, as OpenAI's have.
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

// appendCalled appends the type and name of a tool call, up to the value of its arguments.
func appendCalled(b []byte, custom bool, name string) []byte {
	if custom {
		b = append(b, `,"type":"custom","custom":{"name":`...)
		return append(jsonscan.AppendQuoted(b, name), `,"input":`...)
	}
	b = append(b, `,"type":"function","function":{"name":`...)
	return append(jsonscan.AppendQuoted(b, name), `,"arguments":`...)
}

// appendUsage appends a usage object. On the wire, prompt_tokens includes the cached tokens and
// completion_tokens the reasoning; chat.Usage counts them apart.
func appendUsage(b []byte, u chat.Usage) []byte {
	b = append(b, `{"prompt_tokens":`...)
	b = strconv.AppendInt(b, int64(u.PromptTotal()), 10)
	b = append(b, `,"completion_tokens":`...)
	b = strconv.AppendInt(b, int64(u.CompletionTotal()), 10)
	b = append(b, `,"total_tokens":`...)
	b = strconv.AppendInt(b, int64(u.Total()), 10)
	b = append(b, `,"prompt_tokens_details":{"cached_tokens":`...)
	b = strconv.AppendInt(b, int64(u.Cached), 10)
	b = appendFew(b, `,"cache_write_tokens":`, u.CacheWritten())
	b = appendFew(b, `,"audio_tokens":`, u.AudioIn)
	b = appendFew(b, `,"image_tokens":`, u.ImageIn)
	b = append(b, `},"completion_tokens_details":{"reasoning_tokens":`...)
	b = strconv.AppendInt(b, int64(u.Reasoning), 10)
	b = appendFew(b, `,"audio_tokens":`, u.AudioOut)
	b = appendFew(b, `,"image_tokens":`, u.ImageOut)
	return append(b, `}}`...)
}

// appendFew appends a count that few upstreams tell, unless it is zero.
func appendFew(b []byte, before string, n int) []byte {
	if n == 0 {
		return b
	}
	return strconv.AppendInt(append(b, before...), int64(n), 10)
}
