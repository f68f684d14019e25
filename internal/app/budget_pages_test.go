package app_test

import (
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"sluice/internal/account"
	"sluice/internal/kit/fault"
	"sluice/internal/operate/admin"
)

var budgetID = regexp.MustCompile(`/budgets\?edit=(bud_\w+)`)

// budgetForm returns the fields of a complete form, with changes, as post takes them.
func budgetForm(changes ...string) (fields []string) {
	form := map[string]string{"name": "nightly", "amount": "5", "window": "total", "timezone": "UTC", "scope": "account", "hard": "yes", "marks": "50, 80, 100"}
	for i := 0; i < len(changes); i += 2 {
		form[changes[i]] = changes[i+1]
	}
	for name, value := range form {
		fields = append(fields, name, value)
	}
	return fields
}

// budget creates a budget on the page, and returns its id.
func (p *person) budget(changes ...string) string {
	p.n.t.Helper()
	all := budgetID.FindAllStringSubmatch(p.leads(p.post("/dashboard/budgets", budgetForm(changes...)...), "a new budget", "The budget was created").body, -1)
	if len(all) == 0 {
		p.n.t.Fatal("the page of budgets has none")
	}
	return all[len(all)-1][1]
}

// spend notes that something was spent of a count without a window, in nano-dollars.
func (n *node) spend(count string, nano int64) {
	n.t.Helper()
	n.exec(fmt.Sprintf("INSERT INTO budget_spent (count, period, spent) VALUES ('%s', 0, %d)", count, nano))
}

// A budget is created, shown with how it stands, changed and deleted.
func TestBudgetsPage(t *testing.T) {
	t.Parallel()
	n := newSite(t, "").start(t)
	ana, bob := n.join("ana@example.com"), n.join("bob@example.com")
	ana.wants(ana.get("/dashboard/budgets"), "the page without budgets", 200, "Create the first budget")
	ana.wants(ana.get("/dashboard/costs"), "the costs", 200, `href="/dashboard/budgets"`)
	id := ana.budget()
	ana.wants(ana.get("/dashboard/budgets"), "a new budget", 200, "Spent $0.00, reserved $0.00, left $5.00 of $5.00, 0% used")
	n.spend(id, 4_000_000_000)
	ana.wants(ana.get("/dashboard/budgets"), "a budget of which 80 % are spent", 200, `class="stacked "`)
	n.exec("UPDATE budget_spent SET spent = 4100000000")
	ana.wants(ana.get("/dashboard/budgets"), "a budget of which 82 % are spent", 200, `class="stacked warn"`)
	n.exec("UPDATE budget_spent SET spent = 5000000000")
	ana.wants(ana.get("/dashboard/budgets"), "a budget that is used up", 200, `class="stacked bad"`)

	ana.wants(ana.get("/dashboard/budgets?edit="+id), "its form", 200, `value="5.00"`)
	page := ana.leads(ana.post("/dashboard/budgets/"+id, budgetForm("name", "nightly job", "amount", "$20.50", "window", "total", "hard", "no", "marks", "none")...), "a change", "The budget was changed").body
	for _, want := range []string{"nightly job", "left $15.50 of $20.50", "warns only"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page of a changed budget has no %q: %s", want, page)
		}
	}
	ana.wants(ana.get("/dashboard/budgets?edit="+id), "the form of a budget without marks", 200, `value="none"`)

	bob.leads(bob.get("/dashboard/budgets?edit="+id), "the form of somebody else's budget", "no longer exists")
	bob.leads(bob.post("/dashboard/budgets/"+id, budgetForm()...), "a change of somebody else's budget", "no longer exists")
	bob.leads(bob.post("/dashboard/budgets/"+id+"/delete"), "deleting somebody else's budget", "no longer exists")
	ana.wants(ana.get("/dashboard/budgets?delete="+id), "the question", 200, "Delete nightly job?")
	ana.leads(ana.post("/dashboard/budgets/"+id+"/delete"), "deleting", "The budget was deleted")
	ana.leads(ana.post("/dashboard/budgets/"+id+"/delete"), "deleting again", "no longer exists")
	log := ana.get("/dashboard/account/log").body
	for _, want := range []string{"A budget was created", "A budget was changed", "A budget was deleted"} {
		if !strings.Contains(log, want) {
			t.Errorf("the account log has no %q", want)
		}
	}
}

// Every scope and window can be chosen, and is shown in words.
func TestBudgetsInWords(t *testing.T) {
	t.Parallel()
	n := newSite(t, "").start(t)
	ana := n.join("ana@example.com")
	key := keyID.FindStringSubmatch(ana.shown("/dashboard/keys", "name", "laptop"))[1]
	for _, c := range []struct {
		form  []string
		want  []string
		again bool
	}{
		{[]string{"name", "a", "window", "day", "timezone", "Europe/Paris"}, []string{"All requests of the account", "Every day, in Europe/Paris"}, true},
		{[]string{"name", "b", "scope", "key", "scope.key", key, "window", "rolling_24h"}, []string{"Requests with the key laptop", "The last 24 hours"}, false},
		{[]string{"name", "c", "scope", "tag", "scope.tag", "team=search", "window", "week"}, []string{"Requests with the tag team=search", "Every week, from Monday"}, true},
		{[]string{"name", "d", "scope", "session", "window", "total", "amount", "2.5"}, []string{"Each session separately", "$2.50", "All time"}, false},
		{[]string{"name", "e", "scope", "session", "scope.session", key, "window", "total"}, []string{"Each session has the amount for its requests with the key laptop", "for each session"}, false},
	} {
		id := ana.budget(c.form...)
		page := ana.get("/dashboard/budgets").body
		card := page[strings.Index(page, `aria-labelledby="`+id):]
		card = card[:strings.Index(card, "</section>")]
		for _, want := range c.want {
			if !strings.Contains(card, want) {
				t.Errorf("the budget %v has no %q: %s", c.form, want, card)
			}
		}
		if got := strings.Contains(card, "<dt>Resets</dt>"); got != c.again {
			t.Errorf("the budget %v begins again: %t, want %t", c.form, got, c.again)
		}
	}
	ana.wants(ana.post("/dashboard/budgets", budgetForm("scope", "session", "scope.session", "key_x")...), "sessions of another's key", 400, "Choose one of your keys, or all of them")
	ana.wants(ana.get("/dashboard/keys"), "the keys", 200, "/dashboard/budgets?new&amp;sessions="+key)
	form := ana.get("/dashboard/budgets?new&sessions=" + key)
	for _, want := range []string{`value="session" checked`, `value="` + key + `" selected>laptop`, `value="total" selected`} {
		ana.wants(form, "the form that it leads to", 200, want)
	}
	ana.leads(ana.post("/dashboard/keys/"+key+"/delete"), "deleting the key", "The key was deleted")
	page := ana.wants(ana.get("/dashboard/budgets"), "a budget of a key that is gone", 200, "Requests with a key that was deleted").body
	id := budgetID.FindAllStringSubmatch(page, -1)[1][1]
	ana.leads(ana.post("/dashboard/budgets/"+id, budgetForm("name", "still there")...), "changing it", "still there")
}

// The form of a new key bounds each of its sessions.
func TestKeysWithACapPerSession(t *testing.T) {
	t.Parallel()
	n := newSite(t, "").start(t)
	ana := n.join("ana@example.com")
	ana.wants(ana.get("/dashboard/keys?new"), "the form", 200, `name="session_cap"`)
	wrong := ana.post("/dashboard/keys", "name", "agent", "session_cap", "a lot")
	ana.wants(wrong, "a wrong amount", 400, `value="a lot"`)
	ana.wants(wrong, "a wrong amount", 400, "amount in dollars")
	if page := ana.get("/dashboard/keys").body; strings.Contains(page, "agent") {
		t.Error("there is a key without its cap")
	}
	key := keyID.FindStringSubmatch(ana.shown("/dashboard/keys", "name", "agent", "session_cap", "$2.50"))[1]
	page := ana.get("/dashboard/budgets").body
	for _, want := range []string{"Sessions of agent", "$2.50", "for its requests with the key agent"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page of budgets has no %q", want)
		}
	}
	if !strings.Contains(ana.get("/dashboard/keys?edit="+key).body, `name="name"`) || strings.Contains(ana.get("/dashboard/keys?edit="+key).body, "session_cap") || strings.Count(page, "?edit=bud_") != 1 {
		t.Error("the form of a key that is there has the cap of a new one, or there is more than one budget")
	}
}

// What is wrong with a form stands beside its field, and what was typed is still there.
func TestBudgetFormsAreChecked(t *testing.T) {
	t.Parallel()
	n := newSite(t, "").start(t)
	ana := n.join("ana@example.com")
	for field, c := range map[string]struct{ value, want string }{
		"name": {"", "1 to 64"}, "amount": {"a lot", "amount in dollars"}, "window": {"year", "one of day"}, "timezone": {"Mars/Base", "Europe/Paris"},
		"scope": {"galaxy", "Choose which requests count"}, "marks": {"50, 101", "percentages from 1 to 100"},
	} {
		r := ana.wants(ana.post("/dashboard/budgets", budgetForm("name", "typed name", field, c.value)...), field, 400, `<span class="wrong"`)
		wrong := r.body[strings.Index(r.body, `<span class="wrong"`):]
		if wrong = wrong[:strings.Index(wrong, "</span>")]; !strings.Contains(wrong, c.want) {
			t.Errorf("%s=%q is answered with %q, want %q", field, c.value, wrong, c.want)
		}
		if field != "name" && !strings.Contains(r.body, `value="typed name"`) {
			t.Errorf("after %s=%q the form has lost the name", field, c.value)
		}
	}
	ana.wants(ana.post("/dashboard/budgets", budgetForm("amount", "1000000.01")...), "more than a million", 400, "from 0 to 1000000")
	ana.wants(ana.post("/dashboard/budgets", budgetForm("scope", "key", "scope.key", "key_x")...), "a key of nobody", 400, "Choose one of your keys")
	ana.wants(ana.post("/dashboard/budgets", budgetForm("scope", "tag", "scope.tag", "two words")...), "no tag", 400, "team=search")
	ana.wants(ana.get("/dashboard/budgets"), "the page", 200, "Create the first budget")
}

// The owner of a session that was refused adds to its budget, and to no other.
func TestRaiseBudgetOfSession(t *testing.T) {
	t.Parallel()
	n := newSite(t, "").start(t)
	ana, bob := n.join("ana@example.com"), n.join("bob@example.com")
	each, whole := ana.budget("scope", "session", "amount", "2"), ana.budget("name", "all", "amount", "50")
	n.spend(each+"/run-1", 2_000_000_000)
	at := "/dashboard/budgets/raise?" + url.Values{"count": {each + "/run-1"}}.Encode()
	page := ana.wants(ana.get(at), "the page", 200, "Spent $2.00, reserved $0.00, left $0.00 of $2.00").body
	for _, want := range []string{"run-1", "Add $5", "Add $10", "Add $25", "nightly"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %q: %s", want, page)
		}
	}
	ana.leads(ana.post("/dashboard/budgets/raise", "count", each+"/run-1", "by", "5"), "adding 5", "left $5.00 of $7.00")
	ana.leads(ana.post("/dashboard/budgets/raise", "count", each+"/run-1", "by", "0.25"), "adding 0.25", "if its next call costs no more than what is left")
	ana.wants(ana.get(at), "the page", 200, "left $5.25 of $7.25")
	ana.wants(ana.get(strings.Replace(at, "run-1", "run-2", 1)), "another session", 200, "left $2.00 of $2.00")
	ana.wants(ana.get("/dashboard/account/log"), "the log", 200, "The budget of a session was raised")
	entries := must[admin.List[account.Entry]](n, "account.history", admin.AccountPage{Ref: ana.email}).Data
	if len(entries) == 0 || entries[0].Action != "budget.raise" || !strings.Contains(entries[0].Detail, "by $0.25 for session run-1") {
		t.Errorf("the newest entry of the log is %v, want the raise", entries)
	}
	for _, by := range []string{"", "0", "-1", "much", "1000001"} {
		ana.wants(ana.post("/dashboard/budgets/raise", "count", each+"/run-1", "by", by), "adding "+by, 400, `id="w-by"`)
	}

	ana.wants(ana.get("/dashboard/budgets/raise?count="+whole), "a budget of the account", 200, "/dashboard/budgets?edit="+whole)
	ana.wants(ana.post("/dashboard/budgets/raise", "count", whole, "by", "5"), "adding to it", 400, "Only the budget of a session")
	ana.wants(ana.get("/dashboard/budgets"), "it", 200, "left $50.00 of $50.00")
	for _, count := range []string{"", "bud_x", "bud_x/run-1", each, each + "/", whole + "/run-1", each + "/" + strings.Repeat("x", 65)} {
		ana.wants(ana.get("/dashboard/budgets/raise?count="+url.QueryEscape(count)), "the count "+count, 404, "no such budget")
		ana.wants(ana.post("/dashboard/budgets/raise", "count", count, "by", "5"), "adding to the count "+count, 404, "no such budget")
	}
	bob.wants(bob.get(at), "somebody else's session", 404, "no such budget")
	bob.wants(bob.post("/dashboard/budgets/raise", "count", each+"/run-1", "by", "5"), "adding to somebody else's session", 404, "no such budget")
	ana.wants(ana.get(at), "the page", 200, "left $5.25 of $7.25")
	n.person().wants(n.person().get(at), "the page for a stranger", 303, "/signin?next=%2Fdashboard%2Fbudgets%2Fraise")
}

// A session that was refused goes on as soon as its owner has added to its budget. A form of another site adds nothing.
func TestRaisedSessionGoesOn(t *testing.T) {
	t.Parallel()
	n := newSite(t, "prices: [{model: sandbox/small, input: 3, output: 15}]\n").start(t)
	ana := n.join("ana@example.com")
	ana.wants(ana.post("/dashboard/plan/subscribe", "plan", "free"), "Free", 303, "")
	each := ana.budget("scope", "session", "amount", "0")
	call := func() (status int, message string) {
		r, err := http.NewRequest("POST", n.scheme+n.Addr()+"/v1/chat/completions", strings.NewReader(`{"model":"sandbox/small","max_tokens":50,"messages":[{"role":"user","content":"hi"}]}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+ana.key)
		r.Header.Set("X-Sluice-Session", "run-1")
		resp, err := n.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var reply struct{ Error fault.Object }
		if err := json.NewDecoder(resp.Body).Decode(&reply); err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, reply.Error.Message
	}
	got, message := call()
	if got != 402 {
		t.Fatalf("a call of a session without money = %d, want 402", got)
	}
	_, link, _ := strings.Cut(message, "raise it at "+n.scheme+n.Addr())
	ana.wants(ana.get(link), "the page of the link in "+message, 200, "left $0.00 of $0.00")
	n.person().wants(n.person().get(link), "that page for a stranger", 303, "/signin?next="+url.QueryEscape(link))
	form := url.Values{"count": {each + "/run-1"}, "by": {"5"}}
	ana.wants(ana.send("POST", "/dashboard/budgets/raise", "cross-site", form), "adding from elsewhere", 403, "another site")
	if got, _ := call(); got != 402 {
		t.Fatalf("a call after a forged form = %d, want 402", got)
	}
	ana.leads(ana.send("POST", "/dashboard/budgets/raise", "same-origin", form), "adding 5", "if its next call costs no more than what is left")
	if got, _ := call(); got != 200 {
		t.Errorf("the next call = %d, want 200", got)
	}
}

// Sessions are listed, the newest first, each with what is left of its budget.
func TestSessionsPage(t *testing.T) {
	t.Parallel()
	n := newSite(t, "").start(t)
	ana, bob := n.join("ana@example.com"), n.join("bob@example.com")
	ana.wants(ana.get("/dashboard/sessions"), "the page without sessions", 200, "No sessions yet")
	id, now := must[admin.Account](n, "account.show", admin.Target{Ref: ana.email}).ID, time.Now().UnixMilli()
	for i := range 30 {
		last := now - int64(i)*60_000 - 120_000
		n.exec(fmt.Sprintf(`INSERT INTO session_sums (account_id, session, key_id, first_at, last_at, models, calls, failed, prompt, cached, completion, cost_nano, margin_nano, unpriced, cacheable)
			VALUES ('%s', 'run-%02d', 'key_x', %d, %d, 'sandbox/small,sandbox/large', 7, 1, 1000, 250, 50, 1500000000, 0, 0, 1000)`, id, i, last-90_000, last))
	}
	first := ana.get("/dashboard/sessions").body
	for _, want := range []string{"run-00", "run-24", "sandbox/small, sandbox/large", "$1.50", "25%", "1.5 min", "2 minutes ago"} {
		if !strings.Contains(first, want) {
			t.Errorf("the page has no %q: %s", want, first)
		}
	}
	if strings.Contains(first, "run-25") || strings.Contains(first, "Budget left") {
		t.Errorf("the page has a session too many, or a budget: %s", first)
	}
	ana.wants(ana.get("/dashboard/sessions?after=run-24"), "older sessions", 200, "run-29")
	ana.wants(ana.get("/dashboard/sessions/run-03"), "one session", 200, "1 not completed")
	// Those of one key alone.
	ana.wants(ana.post("/dashboard/keys", "name", "laptop"), "a key", 303, "/dashboard/keys")
	key := keyID.FindStringSubmatch(ana.get("/dashboard/keys").body)[1]
	ana.wants(ana.get("/dashboard/sessions?key="+key), "sessions of a key without any", 200, "No session used this key last")
	n.exec("UPDATE session_sums SET key_id = '" + key + "' WHERE session < 'run-26'")
	page := ana.wants(ana.get("/dashboard/sessions?key="+key), "sessions of a key", 200, `hx-get="/dashboard/sessions?key=`+key+`"`).body
	older := html.UnescapeString(between(page, `id="older" href="`, `"`))
	if got := ana.get(older).body; !strings.Contains(got, "run-25") || strings.Contains(got, "run-26") {
		t.Errorf("the last session of a key, and no other, is not at %q", older)
	}
	each := ana.budget("scope", "session", "amount", "2")
	n.spend(each+"/run-03", 1_500_000_000)
	ana.wants(ana.get("/dashboard/sessions"), "sessions with a budget", 200, "$0.50")
	ana.wants(ana.get("/dashboard/sessions/run-03"), "one session with a budget", 200, "left $0.50 of $2.00")
	ana.wants(ana.get("/dashboard/sessions/run-99"), "a session that is not there", 404, "no session")
	bob.wants(bob.get("/dashboard/sessions/run-03"), "somebody else's session", 404, "no session")
}
