package app_test

import (
	"encoding/json"
	"strings"
	"testing"

	"sluice/internal/admin"
)

// An account that real calls drive to 100 is refused, whatever its owner tries, until support restores it.
func TestScoreReachesHundred(t *testing.T) {
	t.Parallel()
	s := newSite(t, "plans: {basic: {monthly_units: 20, requests_per_minute: unlimited}}\n")
	n := s.start(t)
	created := must[admin.CreatedAccount](n, "account.create", admin.NewAccount{Actor: "t", Email: "ana@example.com", Plan: "basic"})
	key := created.MasterKey
	ref := admin.Target{Actor: "t", Ref: created.ID}
	call := func() reply {
		return n.request("POST", "/v1/chat/completions", key, `{"model":"sandbox/tiny","messages":[{"role":"user","content":"What is 1+2?"}]}`)
	}
	refused := func(after string) {
		t.Helper()
		if r := call(); r.status != 401 || !strings.Contains(r.body, `"type":"key_deactivated"`) {
			t.Errorf("after %s: %d %s, want 401 key_deactivated", after, r.status, r.body)
		}
	}
	for i := range 20 {
		if r := call(); r.status != 200 {
			t.Fatalf("call %d of a budget of 20: %d %s", i+1, r.status, r.body)
		}
	}
	refused("the budget")
	key = must[admin.RawKey](n, "key.regenerate-master", ref).Key
	refused("a new master key")
	key = must[admin.NewKey](n, "key.create", admin.Target{Actor: "t", Ref: created.ID, Name: "new"}).Key
	refused("a new sub-key")
	must[any](n, "account.set-plan", admin.Target{Actor: "t", Ref: created.ID, Plan: "premium"})
	refused("a plan change")
	must[any](n, "account.set-plan", admin.Target{Actor: "t", Ref: created.ID, Plan: "basic"})
	n.stop()
	n = s.start(t)
	refused("a restart")

	history := must[admin.Abuse](n, "account.abuse", ref)
	var kinds []string
	for _, e := range history.Events {
		kinds = append(kinds, e.Kind)
	}
	if got := strings.Join(kinds, " "); history.Score != 100 || got != "deactivated inquiry warning warning review" {
		t.Errorf("score %d with events %q, want 100 and each threshold once, newest first", history.Score, got)
	}

	must[any](n, "key.restore", ref)
	if r := call(); r.status != 200 {
		t.Errorf("after restoring: %d %s, want 200", r.status, r.body)
	}
	var own struct {
		Plan  string
		Abuse struct {
			Score int
			Tiers []struct {
				Tier   string
				Units  float64
				Budget int
			}
		}
	}
	r := n.get("/v1/account", key)
	if err := json.Unmarshal([]byte(r.body), &own); err != nil || own.Plan != "basic" || own.Abuse.Score != 5 ||
		own.Abuse.Tiers[0].Units != 1 || own.Abuse.Tiers[0].Budget != 20 {
		t.Errorf("GET /v1/account = %s (%v), want 1 unit of 20 since the count began again", r.body, err)
	}
	if got := must[admin.Usage](n, "usage", admin.UsageQuery{Ref: created.ID, Days: 1}); got.Totals.Requests != 21 || got.Totals.Units != "21" {
		t.Errorf("usage = %+v, want all 21 calls", got.Totals)
	}
}
