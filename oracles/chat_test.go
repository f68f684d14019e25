package oracles

import (
	"context"
	"encoding/json"
	"net/http"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/packages/respjson"
	"github.com/openai/openai-go/v3/shared"
)

// client is an OpenAI client of the gateway, and the moments at which it sent something.
type client struct {
	openai.Client
	transport *transport
}

// transport notes every attempt, those that the client repeats by itself included.
type transport struct {
	attempts atomic.Int32
	sent     [8]time.Time // by attempt, of a client that makes one call
	own      *http.Transport
}

func (c *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if n := int(c.attempts.Add(1)); n <= len(c.sent) {
		c.sent[n-1] = time.Now()
	}
	return c.own.RoundTrip(r)
}

// newClient returns a client as people make one, with a key and the retries that are usual.
func newClient(t *testing.T, g *gateway, key string) *client {
	t.Helper()
	c := &client{transport: &transport{own: &http.Transport{}}}
	t.Cleanup(c.transport.own.CloseIdleConnections)
	c.Client = openai.NewClient(option.WithBaseURL(g.url), option.WithAPIKey(key), option.WithHTTPClient(&http.Client{Transport: c.transport}))
	return c
}

// soon bounds one test's calls.
func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func params(model, text string) openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{
		Model: model, Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(text)}, Temperature: openai.Float(0),
	}
}

// order are the params of a call that has the fake upstream do something; the key is the test's own.
func order(t *testing.T, do string) (p openai.ChatCompletionNewParams, key string) {
	t.Helper()
	key = strings.ReplaceAll(t.Name(), "/", "-")
	return params(faked, script{Do: do, Key: key}.String()), key
}

// streamed is a stream that was read to its end.
type streamed struct {
	openai.ChatCompletionAccumulator
	chunks    int
	content   string // all deltas
	reasoning string
	pieces    int // of tool calls
	finish    string
	err       error
}

// follow reads a stream to its end and holds every chunk against what a stream is made of.
func follow(t *testing.T, c *client, p openai.ChatCompletionNewParams) *streamed {
	t.Helper()
	return followWithin(soon(t), t, c, p)
}

func followWithin(ctx context.Context, t *testing.T, c *client, p openai.ChatCompletionNewParams) *streamed {
	t.Helper()
	stream := c.Chat.Completions.NewStreaming(ctx, p)
	defer stream.Close()
	s := &streamed{}
	usageSeen := false
	for stream.Next() {
		chunk := stream.Current()
		s.chunks++
		if !s.AddChunk(chunk) {
			t.Errorf("the accumulator refused chunk %d: %s", s.chunks, chunk.RawJSON())
		}
		if chunk.ID != s.ID || !strings.HasPrefix(chunk.ID, "chatcmpl-") || chunk.Object != "chat.completion.chunk" || chunk.Created == 0 || chunk.Model == "" {
			t.Errorf("chunk %d = %s, want the same id on every chunk, an object, a time and a model", s.chunks, chunk.RawJSON())
		}
		if usageSeen {
			t.Errorf("chunk %d = %s, want none after the usage", s.chunks, chunk.RawJSON())
		}
		if chunk.JSON.Usage.Valid() {
			usageSeen = true
			if len(chunk.Choices) != 0 || !p.StreamOptions.IncludeUsage.Value {
				t.Errorf("chunk %d = %s, want usage only where asked for, in a chunk of its own", s.chunks, chunk.RawJSON())
			}
			continue
		}
		s.take(t, chunk)
	}
	s.err = stream.Err()
	if s.err == nil && (s.finish == "" || usageSeen != p.StreamOptions.IncludeUsage.Value) {
		t.Errorf("the stream ended with finish reason %q and usage %t, want a reason and %t", s.finish, usageSeen, p.StreamOptions.IncludeUsage.Value)
	}
	return s
}

// take adds a chunk with a choice.
func (s *streamed) take(t *testing.T, chunk openai.ChatCompletionChunk) {
	t.Helper()
	if len(chunk.Choices) != 1 {
		t.Fatalf("chunk %d = %s, want one choice", s.chunks, chunk.RawJSON())
	}
	choice := chunk.Choices[0]
	if (choice.Delta.Role == "assistant") != (s.chunks == 1) {
		t.Errorf("chunk %d has the role %q, want assistant on the first chunk alone", s.chunks, choice.Delta.Role)
	}
	if s.finish != "" {
		t.Errorf("chunk %d = %s, want no choice after the finish reason", s.chunks, chunk.RawJSON())
	}
	s.content += choice.Delta.Content
	s.reasoning += extra(t, choice.Delta.JSON.ExtraFields, "reasoning_content")
	s.pieces += len(choice.Delta.ToolCalls)
	s.finish = choice.FinishReason
}

// extra is a text member that the client has no field for.
func extra(t *testing.T, fields map[string]respjson.Field, name string) (text string) {
	t.Helper()
	if f, ok := fields[name]; ok {
		if err := json.Unmarshal([]byte(f.Raw()), &text); err != nil {
			t.Errorf("%s = %s, want a text", name, f.Raw())
		}
	}
	return text
}

func withUsage(p openai.ChatCompletionNewParams) openai.ChatCompletionNewParams {
	p.StreamOptions.IncludeUsage = openai.Bool(true)
	return p
}

// TestChat has openai-go complete, in one piece and streamed, on both kinds of models.
func TestChat(t *testing.T) {
	t.Parallel()
	g, _ := startWithUpstream(t)
	tests := []struct {
		name, model, text string
		want              string
		used              string // the model that answers; default the one asked
		usage             openai.CompletionUsage
	}{
		{name: "sandbox", model: large, text: "Reverse the word stream.", want: "maerts"},
		{name: "unicode", model: small, text: `Repeat "grüß dich — 日本語 🎈"`, want: "grüß dich — 日本語 🎈"},
		{name: "upstream", model: faked, text: script{Do: "say"}.String(), want: strings.Join(said, ""), usage: openai.CompletionUsage{PromptTokens: 21, CompletionTokens: 9, TotalTokens: 30}},
		{name: "router", model: "service/auto", text: script{Do: "say"}.String(), want: strings.Join(said, ""), used: faked},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := newClient(t, g, g.owner)
			if tt.used == "" {
				tt.used = tt.model
			}
			checkUsage := func(got openai.CompletionUsage) {
				t.Helper()
				if got.PromptTokens == 0 || got.CompletionTokens == 0 || got.TotalTokens != got.PromptTokens+got.CompletionTokens {
					t.Errorf("usage = %s, want figures that add up", got.RawJSON())
				}
				if want := tt.usage; want.TotalTokens != 0 && (got.PromptTokens != want.PromptTokens || got.CompletionTokens != want.CompletionTokens) {
					t.Errorf("usage = %s, want %d and %d", got.RawJSON(), want.PromptTokens, want.CompletionTokens)
				}
			}

			reply, err := c.Chat.Completions.New(soon(t), params(tt.model, tt.text))
			if err != nil {
				t.Fatalf("New(%s) = %v", tt.text, err)
			}
			if len(reply.Choices) != 1 || !strings.Contains(reply.Choices[0].Message.Content, tt.want) || reply.Choices[0].FinishReason != "stop" {
				t.Fatalf("New(%s) = %s, want one choice with %q that ends with stop", tt.text, reply.RawJSON(), tt.want)
			}
			if reply.Object != "chat.completion" || reply.Model != tt.used || reply.Created == 0 || reply.Choices[0].Message.Role != "assistant" {
				t.Errorf("New(%s) = %s, want a chat.completion of %s", tt.text, reply.RawJSON(), tt.used)
			}
			checkUsage(reply.Usage)

			s := follow(t, c, params(tt.model, tt.text))
			if s.err != nil || s.content != reply.Choices[0].Message.Content || s.chunks < 3 {
				t.Errorf("NewStreaming(%s) = %q in %d chunks, %v, want %q in pieces", tt.text, s.content, s.chunks, s.err, reply.Choices[0].Message.Content)
			}
			s = follow(t, c, withUsage(params(tt.model, tt.text)))
			if s.err != nil || len(s.Choices) != 1 || s.Choices[0].Message.Content != reply.Choices[0].Message.Content || s.Model != tt.used {
				t.Errorf("the accumulated stream of %s = %+v, %v, want what the whole reply says", tt.text, s.ChatCompletion, s.err)
			}
			checkUsage(s.Usage)
			if s.Usage.TotalTokens != reply.Usage.TotalTokens {
				t.Errorf("usage streamed = %d tokens, want %d as in one piece", s.Usage.TotalTokens, reply.Usage.TotalTokens)
			}
		})
	}
}

// TestUsageDetails wants the parts that an upstream names to arrive.
func TestUsageDetails(t *testing.T) {
	t.Parallel()
	g, _ := startWithUpstream(t)
	c := newClient(t, g, g.owner)
	p, _ := order(t, "say")
	reply, err := c.Chat.Completions.New(soon(t), p)
	if err != nil {
		t.Fatalf("New = %v", err)
	}
	for name, u := range map[string]openai.CompletionUsage{"whole": reply.Usage, "streamed": follow(t, c, withUsage(p)).Usage} {
		if u.PromptTokensDetails.CachedTokens != 5 || u.CompletionTokensDetails.ReasoningTokens != 3 {
			t.Errorf("%s: usage = %s, want 5 cached and 3 reasoning tokens", name, u.RawJSON())
		}
	}
}

// TestLimits wants max_tokens and stop to be kept, and told.
func TestLimits(t *testing.T) {
	t.Parallel()
	g := startGateway(t, "")
	c := newClient(t, g, g.owner)
	for _, streaming := range []bool{false, true} {
		p := params(small, "[[sandbox:tokens=50]]")
		p.MaxTokens = openai.Int(7)
		finish, tokens := "", int64(0)
		if streaming {
			s := follow(t, c, withUsage(p))
			finish, tokens = s.finish, s.Usage.CompletionTokens
		} else if reply, err := c.Chat.Completions.New(soon(t), p); err != nil {
			t.Fatalf("New(max_tokens 7) = %v", err)
		} else {
			finish, tokens = reply.Choices[0].FinishReason, reply.Usage.CompletionTokens
		}
		if finish != "length" || tokens != 7 {
			t.Errorf("max_tokens 7, streamed %t = %d tokens and %q, want 7 and length", streaming, tokens, finish)
		}
	}
	p := params(small, `Repeat "one two three four"`)
	p.Stop = openai.ChatCompletionNewParamsStopUnion{OfStringArray: []string{" three"}}
	reply, err := c.Chat.Completions.New(soon(t), p)
	if err != nil || reply.Choices[0].Message.Content != "one two" || reply.Choices[0].FinishReason != "stop" {
		t.Errorf("New(stop) = %s, %v, want one two and stop", reply.RawJSON(), err)
	}
}

// TestReasoning wants the model's thinking in the extra field that clients read it from.
func TestReasoning(t *testing.T) {
	t.Parallel()
	g, _ := startWithUpstream(t)
	upstream, _ := order(t, "think")
	sandbox := params(reasoner, "What is 6 * 7?")
	sandbox.ReasoningEffort = shared.ReasoningEffortLow
	for _, tt := range []struct {
		name, want string
		p          openai.ChatCompletionNewParams
	}{
		{"sandbox", "arithmetic", sandbox},
		{"upstream", strings.Join(thought, ""), upstream},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := newClient(t, g, g.owner)
			reply, err := c.Chat.Completions.New(soon(t), tt.p)
			if err != nil {
				t.Fatalf("New = %v", err)
			}
			message := reply.Choices[0].Message
			whole := extra(t, message.JSON.ExtraFields, "reasoning_content")
			if !strings.Contains(whole, tt.want) || !strings.Contains(message.Content, "42") {
				t.Errorf("New = %s, want reasoning with %q and 42", reply.RawJSON(), tt.want)
			}
			if s := follow(t, c, tt.p); s.reasoning != whole || s.content != message.Content {
				t.Errorf("NewStreaming = reasoning %q and %q, want %q and %q", s.reasoning, s.content, whole, message.Content)
			}
		})
	}
}

// TestJSON wants JSON mode and a schema to be kept by the sandbox and told to an upstream.
func TestJSON(t *testing.T) {
	t.Parallel()
	g, _ := startWithUpstream(t)
	object := openai.ChatCompletionNewParamsResponseFormatUnion{OfJSONObject: &shared.ResponseFormatJSONObjectParam{}}
	schema := openai.ChatCompletionNewParamsResponseFormatUnion{OfJSONSchema: &shared.ResponseFormatJSONSchemaParam{
		JSONSchema: shared.ResponseFormatJSONSchemaJSONSchemaParam{Name: "trip", Strict: openai.Bool(true), Schema: map[string]any{
			"type": "object", "additionalProperties": false, "required": []string{"from", "to", "seats"},
			"properties": map[string]any{"from": map[string]any{"type": "string"}, "to": map[string]any{"type": "string"}, "seats": map[string]any{"type": "integer"}},
		}},
	}}
	t.Run("object", func(t *testing.T) {
		t.Parallel()
		c := newClient(t, g, g.owner)
		p := params(small, "What is 6 * 7? Answer as JSON.")
		p.ResponseFormat = object
		reply, err := c.Chat.Completions.New(soon(t), p)
		if err != nil {
			t.Fatalf("New = %v", err)
		}
		var got map[string]any
		if err := json.Unmarshal([]byte(reply.Choices[0].Message.Content), &got); err != nil || len(got) == 0 {
			t.Errorf("New(json_object) = %q, want a JSON object", reply.Choices[0].Message.Content)
		}
	})
	t.Run("schema", func(t *testing.T) {
		t.Parallel()
		c := newClient(t, g, g.owner)
		p := params(small, "A train from Porto to Lisbon with 3 seats")
		p.ResponseFormat = schema
		reply, err := c.Chat.Completions.New(soon(t), p)
		if err != nil {
			t.Fatalf("New = %v", err)
		}
		s := follow(t, c, p)
		for _, text := range []string{reply.Choices[0].Message.Content, s.content} {
			var trip struct {
				From, To string
				Seats    int
			}
			if err := json.Unmarshal([]byte(text), &trip); err != nil || trip.From != "Porto" || trip.To != "Lisbon" || trip.Seats != 3 {
				t.Errorf("New(json_schema) = %q, want Porto, Lisbon and 3", text)
			}
		}
	})
	t.Run("upstream", func(t *testing.T) {
		t.Parallel()
		c := newClient(t, g, g.owner)
		p, _ := order(t, "echo")
		p.ResponseFormat, p.Seed, p.User = schema, openai.Int(7), param.NewOpt("someone")
		reply, err := c.Chat.Completions.New(soon(t), p)
		if err != nil {
			t.Fatalf("New = %v", err)
		}
		s := follow(t, c, p)
		p.Model = upstreamModel
		checkSameJSON(t, reply.Choices[0].Message.Content, p, "{}")
		checkSameJSON(t, s.content, p, `{"stream":true,"stream_options":{"include_usage":true}}`)
	})
}

// checkSameJSON wants an upstream to have got what the client sent and what was added to it, no more.
func checkSameJSON(t *testing.T, got string, sent any, added string) {
	t.Helper()
	raw, err := json.Marshal(sent)
	if err != nil {
		t.Fatal(err)
	}
	var have, want map[string]any
	if err := json.Unmarshal([]byte(got), &have); err != nil {
		t.Fatalf("the upstream got %q, want JSON", got)
	}
	for _, text := range []string{string(raw), added} {
		if err := json.Unmarshal([]byte(text), &want); err != nil {
			t.Fatal(err)
		}
	}
	if !reflect.DeepEqual(have, want) {
		t.Errorf("the upstream got\n%v, want\n%v", have, want)
	}
}
