package chat_test

import (
	"testing"

	"sluice/internal/prompt/allowance"
	"sluice/internal/prompt/chat"
)

// An upstream of the caller's own dialect does not get usage, max_cost and budget, which are ours. Nobody is told that it was left out.
func TestWithholdUsage(t *testing.T) {
	t.Parallel()
	for _, dialect := range []allowance.Dialects{allowance.Messages, allowance.Responses} {
		got, dropped, err := chat.Withhold(dialect, []byte(`{"model":"m","usage":{"include":true},"max_cost":0.5,"Budget":{"clamp":true},"input":"hi"}`), nil)
		if want := `{"model":"m","input":"hi"}`; string(got) != want || len(dropped) != 0 || err != nil {
			t.Errorf("Withhold(%d) = %s, %q, %v, want %s", dialect, got, dropped, err, want)
		}
	}
}
