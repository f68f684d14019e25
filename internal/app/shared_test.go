package app_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/internal/line/idempotency"
	"sluice/internal/testkit/pgtest"
	"sluice/internal/testkit/wiretest"
)

// onOneDatabase starts two nodes with the same configuration. The first reaches its database by a wire that
// the test can cut, which is how a dead node looks to the other. Limits do not matter: a node that has just
// joined has no part of them for up to a minute.
func onOneDatabase(t *testing.T, yaml string, replies *idempotency.Options) (one, two *node, line *wiretest.Wire) {
	t.Helper()
	direct := pgtest.URL(t)
	line, wired := wiretest.To(t, direct)
	var nodes [2]*node
	for i, database := range []string{wired, direct} {
		s := newSite(t, "cluster: approximate\nplans: {scale: {requests_per_minute: unlimited, concurrent: unlimited, tokens_per_minute: unlimited}}\ndatabase: "+database+"\n"+oneSecret+yaml)
		s.replies = replies
		nodes[i] = s.start(t)
	}
	nodes[1].within(nodes[0].OwnerKey(), 200)
	return nodes[0], nodes[1], line
}

// Requests with one Idempotency-Key on two nodes: one call, one charge, one answer, also if the first fails or
// its node dies.
func TestIdempotencyOverNodes(t *testing.T) {
	t.Parallel()
	const callers = 4 // on each node
	u := newScripted(t)
	one, two, line := onOneDatabase(t, lab(u.url, "lab/m"), &idempotency.Options{ClaimLife: 10 * time.Second, Patience: 10 * time.Second}) // what a busy machine needs
	key := one.OwnerKey()
	var all sync.WaitGroup
	ask := func(n *node, idem string, got chan<- reply) {
		all.Go(func() {
			r, err := n.idempotent(context.WithoutCancel(t.Context()), key, idem, labChat)
			if err != nil {
				t.Errorf("%s: %v", idem, err)
			}
			got <- r
		})
	}
	waiting := func(n int) {
		t.Helper()
		eventually(t, "all requests being there", func() bool {
			return one.BodiesInFlight()+two.BodiesInFlight() == int64(n*len(labChat)) && u.calls.Load() > 0
		})
	}

	replies := make(chan reply, 2*callers)
	for range callers {
		ask(one, "first", replies)
		ask(two, "first", replies)
	}
	waiting(2 * callers)
	for _, n := range []*node{one, two} {
		n.want(key, "first", strings.ReplaceAll(labChat, "something", "else"), 400, false)
	}
	u.answer <- says("the only answer")
	all.Wait()
	replayed := 0
	for range 2 * callers {
		r := <-replies
		if r.status != 200 || !strings.Contains(r.body, "the only answer") {
			t.Errorf("a request = %d %s, want the answer", r.status, r.body)
		}
		if r.header.Get("Idempotent-Replayed") == "true" {
			replayed++
		}
	}
	settled(one.App) // moves what the node has to the database, which both count
	if n := settled(two.App); replayed != 2*callers-1 || u.calls.Load() != 1 || n != 1 {
		t.Errorf("%d of %d were replayed, %d calls, %d settlements, want all but one, 1 and 1", replayed, 2*callers, u.calls.Load(), n)
	}

	// The first call is refused: its caller learns that, and the other node's request runs.
	u.calls.Store(0)
	failed := make(chan reply, 1)
	ask(one, "refused", failed)
	waiting(1)
	ask(two, "refused", replies)
	waiting(2)
	u.answer <- refuses
	u.answer <- says("second try")
	all.Wait()
	if a, b := <-failed, <-replies; a.status != 400 || b.status != 200 || !strings.Contains(b.body, "second try") {
		t.Errorf("the refused call = %d, the one that waited = %d %s, want 400 and its own answer", a.status, b.status, b.body)
	}

	// The first node is cut off in the middle of its call: the other's request runs after the claim's life.
	u.calls.Store(0)
	ask(one, "dead", failed)
	waiting(1)
	ask(two, "dead", replies)
	waiting(2)
	line.Cut()
	eventually(t, "the other node's call", func() bool { return u.calls.Load() == 2 })
	u.answer <- says("alive")
	u.answer <- says("alive")
	all.Wait()
	if r := <-replies; r.status != 200 || !strings.Contains(r.body, "alive") || r.header.Get("Idempotent-Replayed") != "" {
		t.Errorf("the request on the node that lives = %d %s, want a call of its own", r.status, r.body)
	}
	if r := <-failed; r.status != 200 {
		t.Errorf("the request on the node without a database = %d %s, want its answer", r.status, r.body)
	}
	line.Mend()
}

// A conversation with service/auto stays with its model on every node. A node that the database does not answer within 50 ms
// chooses again, so one conversation of several is enough.
func TestConversationsOverNodes(t *testing.T) {
	t.Parallel()
	u := newScripted(t)
	one, two, _ := onOneDatabase(t, "sandbox: false\n"+lab(u.url, "lab/a", "lab/b"), nil)
	key := one.OwnerKey()
	// converse has a conversation on both nodes in turns, and says at which turn it did not go on with its model.
	converse := func(subject int) (broke string) {
		body := func(turns int) string {
			return fmt.Sprintf(`{"model":"service/auto","messages":[{"role":"user","content":"Say something of %d."}`, subject) +
				strings.Repeat(`,{"role":"assistant","content":"Something."},{"role":"user","content":"More."}`, turns) + `]}`
		}
		ask := func(n *node, turns int) (model, reason string) {
			u.answer <- says("Something.")
			r := n.request("POST", chatPath, key, body(turns))
			if r.status != 200 {
				t.Fatalf("turn %d = %d %s", turns, r.status, r.body)
			}
			return r.header.Get("X-Sluice-Model"), r.header.Get("X-Sluice-Route-Reason")
		}
		first, _ := ask(one, 0)
		for turns := 1; turns < 6; turns++ {
			n := []*node{one, two}[turns%2]
			// The choice is written in the background; a caller of a real model cannot be quicker.
			eventually(t, "the choice on the other node", func() bool {
				return strings.Contains(n.request("POST", "/v1/route", key, body(turns)).body, `"sticky":true`)
			})
			if model, reason := ask(n, turns); model != first || !strings.Contains(reason, "goes on with the model") {
				return fmt.Sprintf("turn %d went to %s (%s), want %s", turns, model, reason, first)
			}
		}
		return ""
	}
	const tries = 5
	for try := range tries {
		broke := converse(try)
		if broke == "" {
			return
		}
		t.Logf("conversation %d: %s", try, broke)
	}
	t.Errorf("none of %d conversations stayed with its model", tries)
}

// A response that one node has stored is there for the others as soon as its caller has it, also when that node is gone,
// and is gone for all as soon as one has deleted it.
func TestResponsesOverNodes(t *testing.T) {
	t.Parallel()
	one, two, _ := onOneDatabase(t, "", nil)
	key := one.OwnerKey()
	last := one.respond(key, `{"model":"sandbox/small","input":"Say hello."}`)
	for turn := range 6 {
		n, other := one, two
		if turn%2 == 0 {
			n, other = two, one
		}
		next := n.respond(key, fmt.Sprintf(`{"model":"sandbox/small","previous_response_id":%q,"input":"Say goodbye."}`, last.ID))
		for _, r := range []responseReply{last, next} {
			if got := other.get(responsesPath+"/"+r.ID, key); got.status != 200 {
				t.Fatalf("turn %d: GET on the other node = %d %s", turn, got.status, got.body)
			}
		}
		last = next
	}
	gone := two.respond(key, `{"model":"sandbox/small","input":"Say nothing."}`)
	if r := one.request("DELETE", responsesPath+"/"+gone.ID, key, ""); r.status != 200 {
		t.Errorf("DELETE on the other node = %d %s", r.status, r.body)
	}
	if r := two.get(responsesPath+"/"+gone.ID, key); r.status != 404 {
		t.Errorf("GET of what another node has deleted = %d %s, want 404", r.status, r.body)
	}
	last = one.respond(key, fmt.Sprintf(`{"model":"sandbox/small","previous_response_id":%q,"input":"Say goodbye."}`, last.ID))
	one.stop()
	two.respond(key, fmt.Sprintf(`{"model":"sandbox/small","previous_response_id":%q,"input":"Say hello."}`, last.ID))
}

// Guesses at a password are counted over all nodes.
func TestGuessesOverNodes(t *testing.T) {
	t.Parallel()
	one, two, _ := onOneDatabase(t, "signup: open\n", nil)
	one.join("ana@example.com")
	for i := range 10 {
		p := []*node{one, two}[i%2].person()
		p.wants(p.post("/signin", "email", "ana@example.com", "password", fmt.Sprint("wrong password ", i)), "a wrong password", 401, "wrong")
	}
	for _, n := range []*node{one, two} {
		p := n.person()
		p.wants(p.post("/signin", "email", "ana@example.com", "password", pagePassword), "the eleventh guess", 429, "Too many attempts")
	}
}
