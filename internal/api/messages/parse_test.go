package messages

import (
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"sluice/internal/prompt/chat"
)

var update = flag.Bool("update", false, "write testdata/*.txtar anew")

// The id of the message that a request continues is bounded.
func TestThreadBound(t *testing.T) {
	t.Parallel()
	for size, ok := range map[int]bool{maxMessageID: true, maxMessageID + 1: false} {
		body := `{"model":"m","max_tokens":9,"messages":[],"thread":{"type":"continue","previous_message_id":"` + strings.Repeat("x", size) + `"}}`
		if _, err := Parse([]byte(body)); (err == nil) != ok {
			t.Errorf("Parse with an id of %d bytes = %v, want it taken: %t", size, err, ok)
		}
	}
}

// A version of the dialect refuses what it does not have any more, and those before it do not.
func TestSince(t *testing.T) {
	t.Parallel()
	req, err := Parse([]byte(`{"model":"m","max_tokens":9,"top_k":0,"messages":[{"role":"user","content":[{"type":"text","text":"a","citations":[]}]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	for version, want := range map[string]string{"": "", "2023-06-01": "", "2026-10-20": "", "2026-10-21": "top_k: Extra inputs are not permitted", "2027-01-01": "top_k: Extra inputs are not permitted", "x": "", "zzz": ""} {
		got := ""
		if err := req.Since(version); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("Since(%q) = %q, want %q", version, got, want)
		}
	}
}

// TestParse reads requests of testdata/requests.txtar: each is followed by the chat completion that it becomes.
func TestParse(t *testing.T) {
	t.Parallel()
	const file = "testdata/requests.txtar"
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	archive := txtar.Parse(data)
	for i := 0; i+1 < len(archive.Files); i += 2 {
		sent, want := archive.Files[i], &archive.Files[i+1]
		req, err := Parse(sent.Data)
		if err != nil {
			t.Errorf("%s: Parse = %v", sent.Name, err)
			continue
		}
		got := string(req.Chat.AppendUpstream(nil, chat.Patch{})) + "\n"
		if o := req.Chat.Original; o != nil && o.Needs.Path != "" {
			got += "needs " + o.Needs.What + " at " + o.Needs.Path + "\n"
		}
		if len(req.unread) > 0 {
			got += "leaves " + strings.Join(req.unread, ", ") + "\n"
		}
		if o := req.Chat.Original; o == nil {
			got += "not for an upstream of the dialect\n"
		} else if o.Altered {
			got += "altered\n"
		}
		if !json.Valid(req.Chat.AppendUpstream(nil, chat.Patch{})) {
			t.Errorf("%s: Parse wrote %s, which is not JSON", sent.Name, req.Chat.AppendUpstream(nil, chat.Patch{}))
		}
		if *update {
			want.Data = []byte(got)
		}
		if got != string(want.Data) {
			t.Errorf("%s: Parse =\n%swant\n%s", sent.Name, got, want.Data)
		}
	}
	if *update {
		if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
