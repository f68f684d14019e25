package oracles

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sluice/internal/account"
	"sluice/internal/ledger/budget"
	"sluice/internal/operate/admin"
	"sluice/internal/testkit/vendortest"
)

// A call of an agent reserves 32 dollars for its longest reply and costs 30, so that the second call of a session does not fit.
const (
	longReply   = 30_000 // of 32,000 tokens
	longPrices  = "prices: [{model: " + faked + ", input: 0, cache_read: 0, cache_write_5m: 0, cache_write_1h: 0, output: 1000}]\n"
	sessionCap  = "40"
	sessionName = "one run"
	sessionMore = "100"
	budgetURL   = "http://sluice.example.com"
)

// raiseLink is where the owner of a session adds to its budget.
var raiseLink = regexp.MustCompile(regexp.QuoteMeta(budgetURL) + `(/dashboard/budgets/raise\?count=bud_\w+/([\w.%-]+))`)

// TestAgentsBudget lets agents run into the cap of their session. Each must end and show the person what is the matter and the page on
// which it can be raised, and go on with the same session after its owner has done that.
func TestAgentsBudget(t *testing.T) {
	t.Parallel()
	dir := agentsFolder(t)
	for _, a := range agents() {
		if a.again == nil || a.model != "" {
			continue
		}
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			a.runOut(t, a.installed(t, dir))
		})
	}
}

// runOut lets the agent run out of money, and go on.
func (a *agent) runOut(t *testing.T, program string) {
	t.Helper()
	home, place := t.TempDir(), t.TempDir()
	w := &worker{place: place}
	vendor := &vendortest.Vendor{Script: func(asked *vendortest.Asked) *vendortest.Answer {
		answer := w.script(asked)
		if answer.Call != "" {
			answer.Output = longReply
		}
		return answer
	}}
	upstream := httptest.NewServer(vendor)
	t.Cleanup(upstream.Close)
	server := map[string]string{"/v1/messages": "messages", "/v1/responses": "responses"}[a.door]
	provider, model, _ := strings.Cut(servers[server], "|")
	g := startGateway(t, fmt.Sprintf(`public_url: `+budgetURL+`
providers: [{name: fake, allow_image_urls: true, `+provider+`]
models: [{id: %s, provider: fake, upstream: %s, plan: basic, context_length: 200000, max_output: 32000, tool_calling: true, reasoning: true}]
aliases: {"gpt-*": %[2]s, "claude-*": %[2]s}
`+longPrices, upstream.URL, faked, model))
	g.model = faked
	id, key := g.account(t, "ana", "scale")
	g.owner = key
	name, amount, window := sessionName, sessionCap, account.Total
	var made budget.Record
	if err := g.admin.Call(t.Context(), "budget.set", admin.BudgetOrder{Actor: "test", Ref: id, Name: &name, Amount: &amount, Window: &window, Scope: &account.BudgetScope{Session: account.EachSession}}, &made); err != nil {
		t.Fatal(err)
	}
	a.settle(t, g, home)

	out, err := a.run(t, g, a.args(g), program, home, place)
	said, first := plainText(out), g.log.statuses(a.door)
	t.Logf("soak: %s at the cap: %v, %v, and said:\n%s", a.name, err, first, said)
	link := raiseLink.FindStringSubmatch(said)
	switch {
	case link == nil:
		t.Fatalf("the person does not see where to raise the budget:\n%s", said)
	case !strings.Contains(said, a.shown+"This call may cost up to $32.00, and the budget \""+sessionName+"\" of $40.00 in all for each session has $10.00 left: $30.00 are spent"):
		t.Errorf("the person does not see what is the matter:\n%s", said)
	case first[http.StatusPaymentRequired] != 1+a.repeats || first[http.StatusOK] != 1:
		t.Errorf("the replies were %v, want one call and a refusal with %d repeats", first, a.repeats)
	case strings.Contains(said, doneText):
		t.Errorf("the task was done in spite of the cap:\n%s", said)
	}

	// Its owner follows the link and adds to the session.
	ana := g.person(t, "ana@example.com")
	page := ask(t, ana, http.MethodGet, strings.TrimSuffix(g.url, "/v1")+link[1], "", "")
	if !strings.Contains(page, sessionName) {
		t.Errorf("the page of the link does not name the budget:\n%s", page)
	}
	session, err := url.QueryUnescape(link[2])
	if err != nil {
		t.Fatal(err)
	}
	ask(t, ana, http.MethodPost, strings.TrimSuffix(g.url, "/v1")+"/dashboard/budgets/raise", form, url.Values{"count": {made.ID + "/" + session}, "by": {sessionMore}}.Encode())

	out, err = a.run(t, g, a.again(session), program, home, place)
	said = plainText(out)
	both := g.log.statuses(a.door)
	t.Logf("soak: %s after it was raised: %v, %v, and said:\n%s", a.name, err, both, said)
	wrote, _ := os.ReadFile(filepath.Join(place, proofFile))
	if err != nil || !strings.Contains(said, doneText) || strings.TrimSpace(string(wrote)) != proofText || both[http.StatusPaymentRequired] != first[http.StatusPaymentRequired] {
		w.mu.Lock()
		defer w.mu.Unlock()
		t.Errorf("%s = %v, with %v and %q in the file\nsteps:\n%s\nrefused:\n%s\noutput:\n%s", a.program, err, both, wrote, strings.Join(w.steps, "\n"), refusals(vendor.Take()), said)
	}
}

// person returns a browser that is signed in to an account.
func (g *gateway) person(t *testing.T, email string) *http.Client {
	t.Helper()
	var link admin.SignInLink
	if err := g.admin.Call(t.Context(), "signin-link", admin.Target{Actor: "test", Ref: email}, &link); err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(link.URL)
	if err != nil {
		t.Fatal(err)
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	person := &http.Client{Jar: jar}
	ask(t, person, http.MethodPost, strings.TrimSuffix(g.url, "/v1")+u.Path, form, u.RawQuery)
	return person
}

// statuses counts the replies on a path.
func (l *logged) statuses(path string) map[int]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	counts := map[int]int{}
	for line := range strings.SplitSeq(l.text.String(), "\n") {
		var e struct {
			Msg    string `json:"msg"`
			Path   string `json:"path"`
			Status int    `json:"status"`
		}
		if json.Unmarshal([]byte(line), &e) == nil && e.Msg == "request" && e.Path == path {
			counts[e.Status]++
		}
	}
	return counts
}

// plainText returns what a terminal shows, without colors.
func plainText(out []byte) string {
	return regexp.MustCompile("\x1b\\[[0-9;?]*[A-Za-z]").ReplaceAllString(string(out), "")
}
