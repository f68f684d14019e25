package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/internal/account"
	"sluice/internal/kit/fault"
	"sluice/internal/ledger/budget"
	"sluice/internal/ledger/price"
	"sluice/internal/operate/admin"
)

// spending is a store of budgets that says what a test has put into it.
type spending struct {
	mu    sync.Mutex
	spent map[string]price.Nano // by count
	err   error
}

func (s *spending) Grant(context.Context, budget.Ask) (budget.Figures, error) {
	return budget.Figures{}, nil
}
func (s *spending) Keep(context.Context, []budget.Grant) error   { return nil }
func (s *spending) Forget(context.Context, string, string) error { return nil }
func (s *spending) Drop(context.Context, string) error           { return nil }
func (s *spending) Hand(context.Context, []budget.Grant, []budget.Grant) error {
	return nil
}

func (s *spending) set(count string, spent price.Nano) { s.change(func() { s.spent[count] = spent }) }

func (s *spending) fail(err error) { s.change(func() { s.err = err }) }

func (s *spending) change(what func()) { s.mu.Lock(); defer s.mu.Unlock(); what() }

func (s *spending) Figures(_ context.Context, asks []budget.Ask) ([]budget.Figures, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]budget.Figures, len(asks))
	for i, a := range asks {
		all[i] = budget.Figures{Amount: a.Amount, Spent: s.spent[a.Count], Reserved: s.spent[a.Count] / 10}
	}
	return all, s.err
}

// budget makes a budget of an account.
func (n *node) budget(ref, name string) budget.Record {
	return must[budget.Record](n, "budget.set", admin.BudgetOrder{Actor: "t", Ref: ref, Name: &name, Amount: new("5"), Window: new(account.Daily), Scope: &account.BudgetScope{Account: true}})
}

// budgetSite starts a server whose accounts may make any number of requests.
func budgetSite(t *testing.T) (*node, *spending) {
	t.Helper()
	site := newSite(t, "plans: {scale: {requests_per_minute: unlimited, concurrent: unlimited, tokens_per_minute: unlimited}}\n")
	spent := &spending{spent: map[string]price.Nano{}}
	site.budgets = spent
	return site.start(t), spent
}

// customer makes an account.
func (n *node) customer(email string) admin.CreatedAccount {
	return must[admin.CreatedAccount](n, "account.create", admin.NewAccount{Actor: "t", Email: email, Plan: "scale"})
}

// recordIn returns the budget in a reply, which must be a 200.
func (n *node) recordIn(r reply) (b budget.Record) {
	n.t.Helper()
	if r.status != http.StatusOK {
		n.t.Fatalf("= %d %s, want 200", r.status, r.body)
	}
	if err := json.Unmarshal([]byte(r.body), &b); err != nil {
		n.t.Fatal(err)
	}
	return b
}

// listed returns the list of an account's budgets.
func (n *node) listed(key string) []budget.Record {
	n.t.Helper()
	var list struct {
		Object string
		Data   []budget.Record
	}
	r := n.get("/v1/budgets", key)
	if err := json.Unmarshal([]byte(r.body), &list); err != nil || r.status != 200 || list.Object != "list" || list.Data == nil {
		n.t.Fatalf("GET /v1/budgets = %d %s, want a list", r.status, r.body)
	}
	return list.Data
}

// The master key makes, reads, changes and deletes budgets.
func TestBudgetsOfTheAPI(t *testing.T) {
	t.Parallel()
	n, spent := budgetSite(t)
	ana, bob := n.customer("ana@example.com"), n.customer("bob@example.com")
	if got := n.listed(ana.MasterKey); len(got) != 0 {
		t.Errorf("budgets of a new account = %v, want none", got)
	}
	made := n.recordIn(n.request("POST", "/v1/budgets", ana.MasterKey, `{"name":"all","amount":"5.00","window":"day","scope":{"account":true}}`))
	midnight := time.Now().UTC().Truncate(24 * time.Hour).Add(24 * time.Hour)
	if !strings.HasPrefix(made.ID, account.BudgetPrefix) || made.Object != "budget" || made.Name != "all" || made.Amount != "5.00" || made.Window != account.Daily || made.Timezone != "UTC" || !made.Scope.Account || !made.Hard ||
		fmt.Sprint(made.Marks) != "[50 80 100]" || *made.Spent != "0.00" || *made.Reserved != "0.00" || *made.Left != "5.00" || made.ResetsAt == nil || made.ResetsAt.Before(midnight) || time.Since(made.CreatedAt) > patience {
		t.Errorf("POST = %+v, want the budget with its defaults", made)
	}
	path := "/v1/budgets/" + made.ID
	spent.set(made.ID, 1_250_000_000)
	for _, got := range append(n.listed(ana.MasterKey), n.recordIn(n.get(path, ana.MasterKey))) {
		if *got.Spent != "1.25" || *got.Reserved != "0.125" || *got.Left != "3.625" {
			t.Errorf("spent %s, reserved %s, left %s; want 1.25, 0.125 and 3.625", *got.Spent, *got.Reserved, *got.Left)
		}
	}
	each := n.recordIn(n.request("POST", "/v1/budgets", ana.MasterKey, `{"name":"each","amount":0.5,"window":"total","scope":{"session":"*"},"marks":[]}`))
	if each.Amount != "0.50" || each.Spent != nil || each.Reserved != nil || each.Left != nil || each.ResetsAt != nil || each.Marks == nil || len(each.Marks) != 0 {
		t.Errorf("a budget of each session = %+v, want no figures, no marks and no end", each)
	}
	if all := n.listed(ana.MasterKey); len(all) != 2 || all[0].ID != made.ID || all[1].Spent != nil || len(all[1].Marks) != 0 {
		t.Errorf("the list = %+v, want both, the second without figures and marks", all)
	}

	changed := n.recordIn(n.request("PATCH", path, ana.MasterKey, `{"amount":7.000000001,"marks":[90,10,90]}`))
	if changed.Amount != "7.000000001" || fmt.Sprint(changed.Marks) != "[10 90]" || changed.Name != "all" || !changed.Hard || *changed.Left != "5.625000001" || !changed.CreatedAt.Equal(made.CreatedAt) {
		t.Errorf("PATCH = %+v, want another amount and other marks only", changed)
	}
	changed = n.recordIn(n.request("PATCH", path, ana.MasterKey, `{"name":"paris","window":"month","timezone":"Europe/Paris","hard":false}`))
	if changed.Name != "paris" || changed.Window != account.Monthly || changed.Timezone != "Europe/Paris" || changed.Hard || changed.Amount != "7.000000001" {
		t.Errorf("PATCH = %+v, want the rest changed, too", changed)
	}
	n.recordIn(n.request("PATCH", path, ana.MasterKey, `{}`))

	// Others find nothing, and change nothing.
	for _, method := range []string{"GET", "PATCH", "DELETE"} {
		if r := n.request(method, path, bob.MasterKey, "{}"); r.status != 404 || !strings.Contains(r.body, "There is no such budget") {
			t.Errorf("%s of another account's budget = %d %s, want 404", method, r.status, r.body)
		}
	}
	if r := n.request("DELETE", path, ana.MasterKey, ""); r.status != 200 || r.body != `{"id":"`+made.ID+`","object":"budget","deleted":true}` {
		t.Errorf("DELETE = %d %s", r.status, r.body)
	}
	if r := n.get(path, ana.MasterKey); r.status != 404 {
		t.Errorf("a deleted budget = %d %s, want 404", r.status, r.body)
	}

	var log []string
	for _, e := range must[admin.List[account.Entry]](n, "account.history", admin.AccountPage{Ref: ana.ID}).Data {
		if strings.HasPrefix(e.Action, "budget.") {
			log = append(log, e.Action)
		}
		if e.Action == "budget.delete" && (!strings.HasPrefix(e.Actor, "api:key_") || e.Detail != made.ID+` "paris"`) {
			t.Errorf("the audit log has %+v, want who deleted what", e)
		}
	}
	if got := strings.Join(log, " "); got != "budget.delete budget.change budget.change budget.create budget.create" {
		t.Errorf("the audit log has %s; a change of nothing leaves no entry", got)
	}

	spent.fail(fault.New(fault.Unavailable, "away"))
	n.recordIn(n.request("POST", "/v1/budgets", bob.MasterKey, `{"name":"all","amount":1,"window":"day","scope":{"account":true}}`)) // it is there, whatever the figures
	if r := n.get("/v1/budgets", bob.MasterKey); r.status != 503 {
		t.Errorf("figures that cannot be read = %d %s, want 503", r.status, r.body)
	}
}

// Every member of a budget has bounds, and a refusal names the member.
func TestBudgetMistakes(t *testing.T) {
	t.Parallel()
	n, _ := budgetSite(t)
	ana := n.customer("ana@example.com")
	own := must[admin.List[admin.Key]](n, "key.list", admin.AccountPage{Ref: ana.ID}).Data[0].ID
	foreign := must[admin.List[admin.Key]](n, "key.list", admin.AccountPage{Ref: n.customer("bob@example.com").ID}).Data[0].ID
	fields := func(changed map[string]string) string {
		all := map[string]string{"name": `"n"`, "amount": `"1"`, "window": `"day"`, "scope": `{"account":true}`}
		for k, v := range changed {
			if all[k] = v; v == "" {
				delete(all, k)
			}
		}
		var members []string
		for k, v := range all {
			members = append(members, fmt.Sprintf("%q:%s", k, v))
		}
		return "{" + strings.Join(members, ",") + "}"
	}
	long := strings.Repeat("é", 64)
	for _, good := range []map[string]string{
		{"name": `"` + long + `"`},
		{"amount": `"0"`},
		{"amount": "1000000"},
		{"amount": `"1e3"`},
		{"amount": "0.000000001"},
		{"window": `"week"`},
		{"window": `"month"`},
		{"window": `"rolling_24h"`},
		{"window": `"rolling_30d"`},
		{"window": `"total"`},
		{"timezone": `"Asia/Tokyo"`},
		{"scope": `{"key":"` + own + `"}`},
		{"scope": `{"tag":"team=search"}`},
		{"scope": `{"session":"*"}`},
		{"hard": "false"},
		{"marks": "[1,2,3,4,5,6,7,8,9,100]"},
	} {
		n.recordIn(n.request("POST", "/v1/budgets", ana.MasterKey, fields(good)))
	}
	for _, tt := range []struct {
		param string
		bad   map[string]string
	}{
		{"name", map[string]string{"name": ""}},
		{"name", map[string]string{"name": `""`}},
		{"name", map[string]string{"name": `"` + long + `x"`}},
		{"name", map[string]string{"name": `"a\nb"`}},
		{"name", map[string]string{"name": "7"}},
		{"amount", map[string]string{"amount": ""}},
		{"amount", map[string]string{"amount": "null"}},
		{"amount", map[string]string{"amount": "-1"}},
		{"amount", map[string]string{"amount": `"1000000.01"`}},
		{"amount", map[string]string{"amount": "0.0000000001"}},
		{"amount", map[string]string{"amount": `"$5"`}},
		{"amount", map[string]string{"amount": "[1]"}},
		{"window", map[string]string{"window": ""}},
		{"window", map[string]string{"window": `"year"`}},
		{"window", map[string]string{"window": "1"}},
		{"timezone", map[string]string{"timezone": `"Mars/Olympus"`}},
		{"timezone", map[string]string{"timezone": `"Local"`}},
		{"timezone", map[string]string{"timezone": "1"}},
		{"scope", map[string]string{"scope": ""}},
		{"scope", map[string]string{"scope": "{}"}},
		{"scope", map[string]string{"scope": `"account"`}},
		{"scope", map[string]string{"scope": `{"account":true,"tag":"a=b"}`}},
		{"scope.account", map[string]string{"scope": `{"account":false}`}},
		{"scope.key", map[string]string{"scope": `{"key":"` + foreign + `"}`}},
		{"scope.key", map[string]string{"scope": `{"key":1}`}},
		{"scope.tag", map[string]string{"scope": `{"tag":"search"}`}},
		{"scope.session", map[string]string{"scope": `{"session":"s1"}`}},
		{"scope.team", map[string]string{"scope": `{"team":"x"}`}},
		{"hard", map[string]string{"hard": `"yes"`}},
		{"marks", map[string]string{"marks": "50"}},
		{"marks", map[string]string{"marks": "[0]"}},
		{"marks", map[string]string{"marks": "[101]"}},
		{"marks", map[string]string{"marks": "[50.5]"}},
		{"marks", map[string]string{"marks": "[1,2,3,4,5,6,7,8,9,10,11]"}},
		{"spent", map[string]string{"spent": `"0"`}},
	} {
		r := n.request("POST", "/v1/budgets", ana.MasterKey, fields(tt.bad))
		if r.status != 400 || !strings.Contains(r.body, `"param":"`+tt.param+`"`) {
			t.Errorf("POST %v = %d %s, want 400 at %s", tt.bad, r.status, r.body, tt.param)
		}
	}
	for body, status := range map[string]int{"": 400, "[]": 400, `{"Name":"x"}`: 400, `{"name":"a","name":"b"}`: 400, strings.Repeat(" ", 17<<10): 413} {
		if r := n.request("POST", "/v1/budgets", ana.MasterKey, body); r.status != status {
			t.Errorf("POST %.50q = %d %s, want %d", body, r.status, r.body, status)
		}
	}
	path := "/v1/budgets/" + n.listed(ana.MasterKey)[0].ID
	for body, param := range map[string]string{`{"scope":{"account":true}}`: "scope", `{"amount":""}`: "amount", `{"window":"x"}`: "window", `{"id":"x"}`: "id", `{"name":""}`: "name"} {
		if r := n.request("PATCH", path, ana.MasterKey, body); r.status != 400 || !strings.Contains(r.body, `"param":"`+param+`"`) {
			t.Errorf("PATCH %s = %d %s, want 400 at %s", body, r.status, r.body, param)
		}
	}
}

// A sub-key neither reads nor changes budgets.
func TestBudgetsNeedTheMasterKey(t *testing.T) {
	t.Parallel()
	n, _ := budgetSite(t)
	ana := n.customer("ana@example.com")
	sub := n.limited(ana.ID, "agent", nil)
	b := n.recordIn(n.request("POST", "/v1/budgets", ana.MasterKey, `{"name":"agent","amount":1,"window":"day","scope":{"key":"`+sub.ID+`"}}`))
	for _, call := range []string{"POST /v1/budgets", "GET /v1/budgets", "GET /v1/budgets/" + b.ID, "PATCH /v1/budgets/" + b.ID, "DELETE /v1/budgets/" + b.ID} {
		method, path, _ := strings.Cut(call, " ")
		if r := n.request(method, path, sub.Key, `{"amount":1000}`); r.status != 403 || !strings.Contains(r.body, "permission_error") || !strings.Contains(r.body, "master key") {
			t.Errorf("%s with a sub-key = %d %s, want 403", call, r.status, r.body)
		}
	}

	// The budget of a key that was deleted is kept. It can be changed and deleted, and no other one is made for the key.
	must[admin.Empty](n, "key.delete", admin.Target{Actor: "t", Ref: sub.ID})
	if got := n.recordIn(n.request("PATCH", "/v1/budgets/"+b.ID, ana.MasterKey, `{"amount":"2"}`)); got.Amount != "2.00" || got.Scope.Key != sub.ID {
		t.Errorf("PATCH of a deleted key's budget = %+v, want it changed", got)
	}
	if r := n.request("POST", "/v1/budgets", ana.MasterKey, `{"name":"x","amount":1,"window":"day","scope":{"key":"`+sub.ID+`"}}`); r.status != 400 || !strings.Contains(r.body, "scope.key") {
		t.Errorf("POST for a deleted key = %d %s, want 400", r.status, r.body)
	}
	if r := n.request("DELETE", "/v1/budgets/"+b.ID, ana.MasterKey, ""); r.status != 200 {
		t.Errorf("DELETE of a deleted key's budget = %d %s, want 200", r.status, r.body)
	}
}

// A key can be made with what each of its sessions may cost, and such a budget for a key that is there.
func TestSessionsOfAKey(t *testing.T) {
	t.Parallel()
	n, _ := budgetSite(t)
	ana := n.customer("ana@example.com")
	order := admin.KeyOrder{Target: admin.Target{Actor: "t", Ref: ana.ID, Name: strings.Repeat("k", 99)}, SessionCap: new("2.5")}
	made := must[admin.NewKey](n, "key.create", order)
	for name, wrong := range map[string]func(*admin.KeyOrder){
		"amount": func(o *admin.KeyOrder) { o.SessionCap = new("much") },
		"name":   func(o *admin.KeyOrder) { o.Name = order.Name },
	} {
		o := admin.KeyOrder{Target: admin.Target{Actor: "t", Ref: ana.ID, Name: "other"}, SessionCap: new("1")}
		wrong(&o)
		if err := n.call("key.create", o, &admin.NewKey{}); err == nil {
			t.Errorf("key.create with a wrong %s succeeded", name)
		}
	}
	if err := n.call("key.set-limits", admin.KeyOrder{Target: admin.Target{Actor: "t", Ref: made.ID}, SessionCap: new("1")}, &admin.Key{}); !fault.Is(err, fault.Invalid) {
		t.Errorf("key.set-limits with a cap = %v, want it refused", err)
	}
	list := n.listed(ana.MasterKey)
	if len(list) != 1 || list[0].ID != made.Budget || list[0].Amount != "2.50" || !list[0].Hard || list[0].Window != account.Total || list[0].Spent != nil ||
		list[0].Scope != (account.BudgetScope{Session: account.EachSession, Key: made.ID}) || !strings.HasPrefix(list[0].Name, "Sessions of kkk") || len(list[0].Name) != 64 {
		t.Errorf("budgets = %+v, want that of each session of the new key", list)
	}
	if e := must[admin.List[account.Entry]](n, "account.history", admin.AccountPage{Ref: ana.ID}).Data[0]; e.Action != "key.create" || !strings.Contains(e.Detail, made.Budget) {
		t.Errorf("the audit log has %+v, want the key and its budget", e)
	}
	again := n.recordIn(n.request("POST", "/v1/budgets", ana.MasterKey, `{"name":"x","amount":1,"window":"day","scope":{"session":"*","key":"`+made.ID+`"}}`))
	if again.Scope != list[0].Scope {
		t.Errorf("POST = %+v, want the scope of both", again)
	}
	for _, scope := range []string{`{"session":"*","key":"key_x"}`, `{"session":"*","tag":"a=b"}`, `{"account":true,"key":"` + made.ID + `"}`, `{"key":"` + made.ID + `","tag":"a=b"}`, `{"session":"one","key":"` + made.ID + `"}`} {
		if r := n.request("POST", "/v1/budgets", ana.MasterKey, `{"name":"x","amount":1,"window":"day","scope":`+scope+`}`); r.status != 400 {
			t.Errorf("POST with the scope %s = %d %s, want 400", scope, r.status, r.body)
		}
	}
}

// An account has 50 budgets. One that is deleted makes room.
func TestMostBudgets(t *testing.T) {
	t.Parallel()
	n, _ := budgetSite(t)
	ana := n.customer("ana@example.com")
	const one = `{"name":"x","amount":1,"window":"total","scope":{"account":true}}`
	var last budget.Record
	for range account.MaxBudgets {
		last = n.recordIn(n.request("POST", "/v1/budgets", ana.MasterKey, one))
	}
	if r := n.request("POST", "/v1/budgets", ana.MasterKey, one); r.status != 409 || !strings.Contains(r.body, "at most 50 budgets") {
		t.Errorf("budget 51 = %d %s, want 409", r.status, r.body)
	}
	n.recordIn(n.request("PATCH", "/v1/budgets/"+last.ID, ana.MasterKey, `{"name":"y"}`))
	n.request("DELETE", "/v1/budgets/"+last.ID, ana.MasterKey, "")
	n.recordIn(n.request("POST", "/v1/budgets", ana.MasterKey, one))
}

// Operators make, change, list and delete budgets, with a reason in the audit log.
func TestBudgetsOfOperators(t *testing.T) {
	t.Parallel()
	n, spent := budgetSite(t)
	ana, bob := n.customer("ana@example.com"), n.customer("bob@example.com")
	b := n.budget(ana.Email, "all")
	spent.set(b.ID, 2_600_000_000)
	got := must[budget.Record](n, "budget.set", admin.BudgetOrder{Actor: "t", Ref: ana.ID, ID: b.ID, Amount: new("6.5"), Marks: []int{}, Reason: "asked for it"})
	if percent, known := got.Percent(); got.Name != "all" || got.Amount != "6.50" || len(got.Marks) != 0 || !known || percent != 40 {
		t.Errorf("budget.set = %+v, %d %% spent, want another amount, no marks and 40 %%", got, percent)
	}
	if list := must[admin.List[budget.Record]](n, "budget.list", admin.AccountPage{Ref: ana.Email}); len(list.Data) != 1 || *list.Data[0].Spent != "2.60" {
		t.Errorf("budget.list = %+v, want the budget and what is spent", list)
	}
	if e := must[admin.List[account.Entry]](n, "account.history", admin.AccountPage{Ref: ana.ID}).Data[0]; e.Action != "budget.change" || e.Reason != "asked for it" || e.Actor != "t" {
		t.Errorf("the audit log has %+v, want who changed it and why", e)
	}
	for name, in := range map[string]admin.BudgetOrder{
		"another account's": {Ref: bob.ID, ID: b.ID, Amount: new("1")},
		"scope":             {Ref: ana.ID, ID: b.ID, Scope: &account.BudgetScope{Account: true}},
		"no amount":         {Ref: ana.ID, Name: new("x"), Window: new(account.Daily), Scope: &account.BudgetScope{Account: true}},
		"amount":            {Ref: ana.ID, ID: b.ID, Amount: new("much")},
		"an old version":    {Ref: ana.ID, ID: b.ID, Amount: new("9"), Version: 1},
	} {
		if err := n.call("budget.set", in, &budget.Record{}); err == nil {
			t.Errorf("budget.set with %s succeeded", name)
		}
	}
	if err := n.call("budget.delete", admin.BudgetRef{Ref: bob.ID, ID: b.ID}, &admin.DeletedBudget{}); !fault.Is(err, fault.NotFound) {
		t.Errorf("budget.delete of another account's = %v, want not found", err)
	}
	if d := must[admin.DeletedBudget](n, "budget.delete", admin.BudgetRef{Actor: "t", Ref: ana.ID, ID: b.ID}); !d.Deleted || len(n.listed(ana.MasterKey)) != 0 {
		t.Errorf("budget.delete = %+v, want it gone", d)
	}
}
