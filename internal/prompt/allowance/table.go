// Package allowance is the table of what only the operator may decide, because the operator pays for it: fields, tools and
// features of a request that choose the model, the price, tools that the vendor runs, or objects that are stored at the
// vendor.
//
// A request never brings such a thing to an upstream unless the operator has listed its name under allow, of the provider or
// of the model (docs/providers/fields.md#what-callers-may-choose). The table says for each what happens otherwise: it is dropped and
// named in x-sluice-dropped, or the request is refused because it would mean something else without it.
//
// Here are only names. Package chat applies them to bodies, package config checks those of the operator.
package allowance

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// MaxCalls is how many calls of tools that the vendor runs one request may ask for. It is the bound of rounds with MCP servers.
const MaxCalls = 16

// Dialects is a set of dialects.
type Dialects uint8

const (
	Chat      Dialects = 1 << iota // chat completions
	Responses                      // OpenAI's Responses API
	Messages                       // Anthropic's Messages API

	all = Chat | Responses | Messages
)

// Entry is one thing that the operator may allow. Its names are those of the wire.
type Entry struct {
	Name string // in allow
	What string // for people, as in "is X"
	// Fields are members of the body. Those of chat completions that are tools count as tools for the plan.
	Fields []string
	// Tools are types of tools. A type may end with a version, as in web_search_20250305.
	Tools []string
	// IDs are members at any depth, most of them ids of objects stored at the vendor.
	IDs []string
	// Betas are the beginnings of values of the header anthropic-beta.
	Betas []string
	// Headers are other headers of Messages, as net/http spells them. What becomes of one is what becomes of a field.
	Headers []string
	// In are the dialects whose vendors have it. It is kept away from the others, too: upstreams differ in what they know.
	In Dialects
	// Refused are the dialects in which a request with it is refused; in the others it is dropped.
	Refused Dialects
	// Runs says that the vendor does something for the caller, as a tool does. It needs a plan with tools.
	Runs bool
	// Bounded says that the tool has a member max_uses in Messages.
	Bounded bool
	// Ours are the dialects in which the field is for this service, which does itself what it asks for.
	Ours Dialects
	// Never is why it cannot be allowed; empty: it can.
	Never string
}

// table has every entry once. A caller can spend the operator's money with anything that is missing here.
var table = []Entry{
	// Which model answers, and at whose price. Of OpenRouter (openrouter.ai/docs/api-reference/parameters).
	{Name: "models", What: "a list of models to try", Fields: []string{"models"}, In: Chat | Responses},
	{Name: "route", What: "a way to choose the model", Fields: []string{"route"}, In: Chat | Responses},
	{Name: "provider", What: "a choice of the provider", Fields: []string{"provider"}, In: Chat | Responses},
	{Name: "preset", What: "a stored set of parameters", Fields: []string{"preset"}, In: Chat | Responses},
	{Name: "transforms", What: "a change of the prompt", Fields: []string{"transforms"}, In: Chat | Responses},
	{Name: "plugins", What: "what the provider does for each request", Fields: []string{"plugins"}, In: Chat | Responses, Runs: true},
	{Name: "openrouter", What: "a tool that the provider runs", Tools: []string{"openrouter:"}, In: Responses, Runs: true},
	// together.ai runs this model, too, and OpenAI that of its member model.
	{Name: "safety_model", What: "a second model", Fields: []string{"safety_model"}, In: Chat},
	{Name: "moderation", What: "a second model", Fields: []string{"moderation"}, In: Chat | Responses},
	// Anthropic's (platform.claude.com/docs/en/build-with-claude/refusals-and-fallback): other models, and a credit for them.
	{Name: "fallbacks", What: "a list of models to try", Fields: []string{"fallbacks"}, Betas: []string{"server-side-fallback-"}, In: all},
	{Name: "fallback_credit_token", What: "a credit", Fields: []string{"fallback_credit_token"}, Betas: []string{"fallback-credit-"}, In: Messages},

	// The price of a token.
	{Name: "service_tier", What: "a price", Fields: []string{"service_tier"}, In: all},
	{Name: "speed", What: "a price", Fields: []string{"speed"}, Betas: []string{"fast-mode-"}, In: all},
	// Whoever asks for a place must not be answered from another one.
	{Name: "inference_geo", What: "a place, which has a price", Fields: []string{"inference_geo"}, Betas: []string{"inference-geo-"}, In: Messages, Refused: all},
	// What the vendor has granted to the operator (developers.openai.com/api/docs, access programs).
	{Name: "access_programs", What: "a right that the vendor has given to the operator", Fields: []string{"access_programs"}, In: Responses},
	// A prompt is written to the cache, at its price, and nothing is answered.
	{Name: "prewarm", What: "a cache that the vendor fills without an answer", IDs: []string{"prewarm"}, In: Responses, Refused: all},
	{Name: "context-1m", What: "a price for long prompts", Betas: []string{"context-1m-"}, In: Messages},
	{Name: "anthropic_beta", What: "features with prices", Fields: []string{"anthropic_beta", "betas"}, In: Messages},

	// Tools that the vendor runs. Callers of Responses offer some with every request and do without. Callers of Messages
	// name those that they need.
	{Name: "web_search", What: "a tool that the vendor runs", Tools: []string{"web_search"}, In: Responses | Messages, Refused: Messages, Runs: true, Bounded: true},
	{Name: "web_search_options", What: "a search by the vendor", Fields: []string{"web_search_options"}, In: Chat, Runs: true},
	{Name: "search_parameters", What: "a search by the vendor", Fields: []string{"search_parameters"}, In: Chat, Runs: true},
	{Name: "enable_search", What: "a search by the vendor", Fields: []string{"enable_search", "search_options"}, In: Chat, Runs: true},
	{Name: "web_fetch", What: "a tool that the vendor runs", Tools: []string{"web_fetch"}, Betas: []string{"web-fetch-"}, In: Responses | Messages, Refused: Messages, Runs: true, Bounded: true},
	{Name: "x_search", What: "a tool that the vendor runs", Tools: []string{"x_search"}, In: Responses, Runs: true},
	{Name: "browser_search", What: "a tool that the vendor runs", Tools: []string{"browser_search"}, In: Responses, Runs: true},
	{Name: "file_search", What: "a tool that the vendor runs", Tools: []string{"file_search", "collections_search"}, In: Responses, Refused: Messages, Runs: true},
	{Name: "code_interpreter", What: "a tool that the vendor runs", Tools: []string{"code_interpreter"}, In: Responses, Refused: Messages, Runs: true},
	{Name: "code_execution", What: "a tool that the vendor runs", Tools: []string{"code_execution"}, Betas: []string{"code-execution-"}, In: Responses | Messages, Refused: Messages, Runs: true},
	{Name: "image_generation", What: "a tool that the vendor runs", Tools: []string{"image_generation"}, In: Responses, Refused: Messages, Runs: true},
	{Name: "programmatic_tool_calling", What: "a tool that the vendor runs", Tools: []string{"programmatic_tool_calling"}, In: Responses, Runs: true},
	{Name: "advisor", What: "another model", Tools: []string{"advisor"}, Betas: []string{"advisor-tool-"}, In: Messages, Refused: Messages, Runs: true, Bounded: true},
	{
		Name: "mcp", What: "an MCP server that the vendor calls", Tools: []string{"mcp"}, Fields: []string{"mcp_servers"}, Betas: []string{"mcp-client-"}, In: all, Runs: true,
		Never: "the service itself calls the MCP servers of a request",
	},

	// Objects that are stored at the vendor under the operator's key, which is that of every caller.
	// Replies that are kept there can be listed and read by whoever has the key (platform.openai.com/docs/api-reference/chat/list).
	{Name: "store", What: "a reply that is stored at the vendor", Fields: []string{"store"}, In: Chat, Ours: Responses},
	{Name: "file_id", What: "a file that is stored at the vendor", IDs: []string{"file_id", "file_ids"}, Betas: []string{"files-api-"}, In: all, Refused: all},
	{Name: "vector_store_ids", What: "a store of documents at the vendor", Fields: []string{"vector_store_ids"}, IDs: []string{"vector_store_ids"}, In: all, Refused: all},
	{Name: "data_sources", What: "a store of documents at the vendor", Fields: []string{"data_sources", "dataSources"}, In: Chat, Refused: all},
	{Name: "container", What: "a machine at the vendor", Fields: []string{"container"}, IDs: []string{"container_id", "skill_id"}, Betas: []string{"skills-"}, In: all, Refused: all, Runs: true},
	// It only adds a report on the cache to the reply. No caller knows an id of the vendor.
	{Name: "comparison_response_id", What: "a response that is stored at the vendor", IDs: []string{"comparison_response_id"}, In: Responses},
	{Name: "cached_content", What: "a prompt that is stored at the vendor", Fields: []string{"cached_content"}, IDs: []string{"cached_content"}, In: Chat, Refused: all},
	{
		Name: "user_profile_id", What: "a profile that is stored at the vendor", Fields: []string{"user_profile_id"}, Betas: []string{"user-profiles-"},
		Headers: []string{"Anthropic-User-Profile-Id"}, In: Messages, Refused: all,
	},
	// Whose limits and whose bill it is. A key of the operator's may be good for several.
	{Name: "workspace_id", What: "a workspace at the vendor", Fields: []string{"workspace_id"}, Headers: []string{"Anthropic-Workspace-Id", "Anthropic-Organization-Id"}, In: Messages},
	// It names an earlier message by its id, which may be anybody's, and the reply tells in what the two prompts differ.
	{Name: "diagnostics", What: "a comparison with an earlier message", Fields: []string{"diagnostics"}, Betas: []string{"cache-diagnosis-", "cache-diagnostics-"}, In: Messages},
	{
		Name: "prompt", What: "a prompt that is stored at the vendor", Fields: []string{"prompt"}, In: Responses, Refused: Responses,
		Never: "a stored prompt brings a model and tools of its own",
	},
	{
		Name: "conversation", What: "a conversation that is stored at the vendor", Fields: []string{"conversation"}, In: Responses, Refused: Responses,
		Never: "conversations are stored here, and continued with previous_response_id",
	},
	{
		Name: "background", What: "work without a caller", Fields: []string{"background"}, In: Responses, Refused: Responses,
		Never: "a reply is made while its caller waits",
	},
}

// Entries returns the table. It must not be changed.
func Entries() []Entry { return table }

// named is an entry under one of its names on the wire.
type named struct {
	name  string
	entry *Entry
}

// The names by what they are names of. Requests are compared with them member by member.
var (
	fields = byName(index(func(e *Entry) []string { return e.Fields }))
	ids    = byName(index(func(e *Entry) []string { return e.IDs }))
	tools  = index(func(e *Entry) []string { return e.Tools })
	betas  = index(func(e *Entry) []string { return e.Betas })
	heads  = byName(index(func(e *Entry) []string { return e.Headers }))
)

func index(names func(*Entry) []string) (list []named) {
	for i := range table {
		for _, name := range names(&table[i]) {
			list = append(list, named{name, &table[i]})
		}
	}
	return list
}

// Field returns the entry of a member of a body, or nil. Some upstreams do not tell upper from lower case, so nor does it.
func Field(name string) *Entry { return lookup(fields, name) }

// ID returns the entry of a member that holds ids of stored objects, or nil.
func ID(name string) *Entry { return lookup(ids, name) }

// byName returns entries by their names in lower case.
func byName(list []named) map[string]*Entry {
	m := make(map[string]*Entry, len(list))
	for _, n := range list {
		m[strings.ToLower(n.name)] = n.entry
	}
	return m
}

// lookup finds nearly every name with one look into the map: only one with capitals, or beyond ASCII, is compared with all.
func lookup(names map[string]*Entry, name string) *Entry {
	odd := false
	for i := range len(name) {
		odd = odd || name[i]-'A' < 26 || name[i] >= utf8.RuneSelf
	}
	if !odd {
		return names[name]
	}
	for known, e := range names {
		if strings.EqualFold(known, name) {
			return e
		}
	}
	return nil
}

// Tool returns the entry of a type of tools, or nil: the caller runs it.
func Tool(kind string) *Entry {
	for i := range tools {
		name := tools[i].name
		if len(kind) < len(name) || !strings.EqualFold(kind[:len(name)], name) {
			continue
		}
		if rest := kind[len(name):]; rest == "" || rest[0] == '_' || strings.HasSuffix(name, ":") {
			return tools[i].entry
		}
	}
	return nil
}

// Beta returns the entry of a value of the header anthropic-beta, or nil.
func Beta(value string) *Entry {
	for i := range betas {
		if name := betas[i].name; len(value) >= len(name) && strings.EqualFold(value[:len(name)], name) {
			return betas[i].entry
		}
	}
	return nil
}

// Header returns the entry of a header of Messages other than anthropic-beta, or nil.
func Header(name string) *Entry { return lookup(heads, name) }

// Container returns the entry of machines at the vendor, which a tool of the caller may name, too.
func Container() *Entry { return Field("container") }

// All is the word that allows everything.
const All = "all"

// Check returns what is wrong with a name under allow; empty: nothing.
func Check(name string) string {
	if name == All {
		return ""
	}
	i := slices.IndexFunc(table, func(e Entry) bool { return e.Name == name })
	switch {
	case i < 0:
		return "is not a name that can be allowed; it must be all, or one of " + strings.Join(Names(), ", ")
	case table[i].Never != "":
		return "cannot be allowed: " + table[i].Never
	}
	return ""
}

// Names returns the names that may be allowed.
func Names() []string {
	var names []string
	for i := range table {
		if table[i].Never == "" {
			names = append(names, table[i].Name)
		}
	}
	return names
}

// Set is what an operator allows. A nil Set allows nothing.
type Set struct {
	all   bool
	names []string
}

// New returns the set of the names in all lists; nil if there are none.
func New(lists ...[]string) *Set {
	var s Set
	for _, list := range lists {
		s.names = append(s.names, list...)
	}
	if s.all = slices.Contains(s.names, All); len(s.names) == 0 {
		return nil
	}
	return &s
}

// Has reports whether an entry is allowed.
func (s *Set) Has(e *Entry) bool {
	return s != nil && e.Never == "" && (s.all || slices.Contains(s.names, e.Name))
}
