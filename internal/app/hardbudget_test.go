package app_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/ledger/price"
	"sluice/internal/operate/admin"
)

// stall is an upstream of OpenAI's dialect that counts its calls and reads what they ask for. While it is shut, each call waits.
type stall struct {
	url  string
	came chan map[string]any // a request for each call
	// usage is what it reports, and more has further members of its replies.
	usage, more atomic.Pointer[string]
	mu          sync.Mutex
	open        chan struct{} // closed: calls do not wait
}

func newStall(t *testing.T) *stall {
	t.Helper()
	u := &stall{came: make(chan map[string]any, 1000), open: make(chan struct{})}
	close(u.open)
	u.tells(`{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15}`, "")
	s := httptest.NewServer(http.HandlerFunc(u.serve))
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	u.url = s.URL + "/v1"
	return u
}

// tells makes the next calls report what they have used, with further members of their replies.
func (u *stall) tells(usage, more string) { u.usage.Store(&usage); u.more.Store(&more) }

// shut makes the next calls wait until the function that it returns is called.
func (u *stall) shut() (open func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.open = make(chan struct{})
	return sync.OnceFunc(func() { close(u.open) })
}

func (u *stall) serve(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var asked map[string]any
	if json.Unmarshal(body, &asked) != nil {
		http.Error(w, `{"error":{"message":"not JSON"}}`, http.StatusBadRequest)
		return
	}
	u.mu.Lock()
	open := u.open
	u.mu.Unlock()
	u.came <- asked
	select {
	case <-open:
	case <-r.Context().Done():
		return
	}
	usage, more := *u.usage.Load(), *u.more.Load()
	switch {
	case strings.HasSuffix(r.URL.Path, "/embeddings"):
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"object":"list","data":[{"object":"embedding","index":0,"embedding":[1,2]}],"model":"m","usage":%s}`, usage)
	case asked["stream"] == true:
		w.Header().Set("Content-Type", "text/event-stream")
		for _, rest := range []string{
			`"choices":[{"index":0,"delta":{"role":"assistant","content":"hi"},"finish_reason":null}]`, `"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]`, `"choices":[],"usage":` + usage + more,
		} {
			fmt.Fprintf(w, "data: {\"id\":\"x\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",%s}\n\n", rest)
		}
		fmt.Fprint(w, "data: [DONE]\n\n")
	default:
		choices, n := []string{}, 1
		if asked["n"] != nil {
			n = int(asked["n"].(float64))
		}
		for i := range n {
			choices = append(choices, fmt.Sprintf(`{"index":%d,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}`, i))
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[%s],"usage":%s%s}`, strings.Join(choices, ","), usage, more)
	}
}

// unbounded lets the accounts of a test make any number of calls, so that only budgets bound them.
const unbounded = "plans: {scale: {requests_per_minute: unlimited, concurrent: unlimited, tokens_per_minute: unlimited}}\npublic_url: https://ai.example.com\n"

// hardSite starts a server with models at a stall: m, which makes replies, and vec, which makes vectors.
func hardSite(t *testing.T, u *stall) *node {
	t.Helper()
	return newSite(t, unbounded+fmt.Sprintf(`
providers: [{name: lab, kind: openai, base_url: %q}]
models:
  - {id: m, provider: lab, plan: free, context_length: 100000, max_output: 1000, tool_calling: true, pricing: {input: 3, output: 15}}
  - {id: vec, kind: embedding, provider: lab, plan: free, context_length: 8192, pricing: {input: 7}}
sandbox: false
`, u.url)).start(t)
}

// hardDoors are the doors, with a call of each.
var hardDoors = []struct{ name, path, body string }{
	{"chat", "/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"Hi"}]}`},
	{"chat stream", "/v1/chat/completions", `{"model":"m","stream":true,"messages":[{"role":"user","content":"Hi"}]}`},
	{"responses", "/v1/responses", `{"model":"m","input":"Hi"}`},
	{"responses stream", "/v1/responses", `{"model":"m","stream":true,"input":"Hi"}`},
	{"messages", "/v1/messages", `{"model":"m","max_tokens":500,"messages":[{"role":"user","content":"Hi"}]}`},
	{"messages stream", "/v1/messages", `{"model":"m","max_tokens":500,"stream":true,"messages":[{"role":"user","content":"Hi"}]}`},
	{"embeddings", "/v1/embeddings", `{"model":"vec","input":"What is a vector good for?"}`},
}

// spender is an account with a hard budget.
type spender struct {
	*node
	admin.CreatedAccount
	budget string // its id
}

// spender makes an account with a hard budget of an amount for all its calls.
func (n *node) spender(name, amount string) *spender {
	n.t.Helper()
	own := *n // a test may replace its t
	s := &spender{node: &own, CreatedAccount: n.customer(strings.ReplaceAll(name, " ", "-") + "@example.com")}
	s.budget = n.recordIn(n.request("POST", "/v1/budgets", s.MasterKey, fmt.Sprintf(`{"name":%q,"amount":%q,"window":"total","scope":{"account":true},"marks":[]}`, name, amount))).ID
	return s
}

// has gives the budget another amount.
func (s *spender) has(amount price.Nano) {
	s.t.Helper()
	s.recordIn(s.request("PATCH", "/v1/budgets/"+s.budget, s.MasterKey, fmt.Sprintf(`{"amount":%q}`, amount)))
}

// dollars returns an amount.
func (n *node) dollars(text string) price.Nano {
	n.t.Helper()
	amount, err := price.Parse(text)
	if err != nil {
		n.t.Fatalf("%q is no amount", text)
	}
	return amount
}

// stands returns what is spent, reserved and left.
func (s *spender) stands() (spent, reserved, left price.Nano) {
	s.t.Helper()
	b := s.recordIn(s.get("/v1/budgets/"+s.budget, s.MasterKey))
	return s.dollars(*b.Spent), s.dollars(*b.Reserved), s.dollars(*b.Left)
}

// inTheWay is the budget in a refusal.
type inTheWay struct {
	ID, Name, Amount, Spent, Reserved, Left, Needed string
	ResetsAt                                        *time.Time `json:"resets_at"`
}

// refusal returns the budget in a reply, which must be a refusal of the door in its dialect that no client repeats.
func (n *node) refusal(path string, r reply) (found inTheWay) {
	n.t.Helper()
	n.refusedBy(path, r)
	var got struct {
		Error struct {
			Message string
			Budget  *inTheWay
			Details struct{ Budget *inTheWay }
		}
	}
	if err := json.Unmarshal([]byte(r.body), &got); err != nil {
		n.t.Fatal(err)
	}
	at := got.Error.Budget
	if path == "/v1/messages" {
		at = got.Error.Details.Budget
	}
	for _, told := range []string{`"` + at.Name + `"`, "$" + at.Amount, "$" + at.Spent + " are spent", "$" + at.Reserved + " are reserved", "$" + at.Left + " left", "$" + at.Needed, "owner of the account", "https://ai.example.com/dashboard/budgets"} {
		if !strings.Contains(got.Error.Message, told) {
			n.t.Errorf("%s: the refusal says %q, want also %s", path, got.Error.Message, told)
		}
	}
	return *at
}

// refusedBy checks that a reply is a 402 because of a budget, in the dialect of its door.
func (n *node) refusedBy(path string, r reply) {
	n.t.Helper()
	var got struct{ Error struct{ Type string } }
	err := json.Unmarshal([]byte(r.body), &got)
	kind := "budget_exceeded"
	if path == "/v1/messages" {
		kind = "billing_error"
	}
	if h := r.header; err != nil || r.status != http.StatusPaymentRequired || got.Error.Type != kind || h.Get("X-Should-Retry") != "false" || h.Get("Retry-After-Ms") != "" || h.Get("X-Sluice-Cost") != "" {
		n.t.Fatalf("%s = %d %v %s, want a 402 of type %s that no client repeats", path, r.status, r.header, r.body, kind)
	}
}

// worst returns what a call may cost: what its refusal says while the budget has nothing.
func (s *spender) worst(path, body string) price.Nano {
	s.t.Helper()
	s.has(0)
	return s.dollars(s.refusal(path, s.request("POST", path, s.MasterKey, body)).Needed)
}

// balanced checks that nothing is reserved, that the budget has the amount without what the account's calls have cost, and that
// the audit finds nothing. It returns what they have cost.
func (s *spender) balanced(what string, amount price.Nano) (cost price.Nano) {
	s.t.Helper()
	eventually(s.t, "the calls of "+what+" to end", func() bool {
		_, reserved, _ := s.stands()
		return reserved == 0
	})
	calls, err := s.SettledFor(s.t.Context(), s.ID)
	if err != nil {
		s.t.Fatal(err)
	}
	for i := range calls {
		if charge := calls[i].Charge(); charge != nil {
			cost += *charge
		}
	}
	if spent, _, left := s.stands(); spent != cost || left != amount-cost {
		s.t.Errorf("after %s, %s of %s are spent and %s are left; the calls have cost %s", what, spent, amount, left, cost)
	}
	s.audited(what)
	return cost
}

// audited checks that the audit finds nothing.
func (n *node) audited(what string) {
	n.t.Helper()
	if a := must[admin.Audit](n, "audit", admin.Empty{}); len(a.Overspent) > 0 || len(a.Differences) > 0 {
		n.t.Errorf("after %s, the audit finds %+v %+v, want nothing", what, a.Overspent, a.Differences)
	}
}

// A budget lets as many calls through as it has worst cases for, at every door, and refuses the next one in words that help. What
// the calls did cost takes the place of that, to the nano-dollar.
func TestHardBudgetAtDoors(t *testing.T) {
	t.Parallel()
	for _, door := range hardDoors {
		t.Run(door.name, func(t *testing.T) {
			t.Parallel()
			u := newStall(t)
			n := hardSite(t, u)
			s := n.spender(door.name, "0")
			worst := s.worst(door.path, door.body)
			if worst <= 0 {
				t.Fatalf("the call needs %s", worst)
			}
			const k = 3
			amount := k*worst + worst/2
			s.has(amount)
			open := u.shut()
			replies := make(chan reply, k)
			for range k {
				go func() {
					r, err := n.do("POST", door.path, s.MasterKey, door.body)
					if err != nil {
						t.Error(err)
					}
					replies <- r
				}()
			}
			for range k {
				<-u.came
			}
			at := n.refusal(door.path, n.request("POST", door.path, s.MasterKey, door.body))
			if want := (inTheWay{s.budget, door.name, amount.String(), "0.00", (k * worst).String(), (worst / 2).String(), worst.String(), nil}); at != want {
				t.Errorf("the refusal has %+v, want %+v", at, want)
			}
			if spent, reserved, left := s.stands(); spent != 0 || reserved != k*worst || left != worst/2 {
				t.Errorf("while %d calls run, %s are spent, %s reserved and %s left; want %s reserved", k, spent, reserved, left, k*worst)
			}
			open()
			for range k {
				if r := <-replies; r.status != 200 {
					t.Errorf("a call that fits = %d %s", r.status, r.body)
				}
			}
			if cost := s.balanced(door.name, amount); cost <= 0 || cost%k != 0 || cost >= k*worst {
				t.Errorf("%d calls have cost %s, each at most %s", k, cost, worst)
			}
			if r := n.request("POST", door.path, s.MasterKey, door.body); r.status != 200 {
				t.Errorf("a call after that = %d %s, want it to pass", r.status, r.body)
			}
			s.balanced("one more "+door.name, amount)
			if len(u.came) != 1 {
				t.Errorf("the upstream got %d calls beside the first %d, want 1: a refused call is not sent", len(u.came), k)
			}
		})
	}
}

// Of a hundred calls at once, a budget for exactly ten worst cases lets ten through.
func TestHardBudgetCrowd(t *testing.T) {
	t.Parallel()
	for _, door := range hardDoors {
		t.Run(door.name, func(t *testing.T) {
			t.Parallel()
			u := newStall(t)
			n := hardSite(t, u)
			s := n.spender(door.name, "0")
			worst := s.worst(door.path, door.body)
			s.has(10 * worst)
			open := u.shut()
			passed, refused := make(chan reply, 100), make(chan reply, 100)
			for range 100 {
				go func() {
					r, err := n.do("POST", door.path, s.MasterKey, door.body)
					if err != nil {
						t.Error(err)
					}
					if r.status == http.StatusPaymentRequired {
						refused <- r
					} else {
						passed <- r
					}
				}()
			}
			for range 90 { // which can only end while ten are held
				n.refusedBy(door.path, <-refused)
			}
			for range 10 {
				<-u.came
			}
			open()
			for range 10 {
				select {
				case r := <-passed:
					if r.status != 200 {
						t.Errorf("a call = %d %s", r.status, r.body)
					}
				case r := <-refused:
					t.Fatalf("a call that fits is refused: %s", r.body)
				}
			}
			s.balanced("100 calls", 10*worst)
		})
	}
}

// A call that is refused costs nothing: not of a limit, not of the books, not at an upstream, and its Idempotency-Key is free.
func TestRefusedCallsCostNothing(t *testing.T) {
	t.Parallel()
	for _, door := range hardDoors {
		t.Run(door.name, func(t *testing.T) {
			t.Parallel()
			u := newStall(t)
			n := hardSite(t, u)
			s := n.spender(door.name, "0")
			// The key has one call a minute and a month: one that is refused must leave it.
			sub := n.limited(s.ID, "one", &admin.KeyLimits{RequestsPerMinute: number(1), UnitsPerMonth: number(1)})
			const refused = 3
			var needed price.Nano
			for i := range refused {
				r := n.marked(sub.Key, door.path, door.body, "Idempotency-Key", "again", "X-Sluice-Session", "run", "X-Sluice-Tags", "job=1")
				needed = n.dollars(n.refusal(door.path, r).Needed)
				if got := r.header.Get("X-Ratelimit-Remaining-Requests"); got != "1" {
					t.Errorf("call %d leaves %s requests, want 1: %v", i, got, r.header)
				}
			}
			requests, tokens := n.Used(s.ID)
			if held, _ := n.Settlements(); requests != 0 || tokens != 0 || n.Running() != 0 || len(held) != 0 || len(u.came) != 0 {
				t.Errorf("refused calls take %d requests and %d tokens, %d places, %d settlements and %d calls of the upstream; want none", requests, tokens, n.Running(), len(held), len(u.came))
			}
			if spent, reserved, _ := s.stands(); spent != 0 || reserved != 0 {
				t.Errorf("refused calls take %s and %s of the budget", spent, reserved)
			}
			if r := n.get("/v1/sessions/run", s.MasterKey); r.status != 404 {
				t.Errorf("the session of refused calls = %d %s, want none", r.status, r.body)
			}
			type counted struct {
				Total struct{ Requests int } `json:"total"`
			}
			if got := decode[counted](n, n.get("/v1/usage", s.MasterKey)); got.Total.Requests != 0 {
				t.Errorf("the usage of refused calls = %+v", got)
			}
			eventually(t, "the refused calls to be listed", func() bool {
				return strings.Count(n.get("/v1/requests?outcome=refused", s.MasterKey).body, `"budget_exceeded"`) == refused
			})

			s.has(needed)
			again := func() reply {
				return n.marked(sub.Key, door.path, door.body, "Idempotency-Key", "again", "X-Sluice-Session", "run", "X-Sluice-Tags", "job=1")
			}
			if r := again(); r.status != 200 || r.header.Get("Idempotent-Replayed") != "" {
				t.Errorf("the same call with a budget = %d %v %s, want it to be made", r.status, r.header, r.body)
			}
			if r := again(); r.status == 200 && r.header.Get("Idempotent-Replayed") != "true" {
				t.Errorf("its repeat = %d %v %s, want it to cost nothing", r.status, r.header, r.body)
			}
			s.balanced("a refused call that passes at last", needed)
			if _, n := n.Settlements(); n != 1 || len(u.came) != 1 {
				t.Errorf("there are %d settlements and %d calls of the upstream, want 1 each", n, len(u.came))
			}
		})
	}
}

// What calls may cost counts against all budgets that they belong to. All must have room, and none gives any if one has none.
func TestHardBudgetsTogether(t *testing.T) {
	t.Parallel()
	u := newStall(t)
	n := hardSite(t, u)
	s := n.spender("all", "0")
	sub := n.limited(s.ID, "agent", nil)
	door := hardDoors[0]
	worst := s.worst(door.path, door.body)
	s.has(1000 * worst)
	ids := map[string]string{"all": s.budget}
	for name, scope := range map[string]string{"key": `{"key":"` + sub.ID + `"}`, "tag": `{"tag":"team=search"}`, "session": `{"session":"*"}`} {
		ids[name] = n.recordIn(n.request("POST", "/v1/budgets", s.MasterKey, fmt.Sprintf(`{"name":%q,"amount":%q,"window":"day","scope":%s}`, name, 1000*worst, scope))).ID
	}
	amount := func(name string, to price.Nano) {
		t.Helper()
		n.recordIn(n.request("PATCH", "/v1/budgets/"+ids[name], s.MasterKey, fmt.Sprintf(`{"amount":%q}`, to)))
	}
	figures := func() (all []string) {
		for _, b := range n.listed(s.MasterKey) {
			if b.Spent != nil {
				all = append(all, b.Name+" "+*b.Spent+" "+*b.Reserved)
			}
		}
		slices.Sort(all)
		return all
	}
	call := func() reply {
		return n.marked(sub.Key, door.path, door.body, "X-Sluice-Session", "run", "X-Sluice-Tags", "team=search")
	}
	for _, name := range []string{"all", "key", "tag", "session"} {
		amount(name, worst-1)
		r := call()
		if at := n.refusal(door.path, r); at.Name != name || at.Needed != worst.String() {
			t.Errorf("without room in %s the call is refused by %+v", name, at)
		}
		if (name == "key" || name == "tag" || name == "session") != strings.Contains(r.body, `"resets_at":"20`) {
			t.Errorf("the refusal of %s = %s, want the end of its day", name, r.body)
		}
		if got, want := fmt.Sprint(figures()), "[all 0.00 0.00 key 0.00 0.00 tag 0.00 0.00]"; got != want {
			t.Errorf("after a refusal of %s, budgets have %s, want %s", name, got, want)
		}
		amount(name, 1000*worst)
	}
	// Now each has room for one call, and that call takes it from all of them.
	for name := range ids {
		amount(name, worst)
	}
	open := u.shut()
	first := make(chan reply, 1)
	go func() { first <- call() }()
	<-u.came
	if got, want := fmt.Sprint(figures()), fmt.Sprintf("[all 0.00 %[1]s key 0.00 %[1]s tag 0.00 %[1]s]", worst); got != want {
		t.Errorf("while the call runs, budgets have %s, want %s", got, want)
	}
	n.refusal(door.path, call())
	open()
	r := <-first
	if r.status != 200 {
		t.Fatalf("the call = %d %s", r.status, r.body)
	}
	cost := s.balanced("a call of four budgets", worst)
	if got, want := fmt.Sprint(figures()), fmt.Sprintf("[all %[1]s 0.00 key %[1]s 0.00 tag %[1]s 0.00]", cost); got != want {
		t.Errorf("after the call, budgets have %s, want %s", got, want)
	}
	// Another session has its own, so only the other three are in the way.
	amount("all", 3*worst)
	amount("key", 3*worst)
	amount("tag", 3*worst)
	n.refusal(door.path, call())
	if r := n.marked(sub.Key, door.path, door.body, "X-Sluice-Session", "another", "X-Sluice-Tags", "team=search"); r.status != 200 {
		t.Errorf("a call of another session = %d %s", r.status, r.body)
	}
	s.balanced("a call of another session", 3*worst)
}
