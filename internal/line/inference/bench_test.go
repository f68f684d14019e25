package inference_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"sluice/internal/account"
	"sluice/internal/account/auth"
	"sluice/internal/kit/pulse"
	"sluice/internal/ledger/admission"
	"sluice/internal/ledger/usage"
	"sluice/internal/line/inference"
	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/catalog"
	"sluice/internal/upstream/provider"
	"sluice/internal/upstream/routing"
)

// canned is an adapter whose replies cost nothing.
type canned struct{ events []provider.Event }

func (c *canned) Open(context.Context, *provider.Call) (provider.Stream, error) {
	return &cannedStream{events: c.events}, nil
}

type cannedStream struct {
	events []provider.Event
	next   int
}

func (s *cannedStream) Next() (*provider.Event, error) {
	if s.next == len(s.events) {
		return nil, io.EOF
	}
	s.next++
	return &s.events[s.next-1], nil
}

func (s *cannedStream) Ready() bool  { return s.next < len(s.events) }
func (s *cannedStream) Close() error { return nil }

type noBooks struct{}

func (noBooks) Ready() error            { return nil }
func (noBooks) Record(usage.Settlement) {}

type noWriter struct{ header http.Header }

func (w *noWriter) Header() http.Header         { return w.header }
func (w *noWriter) Write(p []byte) (int, error) { return len(p), nil }
func (w *noWriter) WriteHeader(int)             {}
func (w *noWriter) Flush()                      {}

// BenchmarkComplete is everything between the parsed request and the bytes of the reply, for a model with one
// target and with two.
func BenchmarkComplete(b *testing.B) {
	stream := []provider.Event{chunk(`{"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}`)}
	for range 20 {
		stream = append(stream, chunk(`{"choices":[{"index":0,"delta":{"content":" word"},"finish_reason":null}]}`))
	}
	stream = append(stream, chunk(`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`), chunk(`{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":20}}`))
	whole := []provider.Event{{Kind: provider.Whole, Raw: []byte(`{"choices":[{"index":0,"message":{"role":"assistant","content":"Hello there, how are you?"},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":20}}`)}}
	for name, bb := range map[string]struct {
		events []provider.Event
		stream bool
		model  string
	}{"stream": {stream, true, "one"}, "whole": {whole, false, "one"}, "stream, two targets": {stream, true, "two"}, "whole, two targets": {whole, false, "two"}} {
		b.Run(name, func(b *testing.B) {
			c, err := catalog.New([]catalog.Model{
				{ID: "one", Plan: account.Free, Provider: "a", RequestMilli: 1000, UnitMilli: 1000, ContextLength: 1000, MaxOutput: 100},
				{ID: "two", Plan: account.Free, Targets: []catalog.Target{{Provider: "a", Weight: 1}, {Provider: "b", Weight: 1}}, RequestMilli: 1000, UnitMilli: 1000, ContextLength: 1000, MaxOutput: 100},
			})
			if err != nil {
				b.Fatal(err)
			}
			key := []routing.Key{{Adapter: &canned{bb.events}}}
			models := inference.Models{Catalog: c, Routes: routing.New(c, []routing.Provider{{Name: "a", Keys: key}, {Name: "b", Keys: key}}, &routing.Options{Log: slog.New(slog.DiscardHandler)})}
			line := inference.New(admission.New(admission.NewMemory(nil), noBooks{}, nil), pulse.New(), nil)
			req, err := chat.Parse([]byte(request(bb.model, bb.stream, "")))
			if err != nil {
				b.Fatal(err)
			}
			caller := auth.Caller{Account: &account.Account{ID: "a", Plan: account.Scale}}
			limits := account.Limits{RequestsPerMinute: account.Unlimited, Concurrent: account.Unlimited, TokensPerMinute: account.Unlimited}
			ctx, cancel := context.WithCancel(b.Context())
			defer cancel()
			w := &noWriter{http.Header{}}
			b.ReportAllocs()
			for b.Loop() {
				if err := line.Complete(ctx, w, models, &inference.Call{ID: "0123456789abcdef0123456789abcdef", Start: time.Now(), Caller: caller, Limits: limits, Request: req}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkAuto compares a call that names its model with the same one through the router, among one and ten models.
func BenchmarkAuto(b *testing.B) {
	whole := []provider.Event{{Kind: provider.Whole, Raw: []byte(`{"choices":[{"index":0,"message":{"role":"assistant","content":"Hello there, how are you?"},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":20}}`)}}
	for _, n := range []int{1, 10} {
		models := []catalog.Model{catalog.Router("service")}
		for i := range n {
			models = append(models, catalog.Model{ID: fmt.Sprint("m", i), Plan: account.Free, Provider: "a", RequestMilli: 1000, UnitMilli: 1000, ContextLength: 128_000, MaxOutput: 16_000})
		}
		c, err := catalog.New(models)
		if err != nil {
			b.Fatal(err)
		}
		routes := routing.New(c, []routing.Provider{{Name: "a", Keys: []routing.Key{{Adapter: &canned{whole}}}}}, &routing.Options{Log: slog.New(slog.DiscardHandler)})
		set := inference.Models{Catalog: c, Routes: routes, Weights: routing.NewWeights("")}
		for _, model := range []string{"m0", "service/auto"} {
			b.Run(fmt.Sprintf("%s, %d models", model, n), func(b *testing.B) {
				line := inference.New(admission.New(admission.NewMemory(nil), noBooks{}, nil), pulse.New(), nil)
				req, err := chat.Parse([]byte(`{"model":"` + model + `","messages":[{"role":"system","content":"You are a helpful assistant."},{"role":"user","content":"Explain in two sentences how a canal lock lifts a ship."}],"max_tokens":100}`))
				if err != nil {
					b.Fatal(err)
				}
				caller := auth.Caller{Account: &account.Account{ID: "a", Plan: account.Scale}}
				limits := account.Limits{RequestsPerMinute: account.Unlimited, Concurrent: account.Unlimited, TokensPerMinute: account.Unlimited}
				w := &noWriter{http.Header{}}
				b.ReportAllocs()
				for b.Loop() {
					if err := line.Complete(b.Context(), w, set, &inference.Call{ID: "0123456789abcdef0123456789abcdef", Start: time.Now(), Caller: caller, Limits: limits, Request: req}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
