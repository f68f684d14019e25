package responses

import (
	"cmp"
	"encoding/json"
	"strconv"

	"sluice/internal/kit/fault"
	"sluice/internal/kit/jsonscan"
	"sluice/internal/line/relay"
	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/provider"
)

// Options are the choices of NewWriter; the zero value is the default.
type Options struct {
	// Keep stores the Response object of a complete reply, before its last bytes go out, and reports whether it
	// could. If not, the reply says that it is not stored. Nil: nothing is stored.
	Keep func(response []byte) bool
	// Seal encrypts the content of a reasoning item. Nil: items have none.
	Seal func(text []byte) string
}

// Writer writes the reply to a Request. It implements relay.Dialect.
//
// The events of a stream come in this order, each with a sequence number:
//
//	response.created, response.in_progress
//	for each item of the output: response.output_item.added, what it is made of, response.output_item.done
//	response.completed, response.incomplete or response.failed
//
// An item ends before the next one begins. Only calls whose arguments are not whole yet may stay open, since
// some upstreams write several at the same time.
type Writer struct {
	req    *Request
	opts   Options
	head   relay.Head
	seq    int
	items  []*output
	calls  []*output // by their index among the calls of the reply
	open   *output   // the message or the reasoning that is being written
	finish chat.Finish
	native *relayed // the upstream speaks the dialect; nil: it does not
	begun  bool     // the first events of a stream are written

	outcome *relay.Outcome // of a complete reply, at its end; nil before

	// Room for a reply that is one text: a message with one part.
	first output
	room  [1]*output
	part  [1]part
}

// output is one item of the reply. Texts are the insides of JSON strings.
type output struct {
	kind         outputKind
	index        int
	id           string // as it is written into JSON
	callID, name string
	namespace    string         // of the tool that is called; empty for most
	label        string         // of an MCP server
	step         *provider.Step // of a call of an MCP tool, or a list of tools
	text         []byte         // arguments, input, or the summary of reasoning
	parts        []part         // of a message
	done         bool
	cut          bool   // it ended before it was whole
	plain        bool   // the text of a custom tool's call is its input, not the arguments of a function
	sealed       string // the encrypted content of reasoning
}

// part is one content part of a message.
type part struct {
	form *partForm
	text []byte
}

// partForm is how the parts of a type are written. A text is the inside of a string.
type partForm struct {
	delta, done string // the events
	member      string // of done, up to the text
	rest        string // of both events, after the text
	head, tail  string // of the part itself, before and after the text
}

var (
	textForm = partForm{
		delta: "response.output_text.delta", done: "response.output_text.done", member: `,"text":"`, rest: `","logprobs":[]}`,
		head: `{"type":"output_text","text":"`, tail: `","annotations":[],"logprobs":[]}`,
	}
	refusalForm = partForm{
		delta: "response.refusal.delta", done: "response.refusal.done", member: `,"refusal":"`, rest: `"}`,
		head: `{"type":"refusal","refusal":"`, tail: `"}`,
	}
)

// outputKind is the type of an item of the reply. It decides the prefix of its id and which events it gets.
type outputKind uint8

const (
	outMessage outputKind = iota
	outReasoning
	outFunction
	outCustom
	outApproval // a call of an MCP tool that the caller has to approve
	outListed   // the tools of an MCP server
	outRemote   // a call of an MCP tool that has run
	outSearch   // a search for tools that the caller runs
)

// NewWriter returns the writer of a reply. Opts may be nil.
func NewWriter(req *Request, head relay.Head, opts *Options) *Writer {
	w := &Writer{req: req, head: head}
	w.items = w.room[:0]
	if opts != nil {
		w.opts = *opts
	}
	if w.head.Model == "" {
		w.head.Model = req.Model
	}
	return w
}

// ResponseID returns the id of the response to a request.
func ResponseID(requestID string) string { return "resp_" + requestID }

// Start implements relay.Dialect.
func (w *Writer) Start(b []byte, h relay.Head) []byte {
	w.head = h
	return b
}

// created writes the first events of a stream, once.
func (w *Writer) created(b []byte) []byte {
	if !w.req.Stream || w.begun {
		return b
	}
	w.begun = true
	return w.state(w.state(b, "response.created", "in_progress", nil), "response.in_progress", "in_progress", nil)
}

// state writes an event with the response as it is now. F is why it failed, or nil.
func (w *Writer) state(b []byte, name, status string, f *fault.Fault) []byte {
	b = append(w.begin(b, name), `,"response":`...)
	return append(w.appendResponse(b, status, f, nil), "}\n\n"...)
}

// KeepAlive implements relay.Dialect. A comment needs no sequence number and every client skips it.
func (w *Writer) KeepAlive(b []byte) []byte { return append(b, ": keep-alive\n"...) }

// Event implements relay.Dialect.
func (w *Writer) Event(b []byte, ev *provider.Event) []byte {
	if ev.Native != nil && !w.begun && w.native == nil && w.speaks(ev.Native) {
		w.native, w.begun = &relayed{}, true
	}
	if w.native == nil {
		return w.tell(b, ev)
	}
	// Everything is said in the upstream's own words. Ours are kept for a stream that breaks off.
	seq := w.seq
	w.native.scrap = w.tell(w.native.scrap[:0], ev)
	w.seq = seq
	return w.relay(b, ev.Native)
}

// tell writes an event in our own words.
func (w *Writer) tell(b []byte, ev *provider.Event) []byte {
	if ev.Kind == provider.Other && ev.Step == nil {
		return b
	}
	b = w.created(b)
	switch ev.Kind {
	case provider.Text:
		b = w.say(b, &textForm, ev.Raw)
	case provider.Declined:
		b = w.say(b, &refusalForm, ev.Raw)
	case provider.Reasoning:
		b = w.think(b, ev.Raw)
	case provider.ToolCall:
		b = w.call(b, &ev.Tool, ev.Step)
	case provider.Other:
		if ev.Step != nil {
			b = w.show(b, ev.Step)
		}
	case provider.Finish:
		w.finish = ev.Finish
		for _, it := range w.items {
			if !it.done {
				it.cut = w.reason() != ""
				b = w.close(b, it)
			}
		}
		w.open = nil
	}
	return b
}

// reason returns why the response is incomplete; empty: it is not.
func (w *Writer) reason() string {
	switch w.finish {
	case chat.FinishLength:
		return "max_output_tokens"
	case chat.FinishContentFilter:
		return "content_filter"
	}
	return ""
}

// End implements relay.Dialect.
func (w *Writer) End(b []byte, o *relay.Outcome) []byte {
	b = w.created(b)
	if w.reason() != "" {
		b = w.begin(b, "response.incomplete")
	} else {
		b = w.begin(b, "response.completed")
	}
	return append(w.Body(append(b, `,"response":`...), o), "}\n\n"...)
}

// Stores implements relay.Storer.
func (w *Writer) Stores() bool { return w.req.Store && w.opts.Keep != nil }

// Body implements relay.Dialect. It appends the Response object of a complete reply, and stores it.
func (w *Writer) Body(b []byte, o *relay.Outcome) []byte {
	w.head.Tier, w.outcome = o.Tier, o
	var last chat.Value // in the upstream's own words
	if w.native != nil && w.native.last != nil {
		last = chat.ValueOf(oneLine(w.native.last))
	}
	write := func() []byte {
		switch {
		case last.Exists():
			return w.renameResponse(b, last, &o.Usage)
		case w.reason() != "":
			return w.appendResponse(b, "incomplete", nil, &o.Usage)
		}
		return w.appendResponse(b, "completed", nil, &o.Usage)
	}
	all := write()
	// The reply must say so before its last byte: a client that believes it is stored would refer to it later.
	if w.req.Store && (w.opts.Keep == nil || !w.opts.Keep(all[len(b):])) {
		w.req.Store = false // it could not be stored, and says so
		all = write()
	}
	return all
}

// Fault implements relay.Dialect. Items that were not whole are in the failed response as they are.
func (w *Writer) Fault(b []byte, f *fault.Fault) []byte {
	if !w.begun { // a keep-alive comment went out, and then the call failed; clients expect this event first
		w.begun = true
		b = w.state(b, "response.created", "in_progress", nil)
	}
	return w.state(b, "response.failed", "failed", f)
}

// begin appends the beginning of an event, up to its sequence number.
func (w *Writer) begin(b []byte, name string) []byte {
	b = append(append(b, "event: "...), name...)
	b = append(append(b, "\ndata: {\"type\":\""...), name...)
	b = append(b, `","sequence_number":`...)
	b = strconv.AppendInt(b, int64(w.seq), 10)
	w.seq++
	return b
}

// about writes an event about an item, if the reply is streamed: what identifies it, and then head, the inside of a string, and
// rest, which ends the event. An event about a message is one about its last part.
func (w *Writer) about(b []byte, name string, it *output, head string, inside []byte, rest string) []byte {
	if !w.req.Stream {
		return b
	}
	b = w.begin(b, name)
	b = append(append(append(b, `,"item_id":"`...), it.id...), `","output_index":`...)
	b = strconv.AppendInt(b, int64(it.index), 10)
	if it.kind == outMessage {
		b = strconv.AppendInt(append(b, `,"content_index":`...), int64(len(it.parts)-1), 10)
	}
	return append(append(append(append(b, head...), inside...), rest...), "\n\n"...)
}

// whole writes an event with an item, if the reply is streamed.
func (w *Writer) whole(b []byte, name string, it *output, status string) []byte {
	if !w.req.Stream {
		return b
	}
	b = strconv.AppendInt(append(w.begin(b, name), `,"output_index":`...), int64(it.index), 10)
	return append(it.append(append(b, `,"item":`...), status), "}\n\n"...)
}

// add adds an item to the output.
func (w *Writer) add(b []byte, it *output) []byte {
	it.index = len(w.items)
	if it.id == "" {
		it.id = prefixes[it.kind] + w.head.RequestID + "_" + strconv.Itoa(it.index)
	}
	w.items = append(w.items, it)
	return w.whole(b, "response.output_item.added", it, "in_progress")
}

// prefixes are what the ids of items begin with.
var prefixes = [...]string{outMessage: "msg_", outReasoning: "rs_", outFunction: "fc_", outCustom: "ctc_", outApproval: approval, outListed: "mcpl_", outRemote: "mcp_", outSearch: "tsc_"}

// turnTo ends the message or the reasoning that is being written, unless it is of the kind, and then the calls that are whole.
func (w *Writer) turnTo(b []byte, kind outputKind) []byte {
	if w.open != nil && w.open.kind == kind {
		return b
	}
	if w.open != nil {
		b = w.close(b, w.open)
		w.open = nil
	}
	return w.settleCalls(b)
}

// say adds a piece of a text or of a refusal, the inside of a JSON string.
func (w *Writer) say(b []byte, form *partForm, inside []byte) []byte {
	b = w.turnTo(b, outMessage)
	if w.open == nil {
		if w.open = &w.first; len(w.items) > 0 {
			w.open = &output{}
		} else {
			w.first.parts = w.part[:0]
		}
		w.open.kind = outMessage
		b = w.add(b, w.open)
	}
	it := w.open
	if n := len(it.parts); n == 0 || it.parts[n-1].form != form {
		b = w.closePart(b, it)
		it.parts = append(it.parts, part{form: form})
		if w.req.Stream { // otherwise it would be put together for nothing
			b = w.about(b, "response.content_part.added", it, `,"part":`+form.head, nil, form.tail+"}")
		}
	}
	p := &it.parts[len(it.parts)-1]
	if p.text == nil && w.req.Stream {
		p.text = make([]byte, 0, max(len(inside), 512)) // a short reply, instead of growing to it in steps
	}
	p.text = append(p.text, inside...)
	return w.about(b, form.delta, it, `,"delta":"`, inside, form.rest)
}

// closePart ends the last part of a message in a stream, if there is one.
func (w *Writer) closePart(b []byte, it *output) []byte {
	if len(it.parts) == 0 || !w.req.Stream {
		return b
	}
	p := &it.parts[len(it.parts)-1]
	b = w.about(b, p.form.done, it, p.form.member, p.text, p.form.rest)
	return w.about(b, "response.content_part.done", it, `,"part":`+p.form.head, p.text, p.form.tail+"}")
}

// think adds a piece of reasoning, the inside of a JSON string.
func (w *Writer) think(b, inside []byte) []byte {
	b = w.turnTo(b, outReasoning)
	if w.open == nil {
		w.open = &output{kind: outReasoning}
		b = w.add(b, w.open)
		b = w.about(b, "response.reasoning_summary_part.added", w.open, summaryPart, nil, `"}}`)
	}
	w.open.text = append(w.open.text, inside...)
	return w.about(b, "response.reasoning_summary_text.delta", w.open, `,"summary_index":0,"delta":"`, inside, `"}`)
}

// summaryPart is what the events about the summary of reasoning have before its text.
const summaryPart = `,"summary_index":0,"part":{"type":"summary_text","text":"`

// call adds a piece of a tool call.
func (w *Writer) call(b []byte, p *provider.ToolPiece, step *provider.Step) []byte {
	if p.Index == len(w.calls) {
		b = w.turnTo(b, outFunction)
		it := &output{kind: outFunction, callID: p.ID, name: p.Name}
		switch {
		case p.Custom || w.req.tools.custom[p.Name]:
			it.kind, it.plain = outCustom, p.Custom
		case step != nil:
			quoted := jsonscan.AppendQuoted(nil, p.ID) // the model's own, with whatever is in it
			it.kind, it.id = outApproval, approval+string(quoted[1:len(quoted)-1])
			it.label, it.name = step.Server, step.Tool
		}
		if own := w.req.tools.renamed[p.Name]; own != nil && step == nil {
			if it.name, it.namespace = own.name, own.namespace; own.search {
				it.kind = outSearch
			}
		}
		w.calls = append(w.calls, it)
		b = w.add(b, it)
	}
	if p.Index >= len(w.calls) || p.Arguments == "" {
		return b
	}
	it := w.calls[p.Index]
	if it.done { // more than the whole arguments
		return b
	}
	from := len(it.text)
	it.text = appendInside(it.text, p.Arguments)
	if it.kind == outFunction {
		b = w.about(b, "response.function_call_arguments.delta", it, `,"delta":"`, it.text[from:], `"}`)
	}
	return b
}

// show adds an item that tells what was done with an MCP server.
func (w *Writer) show(b []byte, step *provider.Step) []byte {
	own := *step // the event is gone when Event returns
	it := &output{kind: outRemote, label: step.Server, name: step.Tool, step: &own}
	if step.Tools != nil {
		it.kind = outListed
	}
	b = w.add(w.turnTo(b, it.kind), it)
	it.text = appendInside(nil, step.Arguments)
	if it.kind == outListed {
		b = w.about(b, "response.mcp_list_tools.in_progress", it, "}", nil, "")
		b = w.about(b, "response.mcp_list_tools.completed", it, "}", nil, "")
		return w.close(b, it)
	}
	end := "response.mcp_call.completed"
	if step.Failed {
		end = "response.mcp_call.failed"
	}
	b = w.about(b, "response.mcp_call.in_progress", it, "}", nil, "")
	b = w.about(b, "response.mcp_call_arguments.delta", it, `,"delta":"`, it.text, `"}`)
	b = w.about(b, "response.mcp_call_arguments.done", it, `,"arguments":"`, it.text, `"}`)
	return w.close(w.about(b, end, it, "}", nil, ""), it)
}

// settleCalls ends the calls whose arguments are whole, before another item begins.
func (w *Writer) settleCalls(b []byte) []byte {
	for _, it := range w.calls {
		if !it.done && json.Valid([]byte(inside(it.text))) {
			b = w.close(b, it)
		}
	}
	return b
}

// close ends an item.
func (w *Writer) close(b []byte, it *output) []byte {
	it.done = true
	switch it.kind {
	case outMessage:
		b = w.closePart(b, it)
	case outReasoning:
		if w.req.Encrypted && w.opts.Seal != nil {
			it.sealed = w.opts.Seal([]byte(inside(it.text)))
		}
		b = w.about(b, "response.reasoning_summary_text.done", it, `,"summary_index":0,"text":"`, it.text, `"}`)
		b = w.about(b, "response.reasoning_summary_part.done", it, summaryPart, it.text, `"}}`)
	case outFunction:
		head := string(jsonscan.AppendQuoted([]byte(`,"name":`), it.name)) + `,"arguments":"`
		b = w.about(b, "response.function_call_arguments.done", it, head, it.text, `"}`)
	case outCustom:
		if it.text = it.input(); len(it.text) > 0 {
			b = w.about(b, "response.custom_tool_call_input.delta", it, `,"delta":"`, it.text, `"}`)
		}
		b = w.about(b, "response.custom_tool_call_input.done", it, `,"input":"`, it.text, `"}`)
	}
	return w.whole(b, "response.output_item.done", it, it.status())
}

// status returns the status of an item that has ended, or would be said to have ended now.
func (it *output) status() string {
	switch {
	case !it.done:
		return "in_progress"
	case it.cut:
		return "incomplete"
	}
	return "completed"
}

// input returns the input of a custom tool. The model has called a function with one text, and what it wrote is read
// as it is if it is anything else.
func (it *output) input() []byte {
	if it.plain {
		return it.text
	}
	raw := []byte(inside(it.text))
	if !json.Valid(raw) {
		return it.text
	}
	v := chat.ValueOf(raw)
	in := v.Given("input")
	if in.Kind() != '"' {
		return it.text
	}
	return in.Inside()
}

// append appends the JSON of an item.
func (it *output) append(b []byte, status string) []byte {
	b = append(append(b, `{"id":"`...), it.id...)
	switch it.kind {
	case outMessage:
		b = append(append(append(b, `","type":"message","status":"`...), status...), `","role":"assistant","content":[`...)
		for i := range it.parts {
			if i > 0 {
				b = append(b, ',')
			}
			b = it.parts[i].append(b)
		}
		b = append(b, ']')
	case outReasoning:
		b = append(b, `","type":"reasoning","summary":[`...)
		if len(it.text) > 0 {
			b = append(append(append(b, `{"type":"summary_text","text":"`...), it.text...), `"}`...)
		}
		b = append(b, ']')
		if it.sealed != "" {
			b = append(append(append(b, `,"encrypted_content":"`...), it.sealed...), '"')
		}
	case outApproval:
		b = jsonscan.AppendQuoted(append(b, `","type":"mcp_approval_request","server_label":`...), it.label)
		b = jsonscan.AppendQuoted(append(b, `,"name":`...), it.name)
		b = append(append(append(b, `,"arguments":"`...), it.text...), '"')
	case outSearch:
		b = append(append(append(b, `","type":"tool_search_call","execution":"client","status":"`...), status...), `","call_id":`...)
		b = append(jsonscan.AppendQuoted(b, it.callID), `,"arguments":`...)
		if text := []byte(inside(it.text)); json.Valid(text) {
			b = append(b, oneLine(text)...)
		} else {
			b = append(b, "{}"...)
		}
	case outListed:
		b = jsonscan.AppendQuoted(append(b, `","type":"mcp_list_tools","server_label":`...), it.label)
		b = append(b, `,"tools":`...)
		if it.done {
			b = append(b, oneLine(it.step.Tools)...)
		} else {
			b = append(b, "[]"...)
		}
	case outRemote:
		b = append(b, `","type":"mcp_call","status":"`...)
		if it.done && it.step.Failed {
			status = "failed"
		}
		b = jsonscan.AppendQuoted(append(append(b, status...), `","server_label":`...), it.label)
		b = jsonscan.AppendQuoted(append(b, `,"name":`...), it.name)
		b = append(append(append(b, `,"arguments":"`...), it.text...), '"')
		b = append(b, `,"approval_request_id":`...)
		if it.step.Approval != "" {
			b = jsonscan.AppendQuoted(b, approval+it.step.Approval)
		} else {
			b = append(b, "null"...)
		}
		result, none := `,"output":`, `,"error":null`
		if it.step.Failed {
			result, none = `,"error":`, `,"output":null`
		}
		if it.done {
			b = append(jsonscan.AppendQuoted(append(b, result...), it.step.Output), none...)
		} else {
			b = append(b, `,"output":null,"error":null`...)
		}
	default:
		kind, key := `","type":"function_call","status":"`, `,"arguments":"`
		if it.kind == outCustom {
			kind, key = `","type":"custom_tool_call","status":"`, `,"input":"`
		}
		b = append(append(append(b, kind...), status...), `","call_id":`...)
		b = jsonscan.AppendQuoted(b, it.callID)
		b = jsonscan.AppendQuoted(append(b, `,"name":`...), it.name)
		if it.namespace != "" {
			b = jsonscan.AppendQuoted(append(b, `,"namespace":`...), it.namespace)
		}
		b = append(append(append(b, key...), it.text...), '"')
	}
	return append(b, '}')
}

// append appends the JSON of a part.
func (p *part) append(b []byte) []byte {
	return append(append(append(b, p.form.head...), p.text...), p.form.tail...)
}

// appendResponse appends the Response object. F is why it failed, and u its usage; either may be nil.
func (w *Writer) appendResponse(b []byte, status string, f *fault.Fault, u *chat.Usage) []byte {
	b = append(append(append(b, `{"id":"resp_`...), w.head.RequestID...), `","object":"response","created_at":`...)
	b = strconv.AppendInt(b, w.head.Created, 10)
	b = append(append(append(b, `,"status":"`...), status...), `","model":`...)
	b = jsonscan.AppendQuoted(b, w.head.Model)
	b = append(b, `,"error":`...)
	if f != nil {
		b = append(append(append(b, `{"code":"`...), code(f)...), `","message":`...)
		b = append(jsonscan.AppendQuoted(b, f.Message), '}')
	} else {
		b = append(b, "null"...)
	}
	b = append(b, `,"incomplete_details":`...)
	if reason := w.reason(); reason != "" && status == "incomplete" {
		b = append(append(append(b, `{"reason":"`...), reason...), `"}`...)
	} else {
		b = append(b, "null"...)
	}
	b = append(b, `,"output":[`...)
	for i, it := range w.items {
		if i > 0 {
			b = append(b, ',')
		}
		s := it.status()
		if f != nil && !it.done {
			s = "incomplete"
		}
		b = it.append(b, s)
	}
	b = append(b, `],"usage":`...)
	if u != nil {
		b = w.cost(appendUsage(b, u))
	} else {
		b = append(b, "null"...)
	}
	b = strconv.AppendBool(append(b, `,"store":`...), w.req.Store)
	b = append(append(append(b, `,"service_tier":"`...), cmp.Or(w.head.Tier, "default")...), '"')
	return append(w.req.appendEcho(b), '}')
}

// code returns the code of an error inside a response.
func code(f *fault.Fault) string {
	if f.Reason != "" {
		return f.Reason
	}
	switch f.Kind {
	case fault.RateLimited:
		return "rate_limit_exceeded"
	case fault.Invalid, fault.NotFound, fault.Conflict:
		return "invalid_prompt"
	}
	return "server_error"
}

// cost adds what the call costs to the usage that b ends with, if the caller wants that and the reply has ended.
func (w *Writer) cost(b []byte) []byte {
	if w.outcome == nil {
		return b
	}
	return w.outcome.AppendCost(b)
}

// appendUsage appends a usage object.
func appendUsage(b []byte, u *chat.Usage) []byte {
	b = strconv.AppendInt(append(b, `{"input_tokens":`...), int64(u.PromptTotal()), 10)
	b = strconv.AppendInt(append(b, `,"input_tokens_details":{"cached_tokens":`...), int64(u.Cached), 10)
	b = strconv.AppendInt(append(b, `,"cache_write_tokens":`...), int64(u.CacheWritten()), 10)
	b = strconv.AppendInt(append(b, `},"output_tokens":`...), int64(u.CompletionTotal()), 10)
	b = strconv.AppendInt(append(b, `,"output_tokens_details":{"reasoning_tokens":`...), int64(u.Reasoning), 10)
	b = strconv.AppendInt(append(b, `},"total_tokens":`...), int64(u.Total()), 10)
	return append(b, '}')
}

// appendInside appends a text as the inside of a JSON string.
func appendInside(b []byte, text string) []byte {
	from := len(b)
	b = jsonscan.AppendQuoted(b, text)
	// Move the inside over the opening quote, and leave out the closing one.
	copy(b[from:], b[from+1:])
	return b[:len(b)-2]
}

// inside returns the text of the inside of a JSON string.
func inside(raw []byte) string {
	quoted := append(append(append(make([]byte, 0, len(raw)+2), '"'), raw...), '"')
	return jsonscan.Unquote(quoted)
}
