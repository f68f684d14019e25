package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/account"
	"sluice/internal/kit/fault"
	"sluice/internal/operate/admin"
	"sluice/internal/store/sqlstore"
	"sluice/internal/store/sqlstore/alltest"
)

// A server is killed at random moments while accounts and keys are written. Whatever the moment, its folder opens
// again, every account is consistent, and every acknowledged write is stored.
func TestKill(t *testing.T) {
	t.Parallel()
	rounds, bound := 10, time.Minute
	if os.Getenv("SLUICE_SOAK") != "" {
		rounds, bound = 100, 20*time.Minute
	}
	seed := newSeed(t)
	random := rand.New(rand.NewPCG(seed, 0))
	began, acknowledged, unanswered, done := time.Now(), 0, 0, 0
	for ; done < rounds && time.Since(began) < bound && !t.Failed(); done++ {
		r := &killRound{dir: filepath.Join(t.TempDir(), "data"), seed: random.Uint64()}
		if done%3 == 2 {
			r.kill(t, milestones[random.IntN(len(milestones))]) // while it starts for the first time
		}
		// In every other round the first write is acknowledged before the kill, so that there is something to lose.
		writes := random.Int64N(60)
		if done%2 == 0 {
			writes = max(writes, 1)
		}
		r.work(t, writes)
		r.check(t)
		for _, w := range r.writers {
			acknowledged += w.writes
			if w.pending != "" {
				unanswered++
			}
		}
	}
	t.Logf("soak: kill -9: %d rounds, seed %d, %d writes acknowledged, %d unanswered", done, seed, acknowledged, unanswered)
	if acknowledged < done/2 {
		t.Errorf("%d writes were acknowledged in %d rounds, want enough to mean something", acknowledged, done)
	}
}

// killRound is one run of a server until it is killed.
type killRound struct {
	dir     string
	seed    uint64
	writers []*writer
}

// start starts the server.
func (r *killRound) start(t *testing.T) (cmd *exec.Cmd, exited chan struct{}) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(r.dir), 0o700); err != nil {
		t.Fatal(err)
	}
	cmd = exec.Command("sluice", "serve", "--data", r.dir, "--listen", "127.0.0.1:0", "--metrics-listen", "")
	cmd.Dir = filepath.Dir(r.dir)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + cmd.Dir, "GORACE=" + quickExit}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	exited = make(chan struct{})
	go func() {
		cmd.Wait() // killed: an error
		close(exited)
	}()
	return cmd, exited
}

// milestones are files that a server creates as it starts, in this order. The empty one waits for nothing.
var milestones = []string{"", ".", sqlstore.File, sqlstore.File + "-wal", admin.Socket}

// kill starts the server and kills it as soon as it has created a file.
func (r *killRound) kill(t *testing.T, milestone string) {
	t.Helper()
	cmd, exited := r.start(t)
	defer func() {
		cmd.Process.Kill() // an error means that it has already exited
		<-exited
	}()
	if milestone == "" {
		return
	}
	eventually(t, "the file "+milestone, func() bool {
		_, err := os.Stat(filepath.Join(r.dir, milestone))
		return err == nil
	})
}

// work starts the server, starts writers and kills the server after a number of acknowledged writes.
func (r *killRound) work(t *testing.T, writes int64) {
	t.Helper()
	cmd, exited := r.start(t)
	defer func() {
		cmd.Process.Kill() // an error means that it has already exited
		<-exited
	}()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var client *admin.Client
	for client == nil {
		var err error
		if client, err = admin.Dial(ctx, r.dir); err == nil {
			break
		}
		select {
		case <-exited:
			t.Fatalf("seed %d: the server ended before it was killed", r.seed)
		case <-ctx.Done():
			t.Fatalf("seed %d: the server did not get ready", r.seed)
		case <-time.After(time.Millisecond):
		}
	}
	var working sync.WaitGroup
	var acknowledged atomic.Int64
	for i := range 4 {
		w := &writer{client: client, all: &acknowledged, name: fmt.Sprint("writer", i), random: rand.New(rand.NewPCG(r.seed, uint64(i)))}
		r.writers = append(r.writers, w)
		working.Go(func() { w.run(ctx, t) })
	}
	eventually(t, fmt.Sprintf("seed %d: the acknowledgement of %d writes", r.seed, writes), func() bool { return acknowledged.Load() >= writes || t.Failed() })
	cmd.Process.Kill()
	<-exited
	working.Wait()
}

// writer makes changes and records which ones were acknowledged.
type writer struct {
	client *admin.Client
	all    *atomic.Int64 // the writes of all writers that were acknowledged
	name   string
	random *rand.Rand

	accounts []*ledger
	shared   []admin.NewKey // sub-keys of the owner's account, at which all writers are busy
	writes   int
	pending  string // the operation that was never answered
	touched  *ledger
}

// ledger is the expected state of an account after the acknowledged changes.
type ledger struct {
	id, email string
	plan      string
	master    string
	keys      map[string]admin.NewKey // sub-keys by id
	suspended bool
	actions   []string // of the audit log
}

// run writes until the server is gone.
func (w *writer) run(ctx context.Context, t *testing.T) {
	for n := 0; ; n++ {
		if n%7 == 3 {
			if !w.addSharedKey(ctx, t) {
				return
			}
			continue
		}
		if len(w.accounts) == 0 || w.random.IntN(8) == 0 {
			if !w.open(ctx, t, fmt.Sprintf("%s-%d@example.com", w.name, n)) {
				return
			}
			continue
		}
		if !w.change(ctx, t, w.accounts[w.random.IntN(len(w.accounts))]) {
			return
		}
	}
}

// call runs an operation. It reports false if there was no reply.
func (w *writer) call(ctx context.Context, t *testing.T, l *ledger, action, operation string, in, out any) bool {
	w.pending, w.touched = action, l
	err := w.client.Call(ctx, operation, in, out)
	if _, refused := errors.AsType[*fault.Fault](err); refused {
		t.Errorf("%s = %v", operation, err)
	}
	if err != nil {
		return false
	}
	w.pending, w.touched = "", nil
	w.writes++
	w.all.Add(1)
	l.actions = append(l.actions, action)
	return true
}

func (w *writer) open(ctx context.Context, t *testing.T, email string) bool {
	l := &ledger{email: email, plan: "free", keys: map[string]admin.NewKey{}}
	var made admin.CreatedAccount
	if !w.call(ctx, t, l, "account.create", "account.create", admin.NewAccount{Actor: w.name, Email: email, Plan: l.plan}, &made) {
		return false
	}
	l.id, l.master = made.ID, made.MasterKey
	w.accounts = append(w.accounts, l)
	return true
}

// addSharedKey adds a sub-key to the account that all writers share. It is refused once the account has ten.
func (w *writer) addSharedKey(ctx context.Context, t *testing.T) bool {
	var key admin.NewKey
	err := w.client.Call(ctx, "key.create", admin.Target{Actor: w.name, Ref: account.OwnerEmail, Name: w.keyName()}, &key)
	switch {
	case err == nil:
		w.shared = append(w.shared, key)
		w.writes++
		w.all.Add(1)
	case fault.Is(err, fault.Conflict):
	default:
		if _, refused := errors.AsType[*fault.Fault](err); refused {
			t.Errorf("key.create = %v", err)
		}
		return false
	}
	return true
}

// keyName returns a name that no key has.
func (w *writer) keyName() string { return fmt.Sprintf("%s %x", w.name, w.random.Uint64()) }

// change makes one change of an account.
func (w *writer) change(ctx context.Context, t *testing.T, l *ledger) bool {
	target := admin.Target{Actor: w.name, Ref: l.id, Reason: "r"}
	var old admin.NewKey
	for _, old = range l.keys {
		break
	}
	switch w.random.IntN(6) {
	case 0, 1:
		if len(l.keys) < account.MaxSubKeys {
			target.Name = w.keyName()
			var key admin.NewKey
			if !w.call(ctx, t, l, "key.create", "key.create", target, &key) {
				return false
			}
			l.keys[key.ID] = key
		}
	case 2:
		if old.ID != "" {
			target.Ref = old.ID
			if !w.call(ctx, t, l, "key.delete", "key.delete", target, &admin.Empty{}) {
				return false
			}
			delete(l.keys, old.ID)
		}
	case 3:
		var key admin.RawKey
		if !w.call(ctx, t, l, "key.regenerate_master", "key.regenerate-master", target, &key) {
			return false
		}
		l.master = key.Key
	case 4:
		next := map[string]string{"free": "basic", "basic": "scale", "scale": "free"}[l.plan]
		target.Plan = next
		if !w.call(ctx, t, l, "account.set_plan", "account.set-plan", target, &admin.Account{}) {
			return false
		}
		l.plan = next
	case 5:
		action, operation := "account.suspend", "account.suspend"
		if l.suspended {
			action, operation = "account.unsuspend", "account.unsuspend"
		}
		if !w.call(ctx, t, l, action, operation, target, &admin.Account{}) {
			return false
		}
		l.suspended = !l.suspended
	}
	return true
}

// check opens the data folder that the killed server left behind.
func (r *killRound) check(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	// Open it like any command that works on the folder itself.
	if code := run(ctx, &program{args: []string{"account", "list", "--data", r.dir}, stdout: io.Discard, stderr: os.Stderr}); code != 0 {
		t.Errorf("sluice account list after the kill = %d, want 0", code)
	}
	store, err := alltest.Open(ctx, "sqlite", r.dir)
	if err != nil {
		t.Fatalf("Open after the kill = %v", err)
	}
	defer store.Close()
	r.checkFile(t)

	all := map[string]*account.Account{}
	for after := ""; ; {
		page, err := store.Accounts(ctx, after, 100)
		if err != nil {
			t.Fatalf("Accounts = %v", err)
		}
		for _, a := range page {
			all[a.Email] = a
			after = a.ID
			r.checkWhole(t, store, a)
		}
		if len(page) < 100 {
			break
		}
	}
	owner := all[account.OwnerEmail]
	for _, w := range r.writers {
		if owner == nil {
			if w.writes > 0 {
				t.Fatal("writes were acknowledged, and there is no owner: it is created before the first")
			}
			continue // killed before it was created; the next start creates it
		}
		for _, key := range w.shared {
			if !holdsKey(owner, key.Key) {
				t.Errorf("the acknowledged key %s of the owner is gone", key.ID)
			}
		}
		for _, l := range w.accounts {
			a := all[l.email]
			if a == nil {
				t.Errorf("the acknowledged account %s is gone", l.email)
				continue
			}
			w.checkLedger(t, store, l, a)
		}
	}
}

// checkFile runs SQLite's own integrity check.
func (r *killRound) checkFile(t *testing.T) {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(r.dir, sqlstore.File)+"?_pragma=busy_timeout(10000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var verdict string
	if err := db.QueryRow("PRAGMA integrity_check").Scan(&verdict); err != nil || verdict != "ok" {
		t.Errorf("integrity_check = %q, %v, want ok", verdict, err)
	}
	var orphans int
	if err := db.QueryRow("SELECT count(*) FROM api_keys WHERE account_id NOT IN (SELECT id FROM accounts)").Scan(&orphans); err != nil || orphans != 0 {
		t.Errorf("%d keys belong to no account, %v, want none", orphans, err)
	}
}

// checkWhole checks what is true of every account at any moment.
func (r *killRound) checkWhole(t *testing.T, store *alltest.Store, a *account.Account) {
	t.Helper()
	masters := 0
	for _, k := range a.Keys {
		if k.Master {
			masters++
		}
	}
	if masters != 1 || a.SubKeys() > account.MaxSubKeys {
		t.Errorf("%s has %d master keys and %d sub-keys, want 1 and 10 at most", a.Email, masters, a.SubKeys())
	}
	log, err := store.AuditLog(t.Context(), a.ID, 0, 1_000_000)
	if err != nil {
		t.Fatal(err)
	}
	// A change and its audit entry are one transaction, so an account at version n has n entries.
	if int64(len(log)) != a.Version || log[len(log)-1].Action != "account.create" {
		t.Errorf("%s is at version %d and has %d entries in the audit log, want one for each", a.Email, a.Version, len(log))
	}
}

// checkLedger compares an account with the acknowledged changes. One more change may have been made without a reply.
func (w *writer) checkLedger(t *testing.T, store *alltest.Store, l *ledger, a *account.Account) {
	t.Helper()
	log, err := store.AuditLog(t.Context(), a.ID, 0, 1_000_000)
	if err != nil {
		t.Fatal(err)
	}
	actions := make([]string, 0, len(log))
	for _, e := range slices.Backward(log) {
		actions = append(actions, e.Action)
		if e.Actor != w.name {
			t.Errorf("%s: the entry %+v, want the actor %s", l.email, e, w.name)
		}
	}
	if w.touched == l && slices.Equal(actions, append(slices.Clone(l.actions), w.pending)) {
		return // made without a reply: either outcome is right
	}
	if !slices.Equal(actions, l.actions) {
		t.Errorf("%s: the audit log has %q, want what was acknowledged, %q", l.email, actions, l.actions)
		return
	}
	if a.Plan.String() != l.plan || (a.Suspended != nil) != l.suspended || a.SubKeys() != len(l.keys) || a.Master().Hash != account.HashKey(l.master) {
		t.Errorf("%s = %+v, want plan %s, suspended %t, %d sub-keys and the last master key", l.email, a, l.plan, l.suspended, len(l.keys))
	}
	for id, key := range l.keys {
		if !holdsKey(a, key.Key) {
			t.Errorf("%s: the acknowledged key %s is gone", l.email, id)
		}
	}
}

func holdsKey(a *account.Account, raw string) bool {
	return slices.ContainsFunc(a.Keys, func(k account.Key) bool { return k.Hash == account.HashKey(raw) })
}
