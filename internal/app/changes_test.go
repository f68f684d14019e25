package app_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

// changeList is a page of the catalog's changes.
type changeList struct {
	Data []struct {
		ID, Type, Model string
		At              int64
		Before, After   *struct {
			ID, Plan string
			Created  int64
		}
	}
	Next *string
}

func (n *node) changes(key, query string) (list changeList) {
	n.t.Helper()
	r := n.get("/v1/catalog/changes"+query, key)
	if err := json.Unmarshal([]byte(r.body), &list); err != nil || r.status != 200 {
		n.t.Fatalf("GET /v1/catalog/changes%s = %d %s", query, r.status, r.body)
	}
	return list
}

// told are the changes as "type model", with the tiers where there are two.
func (l changeList) told() string {
	var all []string
	for _, c := range l.Data {
		text := c.Type + " " + c.Model
		if c.Before != nil && c.After != nil {
			text += " " + c.Before.Plan + " " + c.After.Plan
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

// The changes of the catalog are logged where a start or a reload makes them, and the dates of its models are
// kept.
func TestCatalogChanges(t *testing.T) {
	t.Parallel()
	const lab = `sandbox: false
discover: false
providers: [{name: lab, kind: openai, base_url: "http://127.0.0.1:1/v1"}]
models:
`
	model := func(id, plan string) string {
		return fmt.Sprintf("  - {id: %s, provider: lab, plan: %s, context_length: 1000, max_output: 100}\n", id, plan)
	}
	began := time.Now().Unix()
	s := newSite(t, lab+model("a", "free")+model("b", "free"))
	n := s.start(t)
	key := n.OwnerKey()

	first := n.changes(key, "")
	if got, want := first.told(), "added service/auto, added a, added b"; got != want {
		t.Fatalf("changes of a first start = %s, want %s", got, want)
	}
	var a struct{ Created int64 }
	if err := json.Unmarshal([]byte(n.get("/v1/models/a", key).body), &a); err != nil || a.Created < began || a.Created != first.Data[1].At || first.Data[1].After.Created != a.Created {
		t.Errorf("a was created at %d (%v), want the first start, at or after %d, as in its change %+v", a.Created, err, began, first.Data[1])
	}
	listed := n.get("/v1/models", key).body
	n.stop()
	n = s.start(t)
	if got := n.get("/v1/models", key).body; got != listed {
		t.Errorf("the models after a restart = %s, want %s", got, listed)
	}
	if again := n.changes(key, "?since="+*first.Next); len(again.Data) != 0 || *again.Next != *first.Next {
		t.Errorf("changes after a restart = %+v, want none and the same cursor", again)
	}

	s.write(t, lab+model("a", "premium")+model("c", "basic"))
	if err := n.Reload(); err != nil {
		t.Fatal(err)
	}
	if got, want := n.changes(key, "?since="+*first.Next).told(), "changed a free premium, added c, removed b"; got != want {
		t.Errorf("changes after a reload = %s, want %s", got, want)
	}
	s.write(t, lab+model("a", "nonsense"))
	if n.Reload() == nil {
		t.Error("a wrong configuration was taken")
	}
	var pages []string
	query := "?limit=2"
	for range 10 {
		page := n.changes(key, query)
		if len(page.Data) == 0 {
			break
		}
		pages = append(pages, page.told())
		query = "?limit=2&since=" + *page.Next
	}
	if got, want := fmt.Sprint(len(pages), " ", strings.Join(pages, ", ")), "3 added service/auto, added a, added b, changed a free premium, added c, removed b"; got != want {
		t.Errorf("the changes by two = %s, want %s", got, want)
	}
	for query, param := range map[string]string{
		"?since=chg_7": "since", "?since=x": "since", "?since=7": "since", "?since=chg_": "since", "?since=chg_0": "since", "?since=chg_-1": "since", "?since=chg_07": "since",
		"?since=chg_99999999999999999999": "since", "?limit=0": "limit", "?limit=1001": "limit", "?limit=x": "limit", "?limit=": "limit",
	} {
		if r := n.get("/v1/catalog/changes"+query, key); r.status != 400 || !strings.Contains(r.body, `"param":"`+param+`"`) {
			t.Errorf("GET /v1/catalog/changes%s = %d %s, want 400 for %s", query, r.status, r.body, param)
		}
	}
	if page := n.changes(key, "?limit=1000"); len(page.Data) != 6 {
		t.Errorf("%d changes, want 6", len(page.Data))
	}
}

// Two nodes on one database with the same configuration log each change once, and give models the same dates.
func TestCatalogChangesOfTwoNodes(t *testing.T) {
	t.Parallel()
	one, two, owner := twoNodes(t)
	for _, n := range []*node{one, two} { // the key is made by one of them
		n.within(owner, 200)
	}
	if a, b := one.get("/v1/models", owner).body, two.get("/v1/models", owner).body; a != b {
		t.Errorf("the nodes list\n%s\n%s", a, b)
	}
	const want = "added service/auto, added sandbox/small, added sandbox/tiny, added sandbox/large, added sandbox/heavy, added sandbox/reasoner, added sandbox/embed"
	for _, n := range []*node{one, two} {
		if got := n.changes(owner, "").told(); got != want {
			t.Errorf("changes = %s, want %s", got, want)
		}
	}
}

// A model server that comes and goes is one change.
func TestCatalogChangesOfALocalServer(t *testing.T) {
	t.Parallel()
	list := models("tiny:1b")
	s := newSite(t, "")
	s.servers = localServer(modelServer(t, list))
	n := s.start(t)
	for range 3 {
		list.Store(&[]string{"tiny:1b"})
		n.modelStates()
		list.Store(&[]string{})
		n.modelStates()
	}
	if got := n.changes(n.OwnerKey(), "").told(); strings.Count(got, "ollama") != 1 || !strings.HasSuffix(got, ", added ollama/tiny:1b") {
		t.Errorf("changes = %s, want the local model added once", got)
	}
}
