package responses

import (
	"errors"
	"strconv"
	"strings"

	"sluice/internal/kit/fault"
	"sluice/internal/kit/jsonscan"
)

// Past is what a request refers to.
type Past struct {
	// Items are those of the conversation that the request continues: inputs and outputs, in their order.
	Items [][]byte
	// Referenced are the items that References returned, by their ids.
	Referenced map[string][]byte

	take Take // see Shelf.Past
}

// References returns the ids of the items that the input refers to, each once.
func (r *Request) References() (ids []string) {
	seen := map[string]bool{}
	for i := range r.items {
		if it := &r.items[i]; it.kind == itemReference && !seen[it.id] {
			seen[it.id] = true
			ids = append(ids, it.id)
		}
	}
	return ids
}

// Compose returns the body of the chat completion that the request stands for. The error is a fault that names the
// field. Past may be nil if the request refers to nothing.
func (r *Request) Compose(past *Past) ([]byte, error) {
	p := &parser{req: r}
	c := conversation{p: p, open: map[string]place{}, asked: map[string]place{}}
	if past == nil {
		past = &Past{}
	}
	r.referenced = past.Referenced
	all := make([]*item, 0, len(past.Items)+len(r.items))
	for _, raw := range past.Items {
		all = append(all, c.recall(raw, "previous_response_id", -1))
	}
	for i := range r.items {
		it := &r.items[i]
		if it.kind != itemReference {
			all = append(all, it)
			continue
		}
		raw := past.Referenced[it.id]
		if raw == nil {
			p.path = append(p.path[:0], "input"...)
			p.inElement(it.index)
			p.bad(".id", "names no item of a stored response; got %s", quote(it.id))
			break
		}
		all = append(all, c.recall(raw, "input", it.index))
	}
	if !p.failed() {
		mixed(all)
	}
	for _, it := range all {
		c.add(it)
	}
	c.shorten()
	messages := c.messages()
	if p.fault != nil {
		return nil, p.fault
	}
	return r.appendChat(messages), nil
}

// appendChat returns the body with its messages.
func (r *Request) appendChat(messages []byte) []byte {
	s := &r.settings
	b := make([]byte, 0, len(messages)+1024)
	b = jsonscan.AppendQuoted(append(b, `{"model":`...), r.Model)
	b = append(append(b, `,"messages":`...), messages...)
	set := func(name string, v []byte) {
		if v != nil {
			b = append(append(append(append(b, `,"`...), name...), `":`...), v...)
		}
	}
	word := func(name, v string) {
		if v != "" {
			set(name, jsonscan.AppendQuoted(nil, v))
		}
	}
	if r.Stream {
		set("stream", []byte("true"))
	}
	set("max_completion_tokens", s.maxOutput)
	set("temperature", s.temperature)
	set("top_p", s.topP)
	if len(r.tools.list) > 0 {
		b = append(b, `,"tools":[`...)
		for i := range r.tools.list {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(b, r.tools.list[i].chat...)
		}
		b = append(b, ']')
		set("tool_choice", r.tools.choice)
		set("parallel_tool_calls", s.parallel)
	}
	set("response_format", s.format)
	word("reasoning_effort", s.effort)
	// The defaults are left out: not every upstream knows the fields.
	if s.verbosity != "medium" {
		word("verbosity", s.verbosity)
	}
	if s.tier != "auto" && s.tier != "default" {
		word("service_tier", s.tier)
	}
	set("user", s.user)
	set("prompt_cache_key", s.cacheKey)
	set("safety_identifier", s.safety)
	return append(b, '}')
}

// conversation puts items together to messages. The calls of one turn of the model are one message of a chat
// completion, and their results must follow it directly.
type conversation struct {
	p     *parser
	turns []turn
	open  map[string]place // the calls that have no result yet, by their ids
	asked map[string]place // the calls that the caller has approved or not
	items int
	// thought is the reasoning that led to the calls that come next, as the inside of a JSON string.
	thought []byte
}

// turn is one message, and for an assistant's the results of its calls.
type turn struct {
	role    string
	index   int // of the item that began it; -1: it is of an earlier response
	content []byte
	texts   []value // of an assistant
	calls   []*item
	results []*item // one for each call; nil: it is not there yet
	any     bool    // some result is there
	thought []byte  // what led to the calls, as the inside of a JSON string
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

// recall reads an item of an earlier response. Field is what the request refers to it by.
func (c *conversation) recall(raw []byte, field string, index int) *item {
	if c.p.failed() {
		return nil
	}
	c.p.path = append(c.p.path[:0], field...)
	if index >= 0 {
		c.p.inElement(index)
	}
	v, _ := at(raw, 0)
	it, _ := c.p.item(v)
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
	if it.kind != itemReasoning && it.kind != itemCall && it.role != "assistant" {
		c.thought = nil
	}
	switch it.kind {
	case itemReasoning:
		c.think(it)
	case itemNative:
		c.turns = append(c.turns, turn{role: "user", index: it.index, content: it.content})
	case itemMessage:
		// What the model said beside calls is part of the message with the calls.
		if it.role == "assistant" && last != nil && len(last.calls) > 0 && !last.any {
			last.texts = append(last.texts, it.texts...)
			return
		}
		c.turns = append(c.turns, turn{role: it.role, index: it.index, content: it.content, texts: it.texts})
	case itemCall:
		if _, twice := c.open[it.id]; twice {
			c.refuse(it, ".call_id", "is the id of another call, which has no output yet")
			return
		}
		if last == nil || last.role != "assistant" || last.any {
			c.turns = append(c.turns, turn{role: "assistant", index: it.index})
			last = &c.turns[len(c.turns)-1]
		}
		if c.thought != nil {
			last.thought, c.thought = c.thought, nil
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
			if it.mcp {
				c.refuse(it, ".approval_request_id", "must be the id of an approval request before it that has no answer yet; got %s", quote(approval+it.id))
				return
			}
			c.refuse(it, ".call_id", "must be the id of a call before it that has no output yet; got %s", quote(it.id))
			return
		}
		delete(c.open, it.id)
		if it.mcp {
			c.asked[it.id] = at
		}
		c.turns[at.turn].results[at.call], c.turns[at.turn].any = it, true
	}
}

// think opens the encrypted content of reasoning that was sealed here. What another service has sealed means nothing to the
// models behind this one.
func (c *conversation) think(it *item) {
	sealed := it.arguments.text()
	if c.p.req.Opened == nil || !strings.HasPrefix(sealed, sealedHere) {
		return
	}
	text, ok := c.p.req.Opened(sealed)
	switch {
	case !ok && it.index >= 0:
		c.refuse(it, ".encrypted_content", "cannot be read: it was made for another account, or is damaged; leave the item out")
	case ok && len(text) > 0:
		c.thought = appendInside(c.thought, string(text))
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
		kept = append(kept, *t)
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
		c.p.path = append(c.p.path[:0], "previous_response_id"...)
		sub = ""
	} else {
		c.p.path = append(c.p.path[:0], "input"...)
		c.p.inElement(it.index)
	}
	c.p.bad(sub, format, args...)
}

// messages returns the JSON array of messages, and notes in the request where each comes from.
func (c *conversation) messages() []byte {
	r := c.p.req
	r.origin = r.origin[:0]
	b := []byte{'['}
	begin := func(index int, role string) {
		if len(r.origin) > 0 {
			b = append(b, ',')
		}
		r.origin = append(r.origin, index)
		b = append(append(append(b, `{"role":"`...), role...), '"')
	}
	if r.settings.instructions != nil {
		begin(-1, "system")
		b = append(append(append(b, `,"content":`...), r.settings.instructions...), '}')
	}
	current := 0 // the first turn behind the last words of the user: the exchange of calls there goes on
	for i := range c.turns {
		if c.turns[i].role == "user" {
			current = i + 1
		}
	}
	for i := range c.turns {
		t := &c.turns[i]
		begin(t.index, t.role)
		b = append(b, `,"content":`...)
		if t.role == "assistant" {
			b = appendTexts(b, t.texts, len(t.calls) > 0)
		} else {
			b = append(b, t.content...)
		}
		// Models that think in a field of their own want it back while they call tools. Later they ignore it.
		if len(t.thought) > 0 && len(t.calls) > 0 && i >= current {
			b = append(append(append(b, `,"reasoning_content":"`...), t.thought...), '"')
		}
		for k, call := range t.calls {
			if k == 0 {
				b = append(b, `,"tool_calls":[`...)
			} else {
				b = append(b, ',')
			}
			b = jsonscan.AppendQuoted(append(b, `{"id":`...), call.id)
			b = append(append(b, `,"type":"function","function":{"name":`...), call.name...)
			b = append(append(append(b, `,"arguments":`...), call.arguments...), "}}"...)
		}
		if len(t.calls) > 0 {
			b = append(b, ']')
		}
		b = append(b, '}')
		var images []byte
		for k, result := range t.results {
			if result == nil {
				c.p.path = append(c.p.path[:0], "input"...)
				c.p.bad("", "has no output for the call %s; every call must be answered", quote(t.calls[k].id))
				return nil
			}
			begin(result.index, "tool")
			b = jsonscan.AppendQuoted(append(b, `,"tool_call_id":`...), result.id)
			b = append(append(append(b, `,"content":`...), result.content...), '}')
			if result.images != nil {
				if images != nil {
					images = append(images, ',')
				}
				images = append(images, `{"type":"text","text":"Attachments of the output of the call of `...)
				name := jsonscan.AppendQuoted(nil, t.calls[k].name.text())
				images = append(append(images, name[1:len(name)-1]...), `:"},`...)
				images = append(images, result.images...)
			}
		}
		if images != nil {
			begin(t.index, "user")
			b = append(append(append(b, `,"content":[`...), images...), "]}"...)
		}
	}
	return append(b, ']')
}

// appendTexts appends the content of an assistant's message.
func appendTexts(b []byte, texts []value, calls bool) []byte {
	switch {
	case len(texts) == 0 && calls:
		return append(b, "null"...)
	case len(texts) == 0:
		return append(b, `""`...)
	case len(texts) == 1:
		return append(b, texts[0]...)
	}
	b = append(b, '[')
	for i, text := range texts {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(append(b, `{"type":"text","text":`...), text...), '}')
	}
	return append(b, ']')
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
	if f, ok := errors.AsType[*fault.Fault](err); ok && f.Param != "" {
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
		return "input[" + strconv.Itoa(r.origin[i]) + "]" + rest
	}
	if rest, ok := strings.CutPrefix(path, "tools"); ok {
		i, rest, ok := indexed(rest)
		if !ok || i >= len(r.tools.list) {
			return "tools"
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
