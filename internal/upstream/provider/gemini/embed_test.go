package gemini_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"sluice/internal/kit/fault"
	"sluice/internal/prompt/embeddings"
	"sluice/internal/upstream/provider"
	"sluice/internal/upstream/provider/gemini"
)

func TestEmbed(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var sent []string
	status := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		sent = append(sent, r.URL.Path+" "+r.Header.Get("X-Goog-Api-Key")+" "+string(body))
		w.WriteHeader(status)
		if status != http.StatusOK {
			_, _ = io.WriteString(w, `{"error":{"code":400,"message":"API key not valid","status":"INVALID_ARGUMENT"}}`)
			return
		}
		var batch struct {
			Requests []struct {
				Content struct{ Parts []struct{ Text string } }
			}
		}
		_ = json.Unmarshal(body, &batch)
		out := make([]string, 0, len(batch.Requests))
		for _, q := range batch.Requests {
			out = append(out, fmt.Sprintf(`{"values":[%d, 0.5]}`, len(q.Content.Parts[0].Text)))
		}
		_, _ = io.WriteString(w, `{"embeddings":[`+strings.Join(out, ",")+`]}`)
	}))
	defer server.Close()
	a, err := gemini.New(server.URL, &gemini.Options{APIKey: "k"})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	call := &provider.Call{Upstream: "gemini-embedding-001"}
	v, err := provider.Embed(context.Background(), a, call, &embeddings.Request{Model: "m", Inputs: []embeddings.Input{{Text: "<a>"}}, Dimensions: 2})
	const want = `/models/gemini-embedding-001:batchEmbedContents k {"requests":[{"model":"models/gemini-embedding-001","content":{"parts":[{"text":"<a>"}]},"outputDimensionality":2}]}`
	if err != nil || len(sent) != 1 || sent[0] != want || v.Tokens != 0 || v.List[0].Values[0] != 3 {
		t.Errorf("Embed = %+v, %v after %q, want %q", v, err, sent, want)
	}

	// A hundred texts at a time, in order.
	many := &embeddings.Request{Model: "m"}
	for i := range 250 {
		many.Inputs = append(many.Inputs, embeddings.Input{Text: strings.Repeat("x", i+1)})
	}
	sent = nil
	if v, err = provider.Embed(context.Background(), a, call, many); err != nil || len(sent) != 3 {
		t.Fatalf("Embed of 250 texts = %v after %d calls, want 3", err, len(sent))
	}
	for i := range v.List {
		if v.List[i].Values[0] != float32(i+1) {
			t.Fatalf("vector %d belongs to the text of %v bytes", i, v.List[i].Values[0])
		}
	}
	if _, err := provider.Embed(context.Background(), a, call, &embeddings.Request{Model: "lab/x", Inputs: []embeddings.Input{{Tokens: []int{1}}}}); !fault.Is(err, fault.Invalid) ||
		fault.From(err).Message != `The model "lab/x" takes texts, not tokens.` {
		t.Errorf("Embed of tokens = %v", err)
	}
	status = http.StatusBadRequest
	if _, err := provider.Embed(context.Background(), a, call, many); err == nil {
		t.Error("Embed at an upstream that refuses = nil, want an error")
	}
}
