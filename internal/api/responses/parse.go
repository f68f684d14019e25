package responses

import (
	"bytes"
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

	tellCost, clamp bool   // see chat.Request
	maxCost         string // see chat.Request
	autoCache       chat.Switch

	items     []item
	body      []byte       // the whole body
	root      chat.Value   // of it
	needs     chat.Foreign // what only an upstream of the dialect understands
	loose     bool         // see chat.Original
	remote    string       // the path of the first address in an item that only such an upstream understands
	offers    bool         // it has tools that the chat completion does not list
	unread    []string     // what a chat completion cannot say and does without
	refused   error        // of native
	inputJSON []byte       // input as it was sent: a string or an array; nil if it was not
	tools     tools
	settings  settings
	// skipped is how many of the oldest turns Compose leaves out, and turns how many there were.
	skipped, turns int
	// referenced are the items that the input refers to, once Compose knows them.
	referenced map[string][]byte
	origin     []int // for each message of the chat completion: the index of its item in input; see Compose
}

// Metadata returns what the caller has marked the request with: an object of strings, or nothing.
func (r *Request) Metadata() chat.Value { return r.settings.metadata }

// settings are the fields that become members of the chat completion as they are; absent ones are zero.
type settings struct {
	instructions                 chat.Value
	maxOutput, temperature, topP chat.Value
	parallel                     chat.Value
	effort                       string
	format                       chat.Format
	definition                   []byte // the JSON of the schema of format, as a chat completion has it
	verbosity, tier              string
	user, cacheKey, safety       chat.Value
	cacheOptions                 chat.Value
	metadata, reasoning, text    chat.Value
	truncation                   string
	topLogprobs, maxToolCalls    chat.Value
	choice                       chat.Value
}

// Parse reads a request. The error is a fault that names the field. The Request keeps body, which must not be changed.
func Parse(body []byte) (*Request, error) {
	root, err := chat.Check(body, "model and input", bodyShape)
	if err != nil {
		return nil, err
	}
	// One allocation is enough for a request whose input is a text.
	room := &struct {
		parser
		request Request
		items   [1]item
		origin  [2]int
	}{}
	p := &room.parser
	p.req, p.root = &room.request, root
	p.req.Store, p.req.body, p.req.root, p.req.items, p.req.origin = true, root.Raw(), root, room.items[:0], room.origin[:0]
	for walk := root.Walk(); walk.Next(); {
		p.field(walk.Key, walk.Value)
		if p.fault != nil {
			return nil, p.fault
		}
	}
	p.whole()
	if p.fault != nil {
		return nil, p.fault
	}
	return p.req, nil
}

// parser fills a Request. Only the first problem counts; after it, the rest may be read or not, and what methods return does
// not matter.
type parser struct {
	req   *Request
	root  chat.Value // what all values that are read are in
	where string     // the path of root; empty for the body
	fault *fault.Fault
	// recalled takes the tools of an earlier turn, while its items are read.
	recalled *shelf
	mark     chat.Cache // the last prompt_cache_breakpoint
	marked   bool       // mark has not been taken
}

// path returns the path of a value.
func (p *parser) path(v chat.Value) string {
	inside := p.root.Path(v)
	if p.where == "" || inside == "" {
		return p.where + inside
	}
	return p.where + "." + inside
}

// bad refuses a value, or the part of it that sub leads to. The format continues a sentence that begins with the path.
func (p *parser) bad(v chat.Value, sub, format string, args ...any) {
	if p.fault == nil {
		p.badAt(p.path(v)+sub, format, args...)
	}
}

// badAt is bad for what has a path.
func (p *parser) badAt(path, format string, args ...any) {
	if p.fault == nil {
		p.fault = fault.New(fault.Invalid, "%s %s", path, fmt.Sprintf(format, args...)).At(path)
	}
}

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
func (p *parser) unknown(key string, v chat.Value) {
	if !chat.Asks(v.Raw()) {
		return
	}
	if e := allowance.Field(key); e != nil {
		p.req.offers = p.req.offers || e.Runs
		if e.Refused&allowance.Responses != 0 {
			p.only(v, e.What)
			return
		}
	}
	p.leave(key)
}

// field reads one member of the body. Null counts as absent.
func (p *parser) field(key []byte, v chat.Value) {
	r, s := p.req, &p.req.settings
	if v.Null() {
		return
	}
	switch string(key) {
	case "model":
		r.Model = p.sized(v, 1, maxModel).Text()
	case "input":
		r.inputJSON = v.Raw()
		p.input(v)
	case "instructions":
		s.instructions = p.sized(v, 0, math.MaxInt)
	case "stream":
		r.Stream = p.boolean(v)
	case "stream_options":
		if p.object(v, "an object") && v.Given("include_obfuscation").Kind() == 't' {
			p.leave("stream_options.include_obfuscation")
		}
	case "store":
		r.Store = p.boolean(v)
	case "previous_response_id":
		r.Previous = p.sized(v, 1, maxID).Text()
	case "max_output_tokens":
		s.maxOutput = p.integer(v, 1, math.MaxInt32)
	case "max_tool_calls":
		s.maxToolCalls = p.integer(v, 1, math.MaxInt32)
		p.leave("max_tool_calls")
	case "temperature":
		s.temperature = p.number(v, 0, 2)
	case "top_p":
		s.topP = p.number(v, 0, 1)
	case "top_logprobs":
		if s.topLogprobs = p.integer(v, 0, maxTopLogprobs); chat.Asks(s.topLogprobs.Raw()) {
			p.leave("top_logprobs")
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
	case "usage":
		if include := v.Given("include"); p.object(v, `an object such as {"include": true}`) && include.Exists() {
			r.tellCost = p.boolean(include)
		}
	case "max_cost":
		p.cost(v)
	case "budget":
		p.budget(v)
	case "auto_cache":
		r.autoCache = chat.SwitchOf(p.boolean(v))
	case "user":
		s.user = p.sized(v, 0, maxLabel)
	case "prompt_cache_options":
		s.cacheOptions = p.cacheOptions(v)
		if warm := v.Given("prewarm"); warm.Kind() == 't' { // no answer is wanted
			p.only(warm, "prompt_cache_options.prewarm")
		}
	case "prompt_cache_key":
		s.cacheKey = p.sized(v, 0, maxLabel)
	case "safety_identifier":
		s.safety = p.sized(v, 0, maxLabel)
	case "background":
		if p.boolean(v) {
			p.bad(v, "", "is not supported: a response is made while its caller waits. Leave it out, and set stream to see the reply as it is written")
		}
	case "conversation":
		p.bad(v, "", "is not supported: continue a conversation with previous_response_id, or send its items in input")
	case "prompt":
		p.bad(v, "", "is not supported: there are no stored prompts here; send the text in instructions and input")
	case "n":
		if n := p.integer(v, 1, math.MaxInt32); n.Exists() && !bytes.Equal(n.Raw(), []byte("1")) {
			p.bad(v, "", "is a field of chat completions; a response is one reply, so leave it out or send several requests")
		}
	case "stop":
		if chat.Asks(v.Raw()) {
			p.bad(v, "", "is a field of chat completions, and responses have no stop sequences; leave it out")
		}
	case "functions", "function_call":
		p.bad(v, "", "is the older form of function calling, which is not supported; use tools and tool_choice")
	case "web_search_options":
		p.bad(v, "", "is a field of chat completions; use a tool of the type web_search")
	case "messages":
		p.bad(v, "", "is a field of chat completions; send the conversation in input")
	case "max_tokens", "max_completion_tokens":
		p.bad(v, "", "is a field of chat completions; use max_output_tokens")
	case "response_format":
		p.bad(v, "", "is a field of chat completions; use text.format")
	case "reasoning_effort":
		p.bad(v, "", "is a field of chat completions; use reasoning.effort")
	default:
		p.unknown(string(key), v)
	}
}

// cacheOptions returns prompt_cache_options as a chat completion has them. Others of its members are for an upstream of the
// dialect.
func (p *parser) cacheOptions(v chat.Value) chat.Value {
	if v.Kind() != '{' {
		p.leave("prompt_cache_options")
		return chat.Value{}
	}
	b := []byte{'{'}
	for w := v.Walk(); w.Next(); {
		switch key := string(w.Key); {
		case (key == "mode" || key == "ttl") && w.Value.IsText():
			b = append(chat.AppendName(b, key), w.Value.Raw()...)
		case chat.Asks(w.Value.Raw()):
			p.leave("prompt_cache_options")
		}
	}
	return chat.ValueOf(append(b, '}'))
}

// cost reads max_cost: the most that the call may cost, in dollars.
func (p *parser) cost(v chat.Value) {
	if n := v.Number(); !v.IsNumber() || n < 0 || n > chat.MostCost {
		p.bad(v, "", "must be a number of dollars from 0 to %d; got %s", chat.MostCost, describe(v))
	}
	p.req.maxCost = string(v.Raw())
}

// budget reads budget, which says what becomes of a call that does not fit one.
func (p *parser) budget(v chat.Value) {
	if !p.object(v, `an object such as {"clamp": true}`) {
		return
	}
	for walk := v.Walk(); walk.Next(); {
		switch {
		case string(walk.Key) != "clamp":
			p.bad(v, "", "has a member that is not known; it has clamp alone")
		case !walk.Value.Null():
			p.req.clamp = p.boolean(walk.Value)
		}
	}
}

// whole checks what needs several fields.
func (p *parser) whole() {
	r := p.req
	switch {
	case p.failed():
	case r.Model == "":
		p.badAt("model", "is required: the id of a model that GET /v1/models lists")
	case r.inputJSON == nil && r.Previous == "":
		p.badAt("input", "is required: a string or an array of items")
	case r.inputJSON != nil && len(r.items) == 0 && r.Previous == "":
		p.badAt("input", "must hold at least one item")
	}
}

// sized checks a string of least to most bytes, and returns it; the zero value after a problem.
func (p *parser) sized(v chat.Value, least, most int) chat.Value {
	switch {
	case !v.IsText():
		p.bad(v, "", "must be a string; got %s", v.TypeName())
	case v.Size() < least:
		p.bad(v, "", "must not be empty")
	case v.Size() > most:
		p.bad(v, "", "must be at most %d bytes long; got %d", most, v.Size())
	default:
		return v
	}
	return chat.Value{}
}

// object reports whether v is an object.
func (p *parser) object(v chat.Value, want string) bool { return p.isKind(v, '{', want) }

// array reports whether v is an array.
func (p *parser) array(v chat.Value, want string) bool { return p.isKind(v, '[', want) }

// isKind reports whether v is of the type that begins with c.
func (p *parser) isKind(v chat.Value, c byte, want string) bool {
	if v.Kind() != c {
		p.bad(v, "", "must be %s; got %s", want, v.TypeName())
	}
	return v.Kind() == c
}

// boolean reads true or false.
func (p *parser) boolean(v chat.Value) bool {
	if !v.IsBool() {
		p.bad(v, "", "must be a boolean; got %s", describe(v))
	}
	return v.Kind() == 't'
}

// number checks a number, and returns it as it is written.
func (p *parser) number(v chat.Value, lo, hi float64) chat.Value {
	n := v.Number()
	switch {
	case !v.IsNumber():
		p.bad(v, "", "must be a number; got %s", describe(v))
	case n < lo:
		p.bad(v, "", "must be at least %v; got %s", lo, describe(v))
	case n > hi:
		p.bad(v, "", "must be at most %v; got %s", hi, describe(v))
	}
	return v
}

// integer checks an integer and returns it in its shortest form. Bounds are far below 2^53, so a float64 has
// them exactly.
func (p *parser) integer(v chat.Value, lo, hi int64) chat.Value {
	n := v.Number()
	switch {
	case !v.IsNumber() || n != math.Trunc(n):
		p.bad(v, "", "must be an integer; got %s", describe(v))
	case n < float64(lo):
		p.bad(v, "", "must be at least %d; got %s", lo, describe(v))
	case n > float64(hi):
		p.bad(v, "", "must be at most %d; got %s", hi, describe(v))
	default:
		return chat.ValueOf(strconv.AppendInt(nil, int64(n), 10))
	}
	return chat.Value{}
}

// oneOf reads one of the words, which want lists for the message.
func (p *parser) oneOf(v chat.Value, want string, words ...string) string {
	for _, w := range words {
		if v.Is(w) {
			return w
		}
	}
	p.bad(v, "", "must be %s; got %s", want, describe(v))
	return ""
}

// required returns a member that must be there; the zero value if it is not, or null.
func (p *parser) required(v chat.Value, name, what string) chat.Value {
	m := v.Given(name)
	if !m.Exists() {
		p.bad(v, "."+name, "is required: %s", what)
	}
	return m
}

// text reads the field text: the form of the reply.
func (p *parser) text(v chat.Value) {
	if !p.object(v, "an object with a format") {
		return
	}
	s := &p.req.settings
	s.text = v
	for walk := v.Walk(); walk.Next(); {
		key, m := string(walk.Key), walk.Value
		if m.Null() {
			continue
		}
		switch key {
		case "verbosity":
			s.verbosity = p.oneOf(m, `"low", "medium" or "high"`, "low", "medium", "high")
		case "format":
			s.format, s.definition = p.format(m)
		default:
			p.leave("text." + key)
		}
	}
}

// format reads text.format, and writes its schema as response_format has it.
func (p *parser) format(v chat.Value) (chat.Format, []byte) {
	if !p.object(v, "an object with a type") {
		return chat.Format{}, nil
	}
	const types = `"text", "json_object" or "json_schema"`
	switch p.oneOf(p.required(v, "type", types), types, "text", "json_object", "json_schema") {
	case "json_object":
		return chat.Format{Kind: chat.FormatJSONObject}, nil
	case "json_schema":
		return p.schema(v)
	}
	return chat.Format{}, nil
}

// schema reads a text.format that is a JSON schema.
func (p *parser) schema(v chat.Value) (chat.Format, []byte) {
	called := p.required(v, "name", "the name of the schema")
	schema := p.required(v, "schema", "a JSON schema")
	b := []byte{'{'}
	for _, m := range []struct {
		name  string
		value chat.Value
		check func(v chat.Value)
	}{
		{"name", called, func(v chat.Value) { p.sized(v, 1, maxID) }},
		{"schema", schema, func(v chat.Value) { p.object(v, "an object, a JSON schema") }},
		{"strict", v.Given("strict"), func(v chat.Value) { p.boolean(v) }},
		{"description", v.Given("description"), func(v chat.Value) { p.sized(v, 0, math.MaxInt) }},
	} {
		if !m.value.Exists() {
			continue
		}
		m.check(m.value)
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(append(append(append(b, '"'), m.name...), `":`...), m.value.Raw()...)
	}
	return chat.Format{Kind: chat.FormatJSONSchema, SchemaName: called.Text(), Schema: schema.Raw(), Strict: v.Given("strict").Kind() == 't'}, append(b, '}')
}

// reasoning reads the field reasoning.
func (p *parser) reasoning(v chat.Value) {
	if !p.object(v, "an object with an effort") {
		return
	}
	s := &p.req.settings
	s.reasoning = v
	for walk := v.Walk(); walk.Next(); {
		key, m := string(walk.Key), walk.Value
		if m.Null() {
			continue
		}
		switch key {
		case "effort":
			s.effort = p.effort(m)
		case "summary", "generate_summary":
			p.oneOf(m, `"auto", "concise" or "detailed"`, "auto", "concise", "detailed")
		default:
			p.leave("reasoning." + key)
		}
	}
}

// effort reads how much the model should think. Codex has one more than the others, which are asked for their highest.
func (p *parser) effort(v chat.Value) string {
	if v.Is("ultra") {
		p.leave("reasoning.effort")
		return string(chat.EffortMax)
	}
	return p.oneOf(v, `"none", "minimal", "low", "medium", "high", "xhigh" or "max"`, "none", "minimal", "low", "medium", "high", "xhigh", "max")
}

// metadata reads metadata, which is kept with the response and repeated.
func (p *parser) metadata(v chat.Value) {
	if !p.object(v, "an object of strings") {
		return
	}
	n := 0
	for walk := v.Walk(); walk.Next(); {
		key, m := string(walk.Key), walk.Value
		if n++; n > maxMetadata {
			p.bad(v, "", "holds too much: at most %d pairs", maxMetadata)
			return
		}
		if len(key) > maxMetaKey {
			p.bad(v, "", "has a key of %d bytes; at most %d are possible", len(key), maxMetaKey)
			return
		}
		p.sized(m, 0, maxMetaValue)
	}
	p.req.settings.metadata = v
}

// include reads include. What is listed and not produced here is accepted: clients ask for all that they can show.
func (p *parser) include(v chat.Value) {
	if !p.array(v, "an array of strings") {
		return
	}
	for walk := v.Walk(); walk.Next(); {
		if walk.Value.Is("reasoning.encrypted_content") {
			p.req.Encrypted = true
		} else {
			p.sized(walk.Value, 1, maxID)
			p.leave("include")
		}
	}
}

// appendEcho appends the members of a Response object that repeat the request, beginning with a comma, on one line. Clients'
// types require them all.
func (r *Request) appendEcho(b []byte) []byte {
	begin := len(b)
	s := &r.settings
	or := func(name string, v chat.Value, absent string) {
		b = append(append(append(b, `,"`...), name...), `":`...)
		if !v.Exists() {
			b = append(b, absent...)
			return
		}
		b = append(b, v.Raw()...)
	}
	none := chat.Value{}
	or("background", none, "false")
	or("instructions", s.instructions, "null")
	or("max_output_tokens", s.maxOutput, "null")
	or("max_tool_calls", s.maxToolCalls, "null")
	or("parallel_tool_calls", s.parallel, "true")
	if r.Previous == "" {
		or("previous_response_id", none, "null")
	} else {
		b = jsonscan.AppendQuoted(append(b, `,"previous_response_id":`...), r.Previous)
	}
	or("prompt_cache_key", s.cacheKey, "null")
	b = append(b, `,"reasoning":{`...)
	from := len(b)
	or("effort", s.reasoning.Given("effort"), "null")
	or("summary", s.reasoning.Given("summary"), "null")
	b = append(append(b[:from], b[from+1:]...), '}') // without the first comma
	or("safety_identifier", s.safety, "null")
	or("temperature", s.temperature, "1.0")
	b = append(b, `,"text":{`...)
	from = len(b)
	or("format", s.text.Given("format"), `{"type":"text"}`)
	or("verbosity", s.text.Given("verbosity"), `"medium"`)
	b = append(append(b[:from], b[from+1:]...), '}')
	or("tool_choice", s.choice, `"auto"`)
	or("tools", chat.ValueOf(r.tools.echo), "[]")
	or("top_logprobs", s.topLogprobs, "0")
	or("top_p", s.topP, "1.0")
	if r.Truncate {
		or("truncation", none, `"auto"`)
	} else {
		or("truncation", none, `"disabled"`)
	}
	or("user", s.user, "null")
	or("metadata", s.metadata, "{}")
	breakless(b[begin:])
	return b
}
