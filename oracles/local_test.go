package oracles

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
)

// Where a model server of this machine is, and which of its models to ask; docs/providers/local-models.md tells
// operators. Ollama is found without them.
const (
	localURLEnv   = "SLUICE_TEST_OPENAI_URL"
	localModelEnv = "SLUICE_TEST_OPENAI_MODEL"
	ollama        = "http://127.0.0.1:11434"
)

// localServer finds a model server that nobody here wrote, and a model that it serves. Without one the
// test is skipped.
func localServer(t *testing.T) (baseURL, model string) {
	t.Helper()
	baseURL, model = os.Getenv(localURLEnv), os.Getenv(localModelEnv)
	if baseURL != "" {
		if model == "" {
			t.Fatalf("%s is set; %s must name one of the models there", localURLEnv, localModelEnv)
		}
		return baseURL, model
	}
	model, err := smallestOllama(t.Context(), model)
	if err != nil {
		t.Skipf("needs Ollama or llama.cpp: %v", err)
	}
	return ollama + "/v1", model
}

// smallestOllama is the smallest model that Ollama has; where one is wanted, that one.
func smallestOllama(ctx context.Context, wanted string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, ollama+"/api/tags", nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", errors.New("nothing answers at " + ollama + ", and " + localURLEnv + " is not set")
	}
	defer resp.Body.Close()
	var tags struct {
		Models []struct {
			Name string `json:"name"`
			Size int64  `json:"size"`
		} `json:"models"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&tags); err != nil {
		return "", fmt.Errorf("what answers at %s is not Ollama: %w", ollama, err)
	}
	name, size := "", int64(0)
	for _, m := range tags.Models {
		if m.Name == wanted {
			return wanted, nil
		}
		if name == "" || m.Size < size {
			name, size = m.Name, m.Size
		}
	}
	if name == "" || wanted != "" {
		return "", fmt.Errorf("Ollama has no model %s; run ollama pull", wanted)
	}
	return name, nil
}

// TestLocalModel asks a real model server through the gateway, in one piece and streamed. What a model
// says is its own affair; that it arrives, whole and counted, is ours.
func TestLocalModel(t *testing.T) {
	t.Parallel()
	baseURL, upstream := localServer(t)
	g := startGateway(t, fmt.Sprintf(`providers:
  - {name: local, kind: openai, base_url: %q}
models:
  - {id: local/model, provider: local, upstream: %q, plan: free, context_length: 4096, max_output: 1024}
`, baseURL, upstream))
	c := newClient(t, g, g.owner)
	// A server may load the model first.
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	p := params("local/model", "Count from one to ten in words.")
	p.MaxTokens, p.Seed = openai.Int(32), openai.Int(1)

	check := func(how, text, finish string, u openai.CompletionUsage) {
		t.Helper()
		if text == "" || finish != "stop" && finish != "length" {
			t.Errorf("%s = %q and finish reason %q, want a text and an end", how, text, finish)
		}
		if u.PromptTokens == 0 || u.CompletionTokens == 0 || u.CompletionTokens > 32 || u.TotalTokens != u.PromptTokens+u.CompletionTokens {
			t.Errorf("%s: usage = %s, want figures that add up, and at most 32 tokens", how, u.RawJSON())
		}
		t.Logf("%s: %d tokens in, %d out, %s: %q", how, u.PromptTokens, u.CompletionTokens, finish, text)
	}
	reply, err := c.Chat.Completions.New(ctx, p)
	if err != nil {
		t.Fatalf("New = %v", err)
	}
	if len(reply.Choices) != 1 || reply.Model != "local/model" {
		t.Fatalf("New = %s, want one choice of local/model", reply.RawJSON())
	}
	message := reply.Choices[0].Message
	check("New", extra(t, message.JSON.ExtraFields, "reasoning_content")+message.Content, reply.Choices[0].FinishReason, reply.Usage)

	s := followWithin(ctx, t, c, withUsage(p))
	if s.err != nil {
		t.Fatalf("NewStreaming = %v", s.err)
	}
	check("NewStreaming", s.reasoning+s.content, s.finish, s.Usage)
	if s := followWithin(ctx, t, c, p); s.err != nil || s.reasoning+s.content == "" { // and without usage
		t.Errorf("NewStreaming without usage = %q, %v, want a text", s.reasoning+s.content, s.err)
	}

	// Hanging up in the middle leaves the server able to answer the next call.
	hung, hangUp := context.WithCancel(ctx)
	stream := c.Chat.Completions.NewStreaming(hung, p)
	if !stream.Next() {
		t.Fatalf("NewStreaming = %v, want a chunk", stream.Err())
	}
	hangUp()
	stream.Close()
	if _, err := c.Chat.Completions.New(ctx, p); err != nil {
		t.Errorf("New after a hang-up = %v", err)
	}
}

// TestFindsOllama: without a word about it in the configuration, an Ollama on this machine is found, and
// the owner gets an answer from it.
func TestFindsOllama(t *testing.T) {
	t.Parallel()
	upstream, err := smallestOllama(t.Context(), os.Getenv(localModelEnv))
	if err != nil {
		t.Skipf("needs Ollama: %v", err)
	}
	g := startGateway(t, "")
	c := newClient(t, g, g.owner)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	id := "ollama/" + upstream
	for _, err := c.Models.Get(ctx, id); err != nil; _, err = c.Models.Get(ctx, id) {
		select {
		case <-ctx.Done():
			t.Fatalf("%s was not found", id)
		case <-time.After(100 * time.Millisecond):
		}
	}
	p := params(id, "Count from one to ten in words.")
	p.MaxTokens = openai.Int(32)
	reply, err := c.Chat.Completions.New(ctx, p)
	if err != nil || reply.Model != id || reply.Usage.CompletionTokens == 0 {
		t.Fatalf("New = %+v, %v, want an answer of %s", reply, err, id)
	}
}
