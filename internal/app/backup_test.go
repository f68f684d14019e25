package app_test

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"sluice/internal/app"
	"sluice/internal/operate/admin"
	"sluice/internal/store/sqlstore"
	"sluice/internal/store/sqlstore/alltest"
	"sluice/internal/testkit/pgtest"
)

// working is a server under load: chats, new accounts and new keys, until stop is called.
type working struct {
	*node
	ids, keys []string
	chats     []atomic.Int64 // complete, by account
	stopped   atomic.Bool
	workers   sync.WaitGroup

	mu   sync.Mutex
	made []string // keys that were created meanwhile
}

// work loads a server with so many callers.
func work(t *testing.T, n *node, callers int) *working {
	t.Helper()
	w := &working{node: n, chats: make([]atomic.Int64, callers)}
	for i := range callers {
		made := must[admin.CreatedAccount](n, "account.create", admin.NewAccount{Actor: "t", Email: fmt.Sprintf("u%d@example.com", i), Plan: "scale"})
		w.ids, w.keys = append(w.ids, made.ID), append(w.keys, made.MasterKey)
	}
	for i := range callers {
		w.workers.Go(func() {
			for !w.stopped.Load() {
				r, err := n.do("POST", "/v1/chat/completions", w.keys[i], `{"model":"sandbox/small","messages":[{"role":"user","content":"2+2"}]}`)
				if err != nil {
					t.Errorf("a call = %v", err)
					return
				}
				if r.status == 200 { // the rest is refused by a limit, and costs nothing
					w.chats[i].Add(1)
				}
			}
		})
	}
	w.workers.Go(func() {
		for i := 0; !w.stopped.Load(); i++ {
			var made admin.CreatedAccount
			if err := n.call("account.create", admin.NewAccount{Actor: "t", Email: fmt.Sprintf("later%d@example.com", i)}, &made); err != nil {
				t.Errorf("account.create = %v", err)
				return
			}
			w.mu.Lock()
			w.made = append(w.made, made.MasterKey)
			w.mu.Unlock()
		}
	})
	t.Cleanup(w.stop)
	return w
}

func (w *working) stop() {
	w.stopped.Store(true)
	w.workers.Wait()
}

// counts returns how many calls of each account are complete, and the keys that were created by now.
func (w *working) counts() (chats []int64, made []string) {
	for i := range w.chats {
		chats = append(chats, w.chats[i].Load())
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return chats, append([]string{}, w.made...)
}

// takeSecret copies the key file from one folder to another.
func takeSecret(t *testing.T, from, to string) {
	t.Helper()
	if err := os.MkdirAll(to, 0o700); err != nil {
		t.Fatal(err)
	}
	secret, err := os.ReadFile(filepath.Join(from, "secret.key"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(to, "secret.key"), secret, 0o600); err != nil {
		t.Fatal(err)
	}
}

// A backup that is made under load has everything that was complete before it, on whichever engine it is restored: keys
// and videos work, and the books agree.
func TestBackupOntoTheOtherEngine(t *testing.T) {
	t.Parallel()
	for _, postgresFirst := range []bool{false, true} {
		t.Run(fmt.Sprintf("from PostgreSQL %t", postgresFirst), func(t *testing.T) {
			t.Parallel()
			url := pgtest.URL(t)
			from, to := newSite(t, ""), newSite(t, "database: "+url+"\n")
			if postgresFirst {
				from, to = newSite(t, "database: "+url+"\n"), newSite(t, "")
			}
			to.unprepared = true
			n := from.start(t)
			director := must[admin.CreatedAccount](n, "account.create", admin.NewAccount{Actor: "t", Email: "ana@example.com", Plan: "scale"})
			job := n.film(director.MasterKey, clip)
			content := "/v1/video/generations/" + job.Generations[0].ID + "/content/video"
			film := n.get(content, director.MasterKey)
			w := work(t, n, 4)
			eventually(t, "some calls", func() bool { chats, _ := w.counts(); return chats[0] > 5 && chats[3] > 5 })

			chats, made := w.counts()
			steps := map[string]bool{}
			place := filepath.Join(from.dir, "backup")
			m, err := app.Backup(t.Context(), from.config(t), place, nil, func(step string, _ sqlstore.Progress) { steps[step] = true })
			if err != nil {
				t.Fatalf("Backup = %v", err)
			}
			after, _ := w.counts()
			w.stop()
			if !m.Videos.Copied || m.Videos.Count != 1 || m.Secret.KeyFile == "" || m.Rows == 0 || len(steps) < 3 {
				t.Errorf("Backup = %+v with the steps %v, want a video, the name of the key file, and progress", m, steps)
			}
			if _, err := app.Backup(t.Context(), from.config(t), place, nil, nil); err == nil || !strings.Contains(err.Error(), "exists already") {
				t.Errorf("Backup over a backup = %v, want a refusal", err)
			}
			n.stop()
			if err := os.RemoveAll(filepath.Join(from.data(), "files")); err != nil {
				t.Fatal(err)
			}

			takeSecret(t, from.data(), to.data())
			checked, err := app.CheckBackup(t.Context(), to.config(t), place, nil)
			if err != nil || len(checked.Problems)+len(checked.Notes) > 0 || checked.Rows != m.Rows || checked.Videos != 1 {
				t.Fatalf("CheckBackup = %+v, %v, want that all is well", checked, err)
			}
			restored, err := app.Restore(t.Context(), to.config(t), place, nil)
			if err != nil || restored.Note != "" || restored.Files.Copied != 1 {
				t.Fatalf("Restore = %+v, %v, want one video and no note", restored, err)
			}
			n = to.start(t)
			if audit := must[admin.Audit](n, "audit", admin.Empty{}); len(audit.Differences)+len(audit.Damage) > 0 || audit.Compared == 0 {
				t.Errorf("audit = %+v, want no difference", audit)
			}
			for i, id := range w.ids {
				used := must[admin.Usage](n, "usage", admin.UsageQuery{Ref: id, Days: 2})
				if got := used.Totals.Requests; got < chats[i] || got > after[i]+1 { // one may have been on its way to us
					t.Errorf("account %d has %d calls, want at least the %d of before the backup and at most %d", i, got, chats[i], after[i]+1)
				}
			}
			for _, key := range append(append(made, w.keys...), director.MasterKey) {
				if r := n.get("/v1/account", key); r.status != 200 {
					t.Errorf("GET /v1/account = %d %s, want 200", r.status, r.body)
				}
			}
			if got := n.get(content, director.MasterKey); got.status != 200 || got.body != film.body {
				t.Errorf("GET %s = %d with %d bytes, want the same %d", content, got.status, len(got.body), len(film.body))
			}
			t.Logf("soak: backup of %d rows under load, %d calls before it", m.Rows, chats[0]+chats[1]+chats[2]+chats[3])
		})
	}
}

// Every file of a backup is checked before anything is restored.
func TestBackupDamaged(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	n := s.start(t)
	made := must[admin.CreatedAccount](n, "account.create", admin.NewAccount{Actor: "t", Email: "ana@example.com", Plan: "scale"})
	n.film(made.MasterKey, clip)
	n.request("POST", "/v1/chat/completions", made.MasterKey, `{"model":"sandbox/small","messages":[{"role":"user","content":"2+2"}]}`)
	place := filepath.Join(s.dir, "backup")
	if _, err := app.Backup(t.Context(), s.config(t), place, nil, nil); err != nil {
		t.Fatal(err)
	}
	to := newSite(t, "")
	to.unprepared = true
	takeSecret(t, s.data(), to.data())
	files := 0
	err := filepath.WalkDir(place, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		files++
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for name, damaged := range map[string][]byte{"a flipped byte": bytes.Clone(data), "a cut": data[:len(data)/2]} {
			if name == "a flipped byte" {
				damaged[len(damaged)*2/3] ^= 0xff
			}
			if err := os.WriteFile(path, damaged, 0o600); err != nil {
				return err
			}
			checked, err := app.CheckBackup(t.Context(), to.config(t), place, nil)
			if err == nil && len(checked.Problems) == 0 {
				t.Errorf("CheckBackup with %s in %s = %+v, want a problem", name, path, checked)
			}
			if _, err := app.Restore(t.Context(), to.config(t), place, nil); err == nil {
				t.Errorf("Restore with %s in %s = nil, want a refusal", name, path)
			}
		}
		return os.WriteFile(path, data, 0o600)
	})
	if err != nil || files < 4 {
		t.Fatalf("%d files, %v, want the manifest, the database, the journal and a video", files, err)
	}
	if _, err := os.Stat(filepath.Join(to.data(), sqlstore.File)); err == nil {
		t.Error("a refused restore left a database")
	}
	if _, err := app.Restore(t.Context(), to.config(t), place, nil); err != nil {
		t.Errorf("Restore of the whole backup = %v", err)
	}
	for _, left := range []string{"the database", "its -wal"} { // which would be applied to the restored one
		if _, err := app.Restore(t.Context(), to.config(t), place, nil); err == nil || !strings.Contains(err.Error(), "holds a database already") {
			t.Errorf("Restore over %s = %v, want a refusal", left, err)
		}
		if err := os.Rename(filepath.Join(to.data(), sqlstore.File), filepath.Join(to.data(), sqlstore.File+"-wal")); err != nil && left == "the database" {
			t.Fatal(err)
		}
	}
}

// A flipped byte in the journal of a server is reported by /readyz and by audit until somebody acknowledges it, and
// costs nothing but the call that it hit.
func TestDamagedJournal(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	n := s.start(t)
	made := must[admin.CreatedAccount](n, "account.create", admin.NewAccount{Actor: "t", Email: "ana@example.com", Plan: "scale"})
	const calls = 30
	for range calls {
		n.request("POST", "/v1/chat/completions", made.MasterKey, `{"model":"sandbox/small","messages":[{"role":"user","content":"2+2"}]}`)
	}
	n.stop()
	// As if the process had been killed before the database had any of them.
	if err := os.Remove(filepath.Join(s.data(), "journal", "mark")); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", filepath.Join(s.data(), sqlstore.File)+"?_pragma=busy_timeout(10000)")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(`DELETE FROM settlements; DELETE FROM usage_days; DELETE FROM usage_hours; DELETE FROM provider_days`); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(s.data(), "journal", "*.journal2"))
	if err != nil || len(files) != 1 {
		t.Fatalf("the journal has the files %q, %v, want one", files, err)
	}
	data, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	data[len(bytes.TrimRight(data, "\x00"))/10] ^= 0x10
	if err := os.WriteFile(files[0], data, 0o600); err != nil {
		t.Fatal(err)
	}

	n = s.start(t)
	if used := must[admin.Usage](n, "usage", admin.UsageQuery{Ref: made.ID, Days: 2}); used.Totals.Requests != calls-1 {
		t.Errorf("usage has %d calls, want all %d but one", used.Totals.Requests, calls)
	}
	const note = "the journal was damaged, and 1 settlements are lost"
	if r := n.get("/readyz", ""); r.status != 200 || !strings.Contains(r.body, note) {
		t.Errorf("GET /readyz = %d %s, want that it is ready, and %q", r.status, r.body, note)
	}
	if audit := must[admin.Audit](n, "audit", admin.Empty{}); len(audit.Differences) != 0 || len(audit.Damage) != 1 || audit.Damage[0].Lost != 1 || audit.Damage[0].Kept == "" {
		t.Errorf("audit = %+v, want the damage", audit)
	}
	n.stop()
	n = s.start(t)
	if r := n.get("/readyz", ""); !strings.Contains(r.body, note) {
		t.Errorf("GET /readyz after a restart = %s, want %q", r.body, note)
	}
	must[json.RawMessage](n, "journal.acknowledge", admin.Target{Actor: "ana"})
	if r := n.get("/readyz", ""); strings.Contains(r.body, "damaged") {
		t.Errorf("GET /readyz after it was acknowledged = %s", r.body)
	}
	if audit := must[admin.Audit](n, "audit", admin.Empty{}); len(audit.Damage) != 0 {
		t.Errorf("audit after it was acknowledged = %+v", audit)
	}
}

// A server does not start on an empty database beside a journal that was used, nor on damaged pages, and says what to do.
func TestLostDatabase(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	n := s.start(t)
	made := must[admin.CreatedAccount](n, "account.create", admin.NewAccount{Actor: "t", Email: "ana@example.com", Plan: "scale"})
	n.request("POST", "/v1/chat/completions", made.MasterKey, `{"model":"sandbox/small","messages":[{"role":"user","content":"2+2"}]}`)
	place := filepath.Join(s.dir, "backup")
	if _, err := app.Backup(t.Context(), s.config(t), place, nil, nil); err != nil {
		t.Fatal(err)
	}
	n.request("POST", "/v1/chat/completions", made.MasterKey, `{"model":"sandbox/small","messages":[{"role":"user","content":"2+2"}]}`)
	n.stop()
	path := filepath.Join(s.data(), sqlstore.File)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}

	// Pages in the middle of the file.
	damaged := bytes.Clone(whole)
	for at := 4096 * 3; at < len(damaged)-4096; at += 4096 * 7 {
		copy(damaged[at:], bytes.Repeat([]byte{0xa5}, 64))
	}
	write := func(data []byte) {
		t.Helper()
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(damaged)
	if err := s.try(t); err == nil || !strings.Contains(err.Error(), "the database is damaged") || !strings.Contains(err.Error(), "sluice restore") {
		t.Errorf("New on damaged pages = %v, want a refusal with a way out", err)
	}

	// An empty one, and none at all.
	if err := errors.Join(os.Remove(path), alltest.Prepare(s.data())); err != nil {
		t.Fatal(err)
	}
	if err := s.try(t); err == nil || !strings.Contains(err.Error(), "has no account, but the journal") || !strings.Contains(err.Error(), "sluice restore") {
		t.Errorf("New on an empty database beside a journal = %v, want a refusal with a way out", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := s.try(t); err == nil || !strings.Contains(err.Error(), "has no account, but the journal") {
		t.Errorf("New without a database beside a journal = %v, want a refusal", err)
	}

	// The way out: the backup takes its place, and the journal brings the call of after it back.
	if _, err := app.Restore(t.Context(), s.config(t), place, nil); err != nil {
		t.Fatalf("Restore = %v", err)
	}
	n = s.start(t)
	if used := must[admin.Usage](n, "usage", admin.UsageQuery{Ref: made.ID, Days: 2}); used.Totals.Requests != 2 {
		t.Errorf("usage has %d calls, want both", used.Totals.Requests)
	}
	if audit := must[admin.Audit](n, "audit", admin.Empty{}); len(audit.Differences)+len(audit.Damage) != 0 {
		t.Errorf("audit = %+v, want no difference", audit)
	}
}
