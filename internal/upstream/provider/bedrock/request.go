package bedrock

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"sluice/internal/kit/jsonscan"
	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/provider"
	"sluice/internal/upstream/provider/claude"
)

// request is the body of Converse and ConverseStream, which differ in the URL only
// (docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html). Only the members that we write are
// listed.
type request struct {
	Messages   []claude.Message[block] `json:"messages"`
	System     []block                 `json:"system,omitempty"`
	Inference  inference               `json:"inferenceConfig,omitzero"`
	ToolConfig *toolConfig             `json:"toolConfig,omitempty"`
	Additional modelFields             `json:"additionalModelRequestFields,omitzero"`
	Output     outputSettings          `json:"outputConfig,omitzero"`
}

// inference has the settings that all models share.
type inference struct {
	MaxTokens     int      `json:"maxTokens,omitempty"`
	Temperature   *float64 `json:"temperature,omitempty"`
	TopP          *float64 `json:"topP,omitempty"`
	StopSequences []string `json:"stopSequences,omitempty"`
}

// toolConfig lists the tools. A nil Choice leaves it to the model.
type toolConfig struct {
	Tools  []tool      `json:"tools"`
	Choice *toolChoice `json:"toolChoice,omitempty"`
}

// tool wraps a toolSpec, as Converse wants it. A cachePoint is an entry of its own.
type tool struct {
	Spec       *toolSpec   `json:"toolSpec,omitempty"`
	CachePoint *cachePoint `json:"cachePoint,omitempty"`
}

// toolSpec is a function that the model may call.
type toolSpec struct {
	Name        string      `json:"name"`
	Description string      `json:"description,omitempty"`
	InputSchema inputSchema `json:"inputSchema"`
	Strict      bool        `json:"strict,omitempty"`
}

// inputSchema has the schema of a function's arguments, of the type object.
type inputSchema struct {
	JSON json.RawMessage `json:"json"`
}

// toolChoice forces a call: of any tool, or of a named one.
type toolChoice struct {
	Any  *struct{}  `json:"any,omitempty"`
	Tool *namedTool `json:"tool,omitempty"`
}

// namedTool is the tool that must be called.
type namedTool struct {
	Name string `json:"name"`
}

// modelFields are members that only some models know. Converse passes them on without a look.
type modelFields struct {
	Thinking   *claude.Thinking   `json:"thinking,omitempty"`         // Claude
	Features   []string           `json:"anthropic_beta,omitempty"`   // Claude
	ToolChoice *claude.ToolChoice `json:"tool_choice,omitempty"`      // Claude
	Reasoning  *novaReasoning     `json:"reasoningConfig,omitempty"`  // Nova
	Effort     string             `json:"reasoning_effort,omitempty"` // gpt-oss
}

// novaReasoning configures the thinking of Amazon's Nova models.
type novaReasoning struct {
	Type   string `json:"type"`
	Effort string `json:"maxReasoningEffort,omitempty"`
}

// outputSettings has the effort of models without members of their own for it, and a schema for the text.
type outputSettings struct {
	Effort string      `json:"effort,omitempty"`
	Format *textFormat `json:"textFormat,omitempty"`
}

// textFormat, formatStructure and jsonSchema together are a schema for the reply's text. The schema itself goes in a
// string.
type textFormat struct {
	Type      string          `json:"type"`
	Structure formatStructure `json:"structure"`
}

// formatStructure is the middle of the three.
type formatStructure struct {
	JSONSchema jsonSchema `json:"jsonSchema"`
}

// jsonSchema has a name, which Converse requires, and the schema.
type jsonSchema struct {
	Name   string `json:"name"`
	Schema string `json:"schema"`
}

// writer writes one call in the dialect. It implements claude.Wire.
//
// The fields are filled in the order of write: the model, the tools, the messages, then everything
// that depends on them.
type writer struct {
	call         *provider.Call
	req          *chat.Request // call.Request
	claude       bool          // the model is a Claude
	model        claude.Model
	key          string            // stands for the keys of the account
	bare         bool              // leave the thinking of earlier turns out
	forced       bool              // a tool must be called
	plain        bool              // no tools are listed, and earlier calls become text
	called       map[string]string // if plain: the names of called functions, by the ids of the calls
	documents    int               // in the conversation so far
	marks        *claude.Marks
	names        claude.ToolNames
	conversation claude.Conversation[block]
	out          request
}

// write returns the body of the request. It returns a fault if the request asks for something that this
// upstream cannot do.
func (w *writer) write(ctx context.Context) ([]byte, error) {
	if w.model, w.claude = claude.ModelOf(w.call.Upstream); !w.claude {
		// Models of other vendors sample freely, and are not known to follow a schema.
		w.model = claude.Model{Samples: true, Both: true}
	}
	if err := claude.Check(w.call, "user"); err != nil {
		return nil, err
	}
	marking := w.marking()
	end := w.automatic(&marking)
	w.marks = claude.MarksOf(w.call, marking)
	// Converse cannot say that no tool may be called, so then it gets none. Newer Claudes are told so in their own member:
	// their thinking is only of use as long as the same tools are listed.
	w.plain = len(w.req.Tools) == 0 || w.req.ToolChoice.Mode == chat.ChoiceNone && !w.model.Adaptive
	if !w.plain {
		if err := w.tools(); err != nil {
			return nil, err
		}
	}
	if err := w.messages(ctx); err != nil {
		return nil, err
	}
	if end != nil && !w.conversation.MarkEnd(*w.marks.Timed(end)) {
		w.call.Omit(chat.ControlName)
	}
	w.out.Inference.StopSequences = w.req.Stop
	w.think()
	w.format()
	w.mark()
	return jsonscan.Marshal(&w.out)
}

// automatic returns the mark that the caller wants at the end of the prompt, and counts it; nil if there is none, or if the
// model takes none. Converse has no word for it, so it stands behind the last message.
func (w *writer) automatic(marking *claude.MarkOptions) *claude.CacheControl {
	if marking.Most == 0 {
		return nil
	}
	c, most := claude.Automatic(w.call, marking.Most)
	marking.Most = most
	return c
}

// emulatesJSON reports whether the reply's JSON is emulated; see claude.Model.
func (w *writer) emulatesJSON() bool { return w.model.EmulatesJSON(w.req.Format) }

// messages writes the conversation. Where earlier calls become text, no thinking is put back: it belongs in front of
// calls.
func (w *writer) messages(ctx context.Context) error {
	w.conversation = claude.Conversation[block]{Wire: w, Model: w.model, Marks: w.marks, Key: w.key, Bare: w.bare, Off: w.model.Off(w.call, w.forced)}
	if !w.plain || w.model.Adaptive && !called(w.req) {
		w.conversation.Dialect = dialect
	}
	err := w.conversation.Write(ctx, w.call, w.emulatesJSON())
	w.out.System, w.out.Messages = w.conversation.System, w.conversation.Messages
	if w.documents > 0 {
		explain(w.out.Messages)
	}
	return err
}

// called reports whether a conversation has calls of tools.
func called(req *chat.Request) bool {
	return slices.ContainsFunc(req.Messages, func(m chat.Message) bool { return len(m.ToolCalls) > 0 })
}

// tools lists the functions and says how free the model is to call them.
func (w *writer) tools() error {
	c := &toolConfig{}
	err := w.model.Tools(w.call, w.marks, &w.names, func(t claude.Tool) {
		c.Tools = append(c.Tools, tool{Spec: &toolSpec{t.Name, t.Description, inputSchema{t.InputSchema}, t.Strict}})
		if t.Cache != nil {
			c.Tools = append(c.Tools, tool{CachePoint: &cachePoint{"default", t.Cache.TTL}})
		}
	})
	w.out.ToolConfig = c
	if err != nil {
		return err
	}
	choice, err := w.model.Choose(w.req)
	if err == nil {
		w.choose(choice)
	}
	return err
}

// choose writes the choice; nil is the default. Converse cannot ask for one call at a time, or for none. Claude can, in its
// own member, which must then be the only one that speaks of a choice.
func (w *writer) choose(choice *claude.ToolChoice) {
	w.forced = choice.Forced()
	if choice != nil && (choice.Alone || choice.Type == "none") {
		if w.claude {
			w.out.Additional.ToolChoice = choice
			return
		}
		w.call.Omit("parallel_tool_calls")
	}
	switch {
	case !w.forced:
	case choice.Name != "":
		w.out.ToolConfig.Choice = &toolChoice{Tool: &namedTool{choice.Name}}
	default:
		w.out.ToolConfig.Choice = &toolChoice{Any: &struct{}{}}
	}
}

// think bounds the reply, and sets how the model thinks and samples. Messages must be written.
func (w *writer) think() {
	// Only Claude requires a bound. Others have a default of their own.
	in := &w.out.Inference
	in.MaxTokens = w.call.Limit()
	if !w.claude {
		w.effort()
		in.Temperature, in.TopP = w.model.Sample(w.call, nil)
		return
	}
	bound := cmp.Or(in.MaxTokens, claude.DefaultMaxTokens)
	t := w.model.Think(w.call, bound, w.forced, !w.plain && w.conversation.Unsigned(w.req))
	in.MaxTokens = t.Max
	in.Temperature, in.TopP = w.model.Sample(w.call, t.Thinking)
	w.out.Additional.Thinking, w.out.Output.Effort = t.Thinking, t.Effort
	if w.conversation.Thoughts() > 0 {
		var bound bool
		if w.out.Additional.Thinking, bound = w.model.Bind(t.Thinking); bound {
			w.out.Additional.Features = []string{claude.BindingFeature}
		}
	}
}

// effort translates reasoning_effort for the models of other vendors, and drops it for those that have no
// such thing.
//
// Each vendor has another member for it: gpt-oss takes OpenAI's own, Nova a configuration, and any
// other model that thinks the general one of Converse, which cannot turn thinking off.
func (w *writer) effort() {
	e := w.req.ReasoningEffort
	if w.call.Thinks && e != "" && e != chat.EffortNone {
		e = w.call.Effort([]chat.Effort{chat.EffortLow, chat.EffortMedium, chat.EffortHigh})
	}
	level := string(e)
	if e == chat.EffortNone {
		level = "low" // where thinking cannot be turned off
	}
	switch {
	case e == "":
	case w.call.Thinks && strings.Contains(w.call.Upstream, "gpt-oss"):
		w.out.Additional.Effort = level
	case w.call.Thinks && strings.Contains(w.call.Upstream, "nova-2"):
		w.out.Additional.Reasoning = nova(e, level)
	case w.call.Thinks && e != chat.EffortNone:
		w.out.Output.Effort = level
	case !w.call.Thinks:
		w.call.DropEffort()
	default:
		w.call.Drop("reasoning_effort")
	}
}

// nova returns Nova's configuration of thinking. Its highest effort refuses a bound on the tokens, which
// calls usually have, so high becomes medium.
func nova(e chat.Effort, level string) *novaReasoning {
	switch e {
	case chat.EffortNone:
		return &novaReasoning{Type: "disabled"}
	case chat.EffortHigh:
		level = "medium"
	}
	return &novaReasoning{Type: "enabled", Effort: level}
}

// format holds the model to a strict schema. Other JSON is emulated.
func (w *writer) format() {
	// Converse wants the schema's name, which our API requires as well.
	f := w.req.Format
	if f.Kind == chat.FormatText || w.emulatesJSON() {
		return
	}
	w.out.Output.Format = &textFormat{Type: "json_schema", Structure: formatStructure{jsonSchema{Name: f.SchemaName, Schema: string(f.Schema)}}}
}
