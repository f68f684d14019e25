package messages

import (
	"strconv"

	"sluice/internal/kit/fault"
	"sluice/internal/kit/jsonscan"
	"sluice/internal/line/relay"
	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/provider"
)

// Writer writes one reply in the dialect. It implements relay.Dialect.
//
// A stream has the events message_start; for each block content_block_start, content_block_delta and
// content_block_stop; message_delta with the reason and the usage; message_stop. Blocks follow one another, and a client
// may rely on that: it takes the block that ends for the last one that began. Upstreams may write several calls at the
// same time; the pieces of a later call wait until the one before is complete.
//
// Without a stream the same methods run; they collect the blocks in content and return b
// unchanged, and Body writes the one message.
type Writer struct {
	req       *Request
	requestID string // that errors name; may differ from the head's
	stream    bool

	head    relay.Head
	begun   bool     // message_start is written
	native  *relayed // the upstream speaks the dialect; nil: it does not
	blocks  int      // begun so far
	open    blockKind
	call    int       // the index of the call whose block is open
	waiting []waiting // calls after it that have begun, by index from call+1
	args    depth     // of the open call

	declined bool // the model refuses to answer
	finish   chat.Finish
	stopped  string // the stop sequence that ended the reply, if that is known

	content []byte // of a message that is not streamed: the blocks, separated by commas
}

// blockKind is the kind of the block that is open.
type blockKind uint8

const (
	noBlock blockKind = iota
	textBlock
	thinkingBlock
	callBlock
)

// waiting is a call that must wait for the one before it.
type waiting struct {
	id, name  string
	arguments []byte
}

// NewWriter returns the writer of the reply to a request. requestID is the id that an error after the beginning names.
func NewWriter(req *Request, requestID string) *Writer {
	return &Writer{req: req, requestID: requestID, stream: req.Chat.Stream}
}

// Start implements relay.Dialect. The stream begins with the first event, which tells who writes it.
func (w *Writer) Start(b []byte, h relay.Head) []byte {
	w.head = h
	return b
}

// Event implements relay.Dialect.
// The first event decides whether the upstream's own words are relayed; this never changes within
// a reply.
func (w *Writer) Event(b []byte, ev *provider.Event) []byte {
	if ev.Native != nil && !w.begun && w.native == nil && w.speaks(ev.Native) {
		w.native = &relayed{}
	}
	if w.native != nil { // everything is said in the upstream's own words
		return w.relay(b, ev.Native)
	}
	if ev.Kind == provider.Other {
		return b
	}
	b = w.begin(b)
	switch ev.Kind {
	case provider.Text, provider.Declined:
		w.declined = w.declined || ev.Kind == provider.Declined
		b = w.enter(b, textBlock, len(ev.Raw))
		b = w.say(b, `text_delta","text":"`, ev.Raw)
	case provider.Reasoning:
		b = w.enter(b, thinkingBlock, len(ev.Raw))
		b = w.say(b, `thinking_delta","thinking":"`, ev.Raw)
	case provider.ToolCall:
		b = w.toolCall(b, &ev.Tool)
	case provider.Finish:
		b = w.leave(b)
		w.finish = ev.Finish
		if ev.Rest != nil && ev.Finish == chat.FinishStop {
			w.stopped = ev.Rest.Stop
		}
	}
	return b
}

// begin writes message_start, once. The upstream's figure of the prompt comes with the end, so the beginning has an
// estimate.
func (w *Writer) begin(b []byte) []byte {
	if w.begun {
		return b
	}
	w.begun = true
	if !w.stream {
		return b
	}
	b = append(b, "event: message_start\ndata: {\"type\":\"message_start\",\"message\":"...)
	b = w.appendHead(b)
	b = append(b, `"content":[],"stop_reason":null,"stop_sequence":null,"usage":`...)
	b = appendUsage(b, chat.Usage{Prompt: w.req.InputTokens(), Completion: 1}, w.head.Tier)
	return append(b, "}}\n\n"...)
}

// appendHead appends the beginning of a message, up to its content.
func (w *Writer) appendHead(b []byte) []byte {
	b = append(append(append(b, `{"id":"msg_`...), w.head.RequestID...), `","type":"message","role":"assistant","model":`...)
	return append(jsonscan.AppendQuoted(b, w.head.Model), ',')
}

// enter makes sure that a block of text or thinking is open. Size is that of its first piece.
func (w *Writer) enter(b []byte, kind blockKind, size int) []byte {
	if w.open == kind {
		return b
	}
	b = w.leave(b)
	w.open = kind
	if kind == textBlock {
		return w.startBlock(b, `{"type":"text","text":"`, `"}`, size)
	}
	return w.startBlock(b, `{"type":"thinking","thinking":"`, `","signature":""}`, size)
}

// startBlock begins a block. A stream gets it whole, with an empty value; the one message gets it up to its value.
func (w *Writer) startBlock(b []byte, head, tail string, size int) []byte {
	if !w.stream {
		if w.blocks > 0 {
			w.content = append(w.content, ',')
		} else {
			w.content = make([]byte, 0, max(512, len(head)+size+len(tail))) // a reply in one piece, or a short one, instead of growing to it in steps
		}
		w.content = append(w.content, head...)
		w.blocks++
		return b
	}
	b = append(b, "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":"...)
	b = strconv.AppendInt(b, int64(w.blocks), 10)
	w.blocks++
	b = append(b, `,"content_block":`...)
	return append(append(append(b, head...), tail...), "}\n\n"...)
}

// say writes a piece of the open block, a text or thinking. Delta is the type of the delta and the key of its text, up to the
// inside of the string.
func (w *Writer) say(b []byte, delta string, inside []byte) []byte {
	if !w.stream {
		w.content = append(w.content, inside...)
		return b
	}
	return append(append(w.piece(b, delta), inside...), "\"}}\n\n"...)
}

// piece appends the beginning of an event with a piece of the open block, up to the value.
func (w *Writer) piece(b []byte, delta string) []byte {
	b = append(b, "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":"...)
	b = strconv.AppendInt(b, int64(w.blocks-1), 10)
	return append(append(b, `,"delta":{"type":"`...), delta...)
}

// leave ends the open block, if there is one, and the calls that wait for it.
func (w *Writer) leave(b []byte) []byte {
	b = w.stop(b)
	for len(w.waiting) > 0 {
		b = w.stop(w.next(b))
	}
	return b
}

// stop ends the open block.
//
// Thinking gets a signature at its end, as in the original. In a message that is not streamed, the
// arguments of a call are checked to be an object, because clients of this dialect get them as
// JSON and not as text.
func (w *Writer) stop(b []byte) []byte {
	kind := w.open
	w.open = noBlock
	if kind == noBlock {
		return b
	}
	if !w.stream {
		switch kind {
		case textBlock:
			w.content = append(w.content, `"}`...)
		case thinkingBlock:
			w.content = append(appendSignature(append(w.content, `","signature":"`...), w.head.RequestID), `"}`...)
		case callBlock:
			w.content = append(w.content, provider.ObjectArguments(string(w.args.text))...)
			w.content = append(w.content, '}')
		}
		return b
	}
	if kind == thinkingBlock {
		var room [64]byte
		b = w.say(b, `signature_delta","signature":"`, appendSignature(room[:0], w.head.RequestID))
	}
	b = append(b, "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":"...)
	b = strconv.AppendInt(b, int64(w.blocks-1), 10)
	return append(b, "}\n\n"...)
}

// toolCall writes a piece of a call.
//
// The first piece of a call has an id. It waits while the call before it is not complete, or while
// others wait already. Later pieces belong to the open call or to one that waits.
func (w *Writer) toolCall(b []byte, t *provider.ToolPiece) []byte {
	switch {
	case t.ID != "" && w.open == callBlock && (!w.args.complete() || len(w.waiting) > 0):
		w.waiting = append(w.waiting, waiting{t.ID, t.Name, []byte(t.Arguments)})
		return b
	case t.ID != "":
		b = w.stop(b)
		b = w.startCall(b, t.Index, t.ID, t.Name)
		return w.arguments(b, t.Arguments)
	case w.open == callBlock && t.Index == w.call:
		b = w.arguments(b, t.Arguments)
		for w.args.complete() && len(w.waiting) > 0 {
			b = w.next(w.stop(b))
		}
		return b
	}
	if i := t.Index - w.call - 1; i >= 0 && i < len(w.waiting) {
		w.waiting[i].arguments = append(w.waiting[i].arguments, t.Arguments...)
	}
	return b // a piece of a call that was complete
}

// next begins the call that has waited longest.
func (w *Writer) next(b []byte) []byte {
	n := w.waiting[0]
	w.waiting = w.waiting[1:]
	b = w.startCall(b, w.call+1, n.id, n.name)
	return w.arguments(b, string(n.arguments))
}

// startCall begins the block of a call.
// A name that was shortened for the upstream becomes the caller's again.
func (w *Writer) startCall(b []byte, index int, id, name string) []byte {
	w.open, w.call, w.args = callBlock, index, depth{text: w.args.text[:0]}
	if long, ok := w.req.names[name]; ok {
		name = long
	}
	var room [160]byte
	head := jsonscan.AppendQuoted(append(room[:0], `{"type":"tool_use","id":`...), id)
	head = jsonscan.AppendQuoted(append(head, `,"name":`...), name)
	head = append(head, `,"input":`...)
	return w.startBlock(b, string(head), `{}}`, 0)
}

// arguments writes a piece of the arguments of the open call.
func (w *Writer) arguments(b []byte, text string) []byte {
	if text == "" {
		return b
	}
	w.args.read(text)
	if !w.stream {
		w.args.text = append(w.args.text, text...)
		return b
	}
	return append(jsonscan.AppendQuoted(w.piece(b, `input_json_delta","partial_json":`), text), "}}\n\n"...)
}

// depth finds out when the arguments of a call are complete: they are one JSON object. It counts brackets.
// No event says that a call has ended.
type depth struct {
	open            int
	begun           bool
	quoted, escaped bool
	text            []byte // the arguments, if the message is not streamed
}

// read counts the brackets in a piece of the arguments. Brackets in strings do not count; a piece
// may end within a string or an escape.
func (d *depth) read(s string) {
	for i := range len(s) {
		switch c := s[i]; {
		case d.escaped:
			d.escaped = false
		case d.quoted:
			d.escaped, d.quoted = c == '\\', c != '"'
		case c == '"':
			d.quoted = true
		case c == '{' || c == '[':
			d.open++
			d.begun = true
		case c == '}' || c == ']':
			d.open--
		}
	}
}

// complete reports whether the object has ended.
func (d *depth) complete() bool { return d.begun && d.open <= 0 && !d.quoted }

// End implements relay.Dialect.
func (w *Writer) End(b []byte, o *relay.Outcome) []byte {
	if w.native != nil {
		b = w.native.end(b, o)
	} else {
		b = w.leave(w.begin(b))
		b = append(b, "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{"...)
		b = append(w.appendStop(b), `},"usage":`...)
		b = append(o.AppendCost(appendUsage(b, o.Usage, "")), "}\n\n"...)
	}
	return append(b, "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"...)
}

// Body implements relay.Dialect.
func (w *Writer) Body(b []byte, o *relay.Outcome) []byte {
	if w.native != nil {
		return w.native.end(b, o)
	}
	w.leave(nil)
	b = append(w.appendHead(b), `"content":[`...)
	b = append(b, w.content...)
	b = append(w.appendStop(append(b, `],`...)), `,"usage":`...)
	return append(o.AppendCost(appendUsage(b, o.Usage, o.Tier)), '}')
}

// appendStop appends why the reply ended.
func (w *Writer) appendStop(b []byte) []byte {
	b = append(append(append(b, `"stop_reason":"`...), w.stopReason()...), `","stop_sequence":`...)
	if w.stopped == "" {
		return append(b, `null`...)
	}
	return jsonscan.AppendQuoted(b, w.stopped)
}

// stopReason translates the finish reason.
// A refusal wins over everything else: clients act on it.
func (w *Writer) stopReason() string {
	switch {
	case w.finish == chat.FinishContentFilter || w.declined:
		return "refusal"
	case w.finish == chat.FinishLength:
		return "max_tokens"
	case w.finish == chat.FinishToolCalls:
		return "tool_use"
	case w.stopped != "":
		return "stop_sequence"
	}
	return "end_turn"
}

// appendUsage appends the usage. As in the original, tokens that were read from a cache or written to it do not count as
// input. The tier of a message is one of two. No tool was run by the upstream: such calls are not translated.
func appendUsage(b []byte, u chat.Usage, tier string) []byte {
	for _, n := range [...]struct {
		before string
		tokens int
	}{
		{`{"input_tokens":`, u.Prompt - u.CacheWritten()},
		{`,"cache_creation_input_tokens":`, u.CacheWritten()},
		{`,"cache_read_input_tokens":`, u.Cached},
		{`,"cache_creation":{"ephemeral_5m_input_tokens":`, u.CacheWrite5m + u.CacheWrite}, // there is no place for those that are kept for another time
		{`,"ephemeral_1h_input_tokens":`, u.CacheWrite1h},
		{`},"output_tokens":`, u.CompletionTotal()},
		{`,"output_tokens_details":{"thinking_tokens":`, u.Reasoning},
	} {
		b = strconv.AppendInt(append(b, n.before...), int64(n.tokens), 10)
	}
	b = append(b, `},"server_tool_use":null`...)
	switch tier {
	case "default":
		b = append(b, `,"service_tier":"standard"`...)
	case "priority":
		b = append(b, `,"service_tier":"priority"`...)
	}
	return append(b, '}')
}

// Fault implements relay.Dialect.
func (w *Writer) Fault(b []byte, f *fault.Fault) []byte {
	told := *f // the log keeps what the fault says of the chat completion
	_ = w.req.Explain(&told)
	return appendError(b, &told, w.requestID)
}

// KeepAlive implements relay.Dialect.
func (w *Writer) KeepAlive(b []byte) []byte {
	return append(b, "event: ping\ndata: {\"type\":\"ping\"}\n\n"...)
}
