package auth_test

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/internal/account"
	"sluice/internal/account/auth"
	"sluice/internal/kit/fault"
	"sluice/internal/store/sqlstore/alltest"
)

type world struct {
	accounts *account.Accounts
	index    *auth.Index
	auth     *auth.Authenticator
	store    *alltest.Store
}

func newWorld(t testing.TB) *world {
	t.Helper()
	s, err := alltest.Open(t.Context(), "sqlite", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	w := &world{store: s, index: auth.NewIndex()}
	w.accounts = account.New(s, &account.Options{OnChange: w.index.Put})
	w.auth = auth.New(w.index, "service", nil)
	return w
}

func (w *world) create(t testing.TB) (*account.Account, string) {
	t.Helper()
	a, raw, err := w.accounts.Create(t.Context(), "t", fmt.Sprintf("a%d@example.com", w.index.Accounts()), account.Basic, false)
	if err != nil {
		t.Fatal(err)
	}
	return a, raw
}

func TestAuthenticate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	good, key := w.create(t)
	suspended, suspendedKey := w.create(t)
	deactivated, deactivatedKey := w.create(t)
	both, bothKey := w.create(t)
	renewed, oldKey := w.create(t)
	sub, subKey, err := w.accounts.CreateKey(ctx, "t", good.ID, "sub", nil)
	if err != nil {
		t.Fatal(err)
	}
	gone, goneKey, err := w.accounts.CreateKey(ctx, "t", good.ID, "gone", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{
		second(w.accounts.Suspend(ctx, "t", suspended.ID, "r")),
		second(w.accounts.Deactivate(ctx, "t", deactivated.ID, "r")),
		second(w.accounts.Suspend(ctx, "t", both.ID, "r")),
		second(w.accounts.Deactivate(ctx, "t", both.ID, "r")),
		second(w.accounts.RegenerateMaster(ctx, "t", renewed.ID)),
		w.accounts.DeleteKey(ctx, "t", gone.ID),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	flipped := key[:20] + string("ab"[btoi(key[20] == 'a')]) + key[21:]

	for name, header := range map[string][]string{
		"master": {"Bearer " + key}, "sub-key": {"Bearer " + subKey}, "lower-case scheme": {"bearer " + key}, "spaces": {"Bearer   " + key + " "},
	} {
		c, err := w.auth.Authenticate(t.Context(), header, "192.0.2.1")
		if err != nil || c.Account.ID != good.ID {
			t.Errorf("%s: Authenticate = %+v, %v, want %s", name, c, err, good.ID)
		}
		if name == "sub-key" && c.KeyID != sub.ID {
			t.Errorf("%s: KeyID = %s, want %s", name, c.KeyID, sub.ID)
		}
	}
	for name, tt := range map[string]struct {
		header []string
		kind   fault.Kind
		says   string
	}{
		"no header":              {nil, fault.Unauthenticated, "No API key"},
		"empty":                  {[]string{""}, fault.Unauthenticated, "must have the form"},
		"basic":                  {[]string{"Basic " + key}, fault.Unauthenticated, "must have the form"},
		"no scheme":              {[]string{key}, fault.Unauthenticated, "must have the form"},
		"two headers":            {[]string{"Bearer " + key, "Bearer " + key}, fault.Unauthenticated, "must have the form"},
		"only the scheme":        {[]string{"Bearer "}, fault.Unauthenticated, "must have the form"},
		"wrong prefix":           {[]string{"Bearer sk-" + key[8:]}, fault.Unauthenticated, "begin with"},
		"prefix in capitals":     {[]string{"Bearer SERVICE-" + key[8:]}, fault.Unauthenticated, "begin with"},
		"only the prefix":        {[]string{"Bearer service-"}, fault.Unauthenticated, "mistyped"},
		"one character changed":  {[]string{"Bearer " + flipped}, fault.Unauthenticated, "mistyped"},
		"cut":                    {[]string{"Bearer " + key[:len(key)-1]}, fault.Unauthenticated, "mistyped"},
		"regenerated":            {[]string{"Bearer " + oldKey}, fault.Unauthenticated, "not known"},
		"deleted":                {[]string{"Bearer " + goneKey}, fault.Unauthenticated, "not known"},
		"deactivated":            {[]string{"Bearer " + deactivatedKey}, fault.KeyDeactivated, "support"},
		"suspended":              {[]string{"Bearer " + suspendedKey}, fault.Suspended, "suspended"},
		"suspended, deactivated": {[]string{"Bearer " + bothKey}, fault.KeyDeactivated, "support"},
		"huge":                   {[]string{"Bearer service-" + strings.Repeat("x", 1<<16)}, fault.Unauthenticated, "mistyped"},
	} {
		_, err := w.auth.Authenticate(t.Context(), tt.header, "192.0.2.1")
		if !fault.Is(err, tt.kind) || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: Authenticate = %v, want %s saying %q", name, err, tt.kind, tt.says)
		}
		if err != nil && strings.Contains(err.Error(), key[8:28]) {
			t.Errorf("%s: the error repeats the key: %v", name, err)
		}
	}
}

// A database that is down takes no known key with it.
func TestAuthenticateWithoutDatabase(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, key := w.create(t)
	w.store.Close()
	if _, err := w.auth.Authenticate(t.Context(), []string{"Bearer " + key}, "192.0.2.1"); err != nil {
		t.Errorf("Authenticate with the database closed = %v, want the caller", err)
	}
}

// However late an old state arrives, it never replaces a newer one.
func TestPutIgnoresOldStates(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	old, key := w.create(t)
	if _, err := w.accounts.RegenerateMaster(t.Context(), "t", old.ID); err != nil {
		t.Fatal(err)
	}
	w.index.Put(old)
	if _, err := w.auth.Authenticate(t.Context(), []string{"Bearer " + key}, "192.0.2.1"); !fault.Is(err, fault.Unauthenticated) {
		t.Errorf("Authenticate with the old key = %v, want it refused", err)
	}
}

// While keys are replaced over and over under load, a key that was replaced never works again.
func TestRegenerateUnderLoad(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, key := w.create(t)
	var mu sync.RWMutex // guards current: held while the key is replaced
	current := key
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				mu.RLock()
				if _, err := w.auth.Authenticate(t.Context(), []string{"Bearer " + current}, "192.0.2.1"); err != nil {
					t.Errorf("Authenticate with the current key = %v", err)
				}
				mu.RUnlock()
			}
		})
	}
	for range 20 {
		mu.Lock()
		old := current
		raw, err := w.accounts.RegenerateMaster(t.Context(), "t", a.ID)
		if err != nil {
			t.Error(err)
		}
		current = raw
		if _, err := w.auth.Authenticate(t.Context(), []string{"Bearer " + old}, "192.0.2.1"); err == nil {
			t.Error("a replaced key still works")
		}
		mu.Unlock()
	}
	close(stop)
	wg.Wait()
}

func TestUsedKeys(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, key := w.create(t)
	w.create(t)
	if used := w.index.UsedKeys(); len(used) != 0 {
		t.Errorf("UsedKeys() = %v before any use, want none", used)
	}
	before := time.Now().Add(-time.Second)
	for range 3 {
		if _, err := w.auth.Authenticate(t.Context(), []string{"Bearer " + key}, "192.0.2.1"); err != nil {
			t.Fatal(err)
		}
	}
	used := w.index.UsedKeys()
	if at, ok := used[a.Keys[0].ID]; len(used) != 1 || !ok || at.Before(before.Truncate(time.Second)) {
		t.Errorf("UsedKeys() = %v, want the used key alone, used just now", used)
	}
	if used := w.index.UsedKeys(); len(used) != 0 {
		t.Errorf("UsedKeys() = %v the second time, want none", used)
	}
}

func BenchmarkAuthenticate(b *testing.B) {
	w := newWorld(b)
	_, key := w.create(b)
	header := []string{"Bearer " + key}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := w.auth.Authenticate(b.Context(), header, "192.0.2.1"); err != nil {
				b.Error(err)
			}
		}
	})
}

func second[T any](_ T, err error) error { return err }

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// BenchmarkIndexMemory tells what an account with its master key costs in memory.
func BenchmarkIndexMemory(b *testing.B) {
	const n = 100_000
	for b.Loop() {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		ix := auth.NewIndex()
		for i := range n {
			id := fmt.Sprintf("acct_%020d", i)
			ix.Put(&account.Account{
				ID: id, Email: fmt.Sprintf("a%d@example.com", i), Version: 1,
				Keys: []account.Key{{ID: fmt.Sprintf("key_%020d", i), Master: true, Hash: account.HashKey(id), LastFour: "abcd"}},
			})
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/n, "B/account")
		runtime.KeepAlive(ix)
	}
}

// A lock refuses at once, survives changes that know nothing of it, and gives way to what is stored.
func TestLock(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, key := w.create(t)
	refused := func() bool {
		_, err := w.auth.Authenticate(t.Context(), []string{"Bearer " + key}, "192.0.2.1")
		return fault.Is(err, fault.KeyDeactivated)
	}
	w.index.Lock(a.ID, account.Mark{Reason: "score"})
	w.index.Lock("acct_none", account.Mark{})
	if !refused() {
		t.Error("a locked account was let in")
	}
	if _, err := w.accounts.SetPlan(t.Context(), "t", a.ID, account.Scale); err != nil {
		t.Fatal(err)
	}
	if !refused() {
		t.Error("a plan change undid the lock")
	}
	w.index.Unlock(a.ID)
	if refused() {
		t.Error("an unlocked account is refused")
	}
	w.index.Lock(a.ID, account.Mark{Reason: "score"})
	for _, change := range []func() error{
		func() error { return second(w.accounts.Deactivate(t.Context(), "t", a.ID, "score")) },
		func() error { return second(w.accounts.Restore(t.Context(), "t", a.ID)) },
	} {
		if err := change(); err != nil {
			t.Fatal(err)
		}
	}
	if refused() {
		t.Error("a restored account is refused")
	}
}

// Two nodes may start on one empty database at the same time: the second one finds that the other has
// created the owner since it loaded the accounts.
func TestOwnerOfAnotherNode(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	owner, _, err := account.New(w.store, nil).Create(t.Context(), "another node", account.OwnerEmail, account.Scale, true)
	if err != nil {
		t.Fatal(err)
	}
	index := auth.NewIndex() // as before that
	key, err := index.CreateOwner(t.Context(), w.accounts, w.store)
	if err != nil || key != "" {
		t.Errorf("CreateOwner() = %q, %v, want no key and no error: the owner exists", key, err)
	}
	if index.Account(owner.ID) == nil {
		t.Error("the other node's owner is not known afterwards")
	}
}
