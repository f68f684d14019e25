package bedrock

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"sluice/internal/chat"
	"sluice/internal/fault"
	"sluice/internal/provider"
)

// defaultMax is how many tokens a Claude may write where nobody says otherwise.
const defaultMax = 8192

// request is the body of Converse and ConverseStream.
type request struct {
	Messages   []message       `json:"messages"`
	System     []block         `json:"system,omitempty"`
	Inference  inference       `json:"inferenceConfig,omitzero"`
	ToolConfig *toolConfig     `json:"toolConfig,omitempty"`
	Additional *modelFields    `json:"additionalModelRequestFields,omitempty"`
	Output     *outputSettings `json:"outputConfig,omitempty"`
}

type inference struct {
	MaxTokens     int      `json:"maxTokens,omitempty"`
	Temperature   *float64 `json:"temperature,omitempty"`
	TopP          *float64 `json:"topP,omitempty"`
	StopSequences []string `json:"stopSequences,omitempty"`
}

func (i inference) IsZero() bool {
	return i.MaxTokens == 0 && i.Temperature == nil && i.TopP == nil && i.StopSequences == nil
}

type toolConfig struct {
	Tools  []tool      `json:"tools"`
	Choice *toolChoice `json:"toolChoice,omitempty"`
}

type tool struct {
	Spec toolSpec `json:"toolSpec"`
}

type toolSpec struct {
	Name        string      `json:"name"`
	Description string      `json:"description,omitempty"`
	InputSchema inputSchema `json:"inputSchema"`
	Strict      bool        `json:"strict,omitempty"`
}

type inputSchema struct {
	JSON json.RawMessage `json:"json"`
}

type toolChoice struct {
	Any  *struct{}  `json:"any,omitempty"`
	Tool *namedTool `json:"tool,omitempty"`
}

type namedTool struct {
	Name string `json:"name"`
}

// modelFields are fields of some models' own.
type modelFields struct {
	Thinking   *provider.Thinking `json:"thinking,omitempty"`         // Claude
	ToolChoice *claudeChoice      `json:"tool_choice,omitempty"`      // Claude
	Reasoning  *novaReasoning     `json:"reasoningConfig,omitempty"`  // Nova
	Effort     string             `json:"reasoning_effort,omitempty"` // gpt-oss
}

type claudeChoice struct {
	Type  string `json:"type"`
	Name  string `json:"name,omitempty"`
	Alone bool   `json:"disable_parallel_tool_use"`
}

type novaReasoning struct {
	Type   string `json:"type"`
	Effort string `json:"maxReasoningEffort,omitempty"`
}

type outputSettings struct {
	Effort string      `json:"effort,omitempty"`
	Format *textFormat `json:"textFormat,omitempty"`
}

type textFormat struct {
	Type      string          `json:"type"`
	Structure formatStructure `json:"structure"`
}

type formatStructure struct {
	JSONSchema jsonSchema `json:"jsonSchema"`
}

type jsonSchema struct {
	Name   string `json:"name"`
	Schema string `json:"schema"`
}

// writer writes one call in the dialect.
type writer struct {
	ctx    context.Context //nolint:containedctx // one call's, for what is recalled
	call   *provider.Call
	req    *chat.Request
	claude bool // the model is one
	model  provider.Claude
	forced bool              // a tool must be called
	plain  bool              // calls of earlier turns are told as text
	called map[string]string // the names of called functions by the ids of the calls, where plain
	names  provider.ToolNames
	out    request
}

// write returns the body, or says what of the request cannot be asked of this upstream.
func (w *writer) write() ([]byte, error) {
	if w.model, w.claude = provider.ClaudeOf(w.call.Upstream); !w.claude {
		w.model = provider.Claude{Samples: true, Both: true}
	}
	if w.req.N > 1 {
		return nil, fault.New(fault.Invalid, "This model gives one reply at a time: n must be 1, got %d", w.req.N).At("n")
	}
	if err := w.call.Plain(); err != nil {
		return nil, err
	}
	w.call.Drop("frequency_penalty", "presence_penalty", "seed", "user")
	w.call.DropUnread()
	w.plain = len(w.req.Tools) == 0 || w.req.ToolChoice.Mode == chat.ChoiceNone
	if err := w.tools(); err != nil {
		return nil, err
	}
	if err := w.messages(); err != nil {
		return nil, err
	}
	w.out.Inference.StopSequences = w.req.Stop
	w.think()
	w.format()

	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(&w.out); err != nil {
		return nil, fmt.Errorf("writing a request: %w", err)
	}
	return bytes.TrimSuffix(body.Bytes(), []byte("\n")), nil
}

// tools lists the functions, unless none may be called: the dialect cannot say so.
func (w *writer) tools() error {
	if w.plain {
		return nil
	}
	c := &toolConfig{}
	for i, t := range w.req.Tools {
		if t.Function == nil {
			continue // MCP servers are taken care of before a model is asked
		}
		f := t.Function
		name, ok := w.names.Add(f.Name)
		if !ok {
			return fault.New(fault.Invalid, "This model knows no dots in names, and without them %q is the name of two functions; rename one of them", name).At(fmt.Sprintf("tools[%d].function.name", i))
		}
		strict := f.Strict && w.model.Structured
		if f.Strict && !strict {
			w.call.Omit("tools[].function.strict")
		}
		c.Tools = append(c.Tools, tool{toolSpec{Name: name, Description: f.Description, InputSchema: inputSchema{provider.ObjectSchema(f.Parameters)}, Strict: strict}})
	}
	switch w.req.ToolChoice.Mode {
	case chat.ChoiceRequired:
		c.Choice = &toolChoice{Any: &struct{}{}}
	case chat.ChoiceNamed:
		c.Choice = &toolChoice{Tool: &namedTool{provider.WireName(w.req.ToolChoice.Name)}}
	}
	w.out.ToolConfig, w.forced = c, c.Choice != nil
	if w.req.ParallelToolCalls != nil && !*w.req.ParallelToolCalls {
		w.alone()
	}
	return nil
}

// alone asks for one call at a time. Only Claude knows that, and only in its own words, which must not
// be said a second time in those of the dialect.
func (w *writer) alone() {
	if !w.claude {
		w.call.Omit("parallel_tool_calls")
		return
	}
	own := claudeChoice{Type: "auto", Alone: true}
	if c := w.out.ToolConfig.Choice; c != nil && c.Tool != nil {
		own.Type, own.Name = "tool", c.Tool.Name
	} else if c != nil {
		own.Type = "any"
	}
	w.out.ToolConfig.Choice = nil
	w.additional().ToolChoice = &own
}

func (w *writer) additional() *modelFields {
	if w.out.Additional == nil {
		w.out.Additional = &modelFields{}
	}
	return w.out.Additional
}

// think bounds the reply, and says how the model is to think and to choose its words.
func (w *writer) think() {
	in := &w.out.Inference
	in.MaxTokens = w.call.Limit()
	if !w.claude {
		w.effort()
		in.Temperature, in.TopP = w.model.Sample(w.call, nil)
		return
	}
	if in.MaxTokens == 0 {
		in.MaxTokens = defaultMax
	}
	t := w.model.Think(w.call, in.MaxTokens, w.forced, w.unsigned())
	in.MaxTokens = t.Max
	in.Temperature, in.TopP = w.model.Sample(w.call, t.Thinking)
	if t.Thinking != nil {
		w.additional().Thinking = t.Thinking
	}
	if t.Effort != "" {
		w.out.Output = &outputSettings{Effort: t.Effort}
	}
}

// effort is reasoning_effort for the models of other vendors that can be told.
func (w *writer) effort() {
	e := w.req.ReasoningEffort
	level := "low"
	if e == chat.EffortMedium || e == chat.EffortHigh {
		level = string(e)
	}
	switch {
	case e == "":
	case w.call.Thinks && strings.Contains(w.call.Upstream, "gpt-oss"):
		w.additional().Effort = level
	case w.call.Thinks && strings.Contains(w.call.Upstream, "nova-2"):
		w.additional().Reasoning = nova(e, level)
	case w.call.Thinks && e != chat.EffortNone:
		w.out.Output = &outputSettings{Effort: level}
	case !w.call.Thinks:
		w.call.DropEffort()
	default:
		w.call.Drop("reasoning_effort")
	}
}

// nova is the vendor's configuration. Its highest effort refuses a bound on the tokens, which every
// call has here.
func nova(e chat.Effort, level string) *novaReasoning {
	switch e {
	case chat.EffortNone:
		return &novaReasoning{Type: "disabled"}
	case chat.EffortHigh:
		level = "medium"
	}
	return &novaReasoning{Type: "enabled", Effort: level}
}

// unsigned reports whether the calls that are being answered were made without thinking, or with
// thinking that is lost.
func (w *writer) unsigned() bool {
	if n := len(w.req.Messages); w.plain || w.req.Messages[n-1].Role != chat.RoleTool {
		return false
	}
	for i := len(w.out.Messages) - 1; i >= 0; i-- {
		if m := &w.out.Messages[i]; m.Role == roleAssistant {
			return m.Content[0].Reasoning == nil
		}
	}
	return false
}

// format holds the model to a strict schema; Claude.EmulatesJSON tells of the rest.
func (w *writer) format() {
	f := w.req.Format
	if f.Kind == chat.FormatText || w.model.EmulatesJSON(f) {
		return
	}
	if w.out.Output == nil {
		w.out.Output = &outputSettings{}
	}
	w.out.Output.Format = &textFormat{Type: "json_schema", Structure: formatStructure{jsonSchema{Name: f.SchemaName, Schema: string(f.Schema)}}}
}
