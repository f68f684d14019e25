package oracles

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/shared"
	"google.golang.org/genai"
)

// geminiModel is what the gateway calls the model, geminiUpstream what Google does.
const (
	geminiModel    = "google/flash"
	geminiUpstream = "gemini-3-flash-preview"
)

// geminiRequest is the body of generateContent in the types of Google's SDK, which has none for the
// whole of it.
type geminiRequest struct {
	Contents          []*genai.Content        `json:"contents"`
	SystemInstruction *genai.Content          `json:"systemInstruction"`
	Tools             []*genai.Tool           `json:"tools"`
	ToolConfig        *genai.ToolConfig       `json:"toolConfig"`
	GenerationConfig  *genai.GenerationConfig `json:"generationConfig"`
}

// readGemini decodes a body, and refuses what Google's types do not know or what they require and
// is missing.
func readGemini(body []byte) (*geminiRequest, error) {
	var r geminiRequest
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		return nil, err
	}
	if len(r.Contents) == 0 {
		return nil, errors.New("contents are required")
	}
	for i, c := range r.Contents {
		if c.Role != genai.RoleUser && c.Role != genai.RoleModel || len(c.Parts) == 0 {
			return nil, fmt.Errorf("contents[%d] has the role %q and %d parts", i, c.Role, len(c.Parts))
		}
		for j, p := range c.Parts {
			if err := checkGeminiPart(p); err != nil {
				return nil, fmt.Errorf("contents[%d].parts[%d]: %w", i, j, err)
			}
		}
	}
	for _, t := range r.Tools {
		for _, f := range t.FunctionDeclarations {
			if f.Name == "" || f.Parameters != nil && f.ParametersJsonSchema != nil {
				return nil, fmt.Errorf("the declaration %+v has no name, or two schemas", f)
			}
		}
	}
	return &r, nil
}

func checkGeminiPart(p *genai.Part) error {
	set := 0
	for _, there := range []bool{p.Text != "", p.InlineData != nil, p.FileData != nil, p.FunctionCall != nil, p.FunctionResponse != nil} {
		if there {
			set++
		}
	}
	switch {
	case set != 1:
		return fmt.Errorf("it is %d things at once, want 1", set)
	case p.InlineData != nil && (p.InlineData.MIMEType == "" || len(p.InlineData.Data) == 0):
		return errors.New("inlineData lacks its type or data")
	case p.FileData != nil && (p.FileData.MIMEType == "" || p.FileData.FileURI == ""):
		return errors.New("fileData lacks its type or address")
	case p.FunctionCall != nil && p.FunctionCall.Name == "":
		return errors.New("a call lacks its name")
	case p.FunctionResponse != nil && (p.FunctionResponse.Name == "" || p.FunctionResponse.Response == nil):
		return errors.New("a result lacks its name or response")
	}
	return nil
}

// geminiUp is a fake Gemini API: it notes what it is asked, and answers with what the SDK's types write.
type geminiUp struct {
	url string

	mu      sync.Mutex
	asked   []*geminiRequest
	problem error
	replies func(r *geminiRequest) []*genai.GenerateContentResponse
}

func startGemini(t *testing.T, replies func(*geminiRequest) []*genai.GenerateContentResponse) (*gateway, *geminiUp) {
	t.Helper()
	up := &geminiUp{replies: replies}
	server := httptest.NewServer(up)
	t.Cleanup(server.Close)
	up.url = server.URL
	return startGateway(t, fmt.Sprintf(`providers:
  - {name: google, kind: gemini, base_url: "%s/v1beta", api_key: "%s", allow_image_urls: true}
models:
  - {id: %s, provider: google, upstream: %s, plan: basic, context_length: 1000000, max_output: 65536, tool_calling: true, reasoning: true}
`, up.url, upstreamKey, geminiModel, geminiUpstream)), up
}

func (u *geminiUp) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	req, err := readGemini(body)
	stream := strings.HasSuffix(r.URL.Path, ":streamGenerateContent") && r.URL.RawQuery == "alt=sse"
	if err == nil && (r.Header.Get("X-Goog-Api-Key") != upstreamKey || !strings.HasPrefix(r.URL.Path, "/v1beta/models/"+geminiUpstream+":")) {
		err = fmt.Errorf("asked at %s with %q", r.URL, r.Header.Get("X-Goog-Api-Key"))
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if err != nil {
		u.problem = fmt.Errorf("%w in %s", err, body)
		http.Error(w, `{"error":{"code":400,"status":"INVALID_ARGUMENT","message":"a body that the SDK does not know"}}`, http.StatusBadRequest)
		return
	}
	u.asked = append(u.asked, req)
	chunks := u.replies(req)
	if !stream {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(joined(chunks))
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for _, c := range chunks {
		raw, err := json.Marshal(c)
		if err != nil {
			panic(err) // the SDK's own types encode
		}
		fmt.Fprintf(w, "data: %s\r\n\r\n", raw)
	}
}

// joined is a stream's chunks as one reply.
func joined(chunks []*genai.GenerateContentResponse) *genai.GenerateContentResponse {
	last := *chunks[len(chunks)-1]
	all := &genai.Content{Role: genai.RoleModel}
	for _, c := range chunks {
		all.Parts = append(all.Parts, c.Candidates[0].Content.Parts...)
	}
	whole := *last.Candidates[0]
	whole.Content = all
	last.Candidates = []*genai.Candidate{&whole}
	return &last
}

// ask is the request that came n-th, and fails the test where one was not understood.
func (u *geminiUp) ask(t *testing.T, n int) *geminiRequest {
	t.Helper()
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.problem != nil {
		t.Fatalf("the upstream does not understand: %v", u.problem)
	}
	if len(u.asked) <= n {
		t.Fatalf("the upstream was asked %d times, want at least %d", len(u.asked), n+1)
	}
	return u.asked[n]
}

func geminiChunk(finish genai.FinishReason, parts ...*genai.Part) *genai.GenerateContentResponse {
	c := &genai.GenerateContentResponse{
		Candidates:   []*genai.Candidate{{Content: &genai.Content{Role: genai.RoleModel, Parts: parts}, FinishReason: finish}},
		ModelVersion: geminiUpstream, ResponseID: "r1",
		UsageMetadata: &genai.GenerateContentResponseUsageMetadata{PromptTokenCount: 40, CachedContentTokenCount: 8, CandidatesTokenCount: 12, ThoughtsTokenCount: 30, TotalTokenCount: 82},
	}
	return c
}

var geminiSignature = []byte("an opaque signature \x00\xff")

// geminiTurns calls two functions at once, the first of them signed, and answers when their results are there.
func geminiTurns(r *geminiRequest) []*genai.GenerateContentResponse {
	for _, c := range r.Contents {
		for _, p := range c.Parts {
			if p.FunctionResponse != nil {
				return []*genai.GenerateContentResponse{geminiChunk("", &genai.Part{Text: "18 and "}), geminiChunk(genai.FinishReasonStop, &genai.Part{Text: "09:41."})}
			}
		}
	}
	return []*genai.GenerateContentResponse{
		geminiChunk("", &genai.Part{Text: "Both are needed.", Thought: true}),
		geminiChunk("", &genai.Part{FunctionCall: &genai.FunctionCall{Name: "get_weather", Args: map[string]any{"city": "Paris"}}, ThoughtSignature: geminiSignature}),
		geminiChunk(genai.FinishReasonStop, &genai.Part{FunctionCall: &genai.FunctionCall{Name: "get_time", Args: map[string]any{"city": "Tokyo"}}}),
	}
}

// TestGeminiRoundTrip has openai-go, which sends standard fields alone, do two turns with parallel
// calls and thinking on. The signature must be back on the call that it came with.
func TestGeminiRoundTrip(t *testing.T) {
	t.Parallel()
	for _, streaming := range []bool{false, true} {
		t.Run(fmt.Sprintf("streamed %t", streaming), func(t *testing.T) {
			t.Parallel()
			g, up := startGemini(t, geminiTurns)
			c := newClient(t, g, g.owner)
			p := withTools(params(geminiModel, "Weather in Paris, time in Tokyo?"))
			p.ReasoningEffort = shared.ReasoningEffortHigh
			turn := func() openai.ChatCompletionMessage {
				t.Helper()
				if streaming {
					s := follow(t, c, p)
					if s.err != nil || len(s.Choices) != 1 {
						t.Fatalf("NewStreaming = %+v, %v", s.ChatCompletion, s.err)
					}
					return s.Choices[0].Message
				}
				reply, err := c.Chat.Completions.New(soon(t), p)
				if err != nil {
					t.Fatalf("New = %v", err)
				}
				if u := reply.Usage; u.PromptTokens != 40 || u.CompletionTokens != 42 || u.TotalTokens != 82 || u.CompletionTokensDetails.ReasoningTokens != 30 {
					t.Errorf("usage = %s, want 40, 42 and 82", u.RawJSON())
				}
				return reply.Choices[0].Message
			}
			message := turn()
			if got, want := told(message.ToolCalls), "get_weather {\"city\":\"Paris\"}\nget_time {\"city\":\"Tokyo\"}"; got != want {
				t.Fatalf("the first turn = %q, want %q", got, want)
			}
			first := up.ask(t, 0)
			if think := first.GenerationConfig.ThinkingConfig; think == nil || think.ThinkingLevel != genai.ThinkingLevelHigh || !think.IncludeThoughts {
				t.Errorf("the first turn thinks %+v, want high, and shown", think)
			}
			p.Messages = append(p.Messages, message.ToParam())
			for i := len(message.ToolCalls) - 1; i >= 0; i-- { // results may come in any order
				call := message.ToolCalls[i]
				p.Messages = append(p.Messages, openai.ToolMessage(`{"result":"`+call.Function.Name+`"}`, call.ID))
			}
			if final := turn(); final.Content != "18 and 09:41." {
				t.Errorf("the second turn = %q, want the answer", final.Content)
			}
			checkGeminiSecond(t, up.ask(t, 1))
		})
	}
}

// checkGeminiSecond holds the second request against the reply to the first.
func checkGeminiSecond(t *testing.T, r *geminiRequest) {
	t.Helper()
	if len(r.Contents) != 3 {
		t.Fatalf("the second request has %d turns, want the user's, the model's and the results", len(r.Contents))
	}
	calls, results := r.Contents[1], r.Contents[2]
	if calls.Role != genai.RoleModel || len(calls.Parts) != 2 || results.Role != genai.RoleUser || len(results.Parts) != 2 {
		t.Fatalf("the second request has calls %+v and results %+v, want two each", calls, results)
	}
	weather, local := calls.Parts[0], calls.Parts[1]
	if weather.FunctionCall.Name != "get_weather" || !bytes.Equal(weather.ThoughtSignature, geminiSignature) || local.ThoughtSignature != nil {
		t.Errorf("the calls came back as %+v %q and %+v %q, want the signature on the first alone", weather.FunctionCall, weather.ThoughtSignature, local.FunctionCall, local.ThoughtSignature)
	}
	for _, p := range results.Parts {
		f := p.FunctionResponse
		if f.Response["result"] != f.Name || f.ID != weather.FunctionCall.ID && f.ID != local.FunctionCall.ID {
			t.Errorf("a result is %+v, want its function's name and its call's id", f)
		}
	}
}

// TestGeminiRequests sends requests of every kind that the dialect has words for; the upstream refuses
// those that Google's types do not understand.
func TestGeminiRequests(t *testing.T) {
	t.Parallel()
	g, up := startGemini(t, func(*geminiRequest) []*genai.GenerateContentResponse {
		return []*genai.GenerateContentResponse{geminiChunk(genai.FinishReasonStop, &genai.Part{Text: "{}"})}
	})
	c := newClient(t, g, g.owner)
	schema := map[string]any{
		"$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "additionalProperties": false, "required": []string{"title"},
		"properties": map[string]any{"title": map[string]any{"type": "string", "minLength": 1}, "kind": map[string]any{"const": "book"}},
	}
	image := openai.ImageContentPart(openai.ChatCompletionContentPartImageImageURLParam{URL: "data:image/png;base64,iVBORw0KGgo="})
	address := openai.ImageContentPart(openai.ChatCompletionContentPartImageImageURLParam{URL: "https://example.com/cat.png"})
	for i, change := range []func(*openai.ChatCompletionNewParams){
		func(*openai.ChatCompletionNewParams) {},
		func(p *openai.ChatCompletionNewParams) {
			p.Messages = append([]openai.ChatCompletionMessageParamUnion{openai.SystemMessage("Be brief.")}, p.Messages...)
			p.TopP, p.Seed, p.MaxCompletionTokens = openai.Float(0.5), openai.Int(7), openai.Int(100)
			p.Stop.OfStringArray = []string{"END"}
		},
		func(p *openai.ChatCompletionNewParams) {
			*p = withTools(*p)
			p.ToolChoice = choice("get_time")
		},
		func(p *openai.ChatCompletionNewParams) {
			*p = withTools(*p)
			p.ToolChoice = choice("none")
		},
		func(p *openai.ChatCompletionNewParams) {
			p.ResponseFormat.OfJSONSchema = &shared.ResponseFormatJSONSchemaParam{JSONSchema: shared.ResponseFormatJSONSchemaJSONSchemaParam{Name: "book", Schema: schema}}
		},
		func(p *openai.ChatCompletionNewParams) {
			p.ResponseFormat.OfJSONObject = &shared.ResponseFormatJSONObjectParam{}
		},
		func(p *openai.ChatCompletionNewParams) {
			p.Messages = append(p.Messages, openai.UserMessage([]openai.ChatCompletionContentPartUnionParam{openai.TextContentPart("What is it?"), image, address}))
		},
		func(p *openai.ChatCompletionNewParams) { p.ReasoningEffort = shared.ReasoningEffortMinimal },
		func(p *openai.ChatCompletionNewParams) {
			p.Messages = append(p.Messages, openai.AssistantMessage("Yes?"), openai.UserMessage("Go on."))
			p.PresencePenalty, p.User, p.LogitBias = openai.Float(0.5), openai.String("u"), map[string]int64{"1": 1}
		},
	} {
		p := params(geminiModel, "Hello")
		change(&p)
		if _, err := c.Chat.Completions.New(soon(t), p); err != nil {
			t.Errorf("request %d = %v", i, err)
		}
		up.ask(t, i)
	}
	if got := up.ask(t, 2).ToolConfig.FunctionCallingConfig; got.Mode != genai.FunctionCallingConfigModeAny || len(got.AllowedFunctionNames) != 1 {
		t.Errorf("a forced tool is %+v, want any of one", got)
	}
	if got := up.ask(t, 4).GenerationConfig; got.ResponseMIMEType != "application/json" || got.ResponseJsonSchema == nil {
		t.Errorf("a schema is asked for with %+v, want the type and the schema", got)
	}
}
