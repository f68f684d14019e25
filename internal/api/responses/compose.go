package responses

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"sluice/internal/kit/fault"
	"sluice/internal/prompt/chat"
)

// Past is what a request refers to.
type Past struct {
	// Items are those of the conversation that the request continues: inputs and outputs, in their order.
	Items [][]byte
	// Referenced are the items that References returned, by their ids.
	Referenced map[string][]byte

	take Take // see Archive.Past
}

// References returns the ids of the items that the input refers to, each once.
func (r *Request) References() (ids []string) {
	var seen map[string]bool
	for i := range r.items {
		if it := &r.items[i]; it.kind == itemReference && !seen[it.id] {
			if seen == nil { // nearly no input has any
				seen = map[string]bool{}
			}
			seen[it.id] = true
			ids = append(ids, it.id)
		}
	}
	return ids
}

// Compose returns the chat completion that the request stands for. The error is a fault that names the field. Past may be
// nil if the request refers to nothing.
func (r *Request) Compose(past *Past) (*chat.Request, error) {
	// One allocation is enough for an input that is a text.
	room := &struct {
		parser
		turns   [1]turn
		all     [1]*item
		earlier shelf
	}{}
	p := &room.parser
	p.req, p.recalled = r, &room.earlier
	c := conversation{p: p, turns: slices.Grow(room.turns[:0], len(r.items))}
	if past == nil {
		past = &Past{}
	}
	for _, it := range c.gather(room.all[:0], past) {
		c.add(it)
	}
	c.shorten()
	c.complete()
	b := chat.NewBuilder(r.Model, c.items+1)
	c.messages(b)
	if p.fault != nil {
		return nil, p.fault
	}
	r.fill(b, c.settings())
	req, err := b.Request()
	if err != nil {
		return nil, r.Rename(err)
	}
	req.TellCost, req.MaxCost, req.Clamp, req.AutoCache = r.tellCost, r.maxCost, r.clamp, r.autoCache
	return req, nil
}

// gather returns the items of the conversation, and decides about its tools once all of them are known.
func (c *conversation) gather(all []*item, past *Past) []*item {
	p, r := c.p, c.p.req
	r.referenced = past.Referenced
	all = slices.Grow(all, len(past.Items)+len(r.items))
	for _, raw := range past.Items {
		all = append(all, c.recall(raw, -1))
	}
	for i := range r.items {
		it := &r.items[i]
		if it.kind != itemReference {
			all = append(all, it)
			continue
		}
		raw := past.Referenced[it.id]
		if raw == nil {
			p.badAt(inputAt(it.index)+".id", "names no item of a stored response; got %s", quote(it.id))
			break
		}
		all = append(all, c.recall(raw, it.index))
	}
	if !p.failed() {
		mixed(all)
		r.tools.assemble(p.recalled)
		p.root, p.where = r.root, ""
		p.choice(r.settings.choice)
	}
	return all
}

// complete makes sure that the model is told something. An upstream of the dialect knows what to do with items that say nothing.
func (c *conversation) complete() {
	r := c.p.req
	if len(c.turns) > 0 || r.settings.instructions.Exists() || c.p.failed() {
		return
	}
	if r.needs.Path == "" {
		r.needs = chat.Foreign{Path: "input", What: "an input without a message or a call; only models whose provider has the Responses API do"}
	}
	c.turns = append(c.turns, turn{role: "user", index: -1, content: chat.Text("")})
}

// settings returns those of the request, with what items of the conversation have changed.
func (c *conversation) settings() *settings {
	s := &c.p.req.settings
	if c.effort == "" && c.format == nil {
		return s
	}
	own := *s
	own.effort = cmp.Or(c.effort, s.effort)
	if c.format != nil {
		own.format, own.definition = *c.format.format, c.format.definition
	}
	return &own
}

// offer adds the tools.
func (r *Request) offer(b *chat.Builder) {
	list := make([]chat.Tool, min(len(r.tools.list), chat.MaxTools))
	for i := range list {
		list[i] = r.tools.list[i].build()
	}
	if len(list) < len(r.tools.list) && r.needs.Path == "" {
		r.needs = chat.Foreign{Path: "tools", What: fmt.Sprintf("more than %d tools; only models whose provider has the Responses API do", chat.MaxTools)}
	}
	b.Tools(list)
	b.Choose(r.tools.choice)
	b.Set("parallel_tool_calls", r.settings.parallel)
}

// fill adds what is beside the messages.
func (r *Request) fill(b *chat.Builder, s *settings) {
	if r.Stream {
		b.Set("stream", chat.ValueOf([]byte("true")))
	}
	b.Set("max_completion_tokens", s.maxOutput)
	b.Set("temperature", s.temperature)
	b.Set("top_p", s.topP)
	if len(r.tools.list) > 0 {
		r.offer(b)
	}
	if s.format.Kind != chat.FormatText {
		b.Reply(s.format, s.definition)
	}
	word := func(name, v string) {
		if v != "" {
			b.Say(name, v)
		}
	}
	word("reasoning_effort", s.effort)
	// The defaults are left out: not every upstream knows the fields.
	if s.verbosity != "medium" {
		word("verbosity", s.verbosity)
	}
	if s.tier != "auto" && s.tier != "default" {
		word("service_tier", s.tier)
	}
	b.Set("user", s.user)
	b.Set("prompt_cache_key", s.cacheKey)
	b.Set("prompt_cache_options", s.cacheOptions)
	b.Set("safety_identifier", s.safety)
}

// conversation puts items together to messages. The calls of one turn of the model are one message of a chat
// completion, and their results must follow it directly.
type conversation struct {
	p     *parser
	turns []turn
	open  map[string]place // the calls that have no result yet, by their ids
	asked map[string]place // the calls that the caller has approved or not
	items int
	// What items have changed for the reply.
	effort string
	format *revision
	native bool // there were items that only an upstream of the dialect understands
	// thought is the reasoning that led to the calls that come next.
	thought chat.Words
}

// turn is one message, and for an assistant's the results of its calls.
type turn struct {
	role    string
	index   int // of the item that began it; -1: it is of an earlier response
	content chat.Content
	texts   []chat.Part // of an assistant
	calls   []*item
	results []*item // one for each call; nil: it is not there yet
	any     bool    // some result is there
	marks   []chat.Mark
	thought chat.Words // what led to the calls
}

// place is where a call stands.
type place struct{ turn, call int }

// mixed leaves out the calls of MCP tools that ran in the same turn as a call for the caller. The tool loop has kept them
// under the id of that call, and puts them back itself.
func mixed(all []*item) {
	for from := 0; from < len(all); {
		to, asks := from, false
		for to < len(all) && all[to].made() {
			asks = asks || all[to].kind == itemCall
			to++
		}
		for _, it := range all[from:to] {
			if asks && it.kind == itemRemote && it.approved == "" {
				it.kind = itemOther
			}
		}
		from = to + 1
	}
}

// made reports whether the model, or the service for it, made the item.
func (it *item) made() bool {
	return it.kind != itemOutput && (it.kind != itemMessage || it.role == "assistant")
}

// recall reads an item of an earlier response, which the item of the input with an index refers to; -1: all are continued.
func (c *conversation) recall(raw []byte, index int) *item {
	if c.p.failed() {
		return nil
	}
	c.p.root, c.p.where = chat.ValueOf(raw), inputAt(index)
	it, _ := c.p.item(c.p.root)
	it.index = index
	return &it
}

// add adds one item.
func (c *conversation) add(it *item) {
	if c.p.failed() {
		return
	}
	if c.items++; c.items > maxItems {
		c.refuse(it, "", "is one too many: a conversation may have at most %d items", maxItems)
		return
	}
	var last *turn
	if n := len(c.turns); n > 0 {
		last = &c.turns[n-1]
	}
	// Reasoning belongs to the calls of the same turn. Anything that the model did not make ends that turn.
	if it.kind != itemReasoning && it.kind != itemCall && it.role != "assistant" {
		c.thought = chat.Words{}
	}
	switch it.kind {
	case itemReasoning:
		c.think(it)
	case itemNative:
		c.native = true
		c.turns = append(c.turns, turn{role: "user", index: it.index, content: it.content})
	case itemUpdate:
		c.effort = cmp.Or(it.update.effort, c.effort)
		if it.update.format != nil {
			c.format = it.update
		}
	case itemMessage:
		// What the model said beside calls is part of the message with the calls.
		if it.role == "assistant" && last != nil && len(last.calls) > 0 && !last.any {
			last.texts = append(last.texts, it.said()...)
			last.marks = append(last.marks, it.marks...)
			return
		}
		next := turn{role: it.role, index: it.index, content: it.content, marks: it.marks}
		if it.role == "assistant" {
			next.texts = it.said()
		}
		c.turns = append(c.turns, next)
	case itemCall:
		it.wire = c.p.req.tools.wireOf(it.namespace, it.name)
		// An id may be used again once its call has a result.
		if _, twice := c.open[it.id]; twice {
			c.refuse(it, ".call_id", "is the id of another call, which has no output yet")
			return
		}
		// A call after a result is a new turn of the model, even if nothing was said between them.
		if last == nil || last.role != "assistant" || last.any {
			c.turns = append(c.turns, turn{role: "assistant", index: it.index})
			last = &c.turns[len(c.turns)-1]
		}
		if !c.thought.Empty() {
			last.thought, c.thought = c.thought, chat.Words{}
		}
		if c.open == nil {
			c.open = map[string]place{}
		}
		c.open[it.id] = place{len(c.turns) - 1, len(last.calls)}
		last.calls, last.results = append(last.calls, it), append(last.results, nil)
	case itemRemote:
		// The model has no use for calls of tools that it is not offered any more, and some providers refuse them.
		if at, ok := c.asked[it.approved]; ok && it.approved != "" { // the result takes the place of the approval
			result := *it
			result.id = it.approved
			c.turns[at.turn].results[at.call] = &result
			delete(c.asked, it.approved)
			return
		}
		if c.p.req.tools.servers() {
			c.turns = append(c.turns, turn{role: "assistant", index: it.index, calls: []*item{it}, results: []*item{it}, any: true})
		}
	case itemOutput:
		at, ok := c.open[it.id]
		if !ok {
			if c.native { // its call may be one of those, or in what they have compacted
				c.turns = append(c.turns, turn{role: "user", index: it.index, content: it.content})
				return
			}
			if it.mcp {
				c.refuse(it, ".approval_request_id", "must be the id of an approval request before it that has no answer yet; got %s", quote(approval+it.id))
				return
			}
			c.refuse(it, ".call_id", "must be the id of a call before it that has no output yet; got %s", quote(it.id))
			return
		}
		delete(c.open, it.id)
		if it.mcp {
			if c.asked == nil {
				c.asked = map[string]place{}
			}
			c.asked[it.id] = at
		}
		c.turns[at.turn].results[at.call], c.turns[at.turn].any = it, true
	}
}

// said returns what a message of the assistant says.
func (it *item) said() []chat.Part {
	if it.parts != nil {
		return it.parts
	}
	return []chat.Part{chat.TextPart(it.content)}
}

// think opens the encrypted content of reasoning that was sealed here. What another service has sealed means nothing to the
// models behind this one.
func (c *conversation) think(it *item) {
	sealed := it.sealed.Text()
	if c.p.req.Opened == nil || !strings.HasPrefix(sealed, sealedHere) {
		return
	}
	text, ok := c.p.req.Opened(sealed)
	switch {
	case !ok && it.index >= 0:
		c.refuse(it, ".encrypted_content", "cannot be read: it was made for another account, or is damaged; leave the item out")
	case ok && len(text) > 0:
		c.thought.Say(string(text))
	}
}

// shorten leaves out the oldest turns that Shorten has decided about. Instructions among the items stay, and so does the
// last turn.
func (c *conversation) shorten() {
	r := c.p.req
	r.turns = 0
	kept := c.turns[:0]
	for i := range c.turns {
		t := &c.turns[i]
		if t.role != "system" && t.role != "developer" {
			if r.turns++; r.turns <= r.skipped && i < len(c.turns)-1 {
				continue
			}
		}
		if kept = kept[:len(kept)+1]; len(kept) <= i { // as far as one was left out
			kept[len(kept)-1] = *t
		}
	}
	c.turns = kept
}

// Shorten makes the next Compose leave out a quarter more of the oldest turns. It reports false if only one is left.
func (r *Request) Shorten() bool {
	left := r.turns - r.skipped
	if left <= 1 {
		return false
	}
	r.skipped += max(1, left/4)
	return true
}

// refuse refuses an item.
func (c *conversation) refuse(it *item, sub, format string, args ...any) {
	if it.index < 0 {
		sub = ""
	}
	c.p.badAt(inputAt(it.index)+sub, format, args...)
}

// inputAt returns the path of an item of the input; for -1 that of an earlier response.
func inputAt(index int) string {
	if index < 0 {
		return "previous_response_id"
	}
	return "input[" + strconv.Itoa(index) + "]"
}

// messages adds the messages to a chat completion, and notes in the request where each comes from.
func (c *conversation) messages(b *chat.Builder) {
	r := c.p.req
	r.origin = r.origin[:0]
	if r.settings.instructions.Exists() {
		r.message(b, -1, chat.Message{Role: chat.RoleSystem, Content: chat.TextOf(r.settings.instructions)})
	}
	for i := range c.turns {
		t := &c.turns[i]
		m := chat.Message{Role: roles[t.role], Developer: t.role == "developer", Content: t.content}
		if m.Role == chat.RoleAssistant {
			t.speak(&m)
		}
		for _, k := range t.marks {
			m.Mark(k.Part, k.Cache)
		}
		r.message(b, t.index, m)
		if !c.results(b, t) {
			return
		}
	}
}

// roles are the roles of messages.
var roles = map[string]chat.Role{"system": chat.RoleSystem, "developer": chat.RoleSystem, "user": chat.RoleUser, "assistant": chat.RoleAssistant}

// message adds a message that comes from an item of the input.
func (r *Request) message(b *chat.Builder, index int, m chat.Message) {
	r.origin = append(r.origin, index)
	b.Message(m)
}

// speak fills a message of the assistant.
func (t *turn) speak(m *chat.Message) {
	if len(t.texts) > 0 || len(t.calls) == 0 {
		m.Content = chat.PartsOf(t.texts)
	}
	// Models that think in a field of their own want it back while they call tools. Later they ignore it, but a prompt without
	// it would not be the one that is in their cache.
	if !t.thought.Empty() && len(t.calls) > 0 {
		m.Think(t.thought.Content())
	}
	for _, call := range t.calls {
		m.ToolCalls = append(m.ToolCalls, chat.ToolCall{ID: call.id, Name: cmp.Or(call.wire, call.name), Arguments: call.arguments}.Past())
	}
}

// results adds the results of the calls of a turn, and reports false if one is missing. What tool messages cannot hold
// follows in a message of its own.
func (c *conversation) results(b *chat.Builder, t *turn) bool {
	var others []chat.Part
	for k, result := range t.results {
		if result == nil {
			c.p.badAt("input", "has no output for the call %s; every call must be answered", quote(t.calls[k].id))
			return false
		}
		m := chat.Message{Role: chat.RoleTool, ToolCallID: result.id, Content: result.content}
		for _, k := range result.marks {
			m.Mark(chat.NoPart, k.Cache)
		}
		c.p.req.message(b, result.index, m)
		if result.others != nil {
			others = append(others, chat.TextPart(chat.Text("Attachments of the output of the call of "+t.calls[k].name+":")))
			others = append(others, result.others...)
		}
	}
	if others != nil {
		c.p.req.message(b, t.index, chat.Message{Role: chat.RoleUser, Content: chat.PartsOf(others)})
	}
	return true
}

// fieldNames are the fields of chat completions that have other names here.
var fieldNames = [...]struct{ chat, here string }{
	{"max_completion_tokens", "max_output_tokens"},
	{"max_tokens", "max_output_tokens"},
	{"response_format.json_schema", "text.format"},
	{"response_format", "text.format"},
	{"reasoning_effort", "reasoning.effort"},
	{"verbosity", "text.verbosity"},
	{"tool_choice.function", "tool_choice"},
}

// Rename makes a fault that was made behind the door name the fields of this request. It changes faults only and
// returns every other error as it is.
func (r *Request) Rename(err error) error {
	if r.refused != nil && errors.Is(err, r.refused) {
		return err // it has the caller's own words
	}
	if f, ok := errors.AsType[*fault.Fault](err); ok && f.Param != "" && !f.Quoted {
		was := f.Param
		f.Param = r.rename(was)
		if rest, ok := strings.CutPrefix(f.Message, was); ok {
			f.Message = f.Param + rest
		}
		f.Message = strings.ReplaceAll(f.Message, "parts of type file", "parts of type input_file")
	}
	return err
}

// rename translates a path.
func (r *Request) rename(path string) string {
	if rest, ok := strings.CutPrefix(path, "messages"); ok {
		i, rest, ok := indexed(rest)
		if !ok || i >= len(r.origin) || r.origin[i] < 0 {
			return "input"
		}
		rest = strings.TrimSuffix(rest, ".url") // of image_url, which is a string here
		return inputAt(r.origin[i]) + rest
	}
	if rest, ok := strings.CutPrefix(path, "tools"); ok {
		i, rest, ok := indexed(rest)
		if !ok || i >= len(r.tools.list) {
			return "tools"
		}
		if r.tools.list[i].index < 0 { // of an item
			return "input"
		}
		rest = strings.TrimPrefix(strings.TrimPrefix(rest, ".function"), ".custom")
		return "tools[" + strconv.Itoa(r.tools.list[i].index) + "]" + rest
	}
	for _, n := range fieldNames {
		if rest, ok := strings.CutPrefix(path, n.chat); ok {
			return n.here + rest
		}
	}
	return path
}

// indexed splits a path that begins with an index.
func indexed(path string) (i int, rest string, ok bool) {
	digits, rest, ok := strings.Cut(strings.TrimPrefix(path, "["), "]")
	i, err := strconv.Atoi(digits)
	return i, rest, ok && err == nil
}
