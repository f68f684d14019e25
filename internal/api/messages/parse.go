package messages

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"sluice/internal/kit/fault"
	"sluice/internal/prompt/allowance"
	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/provider"
)

const (
	maxModel = 256 // bytes of a model id, as on the chat door
	maxStops = 64  // stop sequences, as on the chat door
	maxCache = 4   // blocks with cache_control, as in the original
	// maxUser is the longest user id that all upstreams accept. A longer one becomes its hash, which still tells
	// users apart.
	maxUser = 64
	// maxAhead is for how many messages there is room before they are read.
	maxAhead = 4096
	// leastThought is the smallest budget of thinking.
	leastThought = 1024
)

// Parse reads a request for a message and checks it. The error is a fault whose message begins with the path of the
// field in the words of the dialect. The Request refers to body, which must not be changed while it is in use.
func Parse(body []byte) (*Request, error) { return parse(body, false) }

// ParseCount reads a request to count the tokens of a prompt. It has the same fields, and needs no max_tokens.
func ParseCount(body []byte) (*Request, error) { return parse(body, true) }

// parse is Parse and ParseCount. The body is checked as JSON first, with an index of its values;
// then the parser fills a chat.Builder; the Builder checks what all dialects have in common, and
// its faults are translated back.
func parse(body []byte, counting bool) (*Request, error) {
	root, err := chat.Check(body, "model, max_tokens and messages", bodyShape)
	if err != nil {
		return nil, dotted(err)
	}
	// One allocation is enough for a short request.
	room := &struct {
		parser
		request  Request
		original chat.Original
		origins  [2]origin
		path     [64]byte
	}{}
	p := &room.parser
	p.body, p.counting, p.req, p.path = body, counting, &room.request, room.path[:0]
	p.req.origins = room.origins[:0]
	p.request(root)
	if p.fault != nil && !p.full {
		return nil, p.fault
	}
	req, err := p.out.Request()
	if err != nil {
		return nil, p.req.Explain(err)
	}
	if !req.HasMCP() { // the tool loop asks in its own words
		req.Original = &room.original
		*req.Original = chat.Original{Dialect: Dialect, Body: body, Needs: p.needs, Tools: p.runs, Remote: p.remote, Loose: p.loose, Altered: p.altered, Thread: p.held}
	} else if p.needs.Path != "" {
		f := refuse(p.needs.Path, "%s cannot be used together with MCP servers", p.needs.What)
		f.Details = p.needs.Details()
		return nil, f
	}
	req.TellCost, req.MaxCost, req.Clamp, req.AutoCache = p.tellCost, p.maxCost, p.clamp, p.autoCache
	p.req.Chat = req
	return p.req, nil
}

// parser reads one request. Its methods read one value each; the first problem is kept, and what they return after it
// does not matter.
//
// Problems are reported at path, which at and each extend for the time of one call.
type parser struct {
	body     []byte
	counting bool
	req      *Request
	out      *chat.Builder // the request so far
	path     []byte        // of the value that is being read
	fault    *fault.Fault

	needs   chat.Foreign // the first thing that only an upstream of the dialect understands
	remote  string       // where the first document with an address stands
	loose   bool         // see chat.Original
	altered bool         // an upstream of the dialect would refuse the body as it is
	full    bool         // there are more messages and blocks than a request may have; nothing more is read
	runs    bool         // a field asks the vendor to do what a tool does
	held    chat.Thread  // what the vendor is to do about a conversation that it holds
	caches  int          // blocks with cache_control so far
	mark    chat.Cache   // the last cache_control
	marked  bool         // mark has not been taken

	tellCost, clamp bool   // see chat.Request
	maxCost         string // see chat.Request
	autoCache       chat.Switch

	calls    chat.CallIndex // the tool_use blocks of the last message, if it is the assistant's
	answered []bool         // which of them have a result
	caller   int            // the index of that message
	list     chat.Value     // all messages
	asked    int            // the index of the last message of the user in it; see lastAsked
	looked   bool           // asked is set
	spoke    role           // whose the last message is
	served   bool           // it ends with what a tool of the vendor has answered

	// The content of the message that is being read.
	parts  []chat.Part // of the user's message
	blocks []int32     // the block that each part comes from
	marks  []chat.Mark // of the parts
}

// fields are the members of a request that are read. The others are for an upstream of the same dialect.
var fields = []string{
	"model", "max_tokens", "messages", "system", "stream", "temperature", "top_p", "top_k", "stop_sequences",
	"tools", "tool_choice", "thinking", "metadata", "output_config", "output_format", "mcp_servers", "thread", "usage", "max_cost", "budget", "auto_cache",
	"cache_control",
}

// request reads the whole request. The order of the fields in the body does not matter.
// They are read in a fixed order, so that the first problem reported does not depend on the order
// in the body, and so that an upstream always gets the members in the same order.
func (p *parser) request(body chat.Value) {
	for w := body.Walk(); w.Next(); {
		if !slices.Contains(fields, string(w.Key)) {
			p.unknown(string(w.Key), w.Value)
		}
	}
	p.at("thread", func() { p.thread(body.Member("thread")) })
	messages, limit, thinking, config := body.Member("messages"), body.Member("max_tokens"), body.Member("thinking"), body.Member("output_config")
	p.model(body.Member("model"), messages.Len()+1)
	p.maxTokens(limit)
	p.at("system", func() { p.system(body.Member("system")) })
	p.at("messages", func() { p.messages(messages) })
	p.at("stream", func() { p.stream(body.Member("stream")) })
	for _, name := range []string{"temperature", "top_p", "top_k"} {
		if body.Member(name).Exists() {
			p.outdated(name, "Extra inputs are not permitted")
		}
	}
	p.number(body.Member("temperature"), "temperature", 1)
	p.number(body.Member("top_p"), "top_p", 1)
	p.topK(body.Member("top_k"))
	p.at("stop_sequences", func() { p.stops(body.Member("stop_sequences")) })
	tools := p.tools(body.Member("tools"), body.Member("mcp_servers"))
	p.at("tool_choice", func() { p.choice(body.Member("tool_choice"), tools) })
	p.at("thinking", func() { p.thinking(thinking, limit, effortOf(config), tools > 0) })
	if thinking.Null() && effortOf(config) != "" {
		p.effort(effortOf(config))
	}
	p.req.byEffort = effortOf(config) != "" && !thinking.Member("type").Is("disabled")
	p.at("metadata", func() { p.metadata(body.Member("metadata")) })
	p.at("usage", func() { p.usage(body.Member("usage")) })
	p.at("max_cost", func() { p.cost(body.Member("max_cost")) })
	p.at("budget", func() { p.budget(body.Member("budget")) })
	if v := body.Member("auto_cache"); !v.Null() {
		p.boolAt("auto_cache", v)
		p.autoCache = chat.SwitchOf(v.Kind() == 't')
	}
	p.config(config, body.Member("output_format"))
	p.whole(body.Member("cache_control"))
}

// whole passes a cache_control of the whole request on. One that is not known is left to upstreams of the dialect.
func (p *parser) whole(v chat.Value) {
	switch ttl := v.Member("ttl"); {
	case v.Null():
	case v.Member("type").Is("ephemeral") && (ttl.Null() || ttl.Is("5m") || ttl.Is("1h")):
		p.out.Set("cache_control", v)
	default:
		p.req.Leave("cache_control")
	}
}

// Leave notes a field, or a header, that a chat completion cannot say and does without. Only an upstream of the dialect gets
// it; for others, Writer.Dropped names it.
func (r *Request) Leave(name string) {
	if provider.IsFieldName(name) {
		r.leave(name)
	}
}

// leave is Leave for a name of ours, such as that of a member of an array.
func (r *Request) leave(name string) {
	if len(r.unread) < provider.MaxDropped && !slices.Contains(r.unread, name) {
		r.unread = append(r.unread, name)
	}
}

// leaveGiven notes a member that asks for something, and that only an upstream of the dialect gets.
func (p *parser) leaveGiven(v chat.Value, member, name string) {
	if chat.Asks(v.Member(member).Raw()) {
		p.req.leave(name)
	}
}

// unknown reads a field that is not known. It is refused only by models of other dialects, and only if the request would mean
// something else without it.
func (p *parser) unknown(key string, v chat.Value) {
	if !chat.Asks(v.Raw()) {
		return
	}
	if e := allowance.Field(key); e != nil {
		p.runs = p.runs || e.Runs
		if e.Refused&allowance.Messages != 0 {
			p.at(key, func() { p.only(e.What) })
			return
		}
	}
	p.req.Leave(key)
}

// at calls read for the value of a member or an element.
func (p *parser) at(step string, read func()) {
	if p.fault != nil {
		return
	}
	n := len(p.path)
	if n > 0 {
		p.path = append(p.path, '.')
	}
	p.path = append(p.path, step...)
	read()
	p.path = p.path[:n]
}

// each calls read for the elements of an array until there is a problem.
func (p *parser) each(v chat.Value, read func(i int, v chat.Value)) {
	for w := v.Walk(); p.fault == nil && !p.full && w.Next(); {
		n := len(p.path)
		p.path = strconv.AppendInt(append(p.path, '.'), int64(w.Index), 10)
		read(w.Index, w.Value)
		p.path = p.path[:n]
	}
}

// bad refuses the current value.
func (p *parser) bad(format string, args ...any) {
	if p.fault == nil {
		p.fault = refuse(string(p.path), format, args...)
	}
}

// badAt refuses a part of the current value.
func (p *parser) badAt(step, format string, args ...any) {
	p.at(step, func() { p.bad(format, args...) })
}

// refuse returns the fault of a value. The message begins with its path.
func refuse(path, format string, args ...any) *fault.Fault {
	return fault.New(fault.Invalid, "%s: %s", path, fmt.Sprintf(format, args...)).At(path)
}

// What is wrong with a value, in the words of the dialect.
const (
	required  = "Field required"
	noText    = "Input should be a valid string"
	noList    = "Input should be a valid list"
	noObject  = "Input should be an object"
	noBool    = "Input should be a valid boolean"
	noInteger = "Input should be a valid integer"
	noNumber  = "Input should be a valid number"

	noCharacter = "String should have at least 1 character"
	noContent   = "Input should be a valid string or a list of content blocks"
)

// need reports whether the current value is there and of the type that begins with c; otherwise it refuses it.
func (p *parser) need(v chat.Value, c byte, otherwise string) bool {
	switch {
	case !v.Exists():
		p.bad(required)
	case v.Kind() != c:
		p.bad("%s", otherwise)
	default:
		return true
	}
	return false
}

// needAt is need for a part of the current value.
func (p *parser) needAt(step string, v chat.Value, c byte, otherwise string) {
	p.at(step, func() { p.need(v, c, otherwise) })
}

// textAt is needAt for a string that must not be empty.
func (p *parser) textAt(step string, v chat.Value) {
	p.at(step, func() {
		if p.need(v, '"', noText) && v.Size() == 0 {
			p.bad(noCharacter)
		}
	})
}

// optional reports whether the current value is there, and refuses it if it is of another type than that which begins with c.
func (p *parser) optional(v chat.Value, c byte, otherwise string) bool {
	if v.Null() {
		return false
	}
	if v.Kind() != c {
		p.bad("%s", otherwise)
	}
	return v.Kind() == c
}

// boolAt refuses a part of the current value that is there and neither true nor false.
func (p *parser) boolAt(step string, v chat.Value) {
	if !v.Null() && !v.IsBool() {
		p.badAt(step, noBool)
	}
}

// model reads model. Whether there is such a model is not known here.
func (p *parser) model(v chat.Value, messages int) {
	p.textAt("model", v)
	if v.IsText() && v.Size() > maxModel {
		p.badAt("model", "String should have at most %d characters", maxModel)
	}
	p.out = chat.NewBuilder(v.Text(), min(messages, maxAhead))
	p.req.origins = slices.Grow(p.req.origins, min(messages, maxAhead))
}

// maxTokens reads max_tokens, which is required unless tokens are counted. More than the model writes is no problem.
func (p *parser) maxTokens(v chat.Value) {
	p.at("max_tokens", func() {
		if p.counting {
			return
		}
		if _, ok := p.integer(v, 1); ok {
			p.out.Set("max_tokens", v)
		}
	})
}

// integer reads an integer that is not less than least. Only its value counts: 10, 10.0 and 1e1 are the same.
func (p *parser) integer(v chat.Value, least int) (int, bool) {
	switch f := v.Number(); {
	case !v.Exists():
		p.bad(required)
	case !v.IsNumber() || f != math.Trunc(f):
		p.bad(noInteger)
	case f < float64(least):
		p.bad("Input should be greater than or equal to %d", least)
	case f > math.MaxInt32:
		p.bad("Input should be less than or equal to %d", math.MaxInt32)
	default:
		return int(f), true
	}
	return 0, false
}

// number reads a number from 0 to most and passes it on under the same name.
func (p *parser) number(v chat.Value, name string, most float64) {
	p.at(name, func() {
		switch {
		case v.Null():
		case !v.IsNumber():
			p.bad(noNumber)
		case v.Number() < 0:
			p.bad("Input should be greater than or equal to 0")
		case v.Number() > most:
			p.bad("Input should be less than or equal to %v", most)
		default:
			p.out.Set(name, v)
		}
	})
}

// topK reads top_k, which many upstreams know though chat completions do not list it. 0 is its default.
func (p *parser) topK(v chat.Value) {
	p.at("top_k", func() {
		if v.Null() {
			return
		}
		if k, ok := p.integer(v, 0); ok && k > 0 {
			p.out.Set("top_k", chat.ValueOf(strconv.AppendInt(nil, int64(k), 10)))
		}
	})
}

// stream reads stream. A request that only counts has no reply to stream.
func (p *parser) stream(v chat.Value) {
	switch {
	case v.Null() || p.counting:
	case !v.IsBool():
		p.bad(noBool)
	default:
		p.out.Set("stream", v)
	}
}

// usage reads usage, which is ours: it says what the usage of the reply tells.
func (p *parser) usage(v chat.Value) {
	if !p.optional(v, '{', noObject) {
		return
	}
	p.at("include", func() {
		if include := v.Member("include"); include.IsBool() {
			p.tellCost = include.Kind() == 't'
		} else if !include.Null() {
			p.bad(noBool)
		}
	})
}

// cost reads max_cost, which is ours: the most that the call may cost, in dollars.
func (p *parser) cost(v chat.Value) {
	switch n := v.Number(); {
	case v.Null():
	case !v.IsNumber():
		p.bad(noNumber)
	case n < 0:
		p.bad("Input should be greater than or equal to 0")
	case n > chat.MostCost:
		p.bad("Input should be less than or equal to %d", chat.MostCost)
	default:
		p.maxCost = string(v.Raw())
	}
}

// budget reads budget, which is ours: what becomes of a call that does not fit one.
func (p *parser) budget(v chat.Value) {
	if !p.optional(v, '{', noObject) {
		return
	}
	for w := v.Walk(); w.Next(); {
		switch key := string(w.Key); {
		case key == "clamp":
			p.boolAt(key, w.Value)
			p.clamp = w.Value.Kind() == 't'
		case isPlain(key) && len(key) <= maxEcho:
			p.badAt(key, "Extra inputs are not permitted")
		default: // a key that no path can repeat
			p.bad("Extra inputs are not permitted")
		}
	}
}

// stops reads stop_sequences.
func (p *parser) stops(v chat.Value) {
	if !p.optional(v, '[', noList) {
		return
	}
	var sequences []string
	p.each(v, func(i int, v chat.Value) {
		switch text := v.Text(); {
		case !v.IsText():
			p.bad(noText)
		case strings.TrimSpace(text) == "":
			p.bad("each stop sequence must contain non-whitespace")
		case i == maxStops:
			p.bad("List should have at most %d items", maxStops)
		default:
			sequences = append(sequences, text)
		}
	})
	p.out.Stop(sequences)
}

// maxMessageID is how many bytes the id of a message may have. Those of the vendor have about 30.
const maxMessageID = 256

// thread reads thread. A request that begins a thread has the whole conversation, and can be answered without one. A
// request that continues a thread has only what is new: nobody but the vendor that holds the thread can answer it. Clients
// that read the code of that refusal send the conversation again and go on without threads.
func (p *parser) thread(v chat.Value) {
	if !p.optional(v, '{', noObject) {
		return
	}
	switch p.tag(v.Member("type"), "create", "continue") {
	case "create":
		p.held.Wanted = true
		p.req.Leave("thread")
	case "continue":
		id := v.Member("previous_message_id")
		p.textAt("previous_message_id", id)
		if id.IsText() && id.Size() > maxMessageID {
			p.badAt("previous_message_id", "String should have at most %d characters", maxMessageID)
		}
		p.held = chat.Thread{Wanted: true, Previous: id.Text()}
		p.needs = chat.Foreign{Path: "thread", What: "threads (send the whole conversation, without thread)", Code: "thread_unsupported_request"}
	}
}

// outdated notes something that versions since 2026-10-21 refuse, and their words. See Request.Since. Most requests that have it
// are of earlier versions, so no fault is made of it here.
func (p *parser) outdated(step, words string) {
	if p.req.newer.path == "" {
		p.at(step, func() { p.req.newer = refusal{string(p.path), words} })
	}
}

// refusal is what is wrong with the value at a path; the zero value is nothing.
type refusal struct{ path, words string }

// strictVersion is the first version of the dialect that refuses what earlier ones have taken.
const strictVersion = "2026-10-21"

// Since returns the fault of a request that a version of the dialect refuses, or nil. Versions are days. An empty one is
// the first.
func (r *Request) Since(version string) error {
	if r.newer.path != "" && len(version) == len(strictVersion) && version >= strictVersion {
		return refuse(r.newer.path, "%s", r.newer.words)
	}
	return nil
}

// thinking reads thinking. A budget becomes an effort, which adapters turn into what their vendor has.
//
// The steps of the budget are ours: up to 4096 tokens are low, up to 16384 medium, more is high.
// An effort in output_config says it more directly and wins.
func (p *parser) thinking(v, maxTokens chat.Value, effort string, tools bool) {
	if !p.optional(v, '{', noObject) {
		return
	}
	kind := p.word(v.Member("type"))
	if !v.Member("display").Is("summarized") { // which is what other dialects have
		p.leaveGiven(v, "display", "thinking.display")
	}
	p.leaveGiven(v, "block_binding", "thinking.block_binding")
	switch kind {
	case "", "disabled", "between_tools":
		if effort != "" { // it is about all that the model writes; other dialects know only that of thinking
			p.req.Leave("output_config.effort")
		}
		if kind == "disabled" {
			p.effort("none")
		}
	case "adaptive":
		if effort == "" {
			effort = "medium"
		}
		p.effort(effort)
	case "enabled":
		budget := 0
		p.at("enabled.budget_tokens", func() { budget, _ = p.integer(v.Member("budget_tokens"), leastThought) })
		// With tools, thinking may continue between calls, and the budget may exceed one reply.
		if p.fault == nil && !p.counting && !tools && float64(budget) >= maxTokens.Number() {
			p.fault = fault.New(fault.Invalid, "max_tokens: `max_tokens` must be greater than `thinking.budget_tokens`").At("max_tokens")
			return
		}
		switch {
		case effort != "":
		case budget <= 4096:
			effort = "low"
		case budget <= 16384:
			effort = "medium"
		default:
			effort = "high"
		}
		p.effort(effort)
	default:
		p.only("thinking of type " + show(kind))
	}
}

// effort sets how much the model should think.
func (p *parser) effort(e string) {
	p.out.Say("reasoning_effort", e)
}

// effortOf returns output_config.effort as one of our efforts; empty if there is none. config checks the value itself.
func effortOf(config chat.Value) string {
	switch s := config.Member("effort").Text(); s {
	case "low", "medium", "high", "xhigh", "max":
		return s
	}
	return ""
}

// word reads the member type of an object. It is empty if that is no text.
func (p *parser) word(v chat.Value) string {
	p.textAt("type", v)
	return v.Text()
}

// tag reads the member type of a union, which must be one of the words.
func (p *parser) tag(v chat.Value, words ...string) string {
	kind := p.word(v)
	if slices.Contains(words, kind) {
		return kind
	}
	p.bad("Input tag %s found using 'type' does not match any of the expected tags: '%s'", show(kind), strings.Join(words, "', '"))
	return ""
}

// metadata passes the user id on.
func (p *parser) metadata(v chat.Value) {
	if !p.optional(v, '{', noObject) {
		return
	}
	p.at("user_id", func() {
		id := v.Member("user_id")
		if !p.optional(id, '"', noText) {
			return
		}
		user := id.Text()
		p.req.UserID = user
		if len(user) > maxUser {
			sum := sha256.Sum256([]byte(user))
			user = hex.EncodeToString(sum[:])
		}
		p.out.Say("user", user)
	})
}

// config reads output_config, and output_format, its older form: the schema of the reply.
// If both are given, output_config counts.
func (p *parser) config(config, format chat.Value) {
	p.at("output_config", func() {
		if !p.optional(config, '{', noObject) {
			return
		}
		p.at("effort", func() {
			switch e := config.Member("effort"); {
			case e.Null() || effortOf(config) != "":
			case !e.IsText():
				p.bad(noText)
			default:
				p.only("the effort " + show(e.Text()))
			}
		})
		p.leaveGiven(config, "task_budget", "output_config.task_budget")
		if f := config.Member("format"); !f.Null() {
			format = chat.Value{}
			p.at("format", func() { p.format(f) })
		}
	})
	p.at("output_format", func() { p.format(format) })
}

// format reads the format of a reply: a JSON schema.
// Chat completions need a name for it. It counts as strict.
func (p *parser) format(v chat.Value) {
	if !p.optional(v, '{', noObject) {
		return
	}
	switch kind := p.word(v.Member("type")); kind {
	case "json_schema":
	default:
		p.only("formats of type " + show(kind))
		return
	}
	schema := v.Member("schema")
	p.at("schema", func() {
		if p.need(schema, '{', noObject) {
			const name = "reply"
			definition := append([]byte(`{"name":"`+name+`","strict":true,"schema":`), schema.Raw()...)
			p.out.Reply(chat.Format{Kind: chat.FormatJSONSchema, SchemaName: name, Schema: schema.Raw(), Strict: true}, append(definition, '}'))
		}
	})
}
