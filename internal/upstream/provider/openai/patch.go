package openai

import (
	"context"
	"slices"
	"strconv"

	"sluice/internal/kit/fault"
	"sluice/internal/prompt/allowance"
	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/provider"
)

// patch returns what must differ from the caller's body, and notes in the call which fields are dropped. It
// returns a fault if the vendor cannot do what the request asks for.
//
// An upstream without a preset gets the caller's body with as few changes as possible: nobody
// knows which fields it has.
func (a *Adapter) patch(ctx context.Context, call *provider.Call) (chat.Patch, error) {
	p := chat.Patch{Model: call.Upstream, IncludeUsage: true, SystemRole: true}
	if !call.Thinks && call.Request.ReasoningEffort != "" {
		p.Drop = []string{"reasoning_effort"}
		call.DropEffort()
	}
	q := quirks{preset: &a.preset, call: call, req: call.Request, out: &p}
	q.limit()
	if o := call.Request.Original; o != nil && o.Dialect == chat.DialectMessages && !slices.Contains(takesTopK, a.preset.Kind) {
		q.drop(unlisted)
	}
	q.marks()
	q.hint()
	if a.preset.Kind == "" { // nothing is known of this upstream
		return p, nil
	}
	return p, q.apply(ctx)
}

// takesTopK lists the vendors whose pages have top_k, which comes from callers of the Messages API. Any other upstream may
// refuse it. A caller of chat completions who sends it knows why.
var takesTopK = []string{"openrouter", "together", "fireworks", "perplexity", "vllm", "llamacpp", "lmstudio"}

// quirks writes what one vendor wants otherwise into a patch.
type quirks struct {
	preset *Preset
	call   *provider.Call
	req    *chat.Request // call.Request
	out    *chat.Patch   // written to
}

// apply applies the preset. See Preset for what each of its fields means.
func (q *quirks) apply(ctx context.Context) error {
	p := q.preset
	if p.plain {
		if err := q.call.Plain(); err != nil {
			return err
		}
	}
	q.out.SystemRole = !p.developer
	if p.figured {
		q.out.IncludeUsage = false
		q.out.Drop = append(q.out.Drop, "stream_options")
	}
	q.drop(p.refused)
	if q.call.Thinks && q.req.ReasoningEffort != chat.EffortNone {
		q.drop(p.refusedThinking)
	}
	if p.stores && !(chat.Asks(q.req.Member("store")) && q.call.Allow.Has(allowance.Field("store"))) {
		q.drop([]string{"metadata"})
	}
	if t := q.req.Temperature; t != nil && p.hottest > 0 && *t > p.hottest {
		// The API accepts up to 2 for every model (docs/api.md#chat-completion-request), so it becomes the vendor's highest.
		q.set("temperature", strconv.FormatFloat(p.hottest, 'g', -1, 64))
	}
	if p.single && q.req.N > 1 {
		return fault.New(fault.Invalid, "This model gives one reply to a request; n must be 1, got %d.", q.req.N).At("n")
	}
	if p.seed != "" {
		q.rename("seed", p.seed)
	}
	if p.schematic && q.req.Format.Kind == chat.FormatJSONObject {
		q.set("response_format", `{"type":"json_schema","json_schema":{"name":"object","schema":{"type":"object"}}}`)
	}
	if q.call.Thinks {
		q.effort()
	}
	if err := q.choice(); err != nil {
		return err
	}
	q.messages(ctx)
	return nil
}

// set gives a field a value, which is JSON.
func (q *quirks) set(name, value string) {
	q.out.Set = append(q.out.Set, chat.Setting{Name: name, Value: []byte(value)})
}

// drop leaves fields out. It also leaves out those that ask for nothing, since the vendor refuses their names;
// only the others are noted as dropped.
func (q *quirks) drop(names []string) {
	q.out.Drop = append(q.out.Drop, names...)
	q.call.Drop(names...)
}

// rename gives a field another name, if the caller sent it.
func (q *quirks) rename(from, to string) {
	if value := q.req.Member(from); value != nil {
		q.out.Drop = append(q.out.Drop, from)
		q.set(to, string(value))
	}
}

// limit sends the bound of the reply under one name, and clamps it to what the model writes. The name is the one
// that the vendor knows. A vendor that knows both gets the caller's name, or the newer one if the caller sent
// both. An upstream that is not known gets the older one then, which all of them understand.
func (q *quirks) limit() {
	older, newer := q.req.Member(maxTokens), q.req.Member(maxCompletionTokens)
	if !isGiven(older) && !isGiven(newer) && q.call.Bounded && q.call.MaxOutput > 0 {
		q.bound()
		return
	}
	if older == nil && newer == nil {
		return
	}
	// name is the one to send, other the one to leave out, and spare the caller's value of the latter.
	name, other, spare := maxTokens, maxCompletionTokens, newer
	switch {
	case q.preset.limit == maxTokens:
	case q.preset.limit == maxCompletionTokens, !isGiven(older), isGiven(newer) && q.preset.Kind != "":
		name, other, spare = maxCompletionTokens, maxTokens, older
	}
	if spare != nil && (q.preset.limit != "" || isGiven(spare)) {
		q.out.Drop = append(q.out.Drop, other)
	}
	if q.req.MaxTokens > 0 && (isGiven(spare) || q.call.Limit() < q.req.MaxTokens) {
		q.set(name, strconv.Itoa(q.call.Limit()))
	}
}

// bound sends a bound that the caller has not set. The vendor gets the name that it knows.
func (q *quirks) bound() {
	name, other := maxTokens, maxCompletionTokens
	if q.preset.limit == maxCompletionTokens || q.preset.limit == "" && q.preset.Kind != "" {
		name, other = other, name
	}
	q.out.Drop = append(q.out.Drop, other)
	q.set(name, strconv.Itoa(q.call.MaxOutput))
}

// isGiven reports whether a member is present and not null.
func isGiven(value []byte) bool { return value != nil && string(value) != "null" }

// effort translates reasoning_effort to the nearest that the vendor has.
func (q *quirks) effort() {
	asked := q.req.ReasoningEffort
	if asked == chat.EffortNone && q.preset.off != nil {
		q.out.Drop = append(q.out.Drop, "reasoning_effort")
		q.out.Set = append(q.out.Set, *q.preset.off)
		return
	}
	if nearest := q.call.Effort(q.preset.effortsOf(q.call.Upstream)); nearest != asked {
		q.set("reasoning_effort", strconv.Quote(string(nearest)))
	}
}

// choice emulates tool_choice for vendors that do not know it. For none, the tools are left out. A call cannot be
// forced, so required and a named function are refused.
func (q *quirks) choice() error {
	if !q.preset.unforced {
		return nil
	}
	q.out.Drop = append(q.out.Drop, "tool_choice")
	switch q.req.ToolChoice.Mode {
	case chat.ChoiceNone:
		q.out.Drop = append(q.out.Drop, "tools")
	case chat.ChoiceRequired, chat.ChoiceNamed:
		return fault.New(fault.Invalid, `This model cannot be made to call a tool; tool_choice must be "auto" or "none".`).At("tool_choice")
	}
	return nil
}
