package claude_test

import (
	"testing"

	"sluice/internal/prompt/chat"
	"sluice/internal/upstream/provider/claude"
)

func TestJSONText(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`{}`:                                     `{}`,
		`{"a":1}`:                                `{"a":1}`,
		"```json\n{\"a\": [1, {\"b\": 2}]}\n```": `{"a": [1, {"b": 2}]}`,
		"Here: {\"a\":1} and {\"b\":2}":          `{"a":1}`,
		`{"a":"}\"{","b":"\\"} done`:             `{"a":"}\"{","b":"\\"}`,
		`{"日本":"}"}`:                             `{"日本":"}"}`,
		`[{"a":1}]`:                              `{"a":1}`,
		`{"a":"cut`:                              `{"a":"cut`,
		`no`:                                     ``,
		``:                                       ``,
	} {
		for size := 1; size <= len(in)+1; size++ {
			var text claude.JSONText
			got := ""
			for rest := in; rest != ""; {
				n := min(size, len(rest))
				got += text.Pass(rest[:n])
				rest = rest[n:]
			}
			if got != want {
				t.Errorf("Pass(%q) in pieces of %d = %q, want %q", in, size, got, want)
			}
			complete := want != "" && want[len(want)-1] == '}'
			if err := text.Check(chat.FinishStop); (err == nil) != complete {
				t.Errorf("Check behind %q = %v, want none: %t", in, err, complete)
			}
			if err := text.Check(chat.FinishLength); err != nil {
				t.Errorf("Check(length) behind %q = %v, want none", in, err)
			}
		}
	}
}
