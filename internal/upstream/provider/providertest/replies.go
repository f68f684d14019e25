package providertest

import (
	"testing"

	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/provider"
)

// replyCase is a reply that ends well. Each is played streamed and whole, and both must give the same.
type replyCase struct {
	name    string // a row of the table in docs/providers/fields.md
	request string // further members of the request
	events  []provider.Event
	asked   Asked // what the upstream must be asked, without what every request asks
	// form replaces sameForm for adapters that compute, unless it is nil.
	form func(t *testing.T, got, want Reply)
}

// The functions below make events of choice 0.

func text(s string) provider.Event { return provider.Event{Kind: provider.Text, Text: s} }

func reasoning(s string) provider.Event { return provider.Event{Kind: provider.Reasoning, Text: s} }

func finish(f chat.Finish) provider.Event { return provider.Event{Kind: provider.Finish, Finish: f} }

func call(index int, id, name, arguments string) provider.Event {
	return provider.Event{Kind: provider.ToolCall, Tool: provider.ToolPiece{Index: index, ID: id, Name: name, Arguments: arguments}}
}

func figures(prompt, cached, completion, reasoning int) provider.Event {
	return provider.Event{Kind: provider.Usage, Usage: chat.Usage{Prompt: prompt, Cached: cached, Completion: completion, Reasoning: reasoning}}
}

// tools is the member tools of a request, with two functions.
const tools = `,"tools":[
	{"type":"function","function":{"name":"get_weather","description":"Weather of a city","parameters":{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}}},
	{"type":"function","function":{"name":"get_time","parameters":{"type":"object","properties":{}}}}]`

// toolNames are the names of the functions in tools.
var toolNames = []string{"get_weather", "get_time"}

// weather is a call in three pieces, and the end of the reply.
var weather = []provider.Event{
	call(0, "call_1", "get_weather", ""), call(0, "", "", `{"city":`), call(0, "", "", `"Paris"}`),
	finish(chat.FinishToolCalls), figures(9, 0, 5, 0),
}

// replies are the cases that end well. Their order is that of the rows in docs/providers/fields.md.
var replies = []replyCase{
	{name: "text", events: []provider.Event{text("Hel"), text("lo"), text(" world"), finish(chat.FinishStop), figures(9, 0, 3, 0)}},
	{name: "text beyond ASCII", events: []provider.Event{text("Größe: 5 < 6 & \"so\" \\ weiter"), text(" — 日本 👩‍🚀"), finish(chat.FinishStop), figures(9, 0, 20, 0)}},
	{
		name: "tool call in pieces", request: tools, asked: Asked{Tools: toolNames},
		events: weather,
	},
	{
		name: "several tool calls", request: tools, asked: Asked{Tools: toolNames},
		events: []provider.Event{
			call(0, "call_1", "get_weather", `{"city":"Paris"}`),
			call(1, "call_2", "get_weather", ""), call(1, "", "", `{"city":"Rome"}`),
			call(2, "call_3", "get_time", `{}`),
			finish(chat.FinishToolCalls), figures(9, 0, 25, 0),
		},
	},
	{
		name: "text before a tool call", request: tools, asked: Asked{Tools: toolNames},
		events: append([]provider.Event{text("Let me see.")}, weather...),
	},
	{
		name: "forced tool", request: tools + `,"tool_choice":{"type":"function","function":{"name":"get_weather"}}`,
		asked: Asked{Tools: toolNames, Choice: "get_weather"}, events: weather,
	},
	{
		name: "required tool", request: tools + `,"tool_choice":"required"`,
		asked: Asked{Tools: toolNames, Choice: "required"}, events: weather,
	},
	{
		name: "no tool", request: tools + `,"tool_choice":"none"`,
		asked:  Asked{Tools: toolNames, Choice: "none"},
		events: []provider.Event{text("No tools then."), finish(chat.FinishStop), figures(9, 0, 4, 0)},
	},
	{
		name: "JSON mode", request: `,"response_format":{"type":"json_object"}`, asked: Asked{JSON: true}, form: isJSON,
		events: []provider.Event{text(`{"answer":`), text(`42}`), finish(chat.FinishStop), figures(9, 0, 6, 0)},
	},
	{
		name: "reasoning", request: `,"reasoning_effort":"high"`, asked: Asked{Effort: "high"},
		events: []provider.Event{reasoning("First"), reasoning(" this."), text("Then that."), finish(chat.FinishStop), figures(9, 0, 3, 2)},
	},
	{
		name:   "usage with cached and reasoning parts",
		events: []provider.Event{text("Yes."), finish(chat.FinishStop), figures(100, 900, 20, 30)},
	},
	{name: "stop sequence", request: `,"stop":["END"]`, asked: Asked{Stop: []string{"END"}}, events: []provider.Event{text("Before."), finish(chat.FinishStop), figures(9, 0, 2, 0)}},
	{
		name: "max_tokens", request: `,"max_tokens":2`, asked: Asked{MaxTokens: 2},
		events: []provider.Event{text("one"), text(" two"), finish(chat.FinishLength), figures(9, 0, 2, 0)},
	},
	{name: "content filter", events: []provider.Event{text("Well,"), finish(chat.FinishContentFilter), figures(9, 0, 2, 0)}},
	{
		name: "no usage",
		// An adapter must not make up figures that the upstream does not give: the caller would pay for them.
		events: []provider.Event{text("Hello."), finish(chat.FinishStop)},
	},
}
