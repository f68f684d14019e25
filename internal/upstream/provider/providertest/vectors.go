package providertest

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/kit/fault"
	"sluice/internal/prompt/embeddings"
	"sluice/internal/upstream/provider"
)

// VectorDialect is a wire format for embeddings over HTTP. Like Dialect, it must not use the adapter's own code.
type VectorDialect struct {
	// Model is the upstream's name of the model.
	Model string
	// Read reads a request: its texts and the dimensions that it asks for, 0 for none. It panics if no upstream would
	// understand it.
	Read func(r *http.Request, body []byte) (texts []string, dimensions int)
	// Write writes the vectors of those texts. Tokens is what the upstream read; dialects without figures leave it out.
	Write func(header http.Header, vectors [][]float32, tokens int) string
	// Counts says that the dialect has figures.
	Counts bool
	// Refuse returns the body of an error with the message.
	Refuse func(message string) string
	// Open returns an adapter for the upstream at baseURL, and a function that ends it. It uses Key as its credential.
	Open func(t *testing.T, baseURL string) (a provider.Adapter, end func())
}

// vectorCases are requests of the embeddings door.
var vectorCases = []struct {
	name, members string
	texts         []string
	dimensions    int
	base64        bool
}{
	{name: "one text", members: `"input":"The gate is closed."`, texts: []string{"The gate is closed."}},
	{name: "texts", members: `"input":["b","a","wörld 👩‍🚀 \"<&>\"\n","a"]`, texts: []string{"b", "a", "wörld 👩‍🚀 \"<&>\"\n", "a"}},
	{name: "base64", members: `"input":["b","a"],"encoding_format":"base64"`, texts: []string{"b", "a"}, base64: true},
	{name: "dimensions", members: `"input":"a","dimensions":7`, texts: []string{"a"}, dimensions: 7},
	{name: "many texts", members: `"input":` + Encode(manyTexts()), texts: manyTexts()},
}

// manyTexts returns more texts than any vendor takes at once.
func manyTexts() (texts []string) {
	for i := range 230 {
		texts = append(texts, "text "+strconv.Itoa(i))
	}
	return texts
}

// vectorOf returns what the upstream of the suite makes of a text: vectors of different texts differ.
func vectorOf(text string, dimensions int) []float32 {
	if dimensions == 0 {
		dimensions = 3
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(text)) // never fails
	v := make([]float32, dimensions)
	for i := range v {
		v[i] = float32(h.Sum32()>>uint(i)%1000)/1000 - 0.25
	}
	return v
}

// Embeddings plays the embeddings door with an upstream: equal vectors in the order of the inputs, in whatever form they
// are asked for; errors of the caller and of the upstream as such; and no reply that breaks off looks complete.
func Embeddings(t *testing.T, d VectorDialect) {
	t.Helper()
	for _, c := range vectorCases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := d.embed(t, c.members, 0, nil)
			if err != nil {
				t.Fatalf("Embed = %v, want vectors", err)
			}
			var want [][]float32
			tokens := 0
			for _, text := range c.texts {
				want = append(want, vectorOf(text, c.dimensions))
				if d.Counts {
					tokens += len(text)
				}
			}
			if got.Tokens != tokens {
				t.Errorf("the figure is %d, want %d", got.Tokens, tokens)
			}
			if diff := cmp.Diff(want, readVectors(t, got.Append(nil, "m", c.base64, 1), c.base64)); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
	for status, kind := range map[int]fault.Kind{400: fault.Invalid, 401: fault.Unavailable, 429: fault.Unavailable, 500: fault.Unavailable, 503: fault.Unavailable} {
		t.Run(fmt.Sprintf("status %d", status), func(t *testing.T) {
			t.Parallel()
			v, err := d.embed(t, `"input":["a","b"]`, status, nil)
			if v != nil || !fault.Is(err, kind) || strings.Contains(fault.From(err).Message, Key) {
				t.Errorf("Embed = %v, %v, want a fault of kind %v", v, err, kind)
			}
		})
	}
	for name, spoil := range map[string]func(w http.ResponseWriter, body string){
		"cut":            func(w http.ResponseWriter, body string) { sendHalf(w, body); panic(http.ErrAbortHandler) },
		"ends too early": func(w http.ResponseWriter, body string) { _, _ = io.WriteString(w, body[:len(body)/2]) },
		"garbage":        func(w http.ResponseWriter, body string) { _, _ = io.WriteString(w, "<html>"+body) },
		"empty":          func(w http.ResponseWriter, _ string) { _, _ = io.WriteString(w, "{}") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v, err := d.embed(t, `"input":["a","b"]`, 0, spoil)
			if v != nil || !fault.Is(err, fault.Unavailable) || !provider.WasSent(err) {
				t.Errorf("Embed = %v, %v, want a fault of the upstream, which had the texts", v, err)
			}
		})
	}
}

// sendHalf sends half of a body whose length is announced.
func sendHalf(w http.ResponseWriter, body string) {
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = io.WriteString(w, body[:len(body)/2])
	_ = http.NewResponseController(w).Flush() // an error means that the caller left, which the test sees
}

// embed sends a request through the door to an upstream that answers in the dialect, or with an error if there is a
// status, or as spoil does.
func (d *VectorDialect) embed(t *testing.T, members string, status int, spoil func(http.ResponseWriter, string)) (*embeddings.Vectors, error) {
	t.Helper()
	req, err := embeddings.Parse([]byte(`{"model":"asked",` + members + `}`))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		texts, dimensions := d.Read(r, body)
		w.Header().Set("Content-Type", "application/json")
		if status != 0 {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, d.Refuse("It is wrong, "+Key+"."))
			return
		}
		var vectors [][]float32
		tokens := 0
		for _, text := range texts {
			vectors, tokens = append(vectors, vectorOf(text, dimensions)), tokens+len(text)
		}
		reply := d.Write(w.Header(), vectors, tokens)
		if spoil != nil {
			spoil(w, reply)
			return
		}
		_, _ = io.WriteString(w, reply)
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // connections that are cut are no news
	server.Start()
	defer server.Close()
	a, end := d.Open(t, server.URL)
	defer end()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	return provider.Embed(ctx, a, &provider.Call{Upstream: d.Model}, req)
}

// readVectors reads a reply of the door.
func readVectors(t *testing.T, body []byte, base64 bool) (vectors [][]float32) {
	t.Helper()
	var reply struct {
		Data []struct {
			Index     int
			Embedding json.RawMessage
		}
	}
	if err := json.Unmarshal(body, &reply); err != nil {
		t.Fatalf("the reply is not JSON: %v", err)
	}
	for i, entry := range reply.Data {
		v, err := embeddings.ReadVector(entry.Embedding)
		if err != nil || entry.Index != i || (entry.Embedding[0] == '"') != base64 {
			t.Fatalf("entry %d has the index %d, %v, %.40s", i, entry.Index, err, entry.Embedding)
		}
		vectors = append(vectors, v.Values)
	}
	return vectors
}
