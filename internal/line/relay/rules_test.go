package relay

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// broken says which rules of docs/api.md#streams the stream that a caller got breaks; err is what Stream
// returned. It reads as a strict client would, and knows nothing of how the bytes were made.
func broken(c *caller, err error, opts Options) (problems []string) {
	complain := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	body := c.body.String()
	if isPlain(err) {
		if body != "" || len(c.settled) != 0 || len(c.header) != 0 {
			complain("a plain fault, but %d bytes, %d settlements and headers %v", len(body), len(c.settled), c.header)
		}
		return problems
	}
	if len(c.settled) != 1 {
		complain("settled %d times, want once", len(c.settled))
	}
	if c.header.Get("Content-Type") != "text/event-stream" || c.header.Get("Cache-Control") != "no-cache" || c.header.Get("X-Accel-Buffering") != "no" {
		complain("headers %v", c.header)
	}
	r := reader{n: max(opts.N, 1), usage: opts.IncludeUsage, choices: map[int]*seen{}, complain: complain}
	for body != "" {
		event, rest, ok := strings.Cut(body, "\n\n")
		if !ok {
			complain("the last event %q has no end", event)
		}
		body = rest
		if strings.HasPrefix(event, ": ") && !strings.ContainsAny(event, "\r\n") {
			continue
		}
		data, ok := strings.CutPrefix(event, "data: ")
		if !ok || strings.ContainsAny(data, "\r\n") {
			complain("the event %q is not one line of data", event)
			continue
		}
		r.event(data)
	}
	switch {
	case err == nil:
		if r.done != 1 || r.errors != 0 || !r.complete() {
			complain("a complete reply has %d ends, %d errors and all finish reasons: %t", r.done, r.errors, r.complete())
		}
		if r.usage != r.figures {
			complain("usage asked for: %t, sent: %t", r.usage, r.figures)
		}
	case errors.Is(err, ErrTold):
		if r.done != 0 || r.errors != 1 || r.complete() || r.figures {
			complain("a reply that failed has %d ends, %d errors, all finish reasons: %t, usage: %t", r.done, r.errors, r.complete(), r.figures)
		}
	default:
		complain("Stream = %v", err)
	}
	return problems
}

// reader is a client in the middle of a stream.
type reader struct {
	n            int
	usage        bool
	choices      map[int]*seen
	done, errors int
	figures      bool
	tiers        []any // the service tiers of the chunks, one after another
	complain     func(string, ...any)
}

// seen is a choice as far as it has come.
type seen struct {
	finish string
	calls  []string // the arguments
}

func (r *reader) complete() bool {
	for i := range r.n {
		if c := r.choices[i]; c == nil || c.finish == "" {
			return false
		}
	}
	return true
}

type object = map[string]any

func (r *reader) event(data string) {
	if r.done+r.errors > 0 {
		r.complain("%q comes behind the end", data)
	}
	if data == "[DONE]" {
		r.done++
		return
	}
	v, err := decodeObject([]byte(data))
	if err != nil {
		r.complain("%q is not a JSON object: %v", data, err)
		return
	}
	if e, ok := v["error"]; ok {
		r.errors++
		inner, _ := e.(object)
		if keys(v) != "error" || keys(inner) != "code message type" {
			r.complain("the error event is %s", data)
		}
		return
	}
	wantKeys := "choices created id model object"
	if tier, ok := v["service_tier"]; ok || len(r.tiers) > 0 { // it may come late, but it stays
		wantKeys += " service_tier"
		if tiers := []any{"auto", "default", "flex", "scale", "priority"}; !slices.Contains(tiers, tier) {
			r.complain("the tier of %s is none that clients know", data)
		}
		r.tiers = append(r.tiers, tier)
	}
	choices, ok := v["choices"].([]any)
	if ok && len(choices) == 0 {
		wantKeys += " usage"
		r.figures = true
		if !r.complete() {
			r.complain("usage before the last finish reason")
		}
		u, _ := v["usage"].(object)
		if prompt, completion := number(u["prompt_tokens"]), number(u["completion_tokens"]); prompt < 0 || completion < 0 || number(u["total_tokens"]) != prompt+completion {
			r.complain("the usage is %v", u)
		}
	}
	if !ok || keys(v) != wantKeys || v["id"] != "chatcmpl-r" || v["object"] != "chat.completion.chunk" || v["created"] != json.Number("1700000000") || v["model"] != "catalog/m" {
		r.complain("the chunk is %s", data)
	}
	for _, c := range choices {
		r.choice(c)
	}
}

func (r *reader) choice(v any) {
	w, _ := v.(object)
	index := number(w["index"])
	delta, isDelta := w["delta"].(object)
	reason, hasReason := w["finish_reason"]
	if index < 0 || index >= r.n || !isDelta || !hasReason || w["error"] != nil || w["message"] != nil {
		r.complain("the choice is %v", v)
		return
	}
	c := r.choices[index]
	if c == nil {
		c = &seen{}
		r.choices[index] = c
		if delta["role"] != "assistant" {
			r.complain("the first delta of choice %d is %v", index, delta)
		}
	} else if _, ok := delta["role"]; ok {
		r.complain("a later delta of choice %d is %v", index, delta)
	}
	if c.finish != "" {
		r.complain("choice %d goes on behind its end: %v", index, v)
	}
	for _, key := range []string{"content", "reasoning_content", "refusal"} {
		switch delta[key].(type) {
		case nil, string:
		default:
			r.complain("%s is %v", key, delta[key])
		}
	}
	if calls, ok := delta["tool_calls"].([]any); ok {
		for _, call := range calls {
			r.call(c, call)
		}
	}
	if reason == nil {
		return
	}
	c.finish, _ = reason.(string)
	if len(delta) != 0 || !slices.Contains([]string{"stop", "length", "tool_calls", "content_filter"}, c.finish) {
		r.complain("the last chunk of choice %d is %v", index, v)
	}
	if (c.finish == "tool_calls") && len(c.calls) == 0 || c.finish == "stop" && len(c.calls) > 0 {
		r.complain("choice %d with %d calls ends with %s", index, len(c.calls), c.finish)
	}
	for i, arguments := range c.calls {
		if arguments == "" {
			r.complain("call %d has no arguments, not even {}", i)
		}
	}
}

func (r *reader) call(c *seen, v any) {
	w, _ := v.(object)
	asFunction(w)
	function, _ := w["function"].(object)
	arguments, ok := function["arguments"].(string)
	index := number(w["index"])
	if !ok || index < 0 || index > len(c.calls) {
		r.complain("the piece of a call is %v behind %d calls", v, len(c.calls))
		return
	}
	if index == len(c.calls) {
		c.calls = append(c.calls, "")
		if keys(w) != "function id index type" || keys(function) != "arguments name" || w["id"] == "" || w["type"] != "function" {
			r.complain("the first piece of a call is %v", v)
		}
	} else if keys(w) != "function index" || keys(function) != "arguments" {
		r.complain("a later piece of a call is %v", v)
	}
	c.calls[index] += arguments
}

// decodeObject reads one JSON object and nothing more, keeping numbers as they are.
func decodeObject(raw []byte) (object, error) {
	if !json.Valid(raw) {
		return nil, errors.New("not JSON")
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v object
	err := d.Decode(&v)
	return v, err
}

func keys(v object) string { return strings.Join(slices.Sorted(maps.Keys(v)), " ") }

// number is a whole number; -1 where v is none.
func number(v any) int {
	n, ok := v.(json.Number)
	if !ok {
		return -1
	}
	i, err := strconv.Atoi(n.String())
	if err != nil {
		return -1
	}
	return i
}

// asFunction writes the call of a custom tool, or a piece of it, as that of a function: the same rules hold
// for both, except that an input may be empty.
func asFunction(w object) {
	custom, ok := w["custom"].(object)
	if !ok {
		return
	}
	function := object{}
	for key, value := range custom {
		if key == "input" {
			key = "arguments"
			if value == "" && w["id"] != nil {
				value = " "
			}
		}
		function[key] = value
	}
	delete(w, "custom")
	w["function"] = function
	if w["type"] == "custom" {
		w["type"] = "function"
	}
}
