package messages

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"strings"

	"sluice/internal/kit/fault"
	"sluice/internal/upstream/provider"
)

// origin is where a message of the chat completion comes from.
// The usual message has one part or a string, for which no slice is allocated.
type origin struct {
	message int32   // the index of the caller's message; -1 for system
	block   int32   // the block of the only part, if there is one
	parts   int32   // how many there are; 0: the content is a string
	blocks  []int32 // the block of each part, if there are several
}

// from returns the origin of a message whose parts come from these blocks, which are copied.
func from(message int, blocks []int32) origin {
	o := origin{message: int32(message), parts: int32(len(blocks))}
	switch len(blocks) {
	case 0:
	case 1:
		o.block = blocks[0]
	default:
		o.blocks = slices.Clone(blocks)
	}
	return o
}

// fieldNames are the fields of a chat completion that have other names here.
var fieldNames = map[string]string{
	"max_completion_tokens": "max_tokens",
	"stop":                  "stop_sequences",
	"response_format":       "output_config.format",
	"reasoning_effort":      "thinking",
	"parallel_tool_calls":   "tool_choice.disable_parallel_tool_use",
	"user":                  "metadata.user_id",
}

// Explain translates a fault of the chat completion: its path becomes that of the caller's field, and its message begins
// with that path. A prompt that is too long gets the words of the dialect. Other errors, and faults that are about no field
// or in the caller's words already, are returned as they are.
// The fault is changed in place.
func (r *Request) Explain(err error) error {
	f, ok := errors.AsType[*fault.Fault](err)
	switch {
	case !ok, f.Quoted:
		return err
	case f.Long != nil:
		f.Message, f.Param = LongMessage(f.Long), "messages"
		return err
	case f.Param == "":
		return err
	}
	f.Message = strings.TrimPrefix(f.Message, f.Param+" ")
	f.Message = strings.ReplaceAll(f.Message, "parts of type file", "documents")
	f.Param = r.locate(f.Param)
	if f.Param != "" && !strings.HasPrefix(f.Message, f.Param+": ") {
		f.Message = f.Param + ": " + f.Message
	}
	return err
}

// Dropped implements relay.Namer. What only an upstream of the dialect knows is dropped for every other one.
func (w *Writer) Dropped(names []string, quoted bool) []string {
	out := make([]string, 0, len(names)+len(w.req.unread))
	if !quoted {
		out = append(out, w.req.unread...)
	}
	for _, name := range names {
		if name == "reasoning_effort" && w.req.byEffort {
			name = "output_config.effort"
		}
		name = strings.Replace(cmp.Or(fieldNames[name], name), "tools[].function.", "tools[].", 1)
		if len(out) < provider.MaxDropped && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// locate returns the path of the caller's field that became the field of the chat completion at path.
//
// Paths here have dots where those of chat completions have brackets, so a path with "messages."
// is the caller's already.
func (r *Request) locate(path string) string {
	if r.Chat != nil && r.Chat.Original != nil && path == r.Chat.Original.Needs.Path {
		return path
	}
	for _, list := range []string{"messages.", "tools.", "mcp_servers."} {
		if strings.HasPrefix(path, list) { // what Original needs has its path in the caller's words
			return path
		}
	}
	field, rest, _ := strings.Cut(path, "[")
	if dot := strings.IndexByte(field, '.'); dot >= 0 {
		field = field[:dot]
	}
	switch field {
	case "messages":
		return r.locateMessage(rest)
	case "tools":
		if i, _, ok := index(rest); ok && i < len(r.tools) {
			return r.tools[i].field + "." + strconv.Itoa(r.tools[i].index)
		}
	}
	return cmp.Or(fieldNames[field], field)
}

// locateMessage is locate for a path after "messages[".
// A path that cannot be followed to the end is followed as far as possible: it is only part of a
// message to a person.
func (r *Request) locateMessage(path string) string {
	i, rest, ok := index(path)
	if !ok || i >= len(r.origins) {
		return "messages"
	}
	o := r.origins[i]
	if o.message < 0 {
		return "system"
	}
	at := "messages." + strconv.Itoa(int(o.message))
	content, isContent := strings.CutPrefix(rest, ".content")
	if !isContent {
		return at
	}
	at += ".content"
	part, isPart := strings.CutPrefix(content, "[")
	j, _, ok := index(part)
	switch {
	case o.parts == 1:
		return at + "." + strconv.Itoa(int(o.block))
	case !isPart || !ok || j >= len(o.blocks):
		return at
	}
	return at + "." + strconv.Itoa(int(o.blocks[j]))
}

// index reads the number in front of a closing bracket, and returns what follows the bracket.
func index(s string) (i int, rest string, ok bool) {
	digits, rest, ok := strings.Cut(s, "]")
	i, err := strconv.Atoi(digits)
	return i, rest, ok && err == nil && i >= 0
}

// dotted translates a fault of chat.Check, whose path is in the words of chat completions: messages[0].content becomes
// messages.0.content.
func dotted(err error) error {
	f, ok := errors.AsType[*fault.Fault](err)
	if !ok || f.Param == "" {
		return err
	}
	rest := strings.TrimPrefix(f.Message, f.Param+" ")
	f.Param = strings.NewReplacer("[", ".", "]", "", `"`, "").Replace(f.Param)
	f.Message = f.Param + ": " + rest
	return err
}
