package app_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"sluice/internal/operate/admin"
	"sluice/internal/operate/feedback"
)

// plenty is for tests that ask until something has happened.
const plenty = "plans: {scale: {requests_per_minute: 100000}}\n"

const routed = `{"model":"service/auto","messages":[{"role":"user","content":"Write a Python function that sorts a list."}]}`

// rate casts a vote.
func (n *node) rate(key, id, rating string) reply {
	n.t.Helper()
	return n.request("POST", "/v1/feedback", key, fmt.Sprintf(`{"request_id":%q,"rating":%q}`, id, rating))
}

// points returns what feedback has added to the models of routed, by their ids.
func (n *node) points(key string) map[string]float64 {
	n.t.Helper()
	var route struct {
		Candidates []struct {
			Model    string
			Feedback float64
		}
	}
	r := n.request("POST", "/v1/route", key, routed)
	if err := json.Unmarshal([]byte(r.body), &route); err != nil || r.status != 200 {
		n.t.Fatalf("POST /v1/route = %d %s", r.status, r.body)
	}
	points := map[string]float64{}
	for _, c := range route.Candidates {
		if c.Feedback != 0 {
			points[c.Model] = c.Feedback
		}
	}
	return points
}

// Feedback is off by default, and turned on and off by a reload. A vote moves the model that answered, once; strangers
// cannot rate what is not theirs.
func TestFeedback(t *testing.T) {
	t.Parallel()
	s := newSite(t, plenty)
	n := s.start(t)
	key := n.OwnerKey()
	other := must[admin.CreatedAccount](n, "account.create", admin.NewAccount{Actor: "t", Email: "b@example.com", Plan: "scale"}).MasterKey
	answer := n.request("POST", chatPath, key, routed)
	id, model := answer.header.Get("X-Request-Id"), answer.header.Get("X-Sluice-Model")
	if r := n.rate(key, id, "good"); r.status != 404 || !strings.Contains(r.body, "takes no feedback: it is turned off") {
		t.Errorf("a vote while feedback is off = %d %s", r.status, r.body)
	}
	s.write(t, plenty+"router: {feedback: true}\n")
	if err := n.Reload(); err != nil {
		t.Fatal(err)
	}
	named := n.request("POST", chatPath, key, `{"model":"sandbox/small","messages":[{"role":"user","content":"Hello"}]}`)
	for _, r := range []reply{answer, named} { // the database may be slow
		eventually(t, "the call being known", func() bool {
			return n.call("request.show", map[string]string{"id": r.header.Get("X-Request-Id")}, &struct{}{}) == nil
		})
	}
	for name, tt := range map[string]struct {
		key, id, rating string
		status          int
		says            string
	}{
		"unknown":           {key, strings.Repeat("0", 32), "good", 404, "No call of this account"},
		"of another":        {other, id, "bad", 404, "No call of this account"},
		"named":             {key, named.header.Get("X-Request-Id"), "good", 400, "named its model"},
		"another rating":    {key, id, "great", 400, "rating must be good or bad"},
		"no id":             {key, "", "good", 400, "request_id must have 1 to 128"},
		"a very long id":    {key, strings.Repeat("x", 129), "good", 400, "request_id must have 1 to 128"},
		"id of the answer":  {key, between(answer.body, `"id":"`, `"`), "bad", 200, `"rating":"bad"`},
		"id of the request": {key, id, "bad", 200, `"task":"code"`},
	} {
		before := n.get("/v1/account", tt.key).body
		r := n.rate(tt.key, tt.id, tt.rating)
		if r.status != tt.status || !strings.Contains(r.body, tt.says) {
			t.Errorf("%s: a vote = %d %s, want %d with %q", name, r.status, r.body, tt.status, tt.says)
		}
		if cost := used(before, n.get("/v1/account", tt.key).body); tt.status != 400 && cost != 1 {
			t.Errorf("%s: a vote took %d requests, want 1", name, cost)
		}
	}
	// One bad vote, whatever was tried: 8·1/21 points, of which a hundred are 1.
	eventually(t, "the vote", func() bool { return n.points(key)[model] == -0.0038 })
	if r := n.rate(key, id, "good"); r.status != 200 {
		t.Errorf("another opinion = %d %s", r.status, r.body)
	}
	eventually(t, "the other opinion", func() bool { return n.points(key)[model] == 0.0038 })

	list := must[admin.List[feedback.Rating]](n, "router.feedback", admin.Cursor{})
	if len(list.Data) == 0 || list.Data[0].Model != model || list.Data[0].Good != 1 || list.Data[0].Bad != 0 {
		t.Errorf("router.feedback = %+v, want one good vote about %s", list.Data, model)
	}
	if err := n.call("router.reset", admin.RouterReset{Actor: "t", Model: "unheard-of"}, &struct{}{}); err == nil || !strings.Contains(err.Error(), "no feedback about a model") {
		t.Errorf("resetting an unknown model = %v", err)
	}
	must[admin.RouterReset](n, "router.reset", admin.RouterReset{Actor: "t", Model: model})
	eventually(t, "the reset", func() bool { return len(n.points(key)) == 0 })

	s.write(t, plenty)
	if err := n.Reload(); err != nil {
		t.Fatal(err)
	}
	if r := n.rate(key, id, "good"); r.status != 404 {
		t.Errorf("a vote after feedback was turned off = %d %s", r.status, r.body)
	}
}

// A vote on one node moves the model on all of them, and so does a reset.
func TestFeedbackOnNodes(t *testing.T) {
	t.Parallel()
	nodes, _ := threeNodes(t, "plans: {scale: {requests_per_minute: unlimited, tokens_per_minute: unlimited, concurrent: unlimited}}\nrouter: {feedback: true}\n")
	key := must[admin.CreatedAccount](nodes[0], "account.create", admin.NewAccount{Actor: "t", Email: "a@example.com", Plan: "scale"}).MasterKey
	answer := nodes[0].request("POST", chatPath, key, routed)
	id, model := answer.header.Get("X-Request-Id"), answer.header.Get("X-Sluice-Model")
	// The call is settled on another node than the one that is told.
	eventually(t, "the call being known on another node", func() bool { return nodes[1].rate(key, id, "bad").status == 200 })
	for i, n := range nodes {
		eventually(t, fmt.Sprint("the vote on node ", i), func() bool { return n.points(key)[model] == -0.0038 })
	}
	must[admin.RouterReset](nodes[2], "router.reset", admin.RouterReset{Actor: "t"})
	for i, n := range nodes {
		eventually(t, fmt.Sprint("the reset on node ", i), func() bool { return len(n.points(key)) == 0 })
	}
}
