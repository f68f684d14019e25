package admin_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/account"
	"sluice/internal/kit/fault"
	"sluice/internal/ledger/abuse"
	"sluice/internal/ledger/price"
	"sluice/internal/ledger/usage"
	"sluice/internal/operate/admin"
	"sluice/internal/prompt/chat"
	"sluice/internal/store/sqlstore/alltest"
	"sluice/internal/upstream/catalog"
)

var started = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// newBackend is a backend over an empty SQLite database, which ends with the test.
func newBackend(t *testing.T) (*admin.Backend, *alltest.Store) {
	t.Helper()
	store, err := alltest.Open(t.Context(), "sqlite", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	models, err := catalog.New([]catalog.Model{catalog.Router("service")})
	if err != nil {
		t.Fatal(err)
	}
	accounts := account.New(store, nil)
	books := ledger{store}
	return &admin.Backend{
		Accounts: accounts,
		Usage:    books,
		Calls:    store,
		Scores:   books,
		Plans:    account.BuiltinPlans,
		Catalog:  func() *catalog.Catalog { return models },
		Status: func(context.Context) admin.Status {
			return admin.Status{Version: "9", PID: 7, StartedAt: started, Listen: "127.0.0.1:1", Database: "SQLite", Accounts: 2, Models: 1}
		},
		Reload: func(context.Context) ([]string, error) { return []string{"listen"}, nil },
	}, store
}

// ledger is the books and scores of a backend, without a journal before them.
type ledger struct{ *alltest.Store }

func (l ledger) Audit(ctx context.Context) ([]usage.Difference, int, error) {
	return l.AuditUsage(ctx)
}

func (ledger) Flush(context.Context) error { return nil }

func (l ledger) Damage() ([]usage.Damage, error) {
	return []usage.Damage{{ID: "d", What: "w", Lost: 1}}, nil
}

func (l ledger) Acknowledge(by string) ([]usage.Damage, error) {
	return []usage.Damage{{ID: "d", By: by}}, nil
}

func (l ledger) JournalParts(context.Context) ([]usage.Part, error) {
	return []usage.Part{{Name: "1", Bytes: 5}}, nil
}

func (l ledger) ReadJournal(name string, offset int64, p []byte) (int, error) {
	if name != "1" {
		return 0, os.ErrNotExist
	}
	return copy(p, "hello"[offset:]), nil
}

func (l ledger) Score(context.Context, *account.Account) ([]abuse.TierScore, int, []abuse.Event, error) {
	return []abuse.TierScore{{Tier: account.Free, Score: 12, Units: 1500, Budget: 12, Reaches: started}}, 12,
		[]abuse.Event{{At: started, Kind: abuse.Warning, Plan: account.Basic, Tier: account.Free, Score: 50, Why: "w", Actor: "abuse control"}}, nil
}

func (l ledger) Restore(ctx context.Context, actor, ref string) (*account.Account, error) {
	return account.New(l.Store, nil).Restore(ctx, actor, ref)
}

// TestUsageOperations holds what operators see of usage against what was settled.
func TestUsageOperations(t *testing.T) {
	t.Parallel()
	b, store := newBackend(t)
	c := admin.InProcess(b)
	a := must[admin.CreatedAccount](t, c, "account.create", admin.NewAccount{Actor: "t", Email: "u@example.com", Plan: "basic"})
	cost := price.Nano(1_250_000_000)
	now := time.Now()
	err := store.RecordSettlements(t.Context(), []usage.Settlement{
		{ID: "1", At: now, AccountID: a.ID, KeyID: "key_1", ModelUsed: "m1", Tokens: chat.Usage{Prompt: 10, Completion: 5}, UnitMilli: 1500, Cost: &cost, End: usage.EndComplete, Latency: 100 * time.Millisecond},
		{ID: "2", At: now, AccountID: a.ID, KeyID: "key_2", ModelUsed: "m1", Tokens: chat.Usage{Prompt: 1}, UnitMilli: 1000, End: usage.EndCut, Latency: 300 * time.Millisecond, FirstToken: 200 * time.Millisecond},
		{ID: "3", At: now.AddDate(0, 0, -3), AccountID: a.ID, KeyID: "key_1", ModelUsed: "m2", UnitMilli: 1000, End: usage.EndComplete},
		{ID: "4", At: now.AddDate(0, 0, -40), AccountID: a.ID, KeyID: "key_1", ModelUsed: "m2", UnitMilli: 1000, End: usage.EndComplete},
	})
	if err != nil {
		t.Fatal(err)
	}
	for by, rows := range map[string]int{"": 3, "model": 2, "key": 2, "day": 2} {
		got := must[admin.Usage](t, c, "usage", admin.UsageQuery{Ref: "u@example.com", Days: 30, By: by})
		want := admin.UsageSums{
			Requests: 3, Failed: 1, PromptTokens: 11, CompletionTokens: 5, Units: "3.5", CostUSD: "1.25", SavedUSD: "0", Unpriced: 2, LatencyMS: 300, FirstTokenMS: 200, // both of the one call that had a first token
		}
		if got.Totals != want || len(got.Rows) != rows {
			t.Errorf("usage by %q = %+v with %d rows, want %+v with %d", by, got.Totals, len(got.Rows), want, rows)
		}
	}
	for name, in := range map[string]admin.UsageQuery{"no days": {Ref: a.ID}, "by colour": {Ref: a.ID, Days: 1, By: "colour"}} {
		if err := c.Call(t.Context(), "usage", in, &admin.Usage{}); !fault.Is(err, fault.Invalid) {
			t.Errorf("usage with %s = %v, want it refused", name, err)
		}
	}
	if got := must[admin.Audit](t, c, "audit", admin.Empty{}); got.Compared != 3 || len(got.Differences) != 0 {
		t.Errorf("audit = %+v, want 3 account days and no difference", got)
	}
	if got := must[admin.Abuse](t, c, "account.abuse", admin.Target{Ref: a.ID}); got.Score != 12 || got.Tiers[0].Units != "1.5" || got.Events[0].Kind != "warning" {
		t.Errorf("account.abuse = %+v, want what the scores say", got)
	}
	if got := must[admin.Audit](t, c, "audit", admin.Empty{}); len(got.Damage) != 1 || got.Damage[0].Lost != 1 {
		t.Errorf("audit = %+v, want the damage of the journal", got)
	}
	if got := must[[]usage.Damage](t, c, "journal.acknowledge", admin.Target{Actor: "ana"}); len(got) != 1 || got[0].By != "ana" {
		t.Errorf("journal.acknowledge = %+v, want who did it", got)
	}
	if got := must[[]usage.Part](t, c, "journal.parts", admin.Empty{}); len(got) != 1 || got[0].Bytes != 5 {
		t.Errorf("journal.parts = %+v, want the one file", got)
	}
	if got := must[[]byte](t, c, "journal.read", admin.JournalPiece{Name: "1", Offset: 1, Bytes: 3}); string(got) != "ell" {
		t.Errorf("journal.read = %q, want what was asked for", got)
	}
	for name, in := range map[string]admin.JournalPiece{"gone": {Name: "0", Bytes: 1}, "a negative offset": {Name: "1", Offset: -1}, "a negative size": {Name: "1", Bytes: -1}} {
		if err := c.Call(t.Context(), "journal.read", in, &[]byte{}); err == nil || fault.Is(err, fault.Internal) {
			t.Errorf("journal.read of %s = %v, want it refused", name, err)
		}
	}
}

// listen serves the backend at the door of the folder.
func listen(t *testing.T, dir string, b *admin.Backend) *admin.Client {
	t.Helper()
	l, err := admin.Listen(dir)
	if err != nil {
		t.Fatalf("Listen = %v", err)
	}
	server := &http.Server{Handler: admin.Handler(b)}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Close()
		<-served
	})
	c, err := admin.Dial(t.Context(), dir)
	if err != nil {
		t.Fatalf("Dial = %v", err)
	}
	return c
}

// everyWay runs a test with a client of each kind.
func everyWay(t *testing.T, test func(t *testing.T, c *admin.Client, b *admin.Backend)) {
	t.Run("socket", func(t *testing.T) {
		t.Parallel()
		b, _ := newBackend(t)
		test(t, listen(t, t.TempDir(), b), b)
	})
	t.Run("in process", func(t *testing.T) {
		t.Parallel()
		b, _ := newBackend(t)
		test(t, admin.InProcess(b), b)
	})
}

// must runs an operation that has to succeed.
func must[Out any](t *testing.T, c *admin.Client, name string, in any) Out {
	t.Helper()
	var out Out
	if err := c.Call(t.Context(), name, in, &out); err != nil {
		t.Fatalf("Call(%s) = %v", name, err)
	}
	return out
}

// TestOperations walks through every operation there is.
func TestOperations(t *testing.T) {
	t.Parallel()
	everyWay(t, func(t *testing.T, c *admin.Client, _ *admin.Backend) {
		created := must[admin.CreatedAccount](t, c, "account.create", admin.NewAccount{Actor: "tester", Email: "Ana@example.com", Plan: "basic"})
		if created.Email != "ana@example.com" || created.Plan != "basic" || !account.Wellformed("service", created.MasterKey) {
			t.Errorf("account.create = %+v, want the account and its key", created)
		}
		bare := must[admin.CreatedAccount](t, c, "account.create", admin.NewAccount{Actor: "tester", Email: "bob@example.com"})
		if bare.Plan != "none" {
			t.Errorf("account.create without a plan gives %s, want none", bare.Plan)
		}
		ref := admin.Target{Actor: "tester", Ref: created.ID}

		shown := must[admin.Account](t, c, "account.show", admin.Target{Ref: "ANA@example.com"})
		if shown.ID != created.ID || shown.Status != "active" || !shown.Granted || shown.Limits != account.BuiltinPlans()[account.Basic].Limits || len(shown.Keys) != 1 {
			t.Errorf("account.show = %+v, want the account under the basic limits", shown)
		}
		if k := shown.Keys[0]; k.Kind != "master" || k.Name != "master" || k.Status != "active" || k.LastUsedAt != nil || !strings.HasSuffix(created.MasterKey, k.LastFour) {
			t.Errorf("account.show gives the key %+v, want the master key by its last four", k)
		}

		if got := must[admin.Account](t, c, "account.set-plan", admin.Target{Actor: "tester", Ref: created.ID, Plan: "scale"}); got.Plan != "scale" || got.Limits.Concurrent != 50 {
			t.Errorf("account.set-plan scale = %+v", got)
		}
		five, unlimited := account.Limit(5), account.Unlimited
		got := must[admin.Account](t, c, "account.set-limits", admin.NewLimits{
			Actor: "tester", Ref: created.ID, Set: account.Overrides{RequestsPerMinute: &five, TokensPerMinute: &unlimited},
		})
		if got.Limits != (account.Limits{RequestsPerMinute: 5, Concurrent: 50, TokensPerMinute: account.Unlimited}) || *got.Overrides.RequestsPerMinute != 5 {
			t.Errorf("account.set-limits = %+v", got.Limits)
		}
		got = must[admin.Account](t, c, "account.set-limits", admin.NewLimits{Actor: "tester", Ref: created.ID, Clear: true, Set: account.Overrides{Concurrent: &five}})
		if got.Limits != (account.Limits{RequestsPerMinute: 80, Concurrent: 5, TokensPerMinute: 8_000_000}) {
			t.Errorf("account.set-limits, cleared first = %+v", got.Limits)
		}
		got = must[admin.Account](t, c, "account.set-limits", admin.NewLimits{Actor: "tester", Ref: created.ID, Clear: true})
		if got.Overrides != (account.Overrides{}) {
			t.Errorf("account.set-limits, cleared = %+v", got.Overrides)
		}

		first := must[admin.NewKey](t, c, "key.create", admin.Target{Actor: "tester", Ref: created.ID, Name: "laptop"})
		if first.Name != "laptop" || !account.Wellformed("service", first.Key) {
			t.Errorf("key.create = %+v, want a key called laptop", first)
		}
		fiveAMinute := account.Limit(5)
		limits := &admin.KeyLimits{RequestsPerMinute: &fiveAMinute, Models: []string{"m"}, Addresses: []string{"10.0.0.0/8", "192.0.2.1"}}
		order := admin.KeyOrder{Target: admin.Target{Actor: "tester", Ref: first.ID}, Limits: limits}
		if k := must[admin.Key](t, c, "key.set-limits", order); !reflect.DeepEqual(k.Limits, limits) || k.CreatedBy == "" {
			t.Errorf("key.set-limits = %+v, want %+v", k.Limits, limits)
		}
		if k := must[admin.Key](t, c, "key.set-limits", admin.KeyOrder{Target: order.Target}); k.Limits != nil {
			t.Errorf("key.set-limits without any = %+v, want none", k.Limits)
		}
		if k := must[admin.Key](t, c, "key.rename", admin.Target{Actor: "tester", Ref: first.ID, Name: "desk"}); k.ID != first.ID || k.Name != "desk" || k.Kind != "sub" {
			t.Errorf("key.rename = %+v, want it called desk", k)
		}
		if keys := must[admin.List[admin.Key]](t, c, "key.list", admin.AccountPage{Ref: created.ID}).Data; len(keys) != 2 || keys[1].Name != "desk" {
			t.Errorf("key.list = %+v, want the master key and desk", keys)
		}
		if got := must[admin.Account](t, c, "key.deactivate", admin.Target{Actor: "tester", Ref: created.ID, Reason: "score"}); got.Status != "deactivated" ||
			got.Deactivated.Reason != "score" || got.Keys[1].Status != "deactivated" {
			t.Errorf("key.deactivate = %+v", got)
		}
		if got := must[admin.Account](t, c, "account.suspend", admin.Target{Actor: "tester", Ref: created.ID, Reason: "terms"}); got.Status != "suspended" || got.Suspended.Reason != "terms" {
			t.Errorf("account.suspend = %+v", got)
		}
		if got := must[admin.Account](t, c, "account.unsuspend", ref); got.Status != "deactivated" || got.Suspended != nil {
			t.Errorf("account.unsuspend = %+v, want it still deactivated", got)
		}
		if got := must[admin.Account](t, c, "key.restore", ref); got.Status != "active" || got.Deactivated != nil || got.Keys[0].Status != "active" {
			t.Errorf("key.restore = %+v", got)
		}
		must[admin.Empty](t, c, "key.delete", admin.Target{Actor: "tester", Ref: first.ID})
		renewed := must[admin.RawKey](t, c, "key.regenerate-master", ref)
		if !account.Wellformed("service", renewed.Key) || renewed.Key == created.MasterKey {
			t.Errorf("key.regenerate-master = %+v, want another key", renewed)
		}
		if keys := must[admin.List[admin.Key]](t, c, "key.list", admin.AccountPage{Ref: created.ID}).Data; len(keys) != 1 || !strings.HasSuffix(renewed.Key, keys[0].LastFour) {
			t.Errorf("key.list in the end = %+v, want the new master key alone", keys)
		}

		var actions []string
		for _, e := range must[admin.List[account.Entry]](t, c, "account.history", admin.AccountPage{Ref: created.ID}).Data {
			actions = append(actions, e.Action)
			if e.Actor != "tester" || e.Seq == 0 || e.At.IsZero() {
				t.Errorf("account.history has %+v, want who and when", e)
			}
		}
		want := []string{
			"key.regenerate_master", "key.delete", "keys.restore", "account.unsuspend", "account.suspend", "keys.deactivate", "key.rename", "key.set_limits", "key.set_limits", "key.create",
			"account.clear_limits", "account.set_limits", "account.clear_limits", "account.set_limits", "account.set_plan", "account.create",
		}
		if diff := cmp.Diff(want, actions); diff != "" {
			t.Errorf("account.history: -want +got\n%s", diff)
		}

		var listed []string
		page := admin.Cursor{Limit: 1}
		for {
			list := must[admin.List[admin.Account]](t, c, "account.list", page).Data
			if len(list) == 0 {
				break
			}
			listed = append(listed, list[0].ID)
			page.After = list[0].ID
		}
		if len(listed) != 2 || len(must[admin.List[admin.Account]](t, c, "account.list", admin.Cursor{}).Data) != 2 {
			t.Errorf("account.list page by page = %v, want both accounts", listed)
		}

		plain, verbose := must[json.RawMessage](t, c, "models", admin.ModelQuery{}), must[json.RawMessage](t, c, "models", admin.ModelQuery{Verbose: true})
		if !strings.Contains(string(plain), `"id":"service/auto"`) || strings.Contains(string(plain), `"description"`) || !strings.Contains(string(verbose), `"description"`) {
			t.Errorf("models = %s, verbose %s", plain, verbose)
		}
		status := admin.Status{Version: "9", PID: 7, StartedAt: started, Listen: "127.0.0.1:1", Database: "SQLite", Accounts: 2, Models: 1}
		if diff := cmp.Diff(status, must[admin.Status](t, c, "status", admin.Empty{})); diff != "" {
			t.Errorf("status: -want +got\n%s", diff)
		}
		if got := must[admin.Reloaded](t, c, "reload", admin.Empty{}); len(got.RestartNeeded) != 1 || got.RestartNeeded[0] != "listen" {
			t.Errorf("reload = %+v, want what waits for a restart", got)
		}
	})
}

// Without a name it is the owner's key that is replaced.
func TestRegenerateMasterOfTheOwner(t *testing.T) {
	t.Parallel()
	everyWay(t, func(t *testing.T, c *admin.Client, b *admin.Backend) {
		if err := c.Call(t.Context(), "key.regenerate-master", admin.Target{Actor: "t"}, &admin.RawKey{}); !fault.Is(err, fault.NotFound) {
			t.Errorf("key.regenerate-master without an owner = %v, want not found", err)
		}
		owner, old, err := b.Accounts.Create(t.Context(), "t", account.OwnerEmail, account.Scale, true)
		if err != nil {
			t.Fatal(err)
		}
		raw := must[admin.RawKey](t, c, "key.regenerate-master", admin.Target{Actor: "t"})
		now, err := b.Accounts.Find(t.Context(), owner.ID)
		if err != nil || raw.Key == old || now.Master().Hash != account.HashKey(raw.Key) {
			t.Errorf("the owner's master key is not the one that was returned (%v)", err)
		}
	})
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	everyWay(t, func(t *testing.T, c *admin.Client, b *admin.Backend) {
		b.Reload = func(context.Context) ([]string, error) { return nil, errors.New("sluice.yaml:3:5: listen: no") }
		full := must[admin.CreatedAccount](t, c, "account.create", admin.NewAccount{Actor: "t", Email: "full@example.com"})
		for i := range account.MaxSubKeys {
			must[admin.NewKey](t, c, "key.create", admin.Target{Actor: "t", Ref: full.ID, Name: fmt.Sprint("k", i)})
		}
		master := must[admin.List[admin.Key]](t, c, "key.list", admin.AccountPage{Ref: full.ID}).Data[0].ID
		for name, tt := range map[string]struct {
			operation string
			in        any
			kind      fault.Kind
			param     string
			says      string
		}{
			"unknown operation":   {"account.explode", admin.Empty{}, fault.NotFound, "", "there is no operation POST /account.explode"},
			"unknown field":       {"account.show", map[string]any{"ref": full.ID, "reff": 1}, fault.Invalid, "", `unknown field "reff"`},
			"wrong type":          {"account.show", map[string]any{"ref": 1}, fault.Invalid, "", "cannot be read"},
			"no value":            {"account.show", []int{}, fault.Invalid, "", "cannot be read"},
			"bad limit":           {"account.set-limits", map[string]any{"ref": full.ID, "set": map[string]any{"concurrent": -1}}, fault.Invalid, "", "-1 is not a limit"},
			"bad address":         {"account.create", admin.NewAccount{Email: "nobody"}, fault.Invalid, "email", "is not an e-mail address"},
			"taken address":       {"account.create", admin.NewAccount{Email: "full@example.com"}, fault.Conflict, "email", "already"},
			"bad plan":            {"account.create", admin.NewAccount{Email: "x@example.com", Plan: "gold"}, fault.Invalid, "plan", `"gold" is not a plan`},
			"bad plan to set":     {"account.set-plan", admin.Target{Ref: full.ID, Plan: "gold"}, fault.Invalid, "plan", `"gold" is not a plan`},
			"unknown account":     {"account.show", admin.Target{Ref: "acct_none"}, fault.NotFound, "", "acct_none"},
			"unknown, list":       {"key.list", admin.AccountPage{Ref: "acct_none"}, fault.NotFound, "", "acct_none"},
			"unknown, history":    {"account.history", admin.AccountPage{Ref: "acct_none"}, fault.NotFound, "", "acct_none"},
			"unknown, plan":       {"account.set-plan", admin.Target{Ref: "acct_none", Plan: "free"}, fault.NotFound, "", "acct_none"},
			"unknown, limits":     {"account.set-limits", admin.NewLimits{Ref: "acct_none", Clear: true}, fault.NotFound, "", "acct_none"},
			"no limits":           {"account.set-limits", admin.NewLimits{Ref: full.ID}, fault.Invalid, "", "nothing to set"},
			"no reason, suspend":  {"account.suspend", admin.Target{Ref: full.ID}, fault.Invalid, "reason", "reason"},
			"no reason, switch":   {"key.deactivate", admin.Target{Ref: full.ID}, fault.Invalid, "reason", "reason"},
			"eleventh key":        {"key.create", admin.Target{Ref: full.ID, Name: "k"}, fault.Conflict, "", "already has 10 sub-keys"},
			"nameless key":        {"key.create", admin.Target{Ref: full.ID}, fault.Invalid, "name", "name"},
			"rename the master":   {"key.rename", admin.Target{Ref: master, Name: "x"}, fault.Invalid, "", "regenerate it instead"},
			"delete the master":   {"key.delete", admin.Target{Ref: master}, fault.Invalid, "", "regenerate it instead"},
			"delete unknown":      {"key.delete", admin.Target{Ref: "key_none"}, fault.NotFound, "", "key_none"},
			"bad configuration":   {"reload", admin.Empty{}, fault.Invalid, "", "sluice.yaml:3:5: listen: no"},
			"rename by account's": {"key.rename", admin.Target{Ref: full.ID, Name: "x"}, fault.NotFound, "", full.ID},
		} {
			var out json.RawMessage
			err := c.Call(t.Context(), tt.operation, tt.in, &out)
			f, ok := errors.AsType[*fault.Fault](err)
			if !ok || f.Kind != tt.kind || f.Param != tt.param || !strings.Contains(f.Message, tt.says) {
				t.Errorf("%s: Call(%s) = %v (%+v), want %s at %q saying %q", name, tt.operation, err, f, tt.kind, tt.param, tt.says)
			}
		}
	})
}

// The operator may read what a caller of the API may not: why the database does not answer.
func TestCauseIsTold(t *testing.T) {
	t.Parallel()
	b, store := newBackend(t)
	c := listen(t, t.TempDir(), b)
	store.Close()
	err := c.Call(t.Context(), "account.list", admin.Cursor{}, &admin.List[admin.Account]{})
	if !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "closed") {
		t.Errorf("account.list on a closed database = %v, want it unavailable and why", err)
	}
}

// The kind of a fault survives a server of another version, which numbers its kinds in another way or has
// some that this one does not know.
func TestFaultOfAnotherVersion(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		status int
		body   string
		want   fault.Kind
	}{
		{409, `{"kind":1,"type":"conflict","message":"m","param":"p"}`, fault.Conflict},
		{404, `{"kind":200,"type":"not_found_error","message":"m","param":"p"}`, fault.NotFound},
		{423, `{"type":"account_suspended","message":"m","param":"p"}`, fault.Suspended},
		{400, `{"kind":9,"type":"of_tomorrow","message":"m","param":"p"}`, fault.Invalid},
		{503, `{"type":"of_tomorrow","message":"m","param":"p"}`, fault.Unavailable},
	} {
		dir := t.TempDir()
		l, err := admin.Listen(dir)
		if err != nil {
			t.Fatal(err)
		}
		srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(tt.status)
			_, _ = io.WriteString(w, tt.body)
		})}
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = srv.Serve(l)
		}()
		c, err := admin.Dial(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		err = c.Call(t.Context(), "account.show", admin.Target{}, &admin.Account{})
		f, ok := errors.AsType[*fault.Fault](err)
		if !ok || f.Kind != tt.want || f.Message != "m" || f.Param != "p" {
			t.Errorf("the answer %d %s is %v, want %s", tt.status, tt.body, err, tt.want)
		}
		srv.Close()
		<-done
	}
}

func TestOnlyPost(t *testing.T) {
	t.Parallel()
	b, _ := newBackend(t)
	dir := t.TempDir()
	listen(t, dir, b)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(dir, admin.Socket))
	}}}
	resp, err := client.Get("http://sluice/account.list")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusNotFound || !strings.Contains(string(body), `"type":"not_found_error"`) {
		t.Errorf("GET /account.list = %d %s (%v), want 404 and a problem", resp.StatusCode, body, err)
	}
}

// A folder may lie deeper than a socket's address can say.
func TestLongFolder(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), strings.Repeat("deep/", 30), "data")
	if len(dir) < 150 {
		t.Fatalf("the path has %d bytes, want more than a socket's address can hold", len(dir))
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	b, _ := newBackend(t)
	c := listen(t, dir, b)
	if got := must[admin.Status](t, c, "status", admin.Empty{}); got.Version != "9" {
		t.Errorf("status = %+v, want the backend's", got)
	}
	if _, err := os.Stat(filepath.Join(dir, admin.Socket)); err != nil {
		t.Errorf("the socket: %v, want it inside the folder", err)
	}
}

func TestSocketIsTheOwners(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, admin.Socket)
	// What a server that was killed leaves behind does not matter.
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	b, _ := newBackend(t)
	listen(t, dir, b)
	info, err := os.Stat(path)
	if err != nil || info.Mode() != os.ModeSocket|0o600 {
		t.Errorf("the socket has mode %v (%v), want a socket for its owner alone", info.Mode(), err)
	}
}

func TestDialWithoutServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := admin.Dial(t.Context(), dir); err == nil {
		t.Error("Dial where there is no socket = nil, want an error")
	}
	l, err := admin.Listen(dir)
	if err != nil {
		t.Fatal(err)
	}
	l.Close() // the socket stays, as after kill -9
	if _, err := os.Stat(filepath.Join(dir, admin.Socket)); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.Dial(t.Context(), dir); err == nil {
		t.Error("Dial where nobody listens = nil, want an error")
	}
	if _, err := admin.Listen(filepath.Join(dir, "none")); err == nil {
		t.Error("Listen in a folder that does not exist = nil, want an error")
	}
}

func TestServerGoesAway(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l, err := admin.Listen(dir)
	if err != nil {
		t.Fatal(err)
	}
	go func() { // hangs up on everybody
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conn.Close()
		}
	}()
	t.Cleanup(func() { l.Close() })
	c, err := admin.Dial(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	err = c.Call(t.Context(), "status", admin.Empty{}, &admin.Status{})
	if err == nil || !strings.Contains(err.Error(), "the server did not answer") {
		t.Errorf("Call = %v, want that the server did not answer", err)
	}
}

// Profiles and metrics are on the socket, under the names that Go's tools know.
func TestDebug(t *testing.T) {
	t.Parallel()
	b := &admin.Backend{
		Debug: func() admin.Debug {
			return admin.Debug{Version: "1", Config: "listen: x\n", Problems: []string{"it broke"}}
		},
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "a_metric 1\n") }),
	}
	c := listen(t, t.TempDir(), b)
	for name, want := range map[string]string{
		"pprof/goroutine?debug=2": "goroutine ", "pprof/heap": "\x1f\x8b", "pprof/allocs": "\x1f\x8b", "pprof/goroutine": "\x1f\x8b",
		"pprof/threadcreate": "\x1f\x8b", "pprof/profile?seconds=1": "\x1f\x8b", "metrics": "a_metric 1\n",
	} {
		if got, err := c.Fetch(t.Context(), name); err != nil || !strings.HasPrefix(string(got), want) {
			t.Errorf("Fetch(%s) = %.20q, %v, want it to begin with %q", name, got, err, want)
		}
	}
	for _, name := range []string{"pprof/none", "pprof/", "", "../status"} {
		if got, err := c.Fetch(t.Context(), name); err == nil {
			t.Errorf("Fetch(%q) = %.20q, want an error", name, got)
		}
	}
	var d admin.Debug
	if err := c.Call(t.Context(), "debug", admin.Empty{}, &d); err != nil || d.Config != "listen: x\n" || len(d.Problems) != 1 {
		t.Errorf("debug = %+v, %v, want what the server says", d, err)
	}
	if err := admin.InProcess(&admin.Backend{}).Call(t.Context(), "debug", admin.Empty{}, &d); err == nil {
		t.Error("debug without a server = nil, want an error")
	}
}
