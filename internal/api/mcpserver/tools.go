package mcpserver

import (
	"embed"
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// instructions tell a model how to use the tools. The client puts them into its prompt.
const instructions = "Language models of many providers behind one service. list_models lists them; chat_completion sends a request to one, " +
	"or lets the router choose; model_analytics reports how your account's calls went and which models are available."

//go:embed schemas
var schemas embed.FS

// schema returns an embedded JSON schema.
func schema(name string) json.RawMessage {
	text, err := schemas.ReadFile("schemas/" + name + ".json")
	if err != nil {
		panic(err) // a programming error: there is no schema of that name
	}
	return text
}

// The tools, in the form that clients list them. Descriptions are written for models. OpenWorldHint
// says whether a tool reaches systems outside this service.
var (
	yes, no = true, false // the hints are pointers

	chatCompletion = &mcp.Tool{
		Name: "chat_completion", Title: "Chat completion",
		Description: "Ask a language model. The arguments are those of POST /v1/chat/completions; fields beyond those listed are accepted, too. " +
			"The reply is returned as a whole; a client that asks for progress receives the text as it is written.",
		InputSchema: schema("chat_completion"), OutputSchema: schema("completion"),
		// A completion is made by outside providers and may call remote tools.
		Annotations: &mcp.ToolAnnotations{DestructiveHint: &no, OpenWorldHint: &yes},
	}
	listModels = &mcp.Tool{
		Name: "list_models", Title: "List models",
		Description: "Lists the available models, with the plan that each one needs, how many requests a call counts as, its context window and whether it can call tools.",
		InputSchema: schema("list_models"), OutputSchema: schema("models"),
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true, IdempotentHint: true, DestructiveHint: &no, OpenWorldHint: &no},
	}
	modelAnalytics = &mcp.Tool{
		Name: "model_analytics", Title: "Model analytics",
		Description: "How your account's calls went, for each model: requests, tokens, error rate, latency and availability over a window of time; " +
			"and which models of the service are available now.",
		InputSchema: schema("model_analytics"), OutputSchema: schema("analytics"),
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true, IdempotentHint: true, DestructiveHint: &no, OpenWorldHint: &no},
	}
)
