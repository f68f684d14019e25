package messages

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"sluice/internal/kit/fault"
	"sluice/internal/prompt/chat"
)

// FuzzParse reads any body: what is accepted is JSON and becomes a chat completion that is JSON, and what is refused has
// a message that can be read.
func FuzzParse(f *testing.F) {
	data, err := os.ReadFile("testdata/requests.txtar")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range txtar.Parse(data).Files {
		if !strings.HasSuffix(file.Name, ": chat") {
			f.Add(file.Data)
		}
	}
	_, cases := readBad(f)
	for _, c := range cases {
		f.Add([]byte(c.body()))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		before := bytes.Clone(body)
		r, err := Parse(body)
		if !bytes.Equal(body, before) {
			t.Fatalf("Parse(%q) has changed the body", before)
		}
		if err != nil {
			refusal, ok := errors.AsType[*fault.Fault](err)
			if !ok || refusal.Kind != fault.Invalid {
				t.Fatalf("Parse(%q) = %v, want an invalid request", body, err)
			}
			checkFault(t, refusal)
			return
		}
		if !json.Valid(body) || !json.Valid(r.Chat.AppendUpstream(nil, chat.Patch{})) {
			t.Errorf("Parse(%q) = %q, want JSON", body, r.Chat.AppendUpstream(nil, chat.Patch{}))
		}
		for i := range r.Chat.Messages { // every message is found again
			if at := r.locate(fmt.Sprintf("messages[%d].content", i)); at != "system" && !strings.HasPrefix(at, "messages.") {
				t.Errorf("Parse(%q): message %d is at %q", body, i, at)
			}
		}
	})
}

func BenchmarkParse(b *testing.B) {
	body := []byte(`{"model":"m","max_tokens":1000,"system":[{"type":"text","text":"` + strings.Repeat("Be brief. ", 200) + `"}],"messages":[{"role":"user","content":"` + strings.Repeat("What is a sluice? ", 100) +
		`"},{"role":"assistant","content":[{"type":"text","text":"Looking."},{"type":"tool_use","id":"a","name":"f","input":{"x":"y"}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"` + strings.Repeat("line\\n", 200) +
		`"}]}],"tools":[{"name":"f","input_schema":{"type":"object","properties":{"x":{"type":"string"}}}}]}`)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse(body); err != nil {
			b.Fatal(err)
		}
	}
}
