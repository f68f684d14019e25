package anthropic

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"sluice/internal/kit/fault"
	"sluice/internal/kit/jsonscan"
	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/provider"
	"sluice/internal/upstream/provider/claude"
)

// maxUser is the longest user id that the vendor accepts, in bytes.
const maxUser = 256

// request is the body of POST /v1/messages (docs.anthropic.com/en/api/messages). Only the members that we write are
// listed. The content blocks of System and Messages are of the types in messages.go.
type request struct {
	Model         string                  `json:"model"`
	MaxTokens     int                     `json:"max_tokens"`
	System        []block                 `json:"system,omitempty"`
	Messages      []claude.Message[block] `json:"messages"`
	Tools         []claude.Tool           `json:"tools,omitempty"`
	ToolChoice    *claude.ToolChoice      `json:"tool_choice,omitempty"`
	Thinking      *claude.Thinking        `json:"thinking,omitempty"`
	OutputConfig  outputConfig            `json:"output_config,omitzero"`
	Temperature   *float64                `json:"temperature,omitempty"`
	TopP          *float64                `json:"top_p,omitempty"`
	StopSequences []string                `json:"stop_sequences,omitempty"`
	Metadata      metadata                `json:"metadata,omitzero"`
	Stream        bool                    `json:"stream,omitempty"`
	Cache         *claude.CacheControl    `json:"cache_control,omitempty"`
}

// outputConfig has the effort of models that do not think by a budget, and the schema of the reply's text.
type outputConfig struct {
	Effort string        `json:"effort,omitempty"`
	Format *outputFormat `json:"format,omitempty"`
}

// outputFormat is a schema that the vendor enforces.
type outputFormat struct {
	Type   string          `json:"type"` // json_schema
	Schema json.RawMessage `json:"schema"`
}

// metadata has the caller's user id, by which the vendor recognizes abuse.
type metadata struct {
	UserID string `json:"user_id"`
}

// writer writes one call in the dialect. It implements claude.Wire.
type writer struct {
	call         *provider.Call
	req          *chat.Request // call.Request
	model        claude.Model
	key          string // stands for the API key
	bare         bool   // leave the thinking of earlier turns out
	bound        bool   // the vendor is told what to do with thinking that does not fit; set by think
	marks        *claude.Marks
	names        claude.ToolNames
	conversation claude.Conversation[block]
	out          request
}

// write returns the body of the request. It returns a fault if the request asks for something that this
// upstream cannot do.
func (w *writer) write(ctx context.Context) ([]byte, error) {
	model, ok := claude.ModelOf(w.call.Upstream)
	if !ok { // another vendor who speaks the dialect: as it was before the generations of Claude differed
		model = claude.Model{Samples: true, Both: true, Idle: "disabled"}
	}
	w.model = model
	// The order matters: what is listed decides what may be said of tools, and thinking depends on the messages.
	if err := claude.Check(w.call); err != nil {
		return nil, err
	}
	w.out.Model, w.out.Stream = w.call.Upstream, w.req.Stream
	automatic, most := claude.Automatic(w.call, claude.MostMarks)
	w.out.Cache = automatic
	w.marks = claude.MarksOf(w.call, claude.MarkOptions{Most: most, Tools: true})
	if err := w.tools(); err != nil {
		return nil, err
	}
	if err := w.messages(ctx); err != nil {
		return nil, err
	}
	if err := w.stops(); err != nil {
		return nil, err
	}
	w.think()
	w.out.Temperature, w.out.TopP = w.model.Sample(w.call, w.out.Thinking)
	w.format()
	w.user()
	w.mark()
	return jsonscan.Marshal(&w.out)
}

// emulatesJSON reports whether the reply's JSON is emulated; see claude.Model.
func (w *writer) emulatesJSON() bool { return w.model.EmulatesJSON(w.req.Format) }

// messages writes the conversation.
func (w *writer) messages(ctx context.Context) error {
	w.conversation = claude.Conversation[block]{
		Wire: w, Dialect: dialect, Model: w.model, Key: w.key, Bare: w.bare, InPlace: w.model.Instructs, Marks: w.marks,
		Off: w.model.Off(w.call, w.out.ToolChoice.Forced()),
	}
	err := w.conversation.Write(ctx, w.call, w.emulatesJSON())
	w.out.System, w.out.Messages = w.conversation.System, w.conversation.Messages
	return err
}

// stops refuses stop sequences that are blank, as the vendor does, and says which one it is.
func (w *writer) stops() error {
	for i, s := range w.req.Stop {
		if strings.TrimSpace(s) == "" {
			return fault.New(fault.Invalid, "stop[%d] is white space alone, at which this model cannot stop; use a sequence with other characters", i).At(fmt.Sprintf("stop[%d]", i))
		}
	}
	w.out.StopSequences = w.req.Stop
	return nil
}

// user passes the caller's user id on. One that is too long is dropped: a shortened one could be another's.
func (w *writer) user() {
	if len(w.req.User) > maxUser {
		w.call.Drop("user")
		return
	}
	w.out.Metadata.UserID = w.req.User
}

// tools lists the functions and says how free the model is to call them. The vendor refuses a conversation
// with tool calls in it unless tools are listed. If the request lists none, the functions that were called
// earlier are listed, and must not be called.
func (w *writer) tools() error {
	err := w.model.Tools(w.call, w.marks, &w.names, func(t claude.Tool) { w.out.Tools = append(w.out.Tools, t) })
	if err != nil {
		return err
	}
	if len(w.out.Tools) > 0 {
		w.out.ToolChoice, err = w.model.Choose(w.req)
		return err
	}
	for i := range w.req.Messages {
		for _, c := range w.req.Messages[i].ToolCalls {
			if name, ok := w.names.Add(c.Name); ok {
				w.out.Tools = append(w.out.Tools, claude.Tool{Name: name, InputSchema: claude.ObjectSchema(nil)})
				w.out.ToolChoice = &claude.ToolChoice{Type: "none"}
			}
		}
	}
	return nil
}

// think bounds the reply, and the thinking that counts against the same bound. Messages must be written.
// A call that must use a tool cannot think, so the choice of tools is written before.
func (w *writer) think() {
	bound := cmp.Or(w.call.Limit(), claude.DefaultMaxTokens)
	t := w.model.Think(w.call, bound, w.out.ToolChoice.Forced(), w.conversation.Unsigned(w.req))
	w.out.MaxTokens, w.out.Thinking, w.out.OutputConfig.Effort = t.Max, t.Thinking, t.Effort
	if w.conversation.Thoughts() > 0 {
		w.out.Thinking, w.bound = w.model.Bind(t.Thinking)
	}
}

// format holds the model to a strict schema. Other JSON is emulated.
func (w *writer) format() {
	if w.req.Format.Kind == chat.FormatText || w.emulatesJSON() {
		return
	}
	w.out.OutputConfig.Format = &outputFormat{Type: "json_schema", Schema: w.req.Format.Schema}
}
