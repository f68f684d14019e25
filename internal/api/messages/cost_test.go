package messages

import "testing"

// max_cost and budget are read as on the other doors, and are not named as dropped.
func TestMaxCost(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		more  string
		cost  string
		clamp bool
	}{
		{``, "", false},
		{`,"max_cost":0.5`, "0.5", false},
		{`,"max_cost":0,"budget":{}`, "0", false},
		{`,"max_cost":1e-3,"budget":{"clamp":true}`, "1e-3", true},
		{`,"max_cost":null,"budget":null`, "", false},
		{`,"budget":{"clamp":null}`, "", false},
	} {
		r, err := Parse([]byte(`{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi"}]` + tt.more + `}`))
		if err != nil || r.Chat.MaxCost != tt.cost || r.Chat.Clamp != tt.clamp || len(r.unread) > 0 {
			t.Errorf("Parse(%s) = %+v, %v, want max_cost %q and clamp %t", tt.more, r, err, tt.cost, tt.clamp)
		}
	}
}
