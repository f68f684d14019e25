package messages

import (
	"encoding/json"
	"flag"
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"sluice/internal/prompt/chat"
)

var update = flag.Bool("update", false, "write testdata/*.txtar anew")

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
