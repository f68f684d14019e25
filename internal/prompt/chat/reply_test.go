package chat

import "testing"

func TestUsageSums(t *testing.T) {
	t.Parallel()
	u := Usage{Prompt: 1, Cached: 20, Completion: 300, Reasoning: 4000}
	if u.PromptTotal() != 21 || u.CompletionTotal() != 4300 || u.Total() != 4321 {
		t.Errorf("sums of %+v = %d, %d, %d, want 21, 4300, 4321", u, u.PromptTotal(), u.CompletionTotal(), u.Total())
	}
}
