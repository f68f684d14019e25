package models

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/kit/fault"
	"sluice/internal/prompt/chat"
	"sluice/internal/prompt/tokens"
	"sluice/internal/upstream/provider"
)

func body(t *testing.T, model, text, more string) []byte {
	t.Helper()
	quoted, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Appendf(nil, `{"model":%q,"messages":[{"role":"user","content":%s}]%s}`, model, quoted, more)
}

func open(t *testing.T, ctx context.Context, text string) (provider.Stream, error) {
	t.Helper()
	request, err := chat.Parse(body(t, "sandbox/small", text, ""))
	if err != nil {
		t.Fatal(err)
	}
	return New().Open(ctx, &provider.Call{Request: request, Upstream: "small"})
}

func TestDelays(t *testing.T) {
	t.Parallel()
	tokens.Count("load the vocabulary outside of the bubble")
	for _, test := range []struct {
		text string
		want time.Duration
	}{
		{"[[sandbox:tokens=5]]", 0},
		{"[[sandbox:tokens=5]] [[sandbox:delay=2s]]", 2 * time.Second},
		{"[[sandbox:tokens=5]] [[sandbox:chunk_delay=50ms]]", 200 * time.Millisecond},
		{"[[sandbox:tokens=5]] [[sandbox:chunk_delay=50ms]] [[sandbox:delay=1m]]", time.Minute + 200*time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			stream, err := open(t, t.Context(), test.text)
			if err != nil {
				t.Fatalf("Open(%s) = %v", test.text, err)
			}
			if got := time.Since(start); got != 0 {
				t.Errorf("Open(%s) took %v, want the delay before the first event", test.text, got)
			}
			if ready := !strings.Contains(test.text, ":delay"); stream.Ready() != ready {
				t.Errorf("Ready(%s) = %v, want %v", test.text, !ready, ready)
			}
			collect(t, stream)
			if got := time.Since(start); got != test.want {
				t.Errorf("%s took %v, want %v", test.text, got, test.want)
			}
		})
	}
}

func TestReadyBetweenChunks(t *testing.T) {
	t.Parallel()
	tokens.Count("load the vocabulary outside of the bubble")
	synctest.Test(t, func(t *testing.T) {
		stream, err := open(t, t.Context(), "[[sandbox:tokens=5]] [[sandbox:chunk_delay=50ms]]")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Next(); err != nil {
			t.Fatal(err)
		}
		if stream.Ready() {
			t.Error("Ready() = true, want false while a chunk is held back")
		}
		time.Sleep(50 * time.Millisecond) // the bubble's clock
		if !stream.Ready() {
			t.Error("Ready() = false, want true once the delay is over")
		}
	})
}

func TestCancelEndsDelays(t *testing.T) {
	t.Parallel()
	tokens.Count("load the vocabulary outside of the bubble")
	for _, text := range []string{"Say hi [[sandbox:delay=60s]]", "[[sandbox:error=503]] [[sandbox:delay=60s]]", "[[sandbox:tokens=99]] [[sandbox:chunk_delay=60s]]"} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			start := time.Now()
			stream, err := open(t, ctx, text)
			for err == nil {
				_, err = stream.Next()
			}
			if got := time.Since(start); got != time.Second || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s ended after %v with %v, want after 1s with %v", text, got, err, context.DeadlineExceeded)
			}
			if !fault.Is(err, fault.Unavailable) {
				t.Errorf("%s ended with %v, want a fault", text, err)
			}
		})
	}
}

func TestCancelWithoutDelay(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	stream, err := open(t, ctx, "[[sandbox:tokens=5]]")
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := stream.Next(); !errors.Is(err, context.Canceled) {
		t.Errorf("Next after cancel = %v, want %v", err, context.Canceled)
	}
}

func TestEveryStatusThatAFaultHas(t *testing.T) {
	t.Parallel()
	for kind := fault.Internal; kind <= fault.Unavailable; kind++ {
		status := kind.Status()
		_, err := open(t, t.Context(), fmt.Sprintf("[[sandbox:error=%d]]", status))
		if f, ok := errors.AsType[*fault.Fault](err); !ok || f.Kind.Status() != status {
			t.Errorf("[[sandbox:error=%d]] = %v, want that status", status, err)
		}
	}
}

func TestFillerIsExact(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 2, 3, 29, 30, 31, 32, 500, 4097, mostTokens} {
		if got := tokens.Count(filler(n)); got != n {
			t.Errorf("Count(filler(%d)) = %d, want %d", n, got, n)
		}
	}
}

func TestEffortDeepensReasoning(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"What is 6 * 7?", "Write a poem", "Say hi"} {
		last := 0
		for _, effort := range []string{"none", "minimal", "low", "medium", "high"} {
			got := ask(t, body(t, "sandbox/reasoner", text, `,"reasoning_effort":"`+effort+`"`), 0)
			if n := got.usage.Reasoning; n <= last && effort != "none" || effort == "none" && n != 0 {
				t.Errorf("%s with effort %s: %d tokens of reasoning, want more than %d", text, effort, n, last)
			}
			last = got.usage.Reasoning
		}
	}
}

func TestPhrasing(t *testing.T) {
	t.Parallel()
	phrasings := func(more string) map[string]bool {
		seen := make(map[string]bool)
		for seed := range 40 {
			seen[ask(t, body(t, "sandbox/large", "Write a poem", fmt.Sprintf(`,"seed":%d%s`, seed, more)), 0).content] = true
		}
		return seen
	}
	if got := len(phrasings("")); got < 3 {
		t.Errorf("40 seeds give %d phrasings, want 3", got)
	}
	if got := len(phrasings(`,"temperature":0`)); got != 1 {
		t.Errorf("40 seeds at temperature 0 give %d phrasings, want 1", got)
	}
}

func TestCallIDsDifferBetweenTurns(t *testing.T) {
	t.Parallel()
	const tool = `,"tools":[{"type":"function","function":{"name":"ping"}}],"tool_choice":"required"`
	first := ask(t, body(t, "sandbox/small", "Use ping", tool), 0)
	second := ask(t, body(t, "sandbox/small", "Use ping again", tool), 0)
	if len(first.calls) != 1 || len(second.calls) != 1 || first.calls[0].ID == second.calls[0].ID {
		t.Errorf("calls = %+v and %+v, want one each with ids of their own", first.calls, second.calls)
	}
}

// The costs of hostile requests are bounded; without the bounds these would run for minutes.
func TestHostileRequestsEnd(t *testing.T) {
	t.Parallel()
	wide := make([]string, 200)
	for i := range wide {
		wide[i] = fmt.Sprintf(`"p%d":{"$ref":"#/$defs/n"}`, i)
	}
	schemas := []string{
		`{"$ref":"#/$defs/n","$defs":{"n":{"type":"object","properties":{` + strings.Join(wide, ",") + `}}}}`,
		`{"$ref":"#/$defs/n","$defs":{"n":{"type":"object","required":["p1","p2","p3"],"properties":{` + strings.Join(wide, ",") + `}}}}`,
		`{"type":"object","required":["a"],"properties":{"a":` + strings.Repeat(`{"type":"array","minItems":1000,"items":`, 9) + `{}` + strings.Repeat("}", 9) + `}}`,
		`{"$ref":"#"}`, `{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}}`,
		`{"allOf":[{"$ref":"#"},{"$ref":"#"}]}`, `{"anyOf":[{"$ref":"#"},{"$ref":"#"}]}`,
	}
	for _, schema := range schemas {
		got := ask(t, body(t, "sandbox/small", "go", `,"response_format":{"type":"json_schema","json_schema":{"name":"x","schema":`+schema+`}}`), 0)
		if !json.Valid([]byte(got.content)) {
			t.Errorf("%.80s gives %.80q, want JSON", schema, got.content)
		}
	}
	many := make([]string, 128)
	for i := range many {
		many[i] = fmt.Sprintf(`{"type":"function","function":{"name":"get_thing_%d","description":"Get the thing","parameters":%s}}`, i, schemas[0])
	}
	for _, text := range []string{strings.Repeat("get the thing and ", 5_000), strings.Repeat("(", 10_000), strings.Repeat(`"`, 10_000), strings.Repeat("1 + ", 10_000), strings.Repeat("A, ", 10_000)} {
		ask(t, body(t, "sandbox/small", text, `,"tools":[`+strings.Join(many, ",")+`]`), 0)
		ask(t, body(t, "sandbox/small", text, `,"response_format":{"type":"json_object"}`), 0)
		ask(t, body(t, "sandbox/small", "Sort: "+text, ""), 0)
	}
}

func FuzzOpen(f *testing.F) {
	for _, text := range []string{
		"What is 2 + 2?", "Sort: b, a", "Say \"x\" 3 times", "How many r in strawberry?", "Reverse: ab", "My name is Ana. What's my name?",
		"Use get_thing for Paris and Rome, then stop", "[[sandbox:call=get_thing {\"city\":\"x\"}]]", "Extract the dates from: 3 May 2026", "Return {\"a\": \"b|c\", \"n\": [1]}",
	} {
		f.Add(text, "The gate is open.")
	}
	f.Fuzz(func(t *testing.T, text, system string) {
		a, _ := json.Marshal(system)
		b, _ := json.Marshal(text)
		for _, more := range []string{
			"", `,"response_format":{"type":"json_object"}`,
			`,"tools":[{"type":"function","function":{"name":"get_thing","parameters":{"type":"object","properties":{"city":{"type":"string"},"n":{"type":"integer"}},"required":["city"]}}}]`,
		} {
			request, err := chat.Parse(fmt.Appendf(nil, `{"model":"sandbox/large","max_tokens":200,"messages":[{"role":"system","content":%s},{"role":"user","content":%s}]%s}`, a, b, more))
			if err != nil {
				t.Skip("no request: ", err)
			}
			request.ReasoningEffort = chat.EffortHigh
			ctx, cancel := context.WithCancel(t.Context())
			if strings.Contains(text, "delay") {
				cancel()
			}
			stream, err := New().Open(ctx, &provider.Call{Request: request, Upstream: "large", Thinks: true})
			if err == nil {
				if got := collect(t, stream); got.err == nil && got.usage.CompletionTotal() > 200 {
					t.Errorf("usage = %+v, want at most 200", got.usage)
				}
			} else if !errors.As(err, new(*fault.Fault)) {
				t.Errorf("Open(%q) = %v, want a fault", text, err)
			}
			cancel()
		}
	})
}

func BenchmarkOpen(b *testing.B) {
	request, err := chat.Parse([]byte(`{"model":"sandbox/small","messages":[{"role":"user","content":"Write a poem about the sea"}]}`))
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := New().Open(b.Context(), &provider.Call{Request: request, Upstream: "small"}); err != nil {
			b.Fatal(err)
		}
	}
}
