package chat

import (
	"bytes"
	"math"
	"strconv"

	"sluice/internal/kit/fault"
	"sluice/internal/prompt/allowance"
)

// Bounds of single fields. No upstream accepts more. The fields and their ranges are in
// docs/api.md#chat-completion-request.
const (
	maxModel = 256 // bytes of a model id
	maxStops = 64  // stop sequences
	maxN     = 128 // replies to one request
)

// Parse decodes a chat completion request and checks it against the contract
// (docs/api.md#chat-completion-request). The error is a fault that names the field.
//
// The Request refers to body, so body must not be changed while the Request is in use. It keeps all of
// body alive. Parse takes time and memory at most in proportion to the length of body, for any body.
//
// Each field has a method of parser; field is the list of them. Rules that need several fields are
// in whole.
func Parse(body []byte) (*Request, error) {
	// Places in the body are kept as int32, so that members and frames are small.
	if len(body) > math.MaxInt32 {
		return nil, fault.New(fault.TooLarge, "The body is larger than 2 GiB")
	}
	// One allocation holds the Request and enough room to parse nearly every body. Slices that outgrow
	// it move to the heap by themselves. The sizes are what common clients send: up to 16 top-level
	// members, 8 levels, and 24 keys open at once.
	var room struct {
		req     Request
		members [16]member
		frames  [8]frame
		keys    [24]keySpan
	}
	p := parser{req: &room.req}
	p.body = body
	p.frames = room.frames[:0]
	p.seen.keys = room.keys[:0]
	p.req.raw = body
	p.req.members = room.members[:0]
	p.req.N = 1
	p.request()
	// p.fault is a *fault.Fault; returning it unchecked would make a nil one an error that is not nil.
	if p.fault != nil {
		return nil, p.fault
	}
	return p.req, nil
}

// parser fills a Request from the members that its scanner reads. It has a method for each field. Such
// a method reads exactly one value and leaves the scanner after it; after a problem it may return
// anything, because Parse then drops the Request.
type parser struct {
	scanner
	req *Request

	entries int       // messages, parts and tool calls so far
	open    openCalls // the calls of the last assistant message

	// Fields that whole checks together with others, whose order in the body may be any.
	maxTokens     int64  // 0: not given
	maxCompletion int64  // max_completion_tokens; 0: not given
	oddOptions    string // what is wrong with stream_options; it matters only if stream is true
	oddPath       string // the path of oddOptions
}

// request reads the whole body and records the place of every top-level member, for patching. Text
// after the object is refused.
// A member's place is all that is kept of it; its value is read by field, and sent as it is.
func (p *parser) request() {
	if !p.begin() {
		return
	}
	for p.member() {
		// The body's own frame has the key that was read last.
		m := member{from: p.frames[0].from, keyTo: p.frames[0].to, value: int32(p.pos)}
		m.field = p.field(p.key)
		m.to = int32(p.pos)
		p.req.members = append(p.req.members, m)
	}
	if p.failed() {
		return
	}
	// Only white space may follow.
	if p.peek(); p.pos < len(p.body) {
		p.expected("the end of the body")
		return
	}
	p.whole()
}

// begin opens the object that the body must be. It reports false if the body is anything else.
func (p *parser) begin() bool {
	// Windows editors write it. The general message about an unexpected byte would puzzle their users.
	if bytes.HasPrefix(p.body, []byte("\xef\xbb\xbf")) {
		p.malformed(0, "the body begins with a byte order mark; send UTF-8 without one")
		return false
	}
	switch p.peek() {
	case '{':
		return p.enter(true)
	case '[': // refused without reading it, however long it is
		p.bad("", "must be a JSON object; got an array")
	default:
		if p.pos == len(p.body) {
			p.bad("", "is empty; send a JSON object with model and messages")
			break
		}
		p.mismatchType("a JSON object")
	}
	return false
}

// field reads the value of one top-level member. Fields that the contract does not know are skipped
// and passed on: clients send whatever their library allows (docs/api.md#chat-completion-request).
//
// The result says what a Patch must know about the member: whether it may have to be replaced or
// left out for some upstreams. A field that is only checked is fieldOther.
func (p *parser) field(name []byte) field {
	r := p.req
	switch string(name) {
	case "model":
		p.model()
		return fieldModel
	case "messages":
		p.messages()
		return fieldMessages
	// Here and below null is the same as absent.
	case "stream":
		r.Stream = !p.null() && p.boolean()
	case "stream_options":
		p.streamOptions()
		return fieldStreamOptions
	// Both names are kept apart until whole: their order in the body must not matter.
	case "max_tokens":
		p.maxTokens = p.count(math.MaxInt32)
	case "max_completion_tokens":
		p.maxCompletion = p.count(math.MaxInt32)
	case "n":
		r.N = max(1, int(p.count(maxN)))
	// The pointers point to Request.numbers.
	case "temperature":
		r.Temperature = p.optionalFloat(&r.numbers[0], 0, 2)
	case "top_p":
		r.TopP = p.optionalFloat(&r.numbers[1], 0, 1)
	case "frequency_penalty":
		r.FrequencyPenalty = p.optionalFloat(&r.numbers[2], -2, 2)
	case "presence_penalty":
		r.PresencePenalty = p.optionalFloat(&r.numbers[3], -2, 2)
	case "stop":
		p.stop()
		return fieldStop
	case "tools":
		list := p.peek() == '['
		p.tools()
		r.noTools = list && r.Tools == nil
		return fieldTools
	case "tool_choice":
		p.toolChoice()
		return fieldTools
	case "response_format":
		p.format()
	case "reasoning_effort":
		p.effort()
	case "seed":
		p.seed()
	case "parallel_tool_calls":
		// Like seed, it never causes a 400: a value of another type goes to the upstream.
		if c := p.peek(); c == 't' || c == 'f' {
			r.parallel = p.boolean()
			r.ParallelToolCalls = &r.parallel
			return fieldTools
		}
		p.skip()
		return fieldTools
	case "user":
		r.User = p.optionalText()
	case "usage":
		p.usage()
		return fieldOurs
	case "max_cost":
		p.maxCost()
		return fieldOurs
	case "budget":
		p.budget()
		return fieldOurs
	case "auto_cache":
		if !p.null() {
			r.AutoCache = SwitchOf(p.boolean())
		}
		return fieldOurs
	// Passing these on would make the model answer in a form that our replies cannot carry.
	case "functions", "function_call":
		p.legacy("tools and tool_choice")
	default:
		e, from := allowance.Field(string(name)), p.pos
		p.other(requestShape)
		r.reserve(e, p.body[from:p.pos])
		return fieldUnread
	}
	return fieldOther
}

// reserve notes whether a field that is not read asks for something that the operator pays for; e is nil for all others.
func (r *Request) reserve(e *allowance.Entry, value []byte) {
	if e != nil && Asks(value) {
		r.Reserved, r.Runs = true, r.Runs || e.Runs
	}
}

// whole checks the rules that need several fields, after all of them were read.
// It may run after a problem in these fields was found; then p.bad keeps the first one.
func (p *parser) whole() {
	r := p.req
	switch {
	case r.Model == "":
		p.bad("model", "is required: the id of a model that GET /v1/models lists")
	case r.Messages == nil:
		p.bad("messages", "is required: an array of at least one message")
	case r.Stream && p.oddOptions != "":
		p.bad(p.oddPath, "must be %s", p.oddOptions)
	}
	// 0 means that a field is absent, so the smaller of the two counts only if both are there.
	r.MaxTokens = int(max(p.maxTokens, p.maxCompletion))
	if p.maxTokens != 0 && p.maxCompletion != 0 {
		r.MaxTokens = int(min(p.maxTokens, p.maxCompletion))
	}
	// Without stream the option is ignored (docs/api.md#chat-completion-request).
	r.IncludeUsage, r.Resumable = r.IncludeUsage && r.Stream, r.Resumable && r.Stream
	if path, problem := r.unchoosable(); problem != "" {
		p.bad(path, "%s", problem)
	}
}

// model reads model. Whether there is such a model is not checked here; see inference.
func (p *parser) model() {
	if p.null() {
		return
	}
	t := p.text("a string")
	switch {
	case t.size == 0:
		p.bad("", "must not be empty; give the id of a model that GET /v1/models lists")
	case t.size > maxModel:
		p.bad("", "must be at most %d bytes long; got %d", maxModel, t.size)
	default:
		p.req.Model = p.unquoted(t)
	}
}

// legacy refuses a field of OpenAI's older function calling and names the field to use instead. It
// checks the syntax first, so that a body that was cut off is reported as such.
func (p *parser) legacy(instead string) {
	if !p.null() {
		p.skip()
		p.bad("", "is the older form of function calling, which is not supported; use %s", instead)
	}
}

// streamOptions reads stream_options. Without stream it is ignored, and stream may come later, so a
// problem is only recorded; whole reports it.
func (p *parser) streamOptions() {
	if p.null() {
		return
	}
	// Record a problem instead of refusing it: clients may always send stream_options.
	if p.peek() != '{' {
		from := p.pos
		p.skip()
		if !p.failed() {
			p.oddPath, p.oddOptions = "stream_options", "an object; got "+typeName(p.body[from])
		}
		return
	}
	if !p.enter(true) {
		return
	}
	for p.member() {
		switch string(p.key) {
		case "include_usage":
			p.req.IncludeUsage = p.option("include_usage")
		case "resumable":
			p.req.Resumable, p.req.resumes = p.option("resumable"), true
		default:
			p.other(optionsShape)
		}
	}
}

// usage reads usage, which says what the usage of the reply tells.
func (p *parser) usage() {
	if p.null() || !p.object("an object such as {\"include\": true}") {
		return
	}
	for p.member() {
		if string(p.key) == "include" {
			p.req.TellCost = !p.null() && p.boolean()
		} else {
			p.other(usageShape)
		}
	}
}

// MostCost is the largest max_cost, in dollars. It is that of a budget.
const MostCost = 1_000_000

// maxCost reads max_cost: the most that the call may cost, in dollars.
func (p *parser) maxCost() {
	if p.null() {
		return
	}
	const want = "a number of dollars from 0 to 1000000"
	if c := p.peek(); c != '-' && (c < '0' || c > '9') {
		p.mismatch(want)
		return
	}
	num, ok := p.number()
	if v, err := strconv.ParseFloat(string(num), 64); ok && (err != nil || v < 0 || v > MostCost) {
		p.bad("", "must be %s; got %s", want, describe(num))
	}
	p.req.MaxCost = string(num)
}

// budget reads budget, which says what becomes of a call that does not fit one.
func (p *parser) budget() {
	if p.null() || !p.object("an object such as {\"clamp\": true}") {
		return
	}
	for p.member() {
		switch {
		case string(p.key) == "clamp":
			p.req.Clamp = !p.null() && p.boolean()
		case !p.respells(budgetShape):
			p.bad("", "is not known: budget has the member clamp alone")
		}
	}
}

// option reads a boolean of stream_options; null is false.
func (p *parser) option(name string) bool {
	from := p.pos
	switch p.peek() {
	case 't', 'f':
		return p.boolean()
	case 'n':
		p.null()
	default:
		p.skip()
		p.oddPath, p.oddOptions = "stream_options."+name, "a boolean; got "+p.describe(from)
	}
	return false
}

// stop reads stop: a string, an array of strings, or null. A string is read as an array of one.
func (p *parser) stop() {
	const want = "a string or an array of strings"
	switch p.peek() {
	case 'n':
		p.null()
	case '"':
		p.sequence(want)
	default:
		if !p.array(want) {
			return
		}
		for p.element() {
			p.sequence("a string")
		}
	}
}

// sequence reads one stop sequence. An empty one is left out, here and for upstreams; see Patch.

func (p *parser) sequence(want string) {
	t := p.text(want)
	switch {
	case t.size == 0:
		p.req.emptyStops = true
	case len(p.req.Stop) == maxStops:
		p.bad("", "is one too many: stop may hold at most %d strings", maxStops)
	default:
		p.req.Stop = append(p.req.Stop, p.unquoted(t))
	}
}

// effort reads reasoning_effort. Whether the model can reason is not known here; the field is dropped
// later for models that cannot.
func (p *parser) effort() {
	const want = `"none", "minimal", "low", "medium", "high", "xhigh" or "max"`
	p.req.ReasoningEffort = Effort(p.oneOf(want, effortWords...))
}

// seed reads seed. Anything but an integer is skipped and passed on: upstreams differ in what they
// accept.
func (p *parser) seed() {
	c := p.peek()
	if c != '-' && (c < '0' || c > '9') {
		p.skip()
		return
	}
	// An integer that an int64 cannot hold is left to upstreams of the same dialect.
	if num, ok := p.number(); ok {
		if v, kind := integral(num); kind == fits {
			p.req.seedValue = v
			p.req.Seed = &p.req.seedValue
		}
	}
}

// count reads an optional integer from 1 to most. It returns 0 for null and after a problem.
func (p *parser) count(most int64) int64 {
	if p.null() {
		return 0
	}
	return p.integer(1, most)
}

// optionalFloat reads an optional number from lo to hi into v and returns v; it returns nil for null.
// v is a field of the Request, so the pointer costs no allocation.
func (p *parser) optionalFloat(v *float64, lo, hi float64) *float64 {
	if p.null() {
		return nil
	}
	// After a problem the value does not matter: Parse returns no Request.
	*v = p.float(lo, hi)
	return v
}

// optionalText reads a string that nothing depends on. It returns an empty string for anything else,
// which is skipped and passed on.
func (p *parser) optionalText() string {
	if p.peek() != '"' {
		p.skip()
		return ""
	}
	t, _ := p.quoted()
	return p.unquoted(t)
}
