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
		if !json.Valid(body) {
			t.Errorf("Parse(%q) accepts what is no JSON", body)
		}
		checkSame(t, body, r.Chat)
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

// checkSame holds a request against what its JSON is read as: an upstream of that dialect gets a chat completion, and it is
// as large as it was counted.
func checkSame(t *testing.T, body []byte, built *chat.Request) {
	t.Helper()
	written := built.AppendUpstream(nil, chat.Patch{})
	read, err := chat.Parse(written)
	if err != nil {
		t.Fatalf("Parse(%q) = %s, which is refused: %v", body, written, err)
	}
	sizes := func(r *chat.Request) string {
		return fmt.Sprint(r.PromptBytes(), r.TokenBound(), r.Attachments(), r.MaxTokens, r.Foreign().Path, r.Unvetted(), r.Reserved, r.Runs, r.HasMCP(), r.Stream, r.User, r.Stop, r.ReasoningEffort, r.ToolChoice, r.Format.SchemaName)
	}
	read.Original = built.Original
	if sizes(read) != sizes(built) {
		t.Fatalf("Parse(%q) has %s; its JSON %s has %s", body, sizes(built), written, sizes(read))
	}
}
