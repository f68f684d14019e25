package app_test

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"sluice/internal/account"
	"sluice/internal/app"
	"sluice/internal/app/config"
	"sluice/internal/ledger/price"
	"sluice/internal/ledger/usage"
	"sluice/internal/operate/admin"
	"sluice/internal/prompt/chat"
	"sluice/internal/store/sqlstore"
	"sluice/internal/store/sqlstore/alltest"
	"sluice/internal/testkit/pgtest"
)

// crowd is a large installation: who has which key.
type crowd struct {
	rand *rand.Rand
	ids  []string
	keys []string
}

// keeping is a store that takes new accounts and keeps them in memory, so that many can be stored at once.
type keeping struct {
	account.Store
	made []*account.Account
}

func (k *keeping) CreateAccount(_ context.Context, a *account.Account, _ account.Entry) error {
	k.made = append(k.made, a)
	return nil
}

// newCrowd adds accounts to the database in a data folder, behind the program's back but with keys as it makes them.
func newCrowd(t *testing.T, data string, accounts int, seed uint64) *crowd {
	t.Helper()
	c := &crowd{rand: rand.New(rand.NewPCG(seed, 14))}
	store := &keeping{}
	making := account.New(store, nil)
	raw := map[string]string{}
	for n := range accounts {
		a, key, err := making.Create(t.Context(), "test", fmt.Sprintf("user%d@example.com", n), account.Basic, false)
		if err != nil {
			t.Fatal(err)
		}
		raw[a.ID] = key
	}
	// In the order of ids SQLite writes to few places at a time, here and when their calls are stored.
	slices.SortFunc(store.made, func(a, b *account.Account) int { return strings.Compare(a.ID, b.ID) })
	for _, a := range store.made {
		c.ids, c.keys = append(c.ids, a.ID), append(c.keys, raw[a.ID])
	}
	db, err := sql.Open("sqlite", filepath.Join(data, sqlstore.File)+"?_pragma=busy_timeout(10000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	tx, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	exec := func(query string, args ...any) {
		t.Helper()
		if _, err := tx.Exec(query, args...); err != nil {
			t.Fatalf("%s = %v", query, err)
		}
	}
	for n, a := range store.made {
		k := a.Keys[0]
		exec(`INSERT INTO accounts (id, email, plan, plan_granted, staff, created_at, version) VALUES ($1, $2, $3, 0, 0, $4, 1)`, a.ID, a.Email, "basic", a.CreatedAt.UnixMilli())
		exec(`INSERT INTO api_keys (id, account_id, master, name, hash, last_four, created_at) VALUES ($1, $2, 1, '', $3, $4, $5)`, k.ID, a.ID, k.Hash[:], k.LastFour, a.CreatedAt.UnixMilli())
		exec(`INSERT INTO billing_ledger (seq, at, account_id, actor, what, plan, amount_cents, payment_id, detail) VALUES ($1, $2, $3, 'test', 'paid', 'basic', $4, '', '')`, n+1, a.CreatedAt.UnixMilli(), a.ID, 900+n%100)
	}
	exec(`UPDATE counters SET value = $1 WHERE name = 'billing_ledger'`, accounts)
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	return c
}

// call is number n of so many calls in the last hours. Calls of one account follow each other, as their accounts do.
func (c *crowd) call(n, calls int, now time.Time) usage.Settlement {
	cost := price.Nano(c.rand.Int64N(1_000_000))
	return usage.Settlement{
		ID: fmt.Sprintf("%032x", n), At: now.Add(-3 * time.Hour * time.Duration(calls-n) / time.Duration(calls)), AccountID: c.ids[n*len(c.ids)/calls], KeyID: "key", Plan: "basic", Tier: "free",
		ModelAsked: "lab/m", ModelUsed: "lab/m", Provider: "lab", Tokens: chat.Usage{Prompt: c.rand.IntN(1000), Completion: c.rand.IntN(1000)},
		RequestMilli: 1000, UnitMilli: 1500, Cost: &cost, Status: 200, End: usage.EndComplete, Latency: time.Second, FirstToken: time.Millisecond,
	}
}

// settle stores calls in the database, and the last few only in the journal, as a server that was killed leaves them.
func (c *crowd) settle(t *testing.T, data string, calls, unsettled int) {
	t.Helper()
	store, err := alltest.Open(t.Context(), "sqlite", data)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	now := time.Now()
	for n := 0; n < calls-unsettled; {
		var batch []usage.Settlement
		for ; n < calls-unsettled && len(batch) < 500; n++ {
			batch = append(batch, c.call(n, calls, now))
		}
		if err := store.RecordSettlements(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
	}
	journal, err := usage.OpenJournal(filepath.Join(data, "journal"), nil)
	if err != nil {
		t.Fatal(err)
	}
	for n := calls - unsettled; n < calls; n++ {
		s := c.call(n, calls, now)
		if err := journal.Append(&s); err != nil {
			t.Fatal(err)
		}
	}
	if err := journal.Close(); err != nil {
		t.Fatal(err)
	}
}

// seed returns SLUICE_SEED, or a new one.
func seed(t *testing.T) uint64 {
	t.Helper()
	text := os.Getenv("SLUICE_SEED")
	if text == "" {
		return rand.Uint64() >> 1
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("SLUICE_SEED = %q, want a whole number", text)
	}
	return n
}

// A whole installation moves: every row is there, the books are equal, and keys work.
func TestMigrate(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	accounts, calls, unsettled := 300, 3000, 100
	soak := os.Getenv("SLUICE_SOAK") != ""
	if soak {
		accounts, calls = 100_000, 1_000_000
	}
	if soak && raced { // a soak runs it once more without the detector, which makes it thirty times slower
		accounts, calls = 5_000, 50_000
	}
	seed := seed(t)
	s := newSite(t, "")
	n := s.start(t)
	made := must[admin.CreatedAccount](n, "account.create", admin.NewAccount{Actor: "t", Email: "ana@example.com", Plan: "basic"})
	n.stop()
	c := newCrowd(t, s.data(), accounts, seed)
	c.settle(t, s.data(), calls, unsettled)

	// The first run copies and is then interrupted; the second one finds that nothing is missing, and compares.
	var before, peak runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	most, interrupt := uint64(0), func() {}
	m := &app.Migration{From: s.data(), To: url, Report: func(step string, p sqlstore.Progress) {
		if step == "comparing" {
			interrupt()
		}
		if p.Rows%50_000 == 0 {
			runtime.ReadMemStats(&peak)
			most = max(most, peak.HeapInuse)
		}
	}}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	interrupt = cancel
	began := time.Now()
	if _, err := app.Migrate(ctx, s.config(t), m); err == nil || ctx.Err() == nil {
		t.Fatalf("SLUICE_SEED=%d: Migrate = %v, want that it was interrupted", seed, err)
	}
	copying := time.Since(began)
	interrupt = func() {}
	began = time.Now()
	moved, err := app.Migrate(t.Context(), s.config(t), m)
	if err != nil || moved.Written != 0 || moved.Erased != 0 {
		t.Fatalf("SLUICE_SEED=%d: Migrate = %+v, %v, want that nothing was missing", seed, moved, err)
	}
	comparing := time.Since(began)
	rows := map[string]int64{}
	for _, table := range moved.Tables {
		rows[table.Table] = table.TargetRows
		if !table.Equal {
			t.Errorf("SLUICE_SEED=%d: %+v, want equal", seed, table)
		}
	}
	if rows["accounts"] != int64(accounts)+2 || rows["settlements"] != int64(calls) || moved.Books.Settlements != int64(calls) || moved.Books.Requests != int64(calls) || moved.Verified {
		t.Errorf("SLUICE_SEED=%d: Migrate = %+v, want %d accounts and two more, and %d settlements", seed, moved, accounts, calls)
	}
	t.Logf("soak: %d accounts and %d settlements, %d rows in all, copied in %v (%.0f rows a second); the last pass and the comparison took %v; heap %.0f MB before and at most %.0f MB; SLUICE_SEED=%d",
		accounts, calls, moved.Rows, copying.Round(time.Millisecond), float64(moved.Rows)/copying.Seconds(), comparing.Round(time.Millisecond), megabytes(before.HeapInuse), megabytes(most), seed)

	// One more run compares and writes nothing.
	again, err := app.Migrate(t.Context(), s.config(t), &app.Migration{From: s.data(), To: url})
	if err != nil || !again.Verified || again.Written != 0 || again.Rows != moved.Rows {
		t.Errorf("SLUICE_SEED=%d: the third Migrate = %+v, %v, want that both are equal", seed, again, err)
	}

	// The server on PostgreSQL knows every key, and its books agree with themselves.
	s.write(t, "database: "+url+"\n")
	n = s.start(t)
	for range 50 {
		who := c.rand.IntN(accounts)
		if r := n.get("/v1/account", c.keys[who]); r.status != 200 || !strings.Contains(r.body, c.ids[who]) {
			t.Errorf("SLUICE_SEED=%d: GET /v1/account with the key of %s = %d %s", seed, c.ids[who], r.status, r.body)
		}
	}
	if r := n.get("/v1/models", made.MasterKey); r.status != 200 {
		t.Errorf("GET /v1/models = %d %s, want 200", r.status, r.body)
	}
	if audit := must[admin.Audit](n, "audit", admin.Empty{}); len(audit.Differences) > 0 || audit.Compared == 0 {
		t.Errorf("SLUICE_SEED=%d: audit = %d differences in %d days, want none", seed, len(audit.Differences), audit.Compared)
	}
}

// While a server runs, most is copied; when it has stopped, the rest. Calls of the time between are not lost.
func TestMigrateLive(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	s := newSite(t, "")
	n := s.start(t)
	made := must[admin.CreatedAccount](n, "account.create", admin.NewAccount{Actor: "t", Email: "ana@example.com", Plan: "scale"})
	chatted := func(times int) {
		t.Helper()
		for range times {
			if r := n.request("POST", "/v1/chat/completions", made.MasterKey, `{"model":"sandbox/small","messages":[{"role":"user","content":"2+2"}]}`); r.status != 200 {
				t.Fatalf("a call = %d %s", r.status, r.body)
			}
		}
	}
	chatted(5)
	if _, err := app.Migrate(t.Context(), s.config(t), &app.Migration{From: s.data(), To: url}); err == nil || !strings.Contains(err.Error(), "add --live") {
		t.Errorf("Migrate beside a server = %v, want a refusal", err)
	}
	// The server is stopped from inside the report, between the two passes.
	var later admin.CreatedAccount
	moved, err := app.Migrate(t.Context(), s.config(t), &app.Migration{From: s.data(), To: url, Live: true, Patience: patience, Report: func(step string, p sqlstore.Progress) {
		if strings.HasPrefix(step, "waiting") {
			chatted(3)
			later = must[admin.CreatedAccount](n, "account.create", admin.NewAccount{Actor: "t", Email: "bea@example.com"})
			n.stop()
		}
	}})
	if err != nil || moved.Books.Settlements != 8 || moved.Written == 0 || moved.Written > 30 {
		t.Fatalf("Migrate = %+v, %v, want 8 settlements, and only what was new in the last pass", moved, err)
	}
	s.write(t, "database: "+url+"\n")
	n = s.start(t)
	for _, key := range []string{made.MasterKey, later.MasterKey} {
		if r := n.get("/v1/account", key); r.status != 200 {
			t.Errorf("GET /v1/account = %d %s, want 200", r.status, r.body)
		}
	}
}

// Video files are copied to another place, once, and are served from there.
func TestMigrateFiles(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	s := newSite(t, "")
	n := s.start(t)
	made := must[admin.CreatedAccount](n, "account.create", admin.NewAccount{Actor: "t", Email: "ana@example.com", Plan: "scale"})
	job := n.film(made.MasterKey, clip)
	content := "/v1/video/generations/" + job.Generations[0].ID + "/content/video"
	want := n.get(content, made.MasterKey)
	if want.status != 200 {
		t.Fatalf("GET %s = %d", content, want.status)
	}
	n.stop()
	place := filepath.Join(s.dir, "videos")
	m := &app.Migration{From: s.data(), To: url, Storage: &config.Blob{Kind: "files", Dir: place}}
	plan, err := app.PlanMigration(t.Context(), s.config(t), m)
	if err != nil || plan.Videos != 1 || plan.Bytes != int64(len(want.body)) || plan.Target != sqlstore.Empty || plan.Running {
		t.Errorf("PlanMigration = %+v, %v, want one video of %d bytes", plan, err, len(want.body))
	}
	for _, copied := range []int{1, 0} {
		moved, err := app.Migrate(t.Context(), s.config(t), m)
		if err != nil || moved.Files.Copied != copied || moved.Files.There != 1-copied || moved.Files.MissingCount+len(moved.Files.Damaged) > 0 {
			t.Errorf("Migrate = %+v, %v, want %d files copied", moved, err, copied)
		}
	}
	if err := os.RemoveAll(filepath.Join(s.data(), "files")); err != nil {
		t.Fatal(err)
	}
	s.write(t, "database: "+url+"\nblob: {kind: files, dir: "+place+"}\n")
	n = s.start(t)
	if got := n.get(content, made.MasterKey); got.status != 200 || got.body != want.body {
		t.Errorf("GET %s = %d with %d bytes, want the same %d", content, got.status, len(got.body), len(want.body))
	}
}

// A migration that is interrupted says so, is not served, and goes on where it was.
func TestMigrateInterrupted(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	s := newSite(t, "")
	n := s.start(t)
	made := must[admin.CreatedAccount](n, "account.create", admin.NewAccount{Actor: "t", Email: "ana@example.com"})
	n.stop()
	for _, step := range []string{"settling", "copying", "comparing"} {
		ctx, cancel := context.WithCancel(t.Context())
		_, err := app.Migrate(ctx, s.config(t), &app.Migration{From: s.data(), To: url, Report: func(at string, _ sqlstore.Progress) {
			if strings.HasPrefix(at, step) {
				cancel()
			}
		}})
		if err == nil || !strings.HasPrefix(err.Error(), "interrupted;") {
			t.Errorf("Migrate interrupted while %s = %v, want that it was interrupted", step, err)
		}
		cancel()
	}
	target := newSite(t, "database: "+url+"\n")
	if err := target.try(t); err == nil || !strings.Contains(err.Error(), "unfinished copy") {
		t.Errorf("New on half a copy = %v, want a refusal", err)
	}
	if moved, err := app.Migrate(t.Context(), s.config(t), &app.Migration{From: s.data(), To: url}); err != nil || moved.Written != 0 || moved.Verified {
		t.Errorf("the last Migrate = %+v, %v, want nothing left to write", moved, err)
	}
	s.write(t, "database: "+url+"\n")
	if r := s.start(t).get("/v1/account", made.MasterKey); r.status != 200 {
		t.Errorf("GET /v1/account = %d %s, want 200", r.status, r.body)
	}
}
