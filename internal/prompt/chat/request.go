package chat

import (
	"encoding/json"
	"iter"
	"slices"

	"sluice/internal/kit/jsonscan"
)

// Request is one validated chat completion request (docs/api.md#chat-completion-request).
//
// It keeps the caller's bytes: an OpenAI-compatible upstream gets them with only the necessary changes;
// see Patch. The fields are what our own decisions need. Texts are unescaped only on demand. A Request
// is not changed after Parse, so several goroutines may read it.
type Request struct {
	Model    string
	Messages []Message

	Stream       bool
	IncludeUsage bool // stream_options.include_usage; always false without Stream
	Resumable    bool // stream_options.resumable, which upstreams do not get; always false without Stream
	TellCost     bool // usage.include: the usage of the reply says what it costs. Upstreams do not get it
	// MaxCost is max_cost, the most that the call may cost in dollars, as the caller wrote the number; empty: it is not given.
	// Clamp is budget.clamp: a shorter reply is better than none. Upstreams get neither.
	MaxCost string
	Clamp   bool
	// AutoCache is auto_cache: whether this service may mark what the vendor is to keep of the prompt. Upstreams do not get
	// it.
	AutoCache Switch

	MaxTokens int // the smaller of max_tokens and max_completion_tokens; 0: neither is given
	N         int // how many replies; 1 if not given

	// Pointers are nil if the field is null or absent: the upstream's own default then holds, and zero
	// is a value of its own. They point into the Request itself.
	Temperature      *float64
	TopP             *float64
	FrequencyPenalty *float64
	PresencePenalty  *float64
	Seed             *int64   // nil also for a seed that is no integer
	Stop             []string // without empty strings; nil if none is left

	Tools             []Tool
	ToolChoice        ToolChoice
	ParallelToolCalls *bool
	Format            Format
	ReasoningEffort   Effort
	// User and Runs are read for our own decisions; upstreams of the same dialect get the caller's
	// members.
	User string // the caller's own id of the end user; empty if not given
	Runs bool   // a field asks the vendor to do what a tool does, such as web_search_options
	// Reserved says that something in the request is for the operator to allow: a field, or a file that is stored at the
	// vendor. Which upstream gets it is decided later; see package allowance.
	Reserved bool

	// Original is what the caller sent, if the request came through the door of another dialect; nil otherwise. The
	// door sets it.
	Original *Original

	// What Parse has learned about the body. All offsets are into raw.
	raw        []byte   // the caller's body; of another dialect, what a Builder wrote; nil if neither made the Request
	members    []member // the top-level members of raw, in order
	foreign    Foreign  // the first of any kind
	unreadable Foreign  // the first that is no file or sound of a user, and no refusal
	unvetted   string   // see Unvetted
	edits      []edit   // what patching changes in messages, in the order of the body
	size       size
	numbers    [4]float64 // what the four *float64 above point to: no allocation for each
	seedValue  int64      // what Seed points to

	resumes    bool    // stream_options has a member resumable
	marked     bool    // see Marked
	order      []uint8 // of Tools by name; nil: they are in it, or must stay as they are
	built      bool    // a Builder made it: the value of messages in raw is to be written
	noTools    bool    // tools is an empty list
	emptyStops bool    // the body's stop has empty strings; Stop has none
	parallel   bool    // what ParallelToolCalls points to
}

// Member returns the caller's JSON of one top-level member, which must not be changed, or nil if it is
// absent. A member that is null returns "null".
func (r *Request) Member(name string) []byte {
	for _, m := range r.members {
		if jsonscan.Equal(r.raw[m.from:m.keyTo], name) {
			return r.raw[m.value:m.to]
		}
	}
	return nil
}

// Unread yields the names and the JSON of the top-level members that Parse does not know, in the order
// of the body. They are for upstreams of the same dialect; other adapters report them as dropped
// (docs/api.md#chat-completion-request).
func (r *Request) Unread() iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		for _, m := range r.members {
			if m.field == fieldUnread && !yield(jsonscan.Unquote(r.raw[m.from:m.keyTo]), r.raw[m.value:m.to]) {
				return
			}
		}
	}
}

// Foreign is something in a request that only some providers support: a part that is a file, sound or
// a refusal, a custom tool or a call of one, or a choice among some of the tools. Requests for other
// models are refused with it (docs/api.md#chat-completion-request).
type Foreign struct {
	Path string // empty: there is none
	What string // in words
	// Code is a word by which clients recognize the refusal, and know what to do; empty: there is none.
	Code string
}

// Details returns the object that tells programs the code; nil if there is none.
func (f Foreign) Details() json.RawMessage {
	if f.Code == "" {
		return nil
	}
	return append(jsonscan.AppendQuoted([]byte(`{"error_code":`), f.Code), '}')
}

// Foreign returns the first such value in the request; the zero value if there is none. What Original needs counts, too.
func (r *Request) Foreign() Foreign {
	if r.Original != nil && r.Original.Needs.Path != "" {
		return r.Original.Needs
	}
	return r.foreign
}

// ForeignBesideFiles is Foreign for a provider that reads files and sounds of users, and refusals as texts.
func (r *Request) ForeignBesideFiles() Foreign {
	if r.Original != nil && r.Original.Needs.Path != "" {
		return r.Original.Needs
	}
	return r.unreadable
}

// Unvetted returns the path of the first thing in a content part from which an upstream might take an address to fetch,
// and which nobody has looked at: a member that the type of the part does not have, a file by its id or address, or content
// that is no data. It is empty for nearly every request. Images by their address are not in it; see Part.IsRemote.
func (r *Request) Unvetted() string { return r.unvetted }

// UsesTools reports whether the request has tools, of whatever kind and whoever runs them. Plans without tools refuse it.
func (r *Request) UsesTools() bool { return r.Runs || r.OffersTools() }

// OffersTools reports whether the model may call tools. Models without tools refuse it.
func (r *Request) OffersTools() bool {
	return len(r.Tools) > 0 || r.Original != nil && r.Original.Tools
}

// span is a part of the body: raw[from:to].
type span struct{ from, to int }

// edit is a part of the messages that a Patch changes: a role that is written as "developer", an empty tool_calls, with
// the comma that is not needed without it, or a mark.
type edit struct {
	span
	with []byte // what is written instead
	role bool   // it is a role, which some upstreams know
}

// member is one top-level member of the body: key, colon, value. All offsets are into Request.raw.
type member struct {
	from      int32 // the key's opening quote
	keyTo     int32 // after the key's closing quote
	value, to int32 // raw[value:to] is the value
	field     field
}

// field marks the members that patching looks for, and those that Parse skips.
type field uint8

const (
	// The members that a Patch changes have a field each. Looking them up by name again would cost a
	// comparison with every member of every body.
	fieldOther  field = iota // Parse has read it into the Request
	fieldUnread              // Parse does not know it
	fieldModel
	fieldMessages
	fieldStreamOptions
	fieldStop
	fieldTools // also tool_choice and parallel_tool_calls, which mean nothing without
	fieldOurs  // usage, max_cost and budget, which are for this service
)

// Effort is reasoning_effort; empty if not given.
type Effort string

const (
	// The efforts, in rising order. Adapters translate them into what their vendor has: a budget of
	// tokens, a level, or nothing.
	EffortNone    Effort = "none"
	EffortMinimal Effort = "minimal"
	EffortLow     Effort = "low"
	EffortMedium  Effort = "medium"
	EffortHigh    Effort = "high"
	EffortXHigh   Effort = "xhigh"
	EffortMax     Effort = "max"
)

// efforts has all of them in rising order, effortWords as text.
var (
	efforts     = []Effort{EffortNone, EffortMinimal, EffortLow, EffortMedium, EffortHigh, EffortXHigh, EffortMax}
	effortWords = []string{"none", "minimal", "low", "medium", "high", "xhigh", "max"}
)

// IsKnown reports whether e is one of the efforts.
func (e Effort) IsKnown() bool { return slices.Contains(efforts, e) }

// Compare orders efforts from none to max.
func (e Effort) Compare(other Effort) int {
	return slices.Index(efforts, e) - slices.Index(efforts, other)
}

// effortPlaces says how far efforts are from each other. Minimal is nearer to low than to none, and medium nearer to high
// than to low.
var effortPlaces = []int{0, 6, 8, 13, 16, 20, 24}

// Nearest returns the effort of a list that is nearest to e, the lower one of two. Without a list it returns e.
func (e Effort) Nearest(list []Effort) Effort {
	if len(list) == 0 || slices.Contains(list, e) || !e.IsKnown() {
		return e
	}
	place := func(of Effort) int { return effortPlaces[slices.Index(efforts, of)] }
	return slices.MinFunc(list, func(a, b Effort) int { // the list is in rising order, and the first of equals counts
		return max(place(a)-place(e), place(e)-place(a)) - max(place(b)-place(e), place(e)-place(b))
	})
}

// ChoiceMode says whether the model may, must or must not call tools. The zero value is ChoiceAuto.
type ChoiceMode uint8

const (
	// The modes of tool_choice (docs/api.md#tool-calling). ChoiceAuto is the default: the model decides.
	ChoiceAuto ChoiceMode = iota
	ChoiceNone
	ChoiceRequired
	ChoiceNamed   // exactly the tool ToolChoice.Name
	ChoiceAllowed // some of the tools; only some providers support it, see Request.Foreign
)

// ToolChoice is tool_choice; the zero value is auto. Parse has checked that Name is a tool of the
// request, unless the request has MCP servers: their tools are listed later.
type ToolChoice struct {
	Mode ChoiceMode
	Name string // empty unless Mode is ChoiceNamed
}

// FormatKind is response_format.type.
type FormatKind uint8

const (
	// FormatJSONObject asks for any JSON object, FormatJSONSchema for one that fits a schema.
	FormatText FormatKind = iota
	FormatJSONObject
	FormatJSONSchema
)

// Format is response_format; the zero value is text. The other fields are for FormatJSONSchema only.
type Format struct {
	Kind       FormatKind
	SchemaName string
	Schema     []byte // raw JSON of json_schema.schema; nil if not given
	Strict     bool
}

// Tool is one entry of tools: a function, a remote MCP server, or a custom tool. Exactly one of
// Function, MCP and Custom is set.
type Tool struct {
	Function *Function
	MCP      *MCP
	Custom   string // the name of a custom tool, which takes free text; only some providers support them

	raw          []byte
	mark         *Cache // of a tool that is built; nil: none
	sub, problem string // what is wrong with an MCP server of another door, and where
}

// Raw returns the caller's JSON of the entry, which must not be changed; nil if we made the tool.
func (t Tool) Raw() []byte { return t.raw }

// Function is a tool that the caller runs. Its name is unique among the functions and custom tools of
// the request.
type Function struct {
	Name        string
	Description string
	Parameters  []byte // raw JSON schema, an object; nil if not given
	Strict      bool
}

// MCP is a tool server that we call on the caller's behalf (docs/api.md#mcp-tools). ServerURL and the
// values of Headers may hold secrets, so messages do not repeat them. Headers go to this server only.
type MCP struct {
	ServerURL     string
	ServerLabel   string
	Allowed       *ToolFilter // nil: all
	Always, Never *ToolFilter // which calls need an approval; see NeedsApproval
	Headers       map[string]string
}

// ToolFilter chooses some tools of an MCP server. Its zero value chooses all.
type ToolFilter struct {
	Names    []string // nil: any; empty: none
	ReadOnly *bool    // nil: any; otherwise whether the server says that the tool changes nothing
}

// Has reports whether the filter chooses a tool.
func (f *ToolFilter) Has(name string, readOnly bool) bool {
	return (f.Names == nil || slices.Contains(f.Names, name)) && (f.ReadOnly == nil || *f.ReadOnly == readOnly)
}

// NeedsApproval reports whether the caller must approve calls of a tool. What both lists have needs it, and so does
// what a list of exceptions leaves out.
func (m *MCP) NeedsApproval(name string, readOnly bool) bool {
	if m.Always != nil && m.Always.Has(name, readOnly) {
		return true
	}
	return m.Never != nil && !m.Never.Has(name, readOnly)
}
