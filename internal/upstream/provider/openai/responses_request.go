package openai

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"sluice/internal/kit/fault"
	"sluice/internal/kit/jsonscan"
	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/provider"
)

// openResponses sends a call to an upstream that speaks OpenAI's Responses API (platform.openai.com/docs/api-reference/
// responses). A caller of the same dialect is sent on in its own words; all others are translated. Nothing is stored there:
// what a later turn needs is kept here.
func (a *Adapter) openResponses(ctx context.Context, call *provider.Call) (provider.Stream, error) {
	s := &response{ctx: ctx, call: call, named: a.preset.original && a.preset.keyHeader == ""}
	var body []byte
	if isNative(call) {
		var dropped []string
		var err error
		if body, dropped, err = call.Request.Original.Compose(call.Upstream, call.Limit(), call.Thinks, call.Allow); err != nil {
			return nil, err
		}
		for _, name := range dropped {
			call.Omit(name)
		}
		body = withBound(call, withEffort(call, body, a.preset.effortsOf(call.Upstream)))
		s.Words, call.Quoted = &provider.Words{}, true
	} else {
		w := responseWriter{call: call, req: call.Request, preset: &a.preset, marks: a.preset.marking(call.Upstream) == chat.MarksBreakpoint}
		var err error
		if body, err = w.write(ctx); err != nil {
			return nil, err
		}
	}
	if err := a.PostFor(ctx, &s.Decoded, a.responses, a.headers(call, true), a.withHint(call, body)); err != nil {
		return nil, err
	}
	return s, nil
}

// withEffort returns a body in the caller's own words that asks for the nearest effort the model takes. Programs send one
// effort to whichever model they are set to.
func withEffort(call *provider.Call, body []byte, has []chat.Effort) []byte {
	asked := call.Request.ReasoningEffort
	nearest := call.Nearest(has)
	if nearest == asked {
		return body
	}
	return chat.Edited(body, func(key string, v chat.Value) []byte {
		if key != "reasoning" || v.Kind() != '{' || !v.Given("effort").Is(string(asked)) {
			return v.Raw()
		}
		call.Omit("reasoning.effort")
		return chat.Edited(v.Raw(), func(key string, v chat.Value) []byte {
			if key == "effort" {
				return jsonscan.AppendQuoted(nil, string(nearest))
			}
			return v.Raw()
		})
	})
}

// withBound returns a body in the caller's own words with a bound on the reply that the caller has not set, if no more than that
// is paid for.
func withBound(call *provider.Call, body []byte) []byte {
	if !call.Bounded || call.Request.MaxTokens > 0 || call.MaxOutput == 0 {
		return body
	}
	const name = "max_output_tokens"
	bounded := strconv.AppendInt([]byte(`{"`+name+`":`), int64(call.MaxOutput), 10)
	rest := chat.Edited(body, func(key string, v chat.Value) []byte {
		if key == name { // null
			return nil
		}
		return v.Raw()
	})
	return append(append(bounded, ','), rest[1:]...) // the model follows
}

// isNative reports whether the caller speaks Responses, so that an upstream of the dialect can be sent its own words.
func isNative(call *provider.Call) bool {
	o := call.Request.Original
	return o != nil && o.Dialect == chat.DialectResponses && o.Compose != nil && !(o.Loose && call.Inside)
}

// shared are the members that a chat completion and a response have in common. They are passed on as they are.
var shared = []string{
	"temperature", "top_p", "parallel_tool_calls", "user", "metadata", "service_tier", "prompt_cache_key", "prompt_cache_retention",
	"safety_identifier", "moderation",
}

// responseWriter writes a chat completion as a response.
//
// It appends JSON to out as it goes; there are no types for the dialect's requests, because every
// item has a form of its own.
type responseWriter struct {
	call   *provider.Call
	req    *chat.Request // call.Request
	preset *Preset
	out    []byte
	asked  []string // ids of calls of custom tools so far
	marks  bool     // the model takes marks for the cache, whichever dialect they come from
}

// write returns the body. It returns a fault if the request asks for something that the dialect cannot say.
//
// What the dialect has no member for is dropped at the end and named in the call.
func (w *responseWriter) write(ctx context.Context) ([]byte, error) {
	if err := w.sayable(); err != nil {
		return nil, err
	}
	if n := w.req.N; n > 1 {
		return nil, fault.New(fault.Invalid, "This model gives one reply to a request; n must be 1, got %d.", n).At("n")
	}
	withheld, err := w.call.Withhold()
	if err != nil {
		return nil, err
	}
	w.out = jsonscan.AppendQuoted(append(w.out, `{"model":`...), w.call.Upstream)
	w.out = append(w.out, `,"store":false,"input":[`...)
	if err := w.input(ctx); err != nil {
		return nil, err
	}
	w.out = append(w.out, ']')
	if w.req.Stream {
		w.out = append(w.out, `,"stream":true`...)
	}
	if most := w.call.Limit(); most > 0 {
		w.out = strconv.AppendInt(append(w.out, `,"max_output_tokens":`...), int64(most), 10)
	}
	w.options(withheld)
	w.caching(chat.ValueOf(w.req.Member("prompt_cache_options")))
	w.tools()
	w.text()
	w.call.Drop("stop", "frequency_penalty", "presence_penalty", "seed", "logprobs", "top_logprobs")
	w.call.DropUnread(append([]string{"verbosity", "prompt_cache_options"}, shared...)...)
	if w.preset.automatic() {
		w.call.Keep(chat.ControlName)
	}
	if w.req.Marked() {
		w.unmarked()
	}
	return append(w.out, '}'), nil
}

// options writes what both dialects have, except what is withheld, and how much the model is to think.
func (w *responseWriter) options(withheld []string) {
	thinks := w.call.Thinks && w.req.ReasoningEffort != chat.EffortNone
	for _, name := range shared {
		switch {
		case slices.Contains(withheld, name):
		case thinks && (name == "temperature" || name == "top_p"):
			w.call.Drop(name) // models refuse them while they reason
		default:
			w.member(name, w.req.Member(name))
		}
	}
	if w.call.Thinks {
		// The reasoning of a turn with calls goes back with their results.
		w.out = append(w.out, `,"include":["reasoning.encrypted_content"]`...)
		if effort := w.call.Effort(familyOf(w.call.Upstream).efforts); effort != "" {
			w.out = append(append(append(w.out, `,"reasoning":{"effort":"`...), effort...), `"}`...)
		}
	} else {
		w.call.DropEffort()
	}
}

// sayable refuses what a chat completion can say and the dialect cannot: files in messages that are not of a user, and an
// earlier reply of which only the id of its sound is given.
func (w *responseWriter) sayable() error {
	if err := w.call.Translated(); err != nil {
		return err
	}
	for i := range w.req.Messages {
		m := &w.req.Messages[i]
		if m.Role == chat.RoleAssistant && m.Content.IsNull() && len(m.ToolCalls) == 0 && slices.Contains(m.Beside(), "audio") {
			return fault.New(fault.Invalid, "This model does not know an earlier reply by the id of its sound.").At(fmt.Sprintf("messages[%d].audio", i))
		}
		for j, p := range m.Content.Parts() {
			if p.File != nil && m.Role != chat.RoleUser {
				return fault.New(fault.Invalid, "This model reads files only in messages of the role user.").At(fmt.Sprintf("messages[%d].content[%d]", i, j))
			}
		}
	}
	return nil
}

// member appends a member, unless it is absent or null.
func (w *responseWriter) member(name string, value []byte) {
	if isGiven(value) {
		w.out = append(append(append(append(w.out, `,"`...), name...), `":`...), value...)
	}
}

// input writes the messages as items.
func (w *responseWriter) input(ctx context.Context) error {
	for i := range w.req.Messages {
		m := &w.req.Messages[i]
		if m.Name != "" {
			w.call.Omit("messages[].name")
		}
		switch m.Role {
		case chat.RoleTool:
			kind := `{"type":"function_call_output","call_id":`
			if slices.Contains(w.asked, m.ToolCallID) {
				kind = `{"type":"custom_tool_call_output","call_id":`
			}
			w.item(kind, m.ToolCallID)
			w.output(m)
		case chat.RoleAssistant:
			w.assistant(ctx, m)
		default:
			role := "user"
			if m.Role == chat.RoleSystem {
				role = "system"
			}
			if err := w.content(m, role, i); err != nil {
				return err
			}
		}
	}
	return nil
}

// content writes message i of a role as an item with its parts.
func (w *responseWriter) content(m *chat.Message, role string, i int) error {
	w.item(`{"role":`, role)
	w.out = append(w.out, `,"content":[`...)
	if m.Cut() && w.marks {
		w.pieces(m)
		w.out = append(w.out, "]}"...)
		return nil
	}
	parts, marks := m.Content.Parts(), w.marksOf(m)
	for j, p := range parts {
		if j > 0 {
			w.out = append(w.out, ',')
		}
		if err := w.part(&p, i, j); err != nil {
			return err
		}
		for _, k := range marks {
			if w.writes(k.Cache) && (k.Part == j || k.Part == chat.NoPart && j == len(parts)-1) {
				w.mark(k.Cache)
				break
			}
		}
	}
	w.out = append(w.out, "]}"...)
	return nil
}

// caching writes what a caller wants of the cache. In chat completions it has these two members; others of Responses name
// what is stored at the vendor.
func (w *responseWriter) caching(v chat.Value) {
	const name = "prompt_cache_options"
	if v.Kind() != '{' {
		return
	}
	w.out = append(append(append(w.out, `,"`...), name...), `":{`...)
	for m := v.Walk(); m.Next(); {
		if key := string(m.Key); (key == "mode" || key == "ttl") && m.Value.IsText() {
			w.out = append(chat.AppendName(w.out, key), m.Value.Raw()...)
		} else if !m.Value.Null() {
			w.call.Omit(name)
		}
	}
	w.out = append(w.out, '}')
}

// item begins an item with its first text.
func (w *responseWriter) item(head, text string) {
	if w.out[len(w.out)-1] != '[' {
		w.out = append(w.out, ',')
	}
	w.out = jsonscan.AppendQuoted(append(w.out, head...), text)
}

// assistant writes an earlier reply: its reasoning, if it was kept, its text, and its calls.
// The reasoning was kept under the id of the first call. It comes before the calls, as the model
// wrote it.
func (w *responseWriter) assistant(ctx context.Context, m *chat.Message) {
	for i := range m.ToolCalls {
		kept, ok := recall(ctx, w.call.Memory, m.ToolCalls[i].ID, keptReasoning)
		var items []json.RawMessage
		if !ok || json.Unmarshal(kept, &items) != nil {
			continue
		}
		for _, item := range items {
			if w.out[len(w.out)-1] != '[' {
				w.out = append(w.out, ',')
			}
			w.out = append(w.out, item...)
		}
		break
	}
	if text := m.Content.Text(); text != "" {
		w.item(`{"role":"assistant","content":`, text)
		w.out = append(w.out, '}')
	}
	for i := range m.ToolCalls {
		c := &m.ToolCalls[i]
		kind, input := `{"type":"function_call","call_id":`, `,"arguments":`
		if c.Custom {
			kind, input = `{"type":"custom_tool_call","call_id":`, `,"input":`
			w.asked = append(w.asked, c.ID)
		}
		w.item(kind, c.ID)
		w.out = jsonscan.AppendQuoted(append(w.out, `,"name":`...), c.Name)
		w.out = append(jsonscan.AppendQuoted(append(w.out, input...), c.Arguments()), '}')
	}
}

// part writes part j of message i.
func (w *responseWriter) part(p *chat.Part, i, j int) error {
	switch {
	case p.File != nil:
		mediaType, data, ok := p.File.Data()
		if !ok {
			return provider.NoContent(p.File, i, j)
		}
		if p.File.Audio {
			w.out = jsonscan.AppendQuoted(append(w.out, `{"type":"input_audio","input_audio":{"data":`...), data)
			w.out = append(jsonscan.AppendQuoted(append(w.out, `,"format":`...), strings.TrimPrefix(mediaType, "audio/")), "}}"...)
			return nil
		}
		w.out = jsonscan.AppendQuoted(append(w.out, `{"type":"input_file","filename":`...), cmp.Or(p.File.Name, "file"))
		w.out = append(jsonscan.AppendQuoted(append(w.out, `,"file_data":`...), "data:"+mediaType+";base64,"+data), '}')
	case p.IsImage():
		w.out = jsonscan.AppendQuoted(append(w.out, `{"type":"input_image","image_url":`...), p.ImageURL())
		if p.Detail != "" {
			w.out = jsonscan.AppendQuoted(append(w.out, `,"detail":`...), p.Detail)
		}
		w.out = append(w.out, '}')
	default:
		w.out = append(jsonscan.AppendQuoted(append(w.out, `{"type":"input_text","text":`...), p.Text()), '}')
	}
	return nil
}

// text writes the form of the reply.
// verbosity is a member of its own in chat completions, and belongs to text here.
func (w *responseWriter) text() {
	var format []byte
	switch f := &w.req.Format; f.Kind {
	case chat.FormatJSONObject:
		format = []byte(`{"type":"json_object"}`)
	case chat.FormatJSONSchema:
		format = jsonscan.AppendQuoted([]byte(`{"type":"json_schema","name":`), cmp.Or(f.SchemaName, "reply"))
		if f.Schema != nil {
			format = append(append(format, `,"schema":`...), f.Schema...)
		}
		format = append(strconv.AppendBool(append(format, `,"strict":`...), f.Strict), '}')
	}
	verbosity := w.req.Member("verbosity")
	var members [][]byte
	if format != nil {
		members = append(members, append([]byte(`"format":`), format...))
	}
	if isGiven(verbosity) {
		members = append(members, append([]byte(`"verbosity":`), verbosity...))
	}
	if len(members) > 0 {
		w.out = append(append(append(w.out, `,"text":{`...), bytes.Join(members, []byte{','})...), '}')
	}
}
