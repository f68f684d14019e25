package responses

import (
	"strings"
	"testing"
)

// max_cost and budget are read as on the other doors, are not named as dropped, and no upstream of the dialect gets them.
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
		r, err := Parse([]byte(`{"model":"m","input":"hi"` + tt.more + `}`))
		if err != nil {
			t.Errorf("Parse(%s) = %v", tt.more, err)
			continue
		}
		same, err := r.Compose(nil)
		if err != nil || same.MaxCost != tt.cost || same.Clamp != tt.clamp || len(r.unread) > 0 {
			t.Errorf("Compose(%s) = %+v, %v, want max_cost %q and clamp %t", tt.more, same, err, tt.cost, tt.clamp)
			continue
		}
		body, dropped, err := r.Original(nil).Compose("theirs", 0, false, nil)
		if err != nil || len(dropped) > 0 || strings.Contains(string(body), "max_cost") || strings.Contains(string(body), "budget") {
			t.Errorf("the body for an upstream is %s, dropped %q, %v", body, dropped, err)
		}
	}
}
