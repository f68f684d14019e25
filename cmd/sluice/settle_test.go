package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"sluice/internal/account"
	"sluice/internal/operate/admin"
	"sluice/internal/store/sqlstore"
	"sluice/internal/testkit/pgtest"
)

// everything lists all kinds of calls that callers make and upstreams answer.
var everything = []string{"send", "send", "send", "slow", "leave", "refuse", "break"}

// newSeed returns a random seed, or the one that the environment sets.
func newSeed(t *testing.T) uint64 {
	t.Helper()
	text := os.Getenv("SLUICE_SEED")
	if text == "" {
		return rand.Uint64() >> 1
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("SLUICE_SEED: %v", err)
	}
	return seed
}

// outage waits until enough calls have completed while something that the gateway needs is unavailable, and
// returns when that was. In a soak test it also lasts for some time.
func outage(t *testing.T, l *load, from time.Time) (to time.Time) {
	t.Helper()
	var atLeast time.Duration
	if os.Getenv("SLUICE_SOAK") != "" {
		atLeast = 20 * time.Second
	}
	eventually(t, "enough calls during the outage", func() bool {
		to = time.Now()
		return to.Sub(from) >= atLeast && completeOf(l.during(from, to)) >= enough
	})
	return to
}

// enough is how many calls must complete during an outage.
const enough = 50

func completeOf(calls []call) (n int) {
	for i := range calls {
		if calls[i].end == complete {
			n++
		}
	}
	return n
}

// settled is a settlement as stored in the database.
type settled struct {
	ending     string
	completion int64
	status     int
}

// settlements reads all settlements, by the id of their request.
func (g *gateway) settlements(driver, source string) map[string]settled {
	g.t.Helper()
	db, err := sql.Open(driver, source)
	if err != nil {
		g.t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.Query("SELECT id, ending, completion + reasoning, status FROM settlements")
	if err != nil {
		g.t.Fatal(err)
	}
	defer rows.Close()
	all := map[string]settled{}
	for rows.Next() {
		var id string
		var s settled
		if err := rows.Scan(&id, &s.ending, &s.completion, &s.status); err != nil {
			g.t.Fatal(err)
		}
		if _, twice := all[id]; twice {
			g.t.Errorf("the call %s is settled twice", id)
		}
		all[id] = s
	}
	if err := rows.Err(); err != nil {
		g.t.Fatal(err)
	}
	return all
}

// check compares the settlements with what the callers saw: every call that ended is settled once, and of the
// others at most those that were running.
func (g *gateway) check(l *load, driver, source string) {
	g.t.Helper()
	if code, out, text := g.command("audit"); code != 0 {
		g.t.Errorf("sluice audit = %d, want 0\n%s%s", code, out, text)
	}
	have := g.settlements(driver, source)
	seen := map[string]bool{}
	anonymous := 0
	for _, c := range l.calls {
		if c.id == "" {
			anonymous++ // its reply never came
			continue
		}
		seen[c.id] = true
		s, ok := have[c.id]
		switch {
		case !ok && (c.end == complete || c.end == told):
			g.t.Errorf("the call %s (%s %d) ended as %s and is not settled", c.id, c.how, c.words, c.end)
		case ok && c.end == complete && (s.ending != "complete" || s.completion != int64(c.words) || s.status != 200):
			g.t.Errorf("the call %s (%s %d) was complete and is settled as %+v", c.id, c.how, c.words, s)
		case ok && c.end == told && (s.ending == "complete" || s.status != c.status):
			g.t.Errorf("the call %s (%s %d) was told with status %d that it failed, and is settled as %+v", c.id, c.how, c.words, c.status, s)
		}
	}
	completion := int64(0)
	for id, s := range have {
		completion += s.completion
		if !seen[id] {
			anonymous--
		}
	}
	if anonymous < 0 {
		g.t.Errorf("%d settlements more than there were calls", -anonymous)
	}
	code, out, text := g.command("usage", account.OwnerEmail, "--days", "2", "--json")
	var sums admin.Usage
	if err := json.Unmarshal([]byte(out), &sums); code != 0 || err != nil {
		g.t.Fatalf("sluice usage = %d %s%s", code, out, text)
	}
	if sums.Totals.Requests != int64(len(have)) || sums.Totals.CompletionTokens != completion {
		g.t.Errorf("sluice usage says %d requests and %d tokens, want the %d and %d that are settled", sums.Totals.Requests, sums.Totals.CompletionTokens, len(have), completion)
	}
}

// sqliteSource returns the data source name that opens a gateway's database read-only.
func (g *gateway) sqliteSource() string {
	return "file:" + filepath.Join(g.dir, sqlstore.File) + "?mode=ro&_pragma=busy_timeout(10000)"
}

// found checks that every response that a caller knows to be stored can be read, and none that it has deleted.
func (g *gateway) found(l *load) (stored, dropped int) {
	g.t.Helper()
	for _, c := range l.calls {
		if !c.stored {
			continue
		}
		req, err := http.NewRequestWithContext(g.t.Context(), http.MethodGet, g.url+"/v1/responses/resp_"+c.id, nil)
		if err != nil {
			g.t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+l.key)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			g.t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil {
			g.t.Fatal(err)
		}
		if c.dropped {
			if dropped++; resp.StatusCode != http.StatusNotFound {
				g.t.Errorf("the response %s was deleted, and GET = %d %s", c.id, resp.StatusCode, body)
			}
			continue
		}
		if stored++; resp.StatusCode != http.StatusOK || strings.Count(string(body), "word ") != c.words {
			g.t.Errorf("the response %s of %d words was stored, and GET = %d %s", c.id, c.words, resp.StatusCode, body)
		}
	}
	return stored, dropped
}

// A server is killed repeatedly while calls of all kinds run. Every call that ended for its caller is settled
// exactly once, and every response that its caller saw to be stored is there.
func TestSettledThroughKill(t *testing.T) {
	t.Parallel()
	rounds := 2
	if os.Getenv("SLUICE_SOAK") != "" {
		rounds = 10
	}
	seed := newSeed(t)
	random := rand.New(rand.NewPCG(seed, 0))
	g := newGateway(t, filepath.Join(t.TempDir(), "data"), "lab", "")
	g.start()
	l := &load{key: g.newKey(), seed: seed, kinds: append([]string{"keep", "keep", "drop"}, everything...)}
	stored, dropped := 0, 0
	for round := range rounds {
		ended := make(chan struct{})
		go func() { defer close(ended); l.run(g.url, 24, nil) }() // a call that an upstream refuses waits before its retry
		l.await(t, complete, (round+1)*50)
		l.await(t, told, round+1)
		l.await(t, left, round+1)
		if code, out, text := g.command("audit"); code != 0 { // while calls run
			t.Errorf("sluice audit under load = %d, want 0\n%s%s", code, out, text)
		}
		l.await(t, complete, l.count(complete)+random.IntN(100))
		g.kill()
		<-ended
		if round%2 == 0 {
			g.check(l, "sqlite", g.sqliteSource()) // by commands that open the folder themselves
			g.start()
		} else {
			g.start()
			g.check(l, "sqlite", g.sqliteSource())
		}
		stored, dropped = g.found(l)
		if t.Failed() {
			t.Fatalf("round %d of %d failed with SLUICE_SEED=%d", round+1, rounds, seed)
		}
	}
	g.stop()
	g.check(l, "sqlite", g.sqliteSource())
	t.Logf("soak: kill -9 under load: %d rounds, SLUICE_SEED=%d: %d calls complete, %d told of a fault, %d hung up, %d broken by the kill; every one that ended is settled once, and %d responses that were stored are there, and %d that were deleted are not",
		rounds, seed, l.count(complete), l.count(told), l.count(left), l.count(broken), stored, dropped)
	if stored < rounds || dropped < rounds {
		t.Errorf("%d responses were stored and %d deleted, want some in each round", stored, dropped)
	}
	if l.count(broken) < rounds { // the others were waited for
		t.Errorf("%d calls were broken off in %d rounds, want some in each", l.count(broken), rounds)
	}
}

// await waits until a number of calls have ended in the given way.
func (l *load) await(t *testing.T, end ending, n int) {
	t.Helper()
	eventually(t, fmt.Sprintf("the end of %d calls as %s", n, end), func() bool { return l.count(end) >= n })
}

// unharmed checks that calls between two times were not affected.
func unharmed(t *testing.T, l *load, from, to time.Time) {
	t.Helper()
	calls := l.during(from, to)
	var longest time.Duration
	for _, c := range calls {
		want := complete
		switch c.how {
		case "leave":
			continue
		case "refuse", "break":
			want = told
		}
		if c.end != want {
			t.Errorf("a call (%s %d) came to %s %d %s, want %s", c.how, c.words, c.end, c.status, c.body, want)
		}
		if want == complete {
			longest = max(longest, c.ended.Sub(c.began))
		}
	}
	t.Logf("soak: %d calls complete while the database was away for %v, the longest in %v", completeOf(calls), to.Sub(from).Round(time.Millisecond), longest.Round(time.Millisecond))
}

// The database is locked by another process: no call notices, and nothing is lost.
func TestSettledWhileLocked(t *testing.T) {
	t.Parallel()
	g := newGateway(t, filepath.Join(t.TempDir(), "data"), "lab", "")
	g.start()
	l := &load{key: g.newKey(), seed: newSeed(t), kinds: append([]string{"keep"}, everything...)}
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() { defer close(ended); l.run(g.url, 4, stop) }()

	db, err := sql.Open("sqlite", "file:"+filepath.Join(g.dir, sqlstore.File)+"?_pragma=busy_timeout(10000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	lock, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if _, err := lock.ExecContext(t.Context(), "BEGIN EXCLUSIVE"); err != nil {
		t.Fatalf("BEGIN EXCLUSIVE = %v", err)
	}
	from := time.Now()
	to := outage(t, l, from)
	if status, body := g.get(g.url + "/readyz"); status != 200 {
		t.Errorf("GET /readyz with the database locked = %d %s, want 200: calls go on", status, body)
	}
	waiting := g.metric("sluice_journal_records")
	if _, err := lock.ExecContext(context.WithoutCancel(t.Context()), "ROLLBACK"); err != nil {
		t.Fatalf("ROLLBACK = %v", err)
	}
	if n := completeOf(l.during(from, to)); waiting < float64(n) {
		t.Errorf("sluice_journal_records = %v with the database locked, want at least the %d calls that were complete meanwhile", waiting, n)
	}
	close(stop)
	<-ended
	eventually(t, "the moving of what waited", func() bool { return g.metric("sluice_journal_records") == 0 })
	unharmed(t, l, from, to)
	g.check(l, "sqlite", g.sqliteSource())
	if stored, _ := g.found(l); stored == 0 {
		t.Error("no response was stored, want some while the database was locked")
	}
	g.stop()
}

// metric returns the value of a gauge.
func (g *gateway) metric(name string) float64 {
	g.t.Helper()
	var ready struct{ Msg, Metrics string }
	for line := range strings.Lines(g.log.String()) {
		if json.Unmarshal([]byte(line), &ready) == nil && ready.Msg == "sluice is ready" {
			break
		}
	}
	_, text := g.get("http://" + ready.Metrics + "/metrics")
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil {
				g.t.Fatal(err)
			}
			return n
		}
	}
	g.t.Fatalf("there is no metric %s:\n%s", name, text)
	return 0
}

// PostgreSQL is stopped for a while: calls with known keys continue, and nothing is lost.
func TestSettledWithoutPostgreSQL(t *testing.T) {
	t.Parallel()
	server := pgtest.Own(t)
	g := newGateway(t, filepath.Join(t.TempDir(), "data"), "lab", "database: "+server.URL()+"\n")
	g.start()
	l := &load{key: g.newKey(), seed: newSeed(t), kinds: everything}
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() { defer close(ended); l.run(g.url, 4, stop) }()
	eventually(t, "some calls", func() bool { return l.count(complete) > 20 })

	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	from := time.Now()
	eventually(t, "a note about the database", func() bool {
		status, body := g.get(g.url + "/readyz")
		return status == 200 && strings.Contains(body, `{"name":"database","ok":true,"message":"no answer for `) && strings.Contains(body, `{"name":"journal","ok":true`)
	})
	if code, out, text := g.command("usage", account.OwnerEmail); code != 1 || !strings.HasPrefix(text, "sluice: ") {
		t.Errorf("sluice usage without PostgreSQL = %d %q %q, want 1 and why", code, out, text)
	}
	to := outage(t, l, from)
	eventually(t, "the noticing of the outage", func() bool { return strings.Contains(g.log.String(), "the database does not accept them") })
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "readiness", func() bool { status, _ := g.get(g.url + "/readyz"); return status == 200 })
	close(stop)
	<-ended
	unharmed(t, l, from, to)
	eventually(t, "the moving of what waited", func() bool { return g.metric("sluice_journal_records") == 0 })
	g.check(l, "pgx", server.URL())
	g.stop()
	for _, want := range []string{"the database does not accept them", "the database accepts settlements again"} {
		if !strings.Contains(g.log.String(), want) {
			t.Errorf("the log does not say %q:\n%s", want, g.log)
		}
	}
}
