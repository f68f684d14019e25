package relay

import (
	"testing"

	"sluice/internal/upstream/provider"
)

func TestSubstance(t *testing.T) {
	t.Parallel()
	const (
		none = iota
		some
		wrong
	)
	chunk := func(raw string) provider.Event { return provider.Event{Kind: provider.Chunk, Raw: []byte(raw)} }
	whole := func(raw string) provider.Event { return provider.Event{Kind: provider.Whole, Raw: []byte(raw)} }
	for name, tt := range map[string]struct {
		event provider.Event
		want  int
	}{
		"text":                   {provider.Event{Kind: provider.Text, Text: "a"}, some},
		"no text":                {provider.Event{Kind: provider.Text}, none},
		"reasoning":              {provider.Event{Kind: provider.Reasoning, Text: "a"}, some},
		"call":                   {provider.Event{Kind: provider.ToolCall}, some},
		"finish":                 {provider.Event{Kind: provider.Finish}, some},
		"usage":                  {provider.Event{Kind: provider.Usage}, none},
		"role chunk":             {chunk(`{"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}`), none},
		"role chunk with null":   {chunk(`{"choices":[{"index":0,"delta":{"role":"assistant","content":null,"refusal":null},"finish_reason":null}]}`), none},
		"chunk without choices":  {chunk(`{"choices":[],"prompt_filter_results":[]}`), none},
		"usage chunk":            {chunk(`{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2}}`), none},
		"content chunk":          {chunk(`{"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]}`), some},
		"reasoning chunk":        {chunk(`{"choices":[{"index":0,"delta":{"reasoning_content":"a"},"finish_reason":null}]}`), some},
		"other reasoning chunk":  {chunk(`{"choices":[{"index":0,"delta":{"reasoning":"a"},"finish_reason":null}]}`), some},
		"call chunk":             {chunk(`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":""}}]},"finish_reason":null}]}`), some},
		"finish chunk":           {chunk(`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`), some},
		"second of two choices":  {chunk(`{"choices":[{"index":0,"delta":{"role":"assistant"}},{"index":1,"delta":{"content":"a"}}]}`), some},
		"failed chunk":           {chunk(`{"error":{"message":"overloaded"}}`), wrong},
		"failed choice":          {chunk(`{"choices":[{"index":0,"delta":{},"error":{"code":502},"finish_reason":"error"}]}`), wrong},
		"garbled chunk":          {chunk(`{"choices":[{"index":0,"delta":{"content":"a`), wrong},
		"whole":                  {whole(`{"choices":[{"index":0,"message":{"role":"assistant","content":"a"},"finish_reason":"stop"}]}` + "\n"), some},
		"whole with a null":      {whole(`{"choices":[{"index":0,"message":{"role":"assistant","content":"a"},"finish_reason":"stop"}],"error":null}`), some},
		"whole without a finish": {whole(`{"choices":[{"index":0,"message":{"role":"assistant","content":"a"}}]}`), some},
		"whole of nothing":       {whole(`{"choices":[]}`), none},
		"failed whole":           {whole(`{"error":{"message":"overloaded"}}`), wrong},
		"failed whole choice":    {whole(`{"choices":[{"index":0,"message":{"content":""},"error":{"code":502},"finish_reason":"error"}]}`), wrong},
		"cut whole":              {whole(`{"choices":[{"index":0,"finish_reason":"stop","message":{"content":"a`), wrong},
		"a page":                 {whole(`<html>Bad gateway</html>`), wrong},
	} {
		got, err := Substance(&tt.event)
		if got != (tt.want == some) || (err != nil) != (tt.want == wrong) {
			t.Errorf("%s: Substance(%s) = %t, %v", name, tt.event.Raw, got, err)
		}
	}
}
