package bedrock_test

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
	"sluice/internal/upstream/provider/bedrock"
)

// embedder stands in for Titan and Cohere. The first number of a vector is the length of its text.
type embedder struct {
	mu     sync.Mutex
	calls  int
	last   string
	signed bool
	fail   string // a text at which it fails
}

func (e *embedder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	e.mu.Lock()
	e.calls++
	e.last, e.signed = r.URL.EscapedPath()+" "+string(body), strings.HasPrefix(r.Header.Get("Authorization"), "AWS4-HMAC-SHA256")
	fail := e.fail != "" && strings.Contains(string(body), e.fail)
	e.mu.Unlock()
	if fail {
		w.WriteHeader(http.StatusTooManyRequests)
		return
	}
	var in struct {
		InputText string
		Texts     []string
	}
	_ = json.Unmarshal(body, &in)
	if in.Texts == nil {
		fmt.Fprintf(w, `{"embedding":[%d,1],"inputTextTokenCount":%d}`, len(in.InputText), len(in.InputText))
		return
	}
	out := make([]string, 0, len(in.Texts))
	for _, text := range in.Texts {
		out = append(out, fmt.Sprintf(`[%d,1]`, len(text)))
	}
	w.Header().Set("X-Amzn-Bedrock-Input-Token-Count", "7")
	fmt.Fprintf(w, `{"id":"x","embeddings":{"float":[%s]},"texts":[]}`, strings.Join(out, ","))
}

func TestEmbed(t *testing.T) {
	t.Parallel()
	e := &embedder{}
	server := httptest.NewServer(e)
	defer server.Close()
	a, err := bedrock.New("us-east-1", bedrock.Keys{AccessKeyID: "AKIA", SecretAccessKey: "s"}, &bedrock.Options{BaseURL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	many := &embeddings.Request{Model: "m", Dimensions: 256}
	for i := range 200 {
		many.Inputs = append(many.Inputs, embeddings.Input{Text: strings.Repeat("x", i+1)})
	}
	one := &embeddings.Request{Model: "m", Inputs: []embeddings.Input{{Text: "a"}}, Dimensions: 256}
	for _, tt := range []struct {
		upstream, want string
		calls, tokens  int
	}{
		{"amazon.titan-embed-text-v2:0", `/model/amazon.titan-embed-text-v2%3A0/invoke {"inputText":"a","dimensions":256}`, 200, 200 * 201 / 2},
		{"us.cohere.embed-v4:0", `/model/us.cohere.embed-v4%3A0/invoke {"texts":["a"],"input_type":"search_document","truncate":"NONE","embedding_types":["float"],"output_dimension":256}`, 3, 21},
	} {
		call := &provider.Call{Upstream: tt.upstream}
		if _, err := provider.Embed(context.Background(), a, call, one); err != nil || e.last != tt.want || !e.signed {
			t.Errorf("%s: Embed = %v after %s, want %s, signed", tt.upstream, err, e.last, tt.want)
		}
		e.calls = 0
		v, err := provider.Embed(context.Background(), a, call, many)
		if err != nil || e.calls != tt.calls || v.Tokens != tt.tokens {
			t.Fatalf("%s: Embed of 200 texts = %v after %d calls with %+v", tt.upstream, err, e.calls, v)
		}
		for i := range v.List {
			if v.List[i].Values[0] != float32(i+1) {
				t.Fatalf("%s: vector %d belongs to the text of %v bytes", tt.upstream, i, v.List[i].Values[0])
			}
		}
		if _, err := provider.Embed(context.Background(), a, call, &embeddings.Request{Model: "m", Inputs: []embeddings.Input{{Tokens: []int{1}}}}); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: Embed of tokens = %v", tt.upstream, err)
		}
	}
	e.fail = strings.Repeat("x", 150)
	if _, err := provider.Embed(context.Background(), a, &provider.Call{Upstream: "amazon.titan-embed-text-v2:0"}, many); !fault.Is(err, fault.Unavailable) {
		t.Errorf("Embed with one text that fails = %v, want its fault", err)
	}
	if _, err := provider.Embed(context.Background(), a, &provider.Call{Upstream: "meta.llama"}, one); !fault.Is(err, fault.Unavailable) {
		t.Errorf("Embed of a model that is none = %v", err)
	}
}
