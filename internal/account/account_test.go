package account_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"sluice/internal/account"
	"sluice/internal/kit/fault"
	"sluice/internal/store/sqlstore/alltest"
)

// published is what an index would know: the newest state of each account.
type published map[string]*account.Account

func newAccounts(t *testing.T) (*account.Accounts, published) {
	t.Helper()
	s, err := alltest.Open(t.Context(), "sqlite", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	seen := published{}
	return account.New(s, &account.Options{OnChange: func(a *account.Account) { seen[a.ID] = a }}), seen
}

func create(t *testing.T, as *account.Accounts, plan account.Plan) (*account.Account, string) {
	t.Helper()
	a, raw, err := as.Create(t.Context(), "tester", "Ana@Example.com", plan, false)
	if err != nil {
		t.Fatalf("Create = %v", err)
	}
	return a, raw
}

func TestCreate(t *testing.T) {
	t.Parallel()
	as, seen := newAccounts(t)
	a, raw := create(t, as, account.Basic)
	if a.Email != "ana@example.com" || !a.Granted || a.Plan != account.Basic || len(a.Keys) != 1 {
		t.Errorf("Create = %+v, want a granted basic plan, a lower-case address and one key", a)
	}
	k := a.Master()
	if k == nil || k.Hash != account.HashKey(raw) || !strings.HasSuffix(raw, k.LastFour) || !account.Wellformed("service", raw) {
		t.Errorf("master key %+v does not belong to the raw key", k)
	}
	if seen[a.ID] != a {
		t.Error("the new account was not published")
	}
	for _, email := range []string{"", "ana", "ana@", "Ana <ana@example.com>", "a b@example.com", strings.Repeat("x", 250) + "@example.com"} {
		if _, _, err := as.Create(t.Context(), "tester", email, account.None, false); !fault.Is(err, fault.Invalid) {
			t.Errorf("Create(%.20q) = %v, want invalid", email, err)
		}
	}
	if _, _, err := as.Create(t.Context(), "tester", "ANA@example.com", account.None, false); !fault.Is(err, fault.Conflict) {
		t.Errorf("Create with a taken address = %v, want a conflict", err)
	}
}

// TestTransitions walks through every change and holds the outcome, what was published and the audit
// log against each other.
func TestTransitions(t *testing.T) {
	t.Parallel()
	as, seen := newAccounts(t)
	a, first := create(t, as, account.None)
	ctx, id := t.Context(), a.ID
	five := account.Limit(5)
	yes, no := true, false

	_, subRaw, err := as.CreateKey(ctx, "tester", id, "laptop", nil)
	if err != nil {
		t.Fatal(err)
	}
	steps := []struct {
		name   string
		do     func() error
		holds  func(*account.Account) bool
		action string // of the audit entry; empty: nothing changes
	}{
		{
			"set-plan", func() error { _, err := as.SetPlan(ctx, "t", a.Email, account.Premium); return err },
			func(a *account.Account) bool { return a.Plan == account.Premium && a.Granted }, "account.set_plan",
		},
		{
			"set-plan again", func() error { _, err := as.SetPlan(ctx, "t", id, account.Premium); return err },
			func(a *account.Account) bool { return a.Plan == account.Premium }, "",
		},
		{
			"set-plan none", func() error { _, err := as.SetPlan(ctx, "t", id, account.None); return err },
			func(a *account.Account) bool { return a.Plan == account.None && !a.Granted }, "account.set_plan",
		},
		{"limits", func() error {
			_, err := as.SetLimits(ctx, "t", id, account.Overrides{Concurrent: &five})
			return err
		}, func(a *account.Account) bool {
			return *a.Overrides.Concurrent == 5 && a.Overrides.RequestsPerMinute == nil
		}, "account.set_limits"},
		{
			"clear limits", func() error { _, err := as.ClearLimits(ctx, "t", id); return err },
			func(a *account.Account) bool { return a.Overrides == account.Overrides{} }, "account.clear_limits",
		},
		{
			"aliases", func() error {
				_, err := as.SetAliases(ctx, "t", id, map[string]string{"gpt-*": "lab/large"})
				return err
			},
			func(a *account.Account) bool { got, _ := a.Aliases.Find("gpt-5"); return got == "lab/large" }, "account.set_aliases",
		},
		{
			"the same aliases", func() error {
				_, err := as.SetAliases(ctx, "t", id, map[string]string{"gpt-*": "lab/large"})
				return err
			},
			func(a *account.Account) bool { return a.Aliases != nil }, "",
		},
		{
			"no aliases", func() error { _, err := as.SetAliases(ctx, "t", id, nil); return err },
			func(a *account.Account) bool { return a.Aliases == nil }, "account.set_aliases",
		},
		{
			"replies", func() error {
				_, err := as.SetReplies(ctx, "t", id, account.Replies{ShowCost: &yes, Receipts: &yes})
				return err
			},
			func(a *account.Account) bool { return a.ShowCost && a.Receipts }, "account.set_replies",
		},
		{
			"the same replies", func() error {
				_, err := as.SetReplies(ctx, "t", id, account.Replies{Receipts: &yes})
				return err
			},
			func(a *account.Account) bool { return a.ShowCost && a.Receipts }, "",
		},
		{
			"no cost in replies", func() error {
				_, err := as.SetReplies(ctx, "t", id, account.Replies{ShowCost: &no})
				return err
			},
			func(a *account.Account) bool { return !a.ShowCost && a.Receipts }, "account.set_replies",
		},
		{
			"suspend", func() error { _, err := as.Suspend(ctx, "t", id, "terms"); return err },
			func(a *account.Account) bool { return a.Suspended != nil && a.Suspended.Reason == "terms" }, "account.suspend",
		},
		{
			"suspend again", func() error { _, err := as.Suspend(ctx, "t", id, "other"); return err },
			func(a *account.Account) bool { return a.Suspended.Reason == "terms" }, "",
		},
		{
			"unsuspend", func() error { _, err := as.Unsuspend(ctx, "t", id); return err },
			func(a *account.Account) bool { return a.Suspended == nil }, "account.unsuspend",
		},
		{
			"deactivate", func() error { _, err := as.Deactivate(ctx, "t", id, "score 100"); return err },
			func(a *account.Account) bool { return a.Deactivated != nil }, "keys.deactivate",
		},
		{
			"regenerate while deactivated", func() error { _, err := as.RegenerateMaster(ctx, "t", id); return err },
			func(a *account.Account) bool {
				return a.Deactivated != nil && a.Master().Hash != account.HashKey(first)
			}, "key.regenerate_master",
		},
		{
			"restore", func() error { _, err := as.Restore(ctx, "t", id); return err },
			func(a *account.Account) bool { return a.Deactivated == nil }, "keys.restore",
		},
		{
			"restore again", func() error { _, err := as.Restore(ctx, "t", id); return err },
			func(a *account.Account) bool { return a.Deactivated == nil }, "",
		},
		{
			"rename", func() error { _, err := as.RenameKey(ctx, "t", seen[id].Keys[1].ID, "desk"); return err },
			func(a *account.Account) bool {
				return a.Keys[1].Name == "desk" && a.Keys[1].Hash == account.HashKey(subRaw)
			}, "key.rename",
		},
		{
			"delete", func() error { return as.DeleteKey(ctx, "t", seen[id].Keys[1].ID) },
			func(a *account.Account) bool { return len(a.Keys) == 1 && a.Keys[0].Master }, "key.delete",
		},
	}
	for _, s := range steps {
		before := seen[id].Version
		if err := s.do(); err != nil {
			t.Fatalf("%s = %v", s.name, err)
		}
		if !s.holds(seen[id]) {
			t.Errorf("%s: published %+v", s.name, seen[id])
		}
		log, err := as.History(ctx, id, 0, 1)
		if err != nil {
			t.Fatal(err)
		}
		want := before
		if s.action != "" {
			want++
			if log[0].Action != s.action || log[0].Actor != "t" {
				t.Errorf("%s: audit entry %+v, want action %s by t", s.name, log[0], s.action)
			}
		}
		if seen[id].Version != want {
			t.Errorf("%s: version %d after %d, want %d", s.name, seen[id].Version, before, want)
		}
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	as, seen := newAccounts(t)
	a, _ := create(t, as, account.Free)
	ctx := t.Context()
	for i := range account.MaxSubKeys {
		if _, _, err := as.CreateKey(ctx, "t", a.ID, fmt.Sprint("k", i), nil); err != nil {
			t.Fatal(err)
		}
	}
	master := seen[a.ID].Master().ID
	tests := []struct {
		name string
		do   func() error
		want fault.Kind
	}{
		{"an eleventh sub-key", func() error { _, _, err := as.CreateKey(ctx, "t", a.ID, "k", nil); return err }, fault.Conflict},
		{"a key without a name", func() error { _, _, err := as.CreateKey(ctx, "t", a.ID, " ", nil); return err }, fault.Invalid},
		{"a name with a newline", func() error { _, err := as.RenameKey(ctx, "t", master, "a\nb"); return err }, fault.Invalid},
		{"renaming the master key", func() error { _, err := as.RenameKey(ctx, "t", master, "x"); return err }, fault.Invalid},
		{"deleting the master key", func() error { return as.DeleteKey(ctx, "t", master) }, fault.Invalid},
		{"deleting an unknown key", func() error { return as.DeleteKey(ctx, "t", "key_none") }, fault.NotFound},
		{"an unknown account", func() error { _, err := as.SetPlan(ctx, "t", "acct_none", account.Free); return err }, fault.NotFound},
		{"suspending without a reason", func() error { _, err := as.Suspend(ctx, "t", a.ID, " "); return err }, fault.Invalid},
		{"deactivating without a reason", func() error { _, err := as.Deactivate(ctx, "t", a.ID, ""); return err }, fault.Invalid},
	}
	for _, tt := range tests {
		before := seen[a.ID].Version
		if err := tt.do(); !fault.Is(err, tt.want) {
			t.Errorf("%s = %v, want %s", tt.name, err, tt.want)
		}
		if seen[a.ID].Version != before {
			t.Errorf("%s changed the account", tt.name)
		}
	}
}

func TestWellformed(t *testing.T) {
	t.Parallel()
	as, _ := newAccounts(t)
	_, raw := create(t, as, account.None)
	if len(raw) < len("service-")+40 {
		t.Errorf("key %d characters long, want 40 random ones behind the prefix", len(raw))
	}
	if !account.Wellformed("service", raw) {
		t.Error("a fresh key is not well-formed")
	}
	for i := len("service-"); i < len(raw); i++ {
		for _, c := range []byte("0Za") {
			if raw[i] == c {
				continue
			}
			if typo := raw[:i] + string(c) + raw[i+1:]; account.Wellformed("service", typo) {
				t.Errorf("a key with character %d changed is well-formed", i)
			}
		}
		if i+1 < len(raw) && raw[i] != raw[i+1] {
			if swap := raw[:i] + string(raw[i+1]) + string(raw[i]) + raw[i+2:]; account.Wellformed("service", swap) {
				t.Errorf("a key with characters %d and %d swapped is well-formed", i, i+1)
			}
		}
	}
	for _, bad := range []string{"", "service-", raw[:len(raw)-1], raw + "0"} {
		if account.Wellformed("service", bad) {
			t.Errorf("Wellformed(%q) = true, want false", bad)
		}
	}
}

// The page for teams has the limits of the built-in plans.
func TestPlansInDocs(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/teams/README.md")
	if err != nil {
		t.Fatal(err)
	}
	plans := account.BuiltinPlans()
	for plan, name := range map[account.Plan]string{account.Free: "`none`, `free`", account.Basic: "`basic`", account.Premium: "`premium`", account.Scale: "`scale`"} {
		p := plans[plan]
		row := fmt.Sprintf("| %s | %d | %d | %s |", name, p.RequestsPerMinute, p.Concurrent, grouped(int64(p.TokensPerMinute)))
		if !strings.Contains(string(page), row) {
			t.Errorf("docs/teams/README.md has no row that begins with %s", row)
		}
	}
}

// grouped returns a number with a comma before each group of three digits.
func grouped(n int64) string {
	text := strconv.FormatInt(n, 10)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

func TestPlans(t *testing.T) {
	t.Parallel()
	// The contract's table, and decisions about what it leaves open.
	want := map[account.Plan][4]int64{
		account.None: {2, 2, 150_000, 0}, account.Free: {2, 2, 150_000, 0}, account.Basic: {10, 5, 500_000, 1000},
		account.Premium: {30, 15, 2_000_000, 2500}, account.Scale: {80, 50, 8_000_000, 7500},
	}
	plans := account.BuiltinPlans()
	for p, w := range want {
		got := [4]int64{int64(plans[p].RequestsPerMinute), int64(plans[p].Concurrent), int64(plans[p].TokensPerMinute), plans[p].PriceCents}
		if got != w {
			t.Errorf("terms of %s = %v, want %v", p, got, w)
		}
	}
	tiers := []account.Plan{account.Free, account.Basic, account.Premium}
	includes := map[account.Plan][3]bool{
		account.None: {true, false, false}, account.Free: {true, false, false}, account.Basic: {true, true, false},
		account.Premium: {true, true, true}, account.Scale: {true, true, true},
	}
	for p, w := range includes {
		for i, tier := range tiers {
			if got := p.Includes(tier); got != w[i] {
				t.Errorf("%s.Includes(%s) = %t, want %t", p, tier, got, w[i])
			}
		}
		if got, want := p.IncludesTools(), p >= account.Basic; got != want {
			t.Errorf("%s.IncludesTools() = %t, want %t", p, got, want)
		}
		if back, err := account.ParsePlan(p.String()); err != nil || back != p {
			t.Errorf("ParsePlan(%s) = %v, %v", p, back, err)
		}
	}
	if _, err := account.ParsePlan("gold"); err == nil {
		t.Error("ParsePlan(gold) = nil, want an error")
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	unlimited, zero := account.Unlimited, account.Limit(0)
	plan := account.Limits{RequestsPerMinute: 1, Concurrent: 2, TokensPerMinute: 3}
	got := plan.Over(account.Overrides{RequestsPerMinute: &unlimited, TokensPerMinute: &zero})
	if want := (account.Limits{RequestsPerMinute: account.Unlimited, Concurrent: 2, TokensPerMinute: 0}); got != want {
		t.Errorf("Over = %+v, want %+v", got, want)
	}
	for text, want := range map[string]account.Limit{"7": 7, `"unlimited"`: account.Unlimited, "0": 0} {
		var l account.Limit
		if err := l.UnmarshalJSON([]byte(text)); err != nil || l != want {
			t.Errorf("UnmarshalJSON(%s) = %d, %v, want %d", text, l, err, want)
		}
		if back, err := l.MarshalJSON(); err != nil || string(back) != text {
			t.Errorf("MarshalJSON(%d) = %s, %v, want %s", l, back, err, text)
		}
	}
	for _, text := range []string{"-1", "1.5", `"many"`, "null1"} {
		var l account.Limit
		if err := l.UnmarshalJSON([]byte(text)); err == nil {
			t.Errorf("UnmarshalJSON(%s) = %d, want an error", text, l)
		}
	}
}

func TestClockIsKeptToTheMillisecond(t *testing.T) {
	t.Parallel()
	as, _ := newAccounts(t)
	a, _ := create(t, as, account.None)
	if a.CreatedAt != a.CreatedAt.Truncate(time.Millisecond) || a.CreatedAt.Location() != time.UTC {
		t.Errorf("CreatedAt = %v, want UTC milliseconds, as it is stored", a.CreatedAt)
	}
}
