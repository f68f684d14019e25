package responses

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"sluice/internal/kit/fault"
	"sluice/internal/kit/jsonscan"
	"sluice/internal/prompt/allowance"
	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/provider"
)

// Bounds of single fields (docs/api.md#responses). Those of OpenAI where it has one.
const (
	maxModel       = 256 // bytes of a model id
	maxID          = 256 // bytes of an id that the caller sends back
	maxLabel       = 512 // bytes of a short text, such as user
	maxMetadata    = 16  // pairs
	maxMetaKey     = 64  // bytes
	maxMetaValue   = 512 // bytes
	maxTopLogprobs = 20
)

// Request is one request to create a response. It refers to the body that it was read from.
type Request struct {
	Model    string
	Stream   bool
	Store    bool   // true unless the caller says otherwise
	Previous string // previous_response_id; empty: a conversation begins
	// Encrypted says that reasoning items are to carry encrypted content.
	Encrypted bool
	// Opened opens the encrypted content of a reasoning item that was sealed here, for Compose. If it is nil, such content is
	// ignored.
	Opened func(sealed string) ([]byte, bool)
	// Truncate says that the oldest items may be left out if the input is too long for the model.
	Truncate bool

	items     []item
	body      value        // the whole body
	needs     chat.Foreign // what only an upstream of the dialect understands
	loose     bool         // see chat.Original
	remote    string       // the path of the first address in an item that only such an upstream understands
	offers    bool         // it has tools that the chat completion does not list
	unread    []string     // what a chat completion cannot say and does without
	refused   error        // of native
	inputJSON value        // input as it was sent: a string or an array
	tools     tools
	settings  settings
	echo      []byte // the members of a Response object that repeat the request
	// skipped is how many of the oldest turns Compose leaves out, and turns how many there were.
	skipped, turns int
	// referenced are the items that the input refers to, once Compose knows them.
	referenced map[string][]byte
	origin     []int // for each message of the chat completion: the index of its item in input; see Compose
}

// settings are the fields that become members of the chat completion as they are; absent ones are zero.
type settings struct {
	instructions                 value
	maxOutput, temperature, topP value
	parallel                     value
	effort                       string
	format                       []byte // the JSON of response_format
	verbosity, tier              string
	user, cacheKey, safety       value
	metadata, reasoning, text    value
	truncation                   string
	topLogprobs, maxToolCalls    value
	choice                       value
}

// Parse reads a request. The error is a fault that names the field. The Request keeps body, which must not be changed.
func Parse(body []byte) (*Request, error) {
	if _, err := chat.Check(body, "model and input", bodyShape); err != nil {
		return nil, err
	}
	p := parser{req: &Request{Store: true}}
	root, _ := at(body, 0)
	p.req.body = root
	for key, v := range root.members() {
		p.field(key, v)
		if p.fault != nil {
			return nil, p.fault
		}
	}
	p.whole()
	if p.fault != nil {
		return nil, p.fault
	}
	p.req.echo = oneLine(p.req.appendEcho(nil))
	return p.req, nil
}

// parser fills a Request. Path leads to the value that is being read. Only the first problem counts; after it, the
// rest may be read or not.
type parser struct {
	req   *Request
	path  []byte
	fault *fault.Fault
}

// bad refuses the current value, or the part of it that sub leads to. The format continues a sentence that
// begins with the path.
func (p *parser) bad(sub, format string, args ...any) {
	if p.fault == nil {
		path := string(p.path) + sub
		p.fault = fault.New(fault.Invalid, "%s %s", path, fmt.Sprintf(format, args...)).At(path)
	}
}

// in moves to a member, and out back to where in was called.
func (p *parser) in(name string) int {
	mark := len(p.path)
	if mark > 0 {
		p.path = append(p.path, '.')
	}
	p.path = append(p.path, name...)
	return mark
}

// inElement is in for an element of an array.
func (p *parser) inElement(i int) int {
	mark := len(p.path)
	p.path = append(p.path, '[')
	p.path = strconv.AppendInt(p.path, int64(i), 10)
	p.path = append(p.path, ']')
	return mark
}

// out moves back; see in. After a problem the path does not matter any more.
func (p *parser) out(mark int) { p.path = p.path[:mark] }

// failed reports whether there was a problem.
func (p *parser) failed() bool { return p.fault != nil }

// leave notes a field that a chat completion cannot say and does without. Only an upstream of the dialect gets it.
func (p *parser) leave(name string) {
	if r := p.req; len(r.unread) < provider.MaxDropped && provider.IsFieldName(strings.ReplaceAll(name, "[]", "")) && !slices.Contains(r.unread, name) {
		r.unread = append(r.unread, name)
	}
}

// unknown reads a member that is not known. Clients send what newer versions of the original know, and few of them may make
// a request fail: those without which it would mean something else.
func (p *parser) unknown(key string, v value) {
	if !chat.Asks(v) {
		return
	}
	if e := allowance.Field(key); e != nil {
		p.req.offers = p.req.offers || e.Runs
		if e.Refused&allowance.Responses != 0 {
			p.only(e.What)
			return
		}
	}
	p.leave(key)
}

// field reads one member of the body. Null counts as absent.
func (p *parser) field(key string, v value) {
	mark := p.in(key)
	defer p.out(mark)
	r, s := p.req, &p.req.settings
	if v.null() {
		return
	}
	switch key {
	case "model":
		if p.isText(v, 1, maxModel) {
			r.Model = v.text()
		}
	case "input":
		r.inputJSON = v
		p.input(v)
	case "instructions":
		if p.isText(v, 0, math.MaxInt) {
			s.instructions = v
		}
	case "stream":
		r.Stream = p.boolean(v)
	case "stream_options":
		if p.object(v, "an object") && v.member("include_obfuscation").kind() == 't' {
			p.leave("stream_options.include_obfuscation")
		}
	case "store":
		r.Store = p.boolean(v)
	case "previous_response_id":
		if p.isText(v, 1, maxID) {
			r.Previous = v.text()
		}
	case "max_output_tokens":
		s.maxOutput = p.integer(v, 1, math.MaxInt32)
	case "max_tool_calls":
		s.maxToolCalls = p.integer(v, 1, math.MaxInt32)
		p.leave(key)
	case "temperature":
		s.temperature = p.number(v, 0, 2)
	case "top_p":
		s.topP = p.number(v, 0, 1)
	case "top_logprobs":
		if s.topLogprobs = p.integer(v, 0, maxTopLogprobs); chat.Asks(s.topLogprobs) {
			p.leave(key)
		}
	case "parallel_tool_calls":
		p.boolean(v)
		s.parallel = v
	case "tools":
		p.tools(v)
	case "tool_choice":
		s.choice = v
	case "text":
		p.text(v)
	case "reasoning":
		p.reasoning(v)
	case "metadata":
		p.metadata(v)
	case "include":
		p.include(v)
	case "truncation":
		s.truncation = p.oneOf(v, `"auto" or "disabled"`, "auto", "disabled")
		r.Truncate = s.truncation == "auto"
	case "service_tier":
		const tiers = `"auto", "default", "flex", "scale", "priority", "fast" or "ultrafast"`
		s.tier = p.oneOf(v, tiers, "auto", "default", "flex", "scale", "priority", "fast", "ultrafast")
	case "user":
		s.user = p.label(v)
	case "prompt_cache_key":
		s.cacheKey = p.label(v)
	case "safety_identifier":
		s.safety = p.label(v)
	case "background":
		if p.boolean(v) {
			p.bad("", "is not supported: a response is made while its caller waits. Leave it out, and set stream to see the reply as it is written")
		}
	case "conversation":
		p.bad("", "is not supported: continue a conversation with previous_response_id, or send its items in input")
	case "prompt":
		p.bad("", "is not supported: there are no stored prompts here; send the text in instructions and input")
	case "n":
		if n := p.integer(v, 1, math.MaxInt32); n != nil && string(n) != "1" {
			p.bad("", "is a field of chat completions; a response is one reply, so leave it out or send several requests")
		}
	case "stop":
		if chat.Asks(v) {
			p.bad("", "is a field of chat completions, and responses have no stop sequences; leave it out")
		}
	case "functions", "function_call":
		p.bad("", "is the older form of function calling, which is not supported; use tools and tool_choice")
	case "web_search_options":
		p.bad("", "is a field of chat completions; use a tool of the type web_search")
	case "messages":
		p.bad("", "is a field of chat completions; send the conversation in input")
	case "max_tokens", "max_completion_tokens":
		p.bad("", "is a field of chat completions; use max_output_tokens")
	case "response_format":
		p.bad("", "is a field of chat completions; use text.format")
	case "reasoning_effort":
		p.bad("", "is a field of chat completions; use reasoning.effort")
	default:
		p.unknown(key, v)
	}
}

// whole checks what needs several fields.
func (p *parser) whole() {
	p.path = p.path[:0]
	r := p.req
	switch {
	case p.failed():
	case r.Model == "":
		p.bad("model", "is required: the id of a model that GET /v1/models lists")
	case r.inputJSON == nil && r.Previous == "":
		p.bad("input", "is required: a string or an array of items")
	case r.inputJSON.kind() == '[' && len(r.items) == 0 && r.Previous == "":
		p.bad("input", "must hold at least one item")
	default:
		p.choice(r.settings.choice)
	}
}

// isText reports whether v is a string of least to most bytes.
func (p *parser) isText(v value, least, most int) bool {
	if v.kind() != '"' {
		p.bad("", "must be a string; got %s", v.typeName())
		return false
	}
	switch n := len(v) - 2; { // at least the length of the text
	case n < least:
		p.bad("", "must not be empty")
		return false
	case n > most:
		if n = len(v.text()); n > most {
			p.bad("", "must be at most %d bytes long; got %d", most, n)
			return false
		}
	}
	return true
}

// label reads a short text that is passed on.
func (p *parser) label(v value) value {
	if p.isText(v, 0, maxLabel) {
		return v
	}
	return nil
}

// object reports whether v is an object.
func (p *parser) object(v value, want string) bool {
	if v.kind() != '{' {
		p.bad("", "must be %s; got %s", want, v.typeName())
		return false
	}
	return true
}

// array reports whether v is an array.
func (p *parser) array(v value, want string) bool {
	if v.kind() != '[' {
		p.bad("", "must be %s; got %s", want, v.typeName())
		return false
	}
	return true
}

// boolean reads true or false.
func (p *parser) boolean(v value) bool {
	if v.kind() != 't' && v.kind() != 'f' {
		p.bad("", "must be a boolean; got %s", v.describe())
	}
	return v.kind() == 't'
}

// number checks a number, and returns it as it is written.
func (p *parser) number(v value, lo, hi float64) value {
	n, err := strconv.ParseFloat(string(v), 64)
	switch {
	case err != nil || v.kind() == 'n' || v.kind() == 't' || v.kind() == 'f':
		p.bad("", "must be a number; got %s", v.describe())
	case n < lo:
		p.bad("", "must be at least %v; got %s", lo, v.describe())
	case n > hi:
		p.bad("", "must be at most %v; got %s", hi, v.describe())
	}
	return v
}

// integer checks an integer and returns it in its shortest form. Bounds are far below 2^53, so a float64 has
// them exactly.
func (p *parser) integer(v value, lo, hi int64) value {
	n, err := strconv.ParseFloat(string(v), 64)
	switch {
	case err != nil || v.kind() == 'n' || v.kind() == 't' || v.kind() == 'f' || n != math.Trunc(n):
		p.bad("", "must be an integer; got %s", v.describe())
	case n < float64(lo):
		p.bad("", "must be at least %d; got %s", lo, v.describe())
	case n > float64(hi):
		p.bad("", "must be at most %d; got %s", hi, v.describe())
	default:
		return strconv.AppendInt(nil, int64(n), 10)
	}
	return nil
}

// oneOf reads one of the words, which want lists for the message.
func (p *parser) oneOf(v value, want string, words ...string) string {
	for _, w := range words {
		if v.is(w) {
			return w
		}
	}
	p.bad("", "must be %s; got %s", want, v.describe())
	return ""
}

// required returns a member that must be there; the zero value if it is not, or null.
func (p *parser) required(v value, name, what string) value {
	m := v.member(name)
	if m == nil {
		p.bad("."+name, "is required: %s", what)
	}
	return m
}

// text reads the field text: the form of the reply.
func (p *parser) text(v value) {
	if !p.object(v, "an object with a format") {
		return
	}
	s := &p.req.settings
	s.text = v
	for key, m := range v.members() {
		if m.null() {
			continue
		}
		mark := p.in(key)
		switch key {
		case "verbosity":
			s.verbosity = p.oneOf(m, `"low", "medium" or "high"`, "low", "medium", "high")
		case "format":
			p.format(m)
		default:
			p.leave(string(p.path))
		}
		p.out(mark)
	}
}

// format reads text.format and writes it as response_format.
func (p *parser) format(v value) {
	if !p.object(v, "an object with a type") {
		return
	}
	kind := v.member("type")
	if kind == nil {
		p.bad(".type", `is required: "text", "json_object" or "json_schema"`)
		return
	}
	mark := p.in("type")
	name := p.oneOf(kind, `"text", "json_object" or "json_schema"`, "text", "json_object", "json_schema")
	p.out(mark)
	s := &p.req.settings
	switch name {
	case "json_object":
		s.format = []byte(`{"type":"json_object"}`)
	case "json_schema":
		b := []byte(`{"type":"json_schema","json_schema":{`)
		called := p.required(v, "name", "the name of the schema")
		schema := p.required(v, "schema", "a JSON schema")
		mark := p.in("name")
		if called != nil && p.isText(called, 1, maxID) {
			b = append(append(b, `"name":`...), called...)
		}
		p.out(mark)
		mark = p.in("schema")
		if schema != nil && p.object(schema, "an object, a JSON schema") {
			b = append(append(b, `,"schema":`...), schema...)
		}
		p.out(mark)
		if strict := v.member("strict"); strict != nil {
			mark := p.in("strict")
			p.boolean(strict)
			p.out(mark)
			b = append(append(b, `,"strict":`...), strict...)
		}
		if about := v.member("description"); about != nil {
			mark := p.in("description")
			p.isText(about, 0, math.MaxInt)
			p.out(mark)
			b = append(append(b, `,"description":`...), about...)
		}
		s.format = append(b, "}}"...)
	}
}

// reasoning reads the field reasoning. The highest effort of the original becomes the highest that there is here.
func (p *parser) reasoning(v value) {
	if !p.object(v, "an object with an effort") {
		return
	}
	s := &p.req.settings
	s.reasoning = v
	for key, m := range v.members() {
		if m.null() {
			continue
		}
		mark := p.in(key)
		switch key {
		case "effort":
			s.effort = p.oneOf(m, `"none", "minimal", "low", "medium", "high" or "xhigh"`, "none", "minimal", "low", "medium", "high", "xhigh")
			if s.effort == "xhigh" {
				s.effort = string(chat.EffortHigh)
			}
		case "summary", "generate_summary":
			p.oneOf(m, `"auto", "concise" or "detailed"`, "auto", "concise", "detailed")
		default:
			p.leave(string(p.path))
		}
		p.out(mark)
	}
}

// metadata reads metadata, which is kept with the response and repeated.
func (p *parser) metadata(v value) {
	if !p.object(v, "an object of strings") {
		return
	}
	n := 0
	for key, m := range v.members() {
		if n++; n > maxMetadata {
			p.bad("", "holds too much: at most %d pairs", maxMetadata)
			return
		}
		if len(key) > maxMetaKey {
			p.bad("", "has a key of %d bytes; at most %d are possible", len(key), maxMetaKey)
			return
		}
		mark := p.in(key)
		p.isText(m, 0, maxMetaValue)
		p.out(mark)
	}
	p.req.settings.metadata = v
}

// include reads include. What is listed and not produced here is accepted: clients ask for all that they can show.
func (p *parser) include(v value) {
	if !p.array(v, "an array of strings") {
		return
	}
	for i, m := range v.elements() {
		mark := p.inElement(i)
		switch {
		case m.is("reasoning.encrypted_content"):
			p.req.Encrypted = true
		default:
			p.oneOf(m, `a value that the reference lists, such as "reasoning.encrypted_content"`,
				"web_search_call.action.sources", "web_search_call.results", "file_search_call.results", "code_interpreter_call.outputs",
				"computer_call_output.output.image_url", "message.input_image.image_url", "message.output_text.logprobs")
			p.leave("include")
		}
		p.out(mark)
	}
}

// appendEcho appends the members of a Response object that repeat the request, beginning with a comma. Clients' types
// require them all.
func (r *Request) appendEcho(b []byte) []byte {
	s := &r.settings
	or := func(name string, v value, absent string) {
		b = append(append(append(b, `,"`...), name...), `":`...)
		if v == nil {
			b = append(b, absent...)
			return
		}
		b = append(b, v...)
	}
	or("background", nil, "false")
	or("instructions", s.instructions, "null")
	or("max_output_tokens", s.maxOutput, "null")
	or("max_tool_calls", s.maxToolCalls, "null")
	or("parallel_tool_calls", s.parallel, "true")
	if r.Previous == "" {
		or("previous_response_id", nil, "null")
	} else {
		or("previous_response_id", jsonscan.AppendQuoted(nil, r.Previous), "")
	}
	or("prompt_cache_key", s.cacheKey, "null")
	b = append(b, `,"reasoning":{`...)
	from := len(b)
	or("effort", s.reasoning.member("effort"), "null")
	or("summary", s.reasoning.member("summary"), "null")
	b = append(append(b[:from], b[from+1:]...), '}') // without the first comma
	or("safety_identifier", s.safety, "null")
	or("temperature", s.temperature, "1.0")
	b = append(b, `,"text":{`...)
	from = len(b)
	or("format", s.text.member("format"), `{"type":"text"}`)
	or("verbosity", s.text.member("verbosity"), `"medium"`)
	b = append(append(b[:from], b[from+1:]...), '}')
	or("tool_choice", s.choice, `"auto"`)
	or("tools", r.tools.echo, "[]")
	or("top_logprobs", s.topLogprobs, "0")
	or("top_p", s.topP, "1.0")
	if r.Truncate {
		or("truncation", nil, `"auto"`)
	} else {
		or("truncation", nil, `"disabled"`)
	}
	or("user", s.user, "null")
	or("metadata", s.metadata, "{}")
	return b
}
