package claude

import (
	"slices"

	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/caching"
	"sluice/internal/upstream/provider"
)

// MostMarks is how many marks for the cache a request may have. With a thread it is one less.
const MostMarks = 4

// CacheControl marks the end of what the vendor is to keep of a prompt.
type CacheControl struct {
	Type string `json:"type"`          // ephemeral
	TTL  string `json:"ttl,omitempty"` // 5m or 1h
}

// CacheOf returns a mark as the vendor writes it; nil if it does not know it. The shortest time of OpenAI's is longer than that
// of Claude, and its price is the same.
func CacheOf(c chat.Cache) *CacheControl {
	if c.Type != "ephemeral" || c.TTL != "" && c.TTL != "5m" && c.TTL != "1h" {
		return nil
	}
	return &CacheControl{c.Type, c.TTL}
}

// Lasting returns a mark for a life, which is not caching.Not. Five minutes are the default.
func Lasting(ttl caching.TTL) CacheControl {
	if ttl == caching.Long {
		return CacheControl{Type: "ephemeral", TTL: ttl.String()}
	}
	return CacheControl{Type: "ephemeral"}
}

// Marks are the marks of a request for the vendor's cache. The API takes only so many: the last ones are sent, since a later
// call of the conversation has the longest part in common. In a prompt, tools come before messages. The zero value has no
// mark.
type Marks struct {
	call  *provider.Call
	by    map[int][]chat.Mark // by the index of the message
	tools bool                // tools are marked, too
	brief bool                // the model keeps a prompt for five minutes only
	left  int                 // how many of the next marks are left out
}

// MarkOptions say what the model takes. The zero value is for one that knows no marks.
type MarkOptions struct {
	Most  int  // how many marks
	Tools bool // tools may have them
	Brief bool // the model keeps a prompt for five minutes only
}

// MarksOf returns the marks of a call.
func MarksOf(call *provider.Call, opts MarkOptions) *Marks {
	m := &Marks{call: call, tools: opts.Tools, brief: opts.Brief}
	if !call.Request.Marked() {
		return m
	}
	if opts.Most == 0 {
		call.DropMarks()
		return m
	}
	m.by = map[int][]chat.Mark{}
	n := 0
	for i := range call.Request.Tools {
		if _, ok := call.Request.Tools[i].Cache(); ok && opts.Tools {
			n++
		}
	}
	for i := range call.Request.Messages {
		msg := &call.Request.Messages[i]
		marks := msg.Marks()
		if len(marks) > 1 && (msg.Role == chat.RoleAssistant || msg.Role == chat.RoleTool) {
			marks = marks[len(marks)-1:] // where the parts of such a message end is not known any more
		}
		if len(marks) > 0 {
			m.by[i] = marks
			n += len(marks)
		}
	}
	m.left = max(0, n-opts.Most)
	return m
}

// of returns the marks of a message.
func (m *Marks) of(message int) []chat.Mark { return m.by[message] }

// take returns the next mark as it is sent; nil if it is not, which is noted.
func (m *Marks) take(c chat.Cache) *CacheControl {
	if c.Breakpoint && c.TTL != "" { // its shortest time is longer than that of Claude, and its price is the same
		m.call.Omit(c.Name() + ".ttl")
		c.TTL = ""
	}
	control := CacheOf(c)
	if m.left > 0 {
		m.left--
		control = nil
	}
	if control == nil {
		m.call.Omit(c.Name())
		return nil
	}
	return m.Timed(control)
}

// tool is take for a mark of a tool.
func (m *Marks) tool(c chat.Cache) *CacheControl {
	if m.tools {
		return m.take(c)
	}
	m.call.Omit(c.Name())
	return nil
}

// Timed returns a mark with a time that the model knows. If that is less than the mark asks for, it is noted.
func (m *Marks) Timed(c *CacheControl) *CacheControl {
	if m.brief && c.TTL != "" {
		if c.TTL != "5m" {
			m.call.Omit(chat.ControlName + ".ttl")
		}
		return &CacheControl{Type: c.Type}
	}
	return c
}

// Automatic returns the mark that the caller wants at the end of the prompt, wherever that is, and how many marks it leaves
// of most; nil if there is none. It is a cache_control of the request, or what OpenAI does unless it is told otherwise. It
// takes no place beside a mark that stands there already.
func Automatic(call *provider.Call, most int) (*CacheControl, int) {
	c := automatic(call)
	if c == nil {
		return nil, most
	}
	last := &call.Request.Messages[len(call.Request.Messages)-1]
	if call.Request.Marked() && slices.ContainsFunc(last.Marks(), func(k chat.Mark) bool {
		return k.Part == chat.NoPart || k.Part == len(last.Content.Parts())-1
	}) {
		return c, most
	}
	return c, most - 1
}

// automatic is Automatic without the count.
func automatic(call *provider.Call) *CacheControl {
	options := call.Request.CacheOptions()
	if options.Given {
		call.Keep("prompt_cache_options")
		if options.TTL != "" {
			call.Omit("prompt_cache_options.ttl")
		}
	}
	if asked, ok := call.Request.Cache(); ok {
		if c := CacheOf(asked); c != nil {
			call.Keep(chat.ControlName)
			return c
		}
	}
	if options.Given && !options.Explicit {
		return &CacheControl{Type: "ephemeral"}
	}
	return nil
}

// mark marks the end of the blocks, which hold part i of a message, if that has a mark. A part that was left out because
// it is blank has no block; the block before it is marked then, and the same prefix is kept.
func (c *Conversation[B]) mark(blocks []B, marks []chat.Mark, part int) []B {
	for _, k := range marks {
		if k.Part == part {
			blocks = c.markAs(blocks, k.Cache)
		}
	}
	return blocks
}

// markAs marks the end of the blocks. What the API cannot say is noted in the call.
func (c *Conversation[B]) markAs(blocks []B, asked chat.Cache) []B {
	if len(blocks) == 0 {
		return blocks
	}
	control := c.Marks.take(asked)
	if control == nil {
		return blocks
	}
	marked, ok := c.Wire.Mark(blocks, *control)
	if !ok {
		c.Marks.call.Omit(asked.Name())
	}
	return marked
}

// MarkEnd marks the end of the conversation. It reports false if the last turn cannot be marked. It must be called after
// Write.
func (c *Conversation[B]) MarkEnd(control CacheControl) bool {
	last := &c.Messages[len(c.Messages)-1]
	marked, ok := c.Wire.Mark(slices.Clip(last.Content), control)
	last.Content = marked
	return ok
}
