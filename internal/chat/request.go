package chat

import "iter"

// Request is one validated chat completion request (docs/api.md#chat-completion-request).
//
// The caller's bytes stay as they came: an OpenAI-compatible upstream gets them with only what must
// change patched in place. What is decoded here is what we decide by; texts are unescaped only when
// somebody asks for them.
type Request struct {
	Model    string
	Messages []Message

	Stream       bool
	IncludeUsage bool // stream_options.include_usage, only where Stream

	MaxTokens        int // the smaller of max_tokens and max_completion_tokens; 0: neither is given
	N                int // 1 where not given
	Temperature      *float64
	TopP             *float64
	FrequencyPenalty *float64
	PresencePenalty  *float64
	Seed             *int64
	Stop             []string

	Tools             []Tool
	ToolChoice        ToolChoice
	ParallelToolCalls *bool
	Format            Format
	ReasoningEffort   Effort
	User              string
	WebSearch         bool // web_search_options is given

	raw        []byte
	members    []member // of the body, in its order
	emptyStops bool     // stop holds empty strings, which Stop does not
	foreign    Foreign
	usage      span   // the value of stream_options.include_usage; empty where not given
	developers []span // roles written as "developer"
	size       size
	numbers    [4]float64 // what the four *float64 above point to: one allocation for all
	seed       int64
	parallel   bool
}

// Raw is the body as the caller sent it. It must not be changed.
func (r *Request) Raw() []byte { return r.raw }

// Member is the caller's JSON of one top-level member, nil where there is none.
func (r *Request) Member(name string) []byte {
	for _, m := range r.members {
		if keyIs(r.raw[m.from:m.keyTo], name) {
			return r.raw[m.value:m.to]
		}
	}
	return nil
}

// Unread yields the top-level members that Parse gave no meaning to, by name, with their JSON. They are
// for upstreams of the same dialect.
func (r *Request) Unread() iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		for _, m := range r.members {
			if m.field == fieldUnread && !yield(Unquote(r.raw[m.from:m.keyTo]), r.raw[m.value:m.to]) {
				return
			}
		}
	}
}

// Foreign is something in a request that only some providers know: a part that is a file, sound or a
// refusal, a custom tool, or a choice among some of the tools.
type Foreign struct {
	Path string // empty: there is none
	What string // in words
}

// Foreign is the first such thing in the request.
func (r *Request) Foreign() Foreign { return r.foreign }

// span is a stretch of the body.
type span struct{ from, to int }

// member is one top-level member of the body: key, colon, value.
type member struct {
	from      int32 // the key's opening quote
	keyTo     int32 // behind the key's closing quote
	value, to int32 // the value
	field     field
}

// field marks the members that patching looks for, and those that Parse only reads past.
type field uint8

const (
	fieldOther field = iota
	fieldUnread
	fieldModel
	fieldMessages
	fieldStreamOptions
	fieldStop
)

// Effort is reasoning_effort; empty where not given.
type Effort string

const (
	EffortNone    Effort = "none"
	EffortMinimal Effort = "minimal"
	EffortLow     Effort = "low"
	EffortMedium  Effort = "medium"
	EffortHigh    Effort = "high"
)

// ChoiceMode says how free the model is to call tools.
type ChoiceMode uint8

const (
	ChoiceAuto ChoiceMode = iota
	ChoiceNone
	ChoiceRequired
	ChoiceNamed   // exactly the tool ToolChoice.Name
	ChoiceAllowed // some of the tools: for the providers that know it, see Request.Foreign
)

// ToolChoice is tool_choice; the zero value is auto.
type ToolChoice struct {
	Mode ChoiceMode
	Name string
}

// FormatKind is response_format.type.
type FormatKind uint8

const (
	FormatText FormatKind = iota
	FormatJSONObject
	FormatJSONSchema
)

// Format is response_format; the zero value is text.
type Format struct {
	Kind       FormatKind
	SchemaName string
	Schema     []byte // raw JSON of json_schema.schema; nil where not given
	Strict     bool
}

// Tool is one entry of tools: a function, a remote MCP server, or a custom tool.
type Tool struct {
	Function *Function
	MCP      *MCP
	Custom   string // the name of a custom tool, which takes free text; only some providers know them

	raw []byte
}

// Raw is the caller's JSON of the entry; nil for a tool that did not come from a caller.
func (t Tool) Raw() []byte { return t.raw }

// Function is a tool that the caller runs.
type Function struct {
	Name        string
	Description string
	Parameters  []byte // raw JSON schema; nil where not given
	Strict      bool
}

// MCP is a tool server that we call on the caller's behalf.
type MCP struct {
	ServerURL       string
	ServerLabel     string
	AllowedTools    []string // nil: all; empty: none
	RequireApproval string   // "never" (also where absent) or "always"
	Headers         map[string]string
}
