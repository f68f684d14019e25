package anthropic

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"sluice/internal/chat"
	"sluice/internal/fault"
	"sluice/internal/provider"
)

const (
	defaultMax = 8192 // tokens of a reply where nobody says otherwise: the field is required
	maxUser    = 256  // characters of a user id
)

// request is the body of POST /v1/messages.
type request struct {
	Model         string             `json:"model"`
	MaxTokens     int                `json:"max_tokens"`
	System        []any              `json:"system,omitempty"`
	Messages      []message          `json:"messages"`
	Tools         []tool             `json:"tools,omitempty"`
	ToolChoice    *toolChoice        `json:"tool_choice,omitempty"`
	Thinking      *provider.Thinking `json:"thinking,omitempty"`
	OutputConfig  *outputConfig      `json:"output_config,omitempty"`
	Temperature   *float64           `json:"temperature,omitempty"`
	TopP          *float64           `json:"top_p,omitempty"`
	StopSequences []string           `json:"stop_sequences,omitempty"`
	Metadata      *metadata          `json:"metadata,omitempty"`
	Stream        bool               `json:"stream,omitempty"`
}

type tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	InputSchema json.RawMessage `json:"input_schema"`
	Strict      bool            `json:"strict,omitempty"`
}

type toolChoice struct {
	Type  string `json:"type"`
	Name  string `json:"name,omitempty"`
	Alone bool   `json:"disable_parallel_tool_use,omitempty"`
}

type outputConfig struct {
	Effort string        `json:"effort,omitempty"`
	Format *outputFormat `json:"format,omitempty"`
}

type outputFormat struct {
	Type   string          `json:"type"`
	Schema json.RawMessage `json:"schema"`
}

type metadata struct {
	UserID string `json:"user_id"`
}

// writer writes one call in the dialect.
type writer struct {
	ctx   context.Context //nolint:containedctx // one call's, for what is recalled
	call  *provider.Call
	req   *chat.Request
	model provider.Claude
	names provider.ToolNames
	out   request
}

// write returns the body, or says what of the request cannot be asked of this upstream.
func (w *writer) write() ([]byte, error) {
	model, ok := provider.ClaudeOf(w.call.Upstream)
	if !ok { // another vendor's: the dialect before its generations parted
		model = provider.Claude{Samples: true, Both: true, Idle: "disabled"}
	}
	w.model = model
	if w.req.N > 1 {
		return nil, fault.New(fault.Invalid, "This model gives one reply at a time: n must be 1, got %d", w.req.N).At("n")
	}
	if err := w.call.Plain(); err != nil {
		return nil, err
	}
	w.call.Drop("frequency_penalty", "presence_penalty", "seed")
	w.call.DropUnread()
	w.out.Model, w.out.Stream = w.call.Upstream, w.req.Stream
	for _, step := range []func() error{w.tools, w.messages, w.stops} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	w.choice()
	w.think()
	w.out.Temperature, w.out.TopP = w.model.Sample(w.call, w.out.Thinking)
	w.format()
	w.user()

	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(&w.out); err != nil {
		return nil, fmt.Errorf("writing a request: %w", err)
	}
	return bytes.TrimSuffix(body.Bytes(), []byte("\n")), nil
}

func (w *writer) stops() error {
	for i, s := range w.req.Stop {
		if strings.TrimSpace(s) == "" {
			return fault.New(fault.Invalid, "stop[%d] is white space alone, at which this model cannot stop; use a sequence with other characters", i).At(fmt.Sprintf("stop[%d]", i))
		}
	}
	w.out.StopSequences = w.req.Stop
	return nil
}

func (w *writer) user() {
	switch {
	case w.req.User == "":
	case len(w.req.User) > maxUser:
		w.call.Drop("user")
	default:
		w.out.Metadata = &metadata{w.req.User}
	}
}

// tools lists the functions. A conversation with calls in it needs them listed, even where none may
// be called any more.
func (w *writer) tools() error {
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
		w.out.Tools = append(w.out.Tools, tool{Name: name, Description: f.Description, InputSchema: provider.ObjectSchema(f.Parameters), Strict: strict})
	}
	if len(w.out.Tools) > 0 {
		return nil
	}
	for i := range w.req.Messages {
		for _, c := range w.req.Messages[i].ToolCalls {
			if name, ok := w.names.Add(c.Name); ok {
				w.out.Tools = append(w.out.Tools, tool{Name: name, InputSchema: provider.ObjectSchema(nil)})
				w.out.ToolChoice = &toolChoice{Type: "none"}
			}
		}
	}
	return nil
}

// choice says how free the model is to call tools.
func (w *writer) choice() {
	if len(w.out.Tools) == 0 || w.out.ToolChoice != nil {
		return
	}
	alone := w.req.ParallelToolCalls != nil && !*w.req.ParallelToolCalls
	c := toolChoice{Alone: alone}
	switch w.req.ToolChoice.Mode {
	case chat.ChoiceNone:
		c = toolChoice{Type: "none"}
	case chat.ChoiceRequired:
		c.Type = "any"
	case chat.ChoiceNamed:
		c.Type, c.Name = "tool", provider.WireName(w.req.ToolChoice.Name)
	default:
		if !alone {
			return
		}
		c.Type = "auto"
	}
	w.out.ToolChoice = &c
}

// think bounds the reply, and the thinking that comes out of the same tokens.
func (w *writer) think() {
	bound := cmp.Or(w.call.Limit(), defaultMax)
	c := w.out.ToolChoice
	forced := c != nil && (c.Type == "any" || c.Type == "tool")
	t := w.model.Think(w.call, bound, forced, w.unsigned())
	w.out.MaxTokens, w.out.Thinking = t.Max, t.Thinking
	if t.Effort != "" {
		w.out.OutputConfig = &outputConfig{Effort: t.Effort}
	}
}

// unsigned reports whether the calls that are being answered were made without thinking, or with
// thinking that is lost.
func (w *writer) unsigned() bool {
	if n := len(w.req.Messages); w.req.Messages[n-1].Role != chat.RoleTool {
		return false
	}
	for i := len(w.out.Messages) - 1; i >= 0; i-- {
		if m := &w.out.Messages[i]; m.Role == roleAssistant {
			_, signed := m.Content[0].(json.RawMessage)
			return !signed
		}
	}
	return false
}

// format holds the model to a strict schema; Claude.EmulatesJSON tells of the rest.
func (w *writer) format() {
	if w.req.Format.Kind == chat.FormatText || w.model.EmulatesJSON(w.req.Format) {
		return
	}
	if w.out.OutputConfig == nil {
		w.out.OutputConfig = &outputConfig{}
	}
	w.out.OutputConfig.Format = &outputFormat{Type: "json_schema", Schema: w.req.Format.Schema}
}
