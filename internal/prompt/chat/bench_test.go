package chat

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// smallBody is a request of about 600 bytes, as a chat client sends it on its second turn.
const smallBody = `{"model":"service/auto","messages":[` +
	`{"role":"system","content":"You are a helpful assistant. Answer briefly and say so when you do not know."},` +
	`{"role":"user","content":"What does a sluice do in a canal, and who operates it?"},` +
	`{"role":"assistant","content":"It lets water pass in a controlled way.\nA lock keeper, or a motor, opens and closes it."},` +
	`{"role":"user","content":"And what happens when the water outside is higher than inside? Please explain it in two or three sentences."}],` +
	`"temperature":0.7,"top_p":1,"max_tokens":512,"stream":true,"stream_options":{"include_usage":true},"user":"user-1234"}`

// longBody is a request with about 200 KB of text, with the escapes and characters of ordinary prose.
func longBody() []byte {
	line := `The quick brown fox jumps over the lazy dog, and the dog \"sighs\".\nÜber den Zaun – ein Sprung. `
	var b bytes.Buffer
	b.WriteString(`{"model":"service/auto","messages":[`)
	for i := range 50 {
		if i > 0 {
			b.WriteByte(',')
		}
		role := [2]string{"user", "assistant"}[i%2]
		fmt.Fprintf(&b, `{"role":%q,"content":"%s"}`, role, strings.Repeat(line, 40))
	}
	b.WriteString(`],"stream":true}`)
	return b.Bytes()
}

// toolsBody is a request of about 50 KB: 64 functions, each with its own schema.
func toolsBody() []byte {
	var b bytes.Buffer
	b.WriteString(`{"model":"service/auto","messages":[{"role":"user","content":"Book a room."}],"tools":[`)
	for i := range 64 {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"type":"function","function":{"name":"tool_%d","description":"Does one thing, and does it well.",`+
			`"parameters":{"type":"object","properties":{`, i)
		for j := range 8 {
			fmt.Fprintf(&b, `"field_%d":{"type":"string","description":"What it is about","enum":["a","b","c"]},`, j)
		}
		b.WriteString(`"count":{"type":"integer","minimum":0,"maximum":100}},"required":["field_0","count"],"additionalProperties":false},"strict":true}}`)
	}
	b.WriteString(`],"tool_choice":"auto"}`)
	return b.Bytes()
}

func BenchmarkParse(b *testing.B) {
	for _, bb := range []struct {
		name string
		body []byte
	}{
		{"small", []byte(smallBody)},
		{"long", longBody()},
		{"tools", toolsBody()},
	} {
		b.Run(bb.name, func(b *testing.B) {
			b.SetBytes(int64(len(bb.body)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Parse(bb.body); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkAppendUpstream(b *testing.B) {
	for _, bb := range []struct {
		name string
		body []byte
	}{
		{"small", []byte(smallBody)},
		{"long", longBody()},
	} {
		b.Run(bb.name, func(b *testing.B) {
			r, err := Parse(bb.body)
			if err != nil {
				b.Fatal(err)
			}
			patch := Patch{Model: "gpt-large-2", IncludeUsage: true, Drop: []string{"user", "reasoning_effort"}}
			var dst []byte
			b.SetBytes(int64(len(bb.body)))
			b.ReportAllocs()
			for b.Loop() {
				dst = r.AppendUpstream(dst[:0], patch)
			}
		})
	}
}
