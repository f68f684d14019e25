package chat

import "testing"

// max_cost is kept as it was written. Neither it nor budget goes to an upstream.
func TestMaxCost(t *testing.T) {
	t.Parallel()
	const messages = `"messages":[{"role":"user","content":"hi"}]`
	for _, tt := range []struct {
		more  string
		cost  string
		clamp bool
	}{
		{``, "", false},
		{`"max_cost":0.5,`, "0.5", false},
		{`"max_cost": 0 ,"budget":{},`, "0", false},
		{`"max_cost":1e-3,"budget":{"clamp":true},`, "1e-3", true},
		{`"\u006dax_cost":1000000,"budget":{"clamp":false},`, "1000000", false},
		{`"max_cost":0.00000000000000000000000000000000000000000000000001,`, "0.00000000000000000000000000000000000000000000000001", false},
		{`"max_cost":null,"budget":null,`, "", false},
		{`"budget":{"clamp":null},`, "", false},
	} {
		body := `{` + tt.more + `"model":"m",` + messages + `}`
		r, err := Parse([]byte(body))
		if err != nil || r.MaxCost != tt.cost || r.Clamp != tt.clamp {
			t.Errorf("Parse(%s) = %+v, %v, want max_cost %q and clamp %t", body, r, err, tt.cost, tt.clamp)
			continue
		}
		if got, want := string(r.AppendUpstream(nil, Patch{})), `{"model":"m",`+messages+`}`; got != want {
			t.Errorf("AppendUpstream(%s) = %s, want %s", body, got, want)
		}
		for name := range r.Unread() {
			t.Errorf("Parse(%s) does not know %s", body, name)
		}
	}
}
