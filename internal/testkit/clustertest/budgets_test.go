package clustertest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"sluice/internal/account"
	"sluice/internal/ledger/budget"
	"sluice/internal/ledger/price"
	"sluice/internal/ledger/usage"
	"sluice/internal/operate/admin"
	"sluice/internal/store/sqlstore/alltest"
)

// prices are those of the model that all calls are of, dollars for a million tokens. A call of spenders costs a third of a dollar at most,
// or half of one after the price was raised.
const (
	usualPrices  = "prices: [{model: sandbox/small, input: 1000, output: 8000}]\n"
	higherPrices = "prices: [{model: sandbox/small, input: 1500, output: 12000}]\n"
)

const dollar = price.Nano(1_000_000_000)

// testBudgets: whatever happens, no hard budget is overspent, nothing stays reserved, and what is left is the amount without the settlements.
func testBudgets(t *testing.T, c *cluster) {
	outage, calls := 700*time.Millisecond, 15
	if soak() {
		outage, calls = 12*time.Second, 200
	}
	c.exact()
	seed := newSeed(t)
	s := c.startSpenders(seed, 12)
	random := rand.New(rand.NewPCG(seed, 1))
	happened := map[string]int{}
	all := budgetFaults(random)
	for _, i := range random.Perm(len(all)) {
		f := all[i]
		if f.slow && !soak() {
			continue
		}
		had := s.ended()
		c.eventually("some calls", func() bool { return s.ended() >= had+calls })
		if err := f.begin(c); err != nil {
			t.Error(err)
		}
		pause(t, outage)
		if err := f.end(c); err != nil {
			t.Fatal(err)
		}
		happened[f.name]++
		c.ready()
	}
	had := s.ended()
	c.eventually("calls afterwards", func() bool { return s.ended() >= had+calls })
	c.eventually("the end of every budget", s.usedUp)
	s.finish()
	began := time.Now()
	c.checkBooks(s.whole)
	s.freed(t)
	t.Logf("soak: cluster, budgets: %d calls on three nodes: %v; refused by %v; %d sessions; %d raises; %v; nothing was reserved %v after the last call, with the checks of the books; seed %d",
		s.ended(), s.ends, s.refusals, s.sessionsSeen(), s.raises, happened, time.Since(began).Round(10*time.Millisecond), seed)
	for _, odd := range s.odd[:min(len(s.odd), 5)] {
		t.Errorf("a reply that no caller should get: %s", odd)
	}
	s.balance(t)
	c.audited(t, c.nodes[0], 0, "0 budgets overspent.")
	s.last(t)
	c.audited(t, c.nodes[1], 0, "0 budgets overspent.")
	s.overspend(t)
}

// budgetFaults returns what may happen to the cluster while budgets are used.
func budgetFaults(random *rand.Rand) []fault {
	var killed *node
	kill := func(c *cluster) error { killed = c.nodes[random.IntN(nodes)]; killed.kill(); return nil }
	start := func(*cluster) error { return killed.start() }
	both := func(all ...func(*cluster) error) func(*cluster) error {
		return func(c *cluster) (err error) {
			for _, do := range all {
				err = cmp.Or(err, do(c))
			}
			return err
		}
	}
	redisStop, redisStart := func(c *cluster) error { return c.redis.Stop() }, func(c *cluster) error { return c.redis.Restart() }
	pgStop, pgStart := func(c *cluster) error { return c.pg.Stop() }, func(c *cluster) error { return c.pg.Restart() }
	return []fault{
		{name: "node killed", begin: kill, end: start},
		{name: "node killed, Redis away", begin: both(redisStop, kill), end: both(start, redisStart)},
		{name: "PostgreSQL away", begin: pgStop, end: pgStart},
		{name: "another price", begin: func(c *cluster) error { return c.reprice(higherPrices) }, end: func(c *cluster) error { return c.reprice(usualPrices) }},
		{name: "Redis away", begin: redisStop, end: redisStart, slow: true},
		{name: "Redis empty", begin: func(c *cluster) error { return c.redis.Lose() }, end: redisStart, slow: true},
		{name: "node killed, PostgreSQL away", begin: both(pgStop, kill), end: both(pgStart, start), slow: true},
		{name: "PostgreSQL hangs", begin: func(c *cluster) error { return c.pg.Freeze() }, end: func(c *cluster) error { return c.pg.Thaw() }, slow: true},
	}
}

// reprice gives the model another price on every node, while calls run.
func (c *cluster) reprice(prices string) error {
	for _, n := range c.nodes {
		text, err := os.ReadFile(n.file)
		if err != nil {
			return err
		}
		yaml := strings.NewReplacer(usualPrices, prices, higherPrices, prices).Replace(string(text))
		if err := errors.Join(os.WriteFile(n.file, []byte(yaml), 0o600), n.cmd.Process.Signal(syscall.SIGHUP)); err != nil {
			return err
		}
	}
	return nil
}

// limited is a budget as replies show it.
type limited struct {
	ID, Name, Amount, Spent, Reserved, Left, Needed string
}

// spenders are callers of an account with three hard budgets: of the account, of its key, and of each session. The first two are raised
// whenever they are used up. Sessions that are used up are left for new ones.
type spenders struct {
	c       *cluster
	account admin.CreatedAccount
	ids     map[string]string // of budgets, by name
	stop    chan struct{}
	running sync.WaitGroup
	session [4]atomic.Int64 // the sessions that callers share, by their numbers

	mu       sync.Mutex
	amounts  map[string]price.Nano // of budgets that are raised, as they were last ordered
	ends     map[string]int        // how calls ended for their callers
	refusals map[string]int        // by the name of the budget
	asked    map[string]int        // refusals since the last raise
	raises   int
	whole    []string // requests whose replies were complete
	odd      []string // replies that nobody should get
}

// insist is how often a session is refused before it ends, and a quarter of how often other budgets refuse calls before they are raised. By
// then, every node has used up what it was granted.
const insist = 6

// budgetAmounts are small, so that they are used up again and again. A raise adds as much again.
var budgetAmounts = map[string]price.Nano{"all": 6 * dollar, "key": 5 * dollar, "each": 2 * dollar}

// startSpenders makes the account and its budgets, and starts callers. finish ends them.
func (c *cluster) startSpenders(seed uint64, callers int) *spenders {
	c.t.Helper()
	s := &spenders{
		c: c, account: c.newAccount("scale", `"requests_per_minute":"unlimited","concurrent":"unlimited","tokens_per_minute":"unlimited"`), stop: make(chan struct{}),
		ids: map[string]string{}, amounts: maps.Clone(budgetAmounts), ends: map[string]int{}, refusals: map[string]int{}, asked: map[string]int{},
	}
	keys := do[admin.List[admin.Key]](c, c.nodes[0], "key.list", admin.AccountPage{Ref: s.account.ID}).Data
	for name, b := range map[string]struct {
		window account.Window
		scope  account.BudgetScope
	}{
		"all":  {account.Total, account.BudgetScope{Account: true}},
		"key":  {account.Rolling24, account.BudgetScope{Key: keys[0].ID}},
		"each": {account.Total, account.BudgetScope{Session: account.EachSession}},
	} {
		amount := budgetAmounts[name].String()
		made := do[budget.Record](c, c.nodes[0], "budget.set", admin.BudgetOrder{Actor: "test", Ref: s.account.ID, Name: &name, Amount: &amount, Window: &b.window, Scope: &b.scope, Marks: []int{}})
		s.ids[name] = made.ID
	}
	for _, n := range c.nodes {
		c.eventually("the arrival of budgets on node "+n.name, func() bool {
			return strings.Count(c.get(n.url, s.account.MasterKey, "/v1/budgets").body, `"bud_`) == len(s.ids)
		})
	}
	for i := range callers {
		random := rand.New(rand.NewPCG(seed, uint64(i)+10))
		s.running.Go(func() {
			for s.rests(time.Duration(random.IntN(100)) * time.Millisecond) {
				s.call(random)
			}
		})
	}
	s.running.Go(func() {
		random := rand.New(rand.NewPCG(seed, 2))
		for s.rests(100 * time.Millisecond) {
			s.raise(c.nodes[random.IntN(nodes)])
		}
	})
	return s
}

// rests waits, and reports whether there is more to do.
func (s *spenders) rests(d time.Duration) bool {
	select {
	case <-s.stop:
		return false
	case <-time.After(d):
		return true
	}
}

// finish ends the callers.
func (s *spenders) finish() {
	close(s.stop)
	s.running.Wait()
}

// ended returns how many calls have ended.
func (s *spenders) ended() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, ends := range s.ends {
		n += ends
	}
	return n
}

// usedUp reports whether each budget has refused a call.
func (s *spenders) usedUp() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.refusals) == len(budgetAmounts)
}

func (s *spenders) sessionsSeen() (n int64) {
	for i := range s.session {
		n += 1 + s.session[i].Load()
	}
	return n
}

// raise adds to the budgets that are used up. A node that is away does nothing, or nobody hears that it did.
func (s *spenders) raise(n *node) {
	for _, name := range []string{"all", "key"} {
		s.mu.Lock()
		used := s.asked[name] >= 4*insist
		if used {
			s.amounts[name] += budgetAmounts[name]
			s.asked[name] = 0
		}
		amount := s.amounts[name]
		s.mu.Unlock()
		if used && s.order(n, name, amount) == nil {
			s.raises++
		}
	}
}

// order changes the amount of a budget.
func (s *spenders) order(n *node, name string, amount price.Nano) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	client, err := admin.Dial(ctx, n.data)
	if err != nil {
		return err
	}
	text := amount.String()
	return client.Call(ctx, "budget.set", admin.BudgetOrder{Actor: "test", Ref: s.account.ID, ID: s.ids[name], Amount: &text}, new(budget.Record))
}

// call makes a call of some kind on some node: a whole one, a stream, or one that its caller leaves.
func (s *spenders) call(random *rand.Rand) {
	group := random.IntN(len(s.session))
	number := s.session[group].Load()
	text, stream := mixed(random)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	if random.IntN(5) == 0 {
		cancel()
		ctx, cancel = context.WithTimeout(context.Background(), time.Duration(random.IntN(500))*time.Millisecond)
	}
	defer cancel()
	end, id, in := s.ask(ctx, s.c.nodes[random.IntN(nodes)], fmt.Sprintf("run-%d-%d", group, number), text, stream)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ends[end]++
	if end == "complete" {
		s.whole = append(s.whole, id)
	}
	if in != nil {
		s.refusals[in.Name]++
		s.asked[in.Name]++
		if in.Name == "each" && s.asked[in.Name]%insist == 0 {
			s.session[group].CompareAndSwap(number, number+1)
		}
	}
}

// ask makes a call. It returns how it ended, its id, and the budget in the way.
func (s *spenders) ask(ctx context.Context, n *node, session, text string, stream bool) (end, id string, in *limited) {
	body := fmt.Sprintf(`{"model":"sandbox/small","max_tokens":35,"stream":%t,"messages":[{"role":"user","content":%q}]}`, stream, text)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, n.url+chatPath, strings.NewReader(body))
	if err != nil {
		return err.Error(), "", nil
	}
	req.Header.Set("Authorization", "Bearer "+s.account.MasterKey)
	req.Header.Set("X-Sluice-Session", session)
	resp, err := s.c.client.Do(req)
	if err != nil {
		return "no reply", "", nil
	}
	defer resp.Body.Close()
	id = resp.Header.Get("X-Request-Id")
	switch resp.StatusCode {
	case http.StatusOK:
		if read(resp.Body, stream) != nil {
			return "broken off", id, nil
		}
		return "complete", id, nil
	case http.StatusPaymentRequired:
		raw, err := io.ReadAll(resp.Body)
		var body struct {
			Error struct {
				Type   string
				Budget *limited
			}
		}
		retry, _ := advice(resp)
		if err == nil && (json.Unmarshal(raw, &body) != nil || body.Error.Type != "budget_exceeded" || body.Error.Budget == nil || retry || resp.Header.Get("Retry-After-Ms") != "") {
			s.note(fmt.Sprintf("402 %s %v", raw, resp.Header))
		}
		return "over a budget", id, body.Error.Budget
	case http.StatusServiceUnavailable:
		return "not now", id, nil
	}
	raw, _ := io.ReadAll(resp.Body)
	s.note(fmt.Sprintf("%d %s", resp.StatusCode, raw))
	return "odd", id, nil
}

func (s *spenders) note(odd string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.odd = append(s.odd, odd)
}

// freed waits until no call holds anything: servers tell once a second what their calls hold. All who were granted something are alive.
func (s *spenders) freed(t *testing.T) {
	t.Helper()
	row := func() (reserved, lives int64, err error) {
		err = s.c.books.QueryRow(`SELECT COALESCE(SUM(reserved), 0), COUNT(DISTINCT regexp_replace(holder, '[^/]*$', '')) FROM budget_grants`).Scan(&reserved, &lives)
		return reserved, lives, err
	}
	deadline := time.Now().Add(patience)
	for {
		reserved, lives, err := row()
		if err == nil && reserved == 0 && lives <= nodes {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%v after the last call, %d are reserved and %d processes were granted something: %v", patience, reserved, lives, err)
		}
		pause(t, 20*time.Millisecond)
	}
}

// balance compares every budget with what its calls have cost.
func (s *spenders) balance(t *testing.T) {
	t.Helper()
	store, err := alltest.Open(t.Context(), s.c.pg.URL(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	cost, byCount := map[budget.Key]price.Nano{}, map[string]price.Nano{}
	err = store.EachCharged(t.Context(), func(r *usage.Settlement) error {
		for i := range r.Terms.Budgets {
			b := &r.Terms.Budgets[i]
			spent := r.Spent(b)
			if spent > b.Reserved {
				t.Errorf("the call %s has reserved %s of %s and cost %s", r.ID, b.Reserved, b.Count, spent)
			}
			cost[budget.Key{Count: b.Count, Period: budget.SpentIn(b.Period, r.At.Add(r.Latency))}] += spent
			byCount[b.Count] += spent
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	rows, err := s.c.books.Query(`SELECT count, period, spent FROM budget_spent`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	stored := map[budget.Key]price.Nano{}
	for rows.Next() {
		var k budget.Key
		var spent int64
		if err := rows.Scan(&k.Count, &k.Period, &spent); err != nil {
			t.Fatal(err)
		}
		if stored[k] = price.Nano(spent); spent == 0 {
			delete(stored, k)
		}
	}
	maps.DeleteFunc(cost, func(_ budget.Key, n price.Nano) bool { return n == 0 })
	if rows.Err() != nil || !maps.Equal(cost, stored) {
		t.Errorf("calls have cost %v, and budgets have %v, %v", cost, stored, rows.Err())
	}
	for count, spent := range byCount {
		if strings.HasPrefix(count, s.ids["each"]+"/") && spent > budgetAmounts["each"] {
			t.Errorf("the session %s has spent %s of %s", count, spent, budgetAmounts["each"])
		}
	}
	for _, n := range s.c.nodes {
		for _, name := range []string{"all", "key"} {
			b := s.stands(t, n, name)
			amount, _ := price.Parse(b.Amount)
			if want := (amount - byCount[b.ID]).String(); b.Spent != byCount[b.ID].String() || b.Reserved != price.Nano(0).String() || b.Left != want || byCount[b.ID] < budgetAmounts[name]/2 || byCount[b.ID] > amount {
				t.Errorf("node %s: %+v, want %s spent, nothing reserved and %s left", n.name, b, byCount[b.ID], want)
			}
		}
	}
}

// stands returns how a budget stands as a node says it.
func (s *spenders) stands(t *testing.T, n *node, name string) (b limited) {
	t.Helper()
	r := s.c.get(n.url, s.account.MasterKey, "/v1/budgets/"+s.ids[name])
	if err := json.Unmarshal([]byte(r.body), &b); err != nil || r.status != http.StatusOK {
		t.Fatalf("node %s says of a budget %d %s, %v", n.name, r.status, r.body, r.err)
	}
	return b
}

// last makes a call that needs all that is left of all of its budgets, of which other nodes hold parts, and one that needs more.
func (s *spenders) last(t *testing.T) {
	t.Helper()
	c := s.c
	var needed price.Nano
	set := func(amounts map[string]price.Nano) {
		t.Helper()
		for name, amount := range amounts {
			if err := s.order(c.nodes[0], name, amount); err != nil {
				t.Fatal(err)
			}
			for _, n := range c.nodes {
				c.eventually("the arrival of an amount on node "+n.name, func() bool {
					return strings.Contains(c.get(n.url, s.account.MasterKey, "/v1/budgets/"+s.ids[name]).body, fmt.Sprintf(`"amount":%q`, amount))
				})
			}
		}
	}
	one := func(n *node, session string) (string, *limited) {
		end, _, in := s.ask(t.Context(), n, session, "Reply with the word pong", false)
		if in != nil {
			needed, _ = price.Parse(in.Needed)
		}
		return end, in
	}
	full, _ := price.Parse(s.stands(t, c.nodes[0], "all").Amount)
	full2, _ := price.Parse(s.stands(t, c.nodes[0], "key").Amount)
	set(map[string]price.Nano{"all": full + 100*dollar, "key": full2 + 100*dollar, "each": 0})
	if end, in := one(c.nodes[0], "run-a"); in == nil || in.Name != "each" || needed == 0 {
		t.Fatalf("a call of a session without money = %s %+v, want it to be refused", end, in)
	}
	// Every node has some, so that the last one must get it back from the others.
	set(map[string]price.Nano{"each": 100 * dollar})
	for _, n := range c.nodes {
		if end, in := one(n, "run-b"); end != "complete" {
			t.Fatalf("a call on node %s = %s %+v, want it to pass", n.name, end, in)
		}
	}
	c.checkBooks(nil)
	s.freed(t)
	left := map[string]price.Nano{"each": needed}
	for _, name := range []string{"all", "key"} {
		spent, _ := price.Parse(s.stands(t, c.nodes[1], name).Spent)
		left[name] = spent + needed
	}
	less := maps.Clone(left)
	less["all"]--
	set(less)
	if end, in := one(c.nodes[1], "run-c"); in == nil || in.Name != "all" || in.Left != (needed-1).String() {
		t.Errorf("a call that needs a nano-dollar more than is left = %s %+v, want it to be refused with %s left", end, in, needed-1)
	}
	set(left)
	// The others have about a second to give back what they have; on a busy machine it may take longer.
	tries := 1
	for deadline := time.Now().Add(patience); ; tries++ {
		end, in := one(c.nodes[1], "run-c")
		if end == "complete" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("a call that needs all that is left = %s %+v, want it to pass", end, in)
		}
		pause(t, 50*time.Millisecond)
	}
	t.Logf("soak: cluster, budgets: a call that needed all of the $%s that was left of three budgets passed at try %d", needed, tries)
	// Of what it did not cost, there is something left, and too little for another one.
	if end, in := one(c.nodes[2], "run-c"); in == nil {
		t.Errorf("another call = %s, want it to be refused", end)
	}
	c.checkBooks(nil)
	s.freed(t)
}

// overspend puts a call into the journal of a dead node that has reserved more than there is. The audit must find it.
func (s *spenders) overspend(t *testing.T) {
	t.Helper()
	c, n := s.c, s.c.nodes[2]
	b := s.stands(t, n, "all")
	amount, _ := price.Parse(b.Amount)
	n.kill()
	j, err := usage.OpenJournal(filepath.Join(n.data, "journal"), nil)
	if err != nil {
		t.Fatal(err)
	}
	cost, at := dollar/100, time.Now().UTC().Truncate(time.Millisecond)
	err = j.Append(&usage.Settlement{
		ID: "req_overspends", At: at, AccountID: s.account.ID, Plan: "scale", ModelAsked: "sandbox/small", ModelUsed: "sandbox/small", Status: 200, End: usage.EndComplete,
		Latency: time.Second, Cost: &cost,
		Terms: usage.Terms{Budgets: []usage.Charge{{Count: b.ID, Holder: "node/elsewhere/1/1", Reserved: 1000 * dollar, Amount: amount, After: 7 * time.Millisecond}}},
	})
	if err = errors.Join(err, j.Close(), n.start()); err != nil {
		t.Fatal(err)
	}
	c.ready()
	said := c.audited(t, n, 1, "1 budgets overspent.")
	line := regexp.MustCompile(`(?m)^` + at.Add(7*time.Millisecond).Format("2006-01-02 15:04:05.000") + ` budget ` + b.ID + `: 1000\.00 USD reserved and .* requests .*\breq_overspends$`)
	if !line.MatchString(said) {
		t.Errorf("sluice audit says %s, want a line like %s", said, line)
	}
}

// audited runs sluice audit on a node. It must exit with a code and say something.
func (c *cluster) audited(t *testing.T, n *node, code int, want string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, n.program, "audit", "--data", n.data)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Dir(n.file)}
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	if got := cmd.ProcessState.ExitCode(); got != code || !strings.Contains(string(out), want) {
		t.Errorf("sluice audit on node %s exits with %d and says\n%s\nwant %d and %q", n.name, got, out, code, want)
	}
	lines := slices.Collect(strings.Lines(string(out)))
	t.Logf("soak: cluster, budgets: sluice audit: %s", strings.TrimSpace(lines[len(lines)-1]))
	return string(out)
}
