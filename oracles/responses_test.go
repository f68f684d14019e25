package oracles

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"
)

// question is a request of one text.
func question(model, text string) responses.ResponseNewParams {
	return responses.ResponseNewParams{Model: model, Input: responses.ResponseNewParamsInputUnion{OfString: openai.String(text)}}
}

// The official Go client creates, streams, calls tools and continues conversations.
func TestResponsesOfOpenAIGo(t *testing.T) {
	t.Parallel()
	g := startGateway(t, "")
	c := newClient(t, g, g.owner)
	ctx := soon(t)
	first, err := c.Responses.New(ctx, question(small, "Say hello."))
	if err != nil {
		t.Fatal(err)
	}
	if first.Status != responses.ResponseStatusCompleted || !strings.Contains(strings.ToLower(first.OutputText()), "hello") || first.Usage.TotalTokens == 0 {
		t.Errorf("response = %s", first.RawJSON())
	}
	found, err := c.Responses.Get(ctx, first.ID, responses.ResponseGetParams{})
	if err != nil || found.OutputText() != first.OutputText() {
		t.Errorf("Get = %v, %v", found, err)
	}
	next := question(small, "Say goodbye.")
	next.PreviousResponseID = openai.String(first.ID)
	second, err := c.Responses.New(ctx, next)
	if err != nil || second.Usage.InputTokens <= first.Usage.InputTokens {
		t.Errorf("second turn = %v, %v, want one with more input", second, err)
	}
	if err := c.Responses.Delete(ctx, first.ID); err != nil {
		t.Errorf("Delete = %v", err)
	}
	var refused *openai.Error
	if _, err := c.Responses.Get(ctx, first.ID, responses.ResponseGetParams{}); !errors.As(err, &refused) || refused.StatusCode != http.StatusNotFound {
		t.Errorf("Get after Delete = %v, want 404", err)
	}

	// Streams.
	stream := c.Responses.NewStreaming(ctx, question(small, "Say hello."))
	var text strings.Builder
	var last responses.ResponseStreamEventUnion
	for n := int64(0); stream.Next(); n++ {
		last = stream.Current()
		if last.SequenceNumber != n {
			t.Errorf("event %d has the number %d", n, last.SequenceNumber)
		}
		if last.Type == "response.output_text.delta" {
			text.WriteString(last.Delta)
		}
	}
	if stream.Err() != nil || last.Type != "response.completed" || last.Response.OutputText() != text.String() || text.Len() == 0 {
		t.Errorf("stream ends with %s after %q, %v", last.Type, text.String(), stream.Err())
	}

	// Tools over two turns.
	tools := []responses.ToolUnionParam{responses.ToolParamOfFunction("get_weather", map[string]any{
		"type": "object", "properties": map[string]any{"city": map[string]any{"type": "string"}}, "required": []string{"city"},
	}, false)}
	weather := question(small, "What is the weather in Rome? Use get_weather.")
	weather.Tools = tools
	called, err := c.Responses.New(ctx, weather)
	if err != nil {
		t.Fatal(err)
	}
	var results responses.ResponseInputParam
	for _, item := range called.Output {
		if item.Type == "function_call" {
			result := responses.ResponseInputItemParamOfFunctionCallOutput("sunny")
			result.OfFunctionCallOutput.CallID = openai.String(item.CallID)
			results = append(results, result)
		}
	}
	if len(results) == 0 {
		t.Fatalf("output = %s, want a call", called.RawJSON())
	}
	answer, err := c.Responses.New(ctx, responses.ResponseNewParams{
		Model: small, Tools: tools, PreviousResponseID: openai.String(called.ID), Input: responses.ResponseNewParamsInputUnion{OfInputItemList: results},
	})
	if err != nil || answer.OutputText() == "" {
		t.Errorf("answer = %v, %v", answer, err)
	}
}

// The official Go client finds the names of tools in namespaces, every count of the usage, and how long an input is.
func TestResponsesNamespacesOfOpenAIGo(t *testing.T) {
	t.Parallel()
	g := startGateway(t, "")
	c := newClient(t, g, g.owner)
	ctx := soon(t)
	schema := map[string]any{"type": "object", "properties": map[string]any{"city": map[string]any{"type": "string"}}, "required": []string{"city"}}
	weather := question(small, "What is the weather in Rome? Use city__get_weather.")
	weather.Tools = []responses.ToolUnionParam{responses.ToolParamOfNamespace("About cities.", "city", []responses.NamespaceToolToolUnionParam{
		{OfFunction: &responses.NamespaceToolToolFunctionParam{Name: "get_weather", Parameters: schema}},
	})}
	called, err := c.Responses.New(ctx, weather)
	if err != nil {
		t.Fatal(err)
	}
	var results responses.ResponseInputParam
	for _, item := range called.Output {
		if item.Type == "function_call" && item.Name == "get_weather" && item.Namespace == "city" {
			result := responses.ResponseInputItemParamOfFunctionCallOutput("sunny")
			result.OfFunctionCallOutput.CallID = openai.String(item.CallID)
			results = append(results, result)
		}
	}
	if len(results) == 0 {
		t.Fatalf("output = %s, want a call", called.RawJSON())
	}
	if u := called.Usage; !u.InputTokensDetails.JSON.CacheWriteTokens.Valid() || !u.InputTokensDetails.JSON.CachedTokens.Valid() || !u.OutputTokensDetails.JSON.ReasoningTokens.Valid() {
		t.Errorf("usage = %s", u.RawJSON())
	}
	answer, err := c.Responses.New(ctx, responses.ResponseNewParams{
		Model: small, Tools: weather.Tools, PreviousResponseID: openai.String(called.ID), Input: responses.ResponseNewParamsInputUnion{OfInputItemList: results},
	})
	if err != nil || answer.OutputText() == "" {
		t.Errorf("answer = %v, %v", answer, err)
	}
	count, err := c.Responses.InputTokens.Count(ctx, responses.InputTokenCountParams{
		Model: openai.String(small), Input: responses.InputTokenCountParamsInputUnion{OfString: openai.String("What is the weather in Rome? Use city__get_weather.")}, Tools: weather.Tools,
	})
	if err != nil || count.InputTokens < 20 || string(count.Object) != "response.input_tokens" { // the tools count, too
		t.Errorf("Count = %v, %v", count, err)
	}
}
