package oracles

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/shared"
)

// The models as the gateway and as Anthropic call them: one that is given a budget to think, one that
// is told an effort.
const (
	budgeted         = "anthropic/sonnet"
	budgetedUpstream = "claude-sonnet-4-5"
	adaptive         = "anthropic/opus"
	adaptiveUpstream = "claude-opus-5"
)

// readAnthropic decodes a body with Anthropic's types. What they do not know is lost on the way
// through them, and what they require appears: the body must come out as it went in.
func readAnthropic(body []byte, version string) (*anthropic.MessageNewParams, bool, error) {
	var sent map[string]any
	if err := json.Unmarshal(body, &sent); err != nil {
		return nil, false, err
	}
	stream, _ := sent["stream"].(bool) // the SDK adds it by itself
	delete(sent, "stream")
	// The SDK's types are of a version of the API that has no sampling; the first one has it, for older models.
	for _, name := range []string{"temperature", "top_p"} {
		if _, there := sent[name]; there && version != "2023-06-01" {
			return nil, stream, errors.New(name + ": Extra inputs are not permitted")
		}
		delete(sent, name)
	}
	var r anthropic.MessageNewParams
	if err := json.Unmarshal(body, &r); err != nil {
		return nil, stream, err
	}
	raw, err := json.Marshal(r)
	if err != nil {
		return nil, stream, err
	}
	var known map[string]any
	if err := json.Unmarshal(raw, &known); err != nil {
		return nil, stream, err
	}
	if !reflect.DeepEqual(sent, known) {
		return nil, stream, fmt.Errorf("the SDK reads it as %s", raw)
	}
	return &r, stream, lacking(reflect.ValueOf(r), "body")
}

// blocksOf returns the blocks of a message, whoever says it.
func blocksOf(m anthropic.MessageParam) []anthropic.ContentBlockParamUnion {
	switch {
	case m.OfUser != nil:
		return m.OfUser.Content
	case m.OfAssistant != nil:
		return m.OfAssistant.Content
	}
	return nil
}

// lacking looks for fields that the SDK requires and that would not even be sent where they are missing.
func lacking(v reflect.Value, path string) error {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		return lacking(v.Elem(), path)
	case reflect.Slice:
		for i := range v.Len() {
			if err := lacking(v.Index(i), fmt.Sprintf("%s[%d]", path, i)); err != nil {
				return err
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			name := path + "." + f.Name
			if !f.IsExported() || v.IsZero() {
				continue
			}
			if f.Tag.Get("api") == "required" && strings.HasSuffix(f.Tag.Get("json"), ",omitzero") && v.Field(i).IsZero() {
				return errors.New(name + " is required")
			}
			if err := lacking(v.Field(i), name); err != nil {
				return err
			}
		}
	}
	return nil
}

// anthropicUp is a fake Anthropic API: it notes what it is asked, and answers with what the SDK's types
// write.
type anthropicUp struct {
	url string

	mu      sync.Mutex
	asked   []*anthropic.MessageNewParams
	problem error
	reply   func(*anthropic.MessageNewParams) anthropic.Message
}

func startAnthropic(t *testing.T, reply func(*anthropic.MessageNewParams) anthropic.Message) (*gateway, *anthropicUp) {
	t.Helper()
	up := &anthropicUp{reply: reply}
	server := httptest.NewServer(up)
	t.Cleanup(server.Close)
	up.url = server.URL
	return startGateway(t, fmt.Sprintf(`providers:
  - {name: claude, kind: anthropic, base_url: "%s", api_key: "%s", allow_image_urls: true}
models:
  - {id: %s, provider: claude, upstream: %s, plan: basic, context_length: 200000, max_output: 64000, tool_calling: true, reasoning: true}
  - {id: %s, provider: claude, upstream: %s, plan: basic, context_length: 1000000, max_output: 128000, tool_calling: true, reasoning: true}
`, up.url, upstreamKey, budgeted, budgetedUpstream, adaptive, adaptiveUpstream)), up
}

func (u *anthropicUp) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	req, stream, err := readAnthropic(body, r.Header.Get("Anthropic-Version"))
	if err == nil && (r.URL.Path != "/v1/messages" || r.Header.Get("X-Api-Key") != upstreamKey || r.Header.Get("Anthropic-Version") == "") {
		err = fmt.Errorf("asked at %s with %v", r.URL, r.Header)
	}
	if err == nil {
		err = u.signed(req)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if err != nil {
		u.problem = fmt.Errorf("%w in %s", err, body)
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"type":"error","error":{"type":"invalid_request_error","message":"a body that the SDK does not know"}}`)
		return
	}
	u.asked = append(u.asked, req)
	m := u.reply(req)
	if !stream {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(m)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for _, ev := range anthropicEvents(m) {
		raw, err := json.Marshal(ev)
		if err != nil {
			panic(err) // the SDK's own types encode
		}
		var kind struct{ Type string }
		_ = json.Unmarshal(raw, &kind)
		fmt.Fprintf(w, "event: %s\ndata: %s\n\n", kind.Type, raw)
	}
}

// signed is the rule for thinking with a budget: the calls that are answered come behind the signed
// thinking that led to them.
func (*anthropicUp) signed(r *anthropic.MessageNewParams) error {
	last := r.Messages[len(r.Messages)-1]
	if r.Thinking.OfEnabled == nil || blocksOf(last)[0].OfToolResult == nil {
		return nil
	}
	if before := r.Messages[len(r.Messages)-2]; blocksOf(before)[0].OfThinking == nil && blocksOf(before)[0].OfRedactedThinking == nil {
		return errors.New("a call without thinking before it, while thinking is on")
	}
	return nil
}

// anthropicEvents are a message as a stream, its texts and arguments in pieces.
func anthropicEvents(m anthropic.Message) []any {
	begun := m
	begun.Content, begun.StopReason = []anthropic.ContentBlockUnion{}, ""
	out := []any{anthropic.MessageStartEvent{Message: begun}}
	for i, b := range m.Content {
		index := int64(i)
		start := anthropic.ContentBlockStartEventContentBlockUnion{Type: b.Type, Data: b.Data, ID: b.ID, Name: b.Name}
		if b.Type == "tool_use" {
			start.Input = map[string]any{}
		}
		out = append(out, anthropic.ContentBlockStartEvent{Index: index, ContentBlock: start})
		delta := func(d anthropic.RawContentBlockDeltaUnion) {
			out = append(out, anthropic.ContentBlockDeltaEvent{Index: index, Delta: d})
		}
		for _, piece := range pieces(b.Text) {
			delta(anthropic.RawContentBlockDeltaUnion{Type: "text_delta", Text: piece})
		}
		for _, piece := range pieces(b.Thinking) {
			delta(anthropic.RawContentBlockDeltaUnion{Type: "thinking_delta", Thinking: piece})
		}
		if b.Signature != "" {
			delta(anthropic.RawContentBlockDeltaUnion{Type: "signature_delta", Signature: b.Signature})
		}
		if b.Type == "tool_use" {
			for _, piece := range pieces(string(b.Input)) {
				delta(anthropic.RawContentBlockDeltaUnion{Type: "input_json_delta", PartialJSON: piece})
			}
		}
		out = append(out, anthropic.ContentBlockStopEvent{Index: index})
	}
	u := m.Usage
	return append(out, anthropic.MessageDeltaEvent{
		Delta: anthropic.MessageDeltaEventDelta{StopReason: m.StopReason},
		Usage: anthropic.MessageDeltaUsage{InputTokens: u.InputTokens, CacheReadInputTokens: u.CacheReadInputTokens, CacheCreationInputTokens: u.CacheCreationInputTokens, OutputTokens: u.OutputTokens, OutputTokensDetails: u.OutputTokensDetails},
	}, anthropic.MessageStopEvent{})
}

// pieces is a text in two.
func pieces(s string) []string {
	if len(s) < 2 {
		return strings.Fields(s)
	}
	return []string{s[:len(s)/2], s[len(s)/2:]}
}

// ask is the request that came n-th, and fails the test where one was not understood.
func (u *anthropicUp) ask(t *testing.T, n int) *anthropic.MessageNewParams {
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

func anthropicMessage(stop anthropic.StopReason, blocks ...anthropic.ContentBlockUnion) anthropic.Message {
	return anthropic.Message{
		ID: "msg_1", Model: "claude", Content: blocks, StopReason: stop,
		Usage: anthropic.Usage{InputTokens: 30, CacheReadInputTokens: 8, CacheCreationInputTokens: 2, OutputTokens: 42, OutputTokensDetails: anthropic.OutputTokensDetails{ThinkingTokens: 30}},
	}
}

// anthropicTurns thinks, calls two tools at once, thinking again in between, and answers when their
// results are there.
func anthropicTurns(r *anthropic.MessageNewParams) anthropic.Message {
	if last := r.Messages[len(r.Messages)-1]; blocksOf(last)[0].OfToolResult != nil {
		return anthropicMessage(anthropic.StopReasonEndTurn, anthropic.ContentBlockUnion{Type: "text", Text: "18 and 09:41."})
	}
	return anthropicMessage(anthropic.StopReasonToolUse,
		anthropic.ContentBlockUnion{Type: "thinking", Thinking: "Both are needed.", Signature: "c2lnbmF0dXJlIG9uZQ=="},
		anthropic.ContentBlockUnion{Type: "redacted_thinking", Data: "cmVkYWN0ZWQ="},
		anthropic.ContentBlockUnion{Type: "text", Text: "I will look."},
		anthropic.ContentBlockUnion{Type: "tool_use", ID: "toolu_1", Name: "get_weather", Input: json.RawMessage(`{"city":"Paris"}`)},
		anthropic.ContentBlockUnion{Type: "thinking", Thinking: "", Signature: "c2lnbmF0dXJlIHR3bw=="},
		anthropic.ContentBlockUnion{Type: "tool_use", ID: "toolu_2", Name: "get_time", Input: json.RawMessage(`{"city":"Tokyo"}`)},
	)
}

// TestAnthropicRoundTrip has openai-go, which sends standard fields alone, do two turns with parallel
// calls and thinking on. What was signed must be back as it came, and in its place.
func TestAnthropicRoundTrip(t *testing.T) {
	t.Parallel()
	for _, model := range []string{budgeted, adaptive} {
		for _, streaming := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s streamed %t", strings.ReplaceAll(model, "/", " "), streaming), func(t *testing.T) {
				t.Parallel()
				g, up := startAnthropic(t, anthropicTurns)
				c := newClient(t, g, g.owner)
				p := withTools(params(model, "Weather in Paris, time in Tokyo?"))
				p.ReasoningEffort = shared.ReasoningEffortHigh
				message := roundTrip(t, c, &p, streaming)
				first := up.ask(t, 0)
				if model == budgeted && (first.Thinking.OfEnabled == nil || first.Thinking.OfEnabled.BudgetTokens >= first.MaxTokens) ||
					model == adaptive && (first.Thinking.OfAdaptive == nil || first.OutputConfig.Effort != anthropic.OutputConfigEffortHigh) {
					t.Errorf("the first turn thinks with %+v and %+v, want it to", first.Thinking, first.OutputConfig)
				}
				if message != "18 and 09:41." {
					t.Errorf("the second turn = %q, want the answer", message)
				}
				checkAnthropicSecond(t, up.ask(t, 1))
			})
		}
	}
}

// roundTrip does a turn, answers its calls and returns what the model says then.
func roundTrip(t *testing.T, c *client, p *openai.ChatCompletionNewParams, streaming bool) string {
	t.Helper()
	turn := func() openai.ChatCompletionMessage {
		t.Helper()
		if streaming {
			s := follow(t, c, *p)
			if s.err != nil || len(s.Choices) != 1 {
				t.Fatalf("NewStreaming = %+v, %v", s.ChatCompletion, s.err)
			}
			return s.Choices[0].Message
		}
		reply, err := c.Chat.Completions.New(soon(t), *p)
		if err != nil {
			t.Fatalf("New = %v", err)
		}
		if u := reply.Usage; u.PromptTokens != 40 || u.CompletionTokens != 42 || u.TotalTokens != 82 || u.PromptTokensDetails.CachedTokens != 8 {
			t.Errorf("usage = %s, want 40, of which 8 are cached, 42 and 82", u.RawJSON())
		}
		return reply.Choices[0].Message
	}
	message := turn()
	if got, want := told(message.ToolCalls), "get_weather {\"city\":\"Paris\"}\nget_time {\"city\":\"Tokyo\"}"; got != want {
		t.Fatalf("the first turn = %q, want %q", got, want)
	}
	p.Messages = append(p.Messages, message.ToParam())
	for _, call := range message.ToolCalls {
		p.Messages = append(p.Messages, openai.ToolMessage(`{"result":"`+call.Function.Name+`"}`, call.ID))
	}
	return turn().Content
}

// checkAnthropicSecond holds the second request against the reply to the first.
func checkAnthropicSecond(t *testing.T, r *anthropic.MessageNewParams) {
	t.Helper()
	if len(r.Messages) != 3 {
		t.Fatalf("the second request has %d turns, want 3", len(r.Messages))
	}
	got, err := json.Marshal(blocksOf(r.Messages[1]))
	if err != nil {
		t.Fatal(err)
	}
	want := `[{"signature":"c2lnbmF0dXJlIG9uZQ==","thinking":"Both are needed.","type":"thinking"},{"data":"cmVkYWN0ZWQ=","type":"redacted_thinking"},{"text":"I will look.","type":"text"},` +
		`{"id":"toolu_1","input":{"city":"Paris"},"name":"get_weather","type":"tool_use"},{"signature":"c2lnbmF0dXJlIHR3bw==","thinking":"","type":"thinking"},{"id":"toolu_2","input":{"city":"Tokyo"},"name":"get_time","type":"tool_use"}]`
	if string(got) != want {
		t.Errorf("the model's turn came back as\n%s\nwant\n%s", got, want)
	}
	results := blocksOf(r.Messages[2])
	if len(results) != 2 || results[0].OfToolResult == nil || results[0].OfToolResult.ToolUseID != "toolu_1" || results[1].OfToolResult.ToolUseID != "toolu_2" {
		t.Errorf("the results came as %+v, want both, in one turn", results)
	}
}

// TestAnthropicRequests sends requests of every kind that the dialect has words for; the upstream
// refuses those that Anthropic's types do not understand.
func TestAnthropicRequests(t *testing.T) {
	t.Parallel()
	g, up := startAnthropic(t, func(*anthropic.MessageNewParams) anthropic.Message {
		return anthropicMessage(anthropic.StopReasonEndTurn, anthropic.ContentBlockUnion{Type: "text", Text: "{}"})
	})
	c := newClient(t, g, g.owner)
	n := 0
	for _, model := range []string{budgeted, adaptive} {
		for i, change := range requestsOfEveryKind() {
			p := params(model, "Hello")
			change(&p)
			if _, err := c.Chat.Completions.New(soon(t), p); err != nil {
				t.Errorf("%s: request %d = %v", model, i, err)
			}
			up.ask(t, n)
			n++
		}
	}
}

// requestsOfEveryKind change a plain request.
func requestsOfEveryKind() []func(*openai.ChatCompletionNewParams) {
	schema := map[string]any{
		"type": "object", "additionalProperties": false, "required": []string{"title"}, "properties": map[string]any{"title": map[string]any{"type": "string"}},
	}
	image := openai.ImageContentPart(openai.ChatCompletionContentPartImageImageURLParam{URL: "data:image/png;base64,iVBORw0KGgo=", Detail: "low"})
	tools := func(mode string, alone bool) func(*openai.ChatCompletionNewParams) {
		return func(p *openai.ChatCompletionNewParams) {
			*p = withTools(*p)
			p.ToolChoice, p.ParallelToolCalls = choice(mode), openai.Bool(!alone)
		}
	}
	return []func(*openai.ChatCompletionNewParams){
		func(*openai.ChatCompletionNewParams) {},
		func(p *openai.ChatCompletionNewParams) {
			p.Messages = append([]openai.ChatCompletionMessageParamUnion{openai.SystemMessage("Be brief.")}, p.Messages...)
			p.TopP, p.Seed, p.MaxCompletionTokens, p.User = openai.Float(0.5), openai.Int(7), openai.Int(100), openai.String("u-1")
			p.Stop.OfStringArray = []string{"END"}
		},
		tools("", false), tools("auto", true), tools("none", false), tools("none", true), tools("required", false), tools("required", true), tools("get_time", false), tools("get_time", true),
		func(p *openai.ChatCompletionNewParams) {
			p.ResponseFormat.OfJSONSchema = &shared.ResponseFormatJSONSchemaParam{JSONSchema: shared.ResponseFormatJSONSchemaJSONSchemaParam{Name: "book", Schema: schema, Strict: openai.Bool(true)}}
		},
		func(p *openai.ChatCompletionNewParams) {
			p.ResponseFormat.OfJSONObject = &shared.ResponseFormatJSONObjectParam{}
		},
		func(p *openai.ChatCompletionNewParams) {
			p.Messages = append(p.Messages, openai.UserMessage([]openai.ChatCompletionContentPartUnionParam{openai.TextContentPart("What is it?"), image}))
		},
		func(p *openai.ChatCompletionNewParams) { p.ReasoningEffort = shared.ReasoningEffortMinimal },
		func(p *openai.ChatCompletionNewParams) { p.ReasoningEffort = shared.ReasoningEffort("none") },
		func(p *openai.ChatCompletionNewParams) {
			*p = withTools(*p)
			p.ToolChoice, p.ReasoningEffort = choice("required"), shared.ReasoningEffortHigh
		},
		func(p *openai.ChatCompletionNewParams) {
			p.Messages = append(p.Messages, openai.AssistantMessage("Yes?"), openai.UserMessage("Go on."))
			p.PresencePenalty, p.LogitBias = openai.Float(0.5), map[string]int64{"1": 1}
		},
	}
}

// TestAnthropicImageAddress: the address of an image goes along.
func TestAnthropicImageAddress(t *testing.T) {
	t.Parallel()
	g, up := startAnthropic(t, func(*anthropic.MessageNewParams) anthropic.Message {
		return anthropicMessage(anthropic.StopReasonRefusal, anthropic.ContentBlockUnion{Type: "text", Text: "No."})
	})
	c := newClient(t, g, g.owner)
	p := params(budgeted, "What is it?")
	p.Messages = append(p.Messages, openai.UserMessage([]openai.ChatCompletionContentPartUnionParam{
		openai.ImageContentPart(openai.ChatCompletionContentPartImageImageURLParam{URL: "https://example.com/cat.png"}),
	}))
	reply, err := c.Chat.Completions.New(soon(t), p)
	if err != nil || reply.Choices[0].FinishReason != "content_filter" {
		t.Errorf("New = %+v, %v, want it filtered", reply, err)
	}
	content := blocksOf(up.ask(t, 0).Messages[0])
	if image := content[len(content)-1].OfImage; image == nil || image.Source.OfURL == nil || image.Source.OfURL.URL != "https://example.com/cat.png" {
		t.Errorf("the image came as %+v, want its address", image)
	}
}
