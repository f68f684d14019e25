package responses

import (
	"strings"
	"testing"

	"sluice/internal/line/relay"
	"sluice/internal/upstream/provider"
)

// BenchmarkChunk is what one piece of text costs.
func BenchmarkChunk(b *testing.B) {
	req, err := Parse([]byte(`{"model":"m","stream":true,"input":"x"}`))
	if err != nil {
		b.Fatal(err)
	}
	head := relay.Head{RequestID: "0123456789abcdef0123456789abcdef", Model: "lab/large"}
	w := NewWriter(req, head, nil)
	out := w.Start(nil, head)
	ev := &provider.Event{Kind: provider.Text, Raw: []byte(" water and more")}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		out = w.Event(out[:0], ev)
		if i%4096 == 0 { // a reply of the usual length
			w = NewWriter(req, head, nil)
			out = w.Start(out[:0], head)
		}
	}
}

// BenchmarkRequest is what the dialect adds to a request: of a person, and of an agent with tools and a long conversation.
func BenchmarkRequest(b *testing.B) {
	agent := `{"model":"m","stream":true,"instructions":"` + strings.Repeat("Do this. ", 1000) + `","tools":[{"type":"function","name":"shell","parameters":{"type":"object","properties":{"command":{"type":"array","items":{"type":"string"}}}}}],"input":[{"role":"user","content":"go"}` +
		strings.Repeat(`,{"type":"function_call","call_id":"c","name":"shell","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":"`+strings.Repeat("line of output\\n", 20)+`"}`, 100) + `]}`
	for name, body := range map[string]string{"short": `{"model":"m","input":"What is a sluice?"}`, "agent": agent} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				req, err := Parse([]byte(body))
				if err != nil {
					b.Fatal(err)
				}
				if _, err := req.Compose(nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
