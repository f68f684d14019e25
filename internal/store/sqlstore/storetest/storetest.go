// Package storetest is the conformance suite that the store passes on every engine.
//
// It tests what the callers of the store rely on, so that SQLite and PostgreSQL cannot drift apart.
// Each test gets an empty database of its own, so tests run in parallel. A test of one engine's own
// behaviour, such as its locking, belongs to package sqlstore.
//
// The capabilities define the interfaces (account.Store, usage.Store and so on), and the packages beside this one
// implement them, each a part of the database. The files here follow the capabilities. A new method of the store needs
// a test here before a capability uses it.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/account"
	"sluice/internal/kit/fault"
	"sluice/internal/prompt/alias"
	"sluice/internal/prompt/chat"
	"sluice/internal/store/sqlstore"
	"sluice/internal/store/sqlstore/alltest"
)

// Database returns a function that opens one empty database. Calling it more than once stands for
// several processes on the same database, or for a restart. The stores are closed when the test ends.
type Database func(t testing.TB) (open func() *alltest.Store)

// Run runs the suite on databases of one engine. The names of the tests are the names of subtests, so
// "go test -run /VideoTurns" runs one of them on every engine.
func Run(t *testing.T, fresh Database) {
	tests := map[string]func(*testing.T, func() *alltest.Store){
		// Accounts and keys: this file.
		"CreateAndFind":     createAndFind,
		"EmailIsUnique":     emailIsUnique,
		"NotFound":          notFound,
		"ChangeEverything":  changeEverything,
		"ChangeRefused":     changeRefused,
		"ChangeNothing":     changeNothing,
		"KeysFollowChange":  keysFollowChange,
		"KeyLimits":         keyLimits,
		"OneMaster":         oneMaster,
		"SubKeysInParallel": subKeysInParallel,
		"ChangesInParallel": changesInParallel,
		"Pages":             pages,
		"AuditLog":          auditLog,
		"ChangedSince":      changedSince,
		"KeyUse":            keyUse,
		"Reopen":            reopen,
		"CanceledCallers":   canceledCallers,
		// Copies of everything: snapshot.go.
		"Snapshot": snapshot,
		// Usage: usage.go.
		"Settlements":     settlements,
		"SettledOnce":     settledOnce,
		"AuditUsage":      auditUsage,
		"DropSettlements": dropSettlements,
		"EachCall":        eachCall,
		"EachCharged":     eachCharged,
		// What calls cost, and corrections of it: costs.go.
		"CostsAgree": costsAgree,
		// What calls add up to by session and by tag, and the tags of keys: sessions.go.
		"SessionSums": sessionSums, "TagSums": tagSums, "KeyTags": keyTags,
		// Receipts of calls, and the keys that sign them: receipts.go.
		"Receipts":    receipts,
		"ReceiptKeys": receiptKeys,
		// Conversations that are shared: sharing.go.
		"Shares": shares,
		// What support finds, and refused calls: finder.go.
		"Search":   search,
		"Refusals": refusals,
		// Recorded replies: idempotency.go. States of conversations: continuation.go.
		"Replies":           replies,
		"ReplyOnce":         replyOnce,
		"RepliesGiveWay":    repliesGiveWay,
		"DropReplies":       dropReplies,
		"RepliesInParallel": repliesInParallel,
		"ReplyOfCanceled":   replyOfCanceled,
		"States":            states,
		// Stored responses: responses.go.
		"KeptResponses":       keptResponses,
		"ResponsesInParallel": responsesInParallel,
		"MovedResponses":      movedResponses,
		// Abuse control: abuse.go.
		"AbuseCounts":     abuseCounts,
		"AbuseEvents":     abuseEvents,
		"AbuseEventsOnce": abuseEventsOnce,
		// Video jobs, and the secret that signs links to them: videos.go.
		"Videos":       videos,
		"VideoChanges": videoChanges,
		"VideoOnce":    videoOnce,
		"VideoLoad":    videoLoad,
		"VideoTurns":   videoTurns,
		"VideoClaims":  videoClaims,
		"VideoExpiry":  videoExpiry,
		"Secrets":      secrets,
		// Billing: billing.go.
		"Books":           books,
		"Payments":        payments,
		"BillingDue":      billingDue,
		"BillingEvents":   billingEvents,
		"BillingStops":    billingStops,
		"TestObjects":     testObjects,
		"BooksInParallel": booksInParallel,
		"Answers":         answers,
		// Signing in: signin.go. Staff, notices and analytics have files of their own.
		"Logins":          logins,
		"Passkeys":        passkeys,
		"Sessions":        sessions,
		"Links":           links,
		"LinksBounded":    linksBounded,
		"LinksInParallel": linksInParallel,
		"StaffTokens":     staffTokens,
		"Notices":         notices,
		"Analytics":       analytics,
		"Activity":        activity,
		// Alerts: alerts.go.
		"AlertEndpoints":  alertEndpoints,
		"AlertDeliveries": alertDeliveries,
		"AlertSources":    alertSources,
		"AlertConditions": alertConditions,
		// Incidents, and who is told of them: incidents.go.
		"Incidents": incidents, "Subscribers": subscribers, "ToldToAll": toldToAll,
		// Tickets between customers and support: tickets.go.
		"Tickets":       tickets,
		"TicketQueue":   ticketQueue,
		"GatherTickets": gatherTickets,
		"JoinInquiries": joinInquiries,
		// What nodes know of each other for a short time: shared.go.
		"Claims":           claims,
		"ClaimsInParallel": claimsInParallel,
		"Conversations":    conversations,
		"Attempts":         attempts,
		// The log of the catalog: catalog.go.
		"Catalog":     catalogChanges,
		"CatalogOnce": catalogOnce,
		"DropChanges": dropChanges,
		"Prices":      prices,
		// Staff's decisions about the service: steering.go.
		"Orders":           orders,
		"OrdersInParallel": ordersInParallel,
		// What callers say about models: feedback.go.
		"Feedback": rated, "FeedbackInParallel": ratedInParallel, "Ways": learnedWays,
		// What vendors charge: reconciliations.go.
		"Reconciliations": reconciliations,
		// What nodes did lately, and revenue: overview.go.
		"Minutes": minutes, "HealthDays": healthDays,
		"Revenue": revenue,
		// Servers on one database: cluster.go.
		"ClusterNodes":   clusterNodes,
		"ClusterOnce":    clusterOnce,
		"ClusterJobs":    clusterJobs,
		"ClusterJobOnce": clusterJobOnce,
	}
	// The order of a map is random, which is right: the tests must not depend on each other.
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, fresh(t))
		})
	}
}

// base is the time at which the tests start. It has no fraction of a millisecond, which the store
// would drop.
var base = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// newAccount returns account number n, with a master key.
func newAccount(n int) *account.Account {
	id := fmt.Sprintf("acct_%03d", n)
	return &account.Account{
		ID: id, Email: fmt.Sprintf("a%d@example.com", n), Plan: account.Basic, Granted: true, CreatedAt: base, Version: 1,
		Keys: []account.Key{newKey(fmt.Sprintf("key_m%03d", n), true, "")},
	}
}

// newKey returns a key whose secret is derived from its id.
func newKey(id string, master bool, name string) account.Key {
	return account.Key{ID: id, Master: master, Name: name, Hash: account.HashKey("raw-" + id), LastFour: "abcd", CreatedAt: base}
}

// entry returns an audit entry with every field set.
func entry(id, action string) account.Entry {
	return account.Entry{At: base, Actor: "tester", Action: action, AccountID: id, Detail: "d", Reason: "r"}
}

// create stores a new account and returns it.
func create(t testing.TB, s *alltest.Store, n int) *account.Account {
	t.Helper()
	a := newAccount(n)
	if err := s.CreateAccount(t.Context(), a, entry(a.ID, "account.create")); err != nil {
		t.Fatalf("CreateAccount(%s) = %v", a.ID, err)
	}
	return a
}

// find returns an account by its id, address or key.
func find(t testing.TB, s *alltest.Store, ref string) *account.Account {
	t.Helper()
	a, err := s.FindAccount(t.Context(), ref)
	if err != nil {
		t.Fatalf("FindAccount(%s) = %v", ref, err)
	}
	return a
}

// change applies a change that must succeed and returns the account.
func change(t testing.TB, s *alltest.Store, id string, apply func(*account.Account)) *account.Account {
	t.Helper()
	a, err := s.ChangeAccount(t.Context(), id, func(a *account.Account) (account.Entry, error) {
		apply(a)
		return entry(id, "test.change"), nil
	})
	if err != nil {
		t.Fatalf("ChangeAccount(%s) = %v", id, err)
	}
	return a
}

// createAndFind checks that an account can be found by id, address and key, with every field
// intact. The dashboard and the command accept any of the three.
func createAndFind(t *testing.T, open func() *alltest.Store) {
	s := open()
	want := create(t, s, 1)
	create(t, s, 2)
	// The second account must not be found in place of the first.
	for _, ref := range []string{want.ID, want.Email, want.Keys[0].ID} {
		if diff := cmp.Diff(want, find(t, s, ref)); diff != "" {
			t.Errorf("FindAccount(%s): -want +got\n%s", ref, diff)
		}
	}
}

// emailIsUnique checks that two accounts cannot have one address, and that a refused one leaves no
// trace. Signing in relies on it: an address names one account.
func emailIsUnique(t *testing.T, open func() *alltest.Store) {
	s := open()
	create(t, s, 1)
	again := newAccount(2)
	again.Email = "a1@example.com"
	err := s.CreateAccount(t.Context(), again, entry(again.ID, "account.create"))
	if !fault.Is(err, fault.Conflict) {
		t.Fatalf("CreateAccount with a taken address = %v, want a conflict", err)
	}
	if _, err := s.FindAccount(t.Context(), again.ID); !fault.Is(err, fault.NotFound) {
		t.Errorf("FindAccount of the refused account = %v, want not found", err)
	}
	if log, err := s.AuditLog(t.Context(), again.ID, 0, 10); err != nil || len(log) != 0 {
		t.Errorf("AuditLog of the refused account = %v, %v, want nothing", log, err)
	}
	// The same holds for an account that takes the address later.
	other := create(t, s, 3)
	_, err = s.ChangeAccount(t.Context(), other.ID, func(a *account.Account) (account.Entry, error) {
		a.Email = "a1@example.com"
		return entry(a.ID, "account.set_email"), nil
	})
	if !fault.Is(err, fault.Conflict) || find(t, s, other.ID).Email != other.Email {
		t.Errorf("ChangeAccount to a taken address = %v, want a conflict and no change", err)
	}
}

// notFound checks the faults for an account that does not exist.
func notFound(t *testing.T, open func() *alltest.Store) {
	s := open()
	if _, err := s.FindAccount(t.Context(), "acct_none"); !fault.Is(err, fault.NotFound) {
		t.Errorf("FindAccount(acct_none) = %v, want not found", err)
	}
	_, err := s.ChangeAccount(t.Context(), "acct_none", func(*account.Account) (account.Entry, error) {
		t.Error("the change ran without an account")
		return account.Entry{}, nil
	})
	if !fault.Is(err, fault.NotFound) {
		t.Errorf("ChangeAccount(acct_none) = %v, want not found", err)
	}
}

// changeEverything checks that every field of an account is stored, and that optional ones can be
// cleared. A field that is added to Account belongs here.
func changeEverything(t *testing.T, open func() *alltest.Store) {
	s := open()
	a := create(t, s, 1)
	unlimited, seven := account.Unlimited, account.Limit(7)
	set := func(a *account.Account) {
		a.Email, a.Plan, a.Granted, a.Staff, a.ShowCost, a.Receipts = "new@example.com", account.Scale, false, true, true, true
		a.AutoCache = chat.On
		a.Overrides = account.Overrides{RequestsPerMinute: &unlimited, TokensPerMinute: &seven}
		a.Aliases, _ = alias.New(map[string]string{"gpt-*": "lab/large", "o": "lab/small"})
		a.Budgets = []account.Budget{{ID: "bud_1", Name: "all", Amount: 5_000_000_000, Window: account.Daily, Scope: account.BudgetScope{Account: true}, Hard: true, CreatedAt: base}}
		a.Runaway = account.Runaway{
			On: account.Pause, Factor: 7, Paused: []account.PausedKey{{KeyID: "key_1", At: base, Signal: "same_prompt", Seen: "The same prompt."}},
			Resumed: []account.ResumedKey{{KeyID: "key_2", At: base.Add(time.Minute)}},
		}
		a.Suspended = &account.Mark{At: base.Add(time.Hour), Reason: "terms", Final: true}
		a.Deactivated = &account.Mark{At: base.Add(2 * time.Hour), Reason: "score"}
	}
	got := change(t, s, a.ID, set)
	// The account that was created, with the same change made in memory, is what the store must return.
	set(a)
	a.Version = 2
	if diff := cmp.Diff(a, got); diff != "" {
		t.Errorf("ChangeAccount returned: -want +got\n%s", diff)
	}
	if diff := cmp.Diff(a, find(t, s, a.ID)); diff != "" {
		t.Errorf("FindAccount after the change: -want +got\n%s", diff)
	}
	// Nil must be stored as such: an override of zero would refuse every request.
	clearAll := func(a *account.Account) {
		a.Overrides, a.Aliases, a.Suspended, a.Deactivated, a.Runaway = account.Overrides{}, nil, nil, nil, account.Runaway{}
	}
	change(t, s, a.ID, clearAll)
	clearAll(a)
	a.Version = 3
	if diff := cmp.Diff(a, find(t, s, a.ID)); diff != "" {
		t.Errorf("FindAccount after clearing: -want +got\n%s", diff)
	}
}

// changeRefused checks that an error of the change rolls everything back and is returned unchanged.
// Rules are checked inside of changes, so callers must see their own errors.
func changeRefused(t *testing.T, open func() *alltest.Store) {
	s := open()
	want := create(t, s, 1)
	no := fault.New(fault.Conflict, "no")
	_, err := s.ChangeAccount(t.Context(), want.ID, func(a *account.Account) (account.Entry, error) {
		a.Plan = account.Scale
		a.Keys = append(a.Keys, newKey("key_x", false, "x"))
		return entry(a.ID, "test.change"), no
	})
	if !errors.Is(err, no) {
		t.Fatalf("ChangeAccount = %v, want the change's own error", err)
	}
	if diff := cmp.Diff(want, find(t, s, want.ID)); diff != "" {
		t.Errorf("a refused change left a trace: -want +got\n%s", diff)
	}
}

// changeNothing checks that a change without an audit entry leaves the version and the log as they
// were, so that nodes do not reload an account that is the same.
func changeNothing(t *testing.T, open func() *alltest.Store) {
	s := open()
	want := create(t, s, 1)
	got, err := s.ChangeAccount(t.Context(), want.ID, func(*account.Account) (account.Entry, error) { return account.Entry{}, nil })
	if err != nil {
		t.Fatalf("ChangeAccount without a change = %v", err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("ChangeAccount without a change: -want +got\n%s", diff)
	}
	if log, _ := s.AuditLog(t.Context(), want.ID, 0, 10); len(log) != 1 {
		t.Errorf("AuditLog has %d entries, want only that of the creation", len(log))
	}
}

// keysFollowChange checks that adding, renaming and removing keys in a change is stored.
func keysFollowChange(t *testing.T, open func() *alltest.Store) {
	s := open()
	a := create(t, s, 1)
	one, two := newKey("key_1", false, "one"), newKey("key_2", false, "two")
	// Keys are listed in the order of their creation.
	two.CreatedAt = base.Add(time.Second)
	change(t, s, a.ID, func(a *account.Account) { a.Keys = append(a.Keys, one, two) })
	change(t, s, a.ID, func(a *account.Account) { a.Keys[1].Name = "uno" })
	one.Name = "uno"
	if diff := cmp.Diff([]account.Key{a.Keys[0], one, two}, find(t, s, a.ID).Keys); diff != "" {
		t.Errorf("keys after adding and renaming: -want +got\n%s", diff)
	}
	change(t, s, a.ID, func(a *account.Account) { a.Keys = []account.Key{a.Keys[0], a.Keys[2]} })
	if diff := cmp.Diff([]account.Key{a.Keys[0], two}, find(t, s, a.ID).Keys); diff != "" {
		t.Errorf("keys after a deletion: -want +got\n%s", diff)
	}
	// A deleted key must not open anything.
	if _, err := s.FindAccount(t.Context(), one.ID); !fault.Is(err, fault.NotFound) {
		t.Errorf("FindAccount by a deleted key = %v, want not found", err)
	}
}

// oneMaster checks that a master key can be replaced but never doubled (docs/api.md#accounts-and-keys).
// The database itself refuses the second one.
func oneMaster(t *testing.T, open func() *alltest.Store) {
	s := open()
	a := create(t, s, 1)
	next := newKey("key_m2", true, "")
	change(t, s, a.ID, func(a *account.Account) { a.Keys = []account.Key{next} })
	if diff := cmp.Diff([]account.Key{next}, find(t, s, a.ID).Keys); diff != "" {
		t.Errorf("keys after replacing the master key: -want +got\n%s", diff)
	}
	_, err := s.ChangeAccount(t.Context(), a.ID, func(a *account.Account) (account.Entry, error) {
		a.Keys = append(a.Keys, newKey("key_m3", true, ""))
		return entry(a.ID, "test.change"), nil
	})
	if err == nil {
		t.Error("an account got a second master key")
	}
}

// keyLimits checks that the limits of a key, and who made it, come back as they were stored.
func keyLimits(t *testing.T, open func() *alltest.Store) {
	s := open()
	a := create(t, s, 1)
	as := account.New(s, nil)
	five, many := account.Limit(5), account.MostLimit
	limits := &account.KeyLimits{
		RequestsPerMinute: &five, TokensPerMinute: &many, Models: []string{"a/b", "c"},
		Addresses: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8::/32")}, ExpiresAt: time.Now().Add(time.Hour).UTC().Truncate(time.Second),
	}
	k, _, err := as.CreateKey(t.Context(), "tester", a.ID, "limited", limits)
	if err != nil {
		t.Fatal(err)
	}
	check := func(when string, want *account.KeyLimits) {
		t.Helper()
		if got := find(t, s, a.ID).Key(k.ID); got == nil || !reflect.DeepEqual(got.Limits, want) || got.CreatedBy != "tester" {
			t.Errorf("%s the key is %+v, want limits %+v", when, got, want)
		}
	}
	check("after it was made", limits)
	if _, err := as.RenameKey(t.Context(), "tester", k.ID, "renamed"); err != nil {
		t.Fatal(err)
	}
	check("after it was renamed", limits)
	if _, err := as.LimitKey(t.Context(), "tester", k.ID, &account.KeyLimits{UnitsPerMonth: &five}); err != nil {
		t.Fatal(err)
	}
	check("with another limit", &account.KeyLimits{UnitsPerMonth: &five})
	before := find(t, s, a.ID).Version
	if _, err := as.LimitKey(t.Context(), "tester", k.ID, &account.KeyLimits{UnitsPerMonth: &five}); err != nil || find(t, s, a.ID).Version != before {
		t.Errorf("the same limits again = %v at version %d, want no change of version %d", err, find(t, s, a.ID).Version, before)
	}
	if _, err := as.LimitKey(t.Context(), "tester", k.ID, nil); err != nil {
		t.Fatal(err)
	}
	check("without limits", nil)
}

// subKeysInParallel checks that the limit on sub-keys holds for concurrent requests
// (docs/api.md#other-constants). Counting before the transaction would let some slip through.
func subKeysInParallel(t *testing.T, open func() *alltest.Store) {
	s := open()
	a := create(t, s, 1)
	// The limit is a rule of package account; the store must make its check and its change one step.
	as := account.New(s, nil)
	var made, refused atomic.Int32
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			_, _, err := as.CreateKey(t.Context(), "tester", a.ID, fmt.Sprint("key ", i), nil)
			switch {
			case err == nil:
				made.Add(1)
			case fault.Is(err, fault.Conflict):
				refused.Add(1)
			default:
				t.Errorf("CreateKey = %v", err)
			}
		})
	}
	wg.Wait()
	if made.Load() != account.MaxSubKeys || refused.Load() != 50-account.MaxSubKeys {
		t.Errorf("50 parallel CreateKey made %d and refused %d, want %d and %d", made.Load(), refused.Load(), account.MaxSubKeys, 50-account.MaxSubKeys)
	}
	if n := find(t, s, a.ID).SubKeys(); n != account.MaxSubKeys {
		t.Errorf("the account has %d sub-keys, want %d", n, account.MaxSubKeys)
	}
}

// changesInParallel checks that no concurrent change is lost, and that numbers appear in order. A node
// that polls ChangedSince would miss a change whose number appeared after a higher one.
func changesInParallel(t *testing.T, open func() *alltest.Store) {
	s := open()
	accounts := []*account.Account{create(t, s, 1), create(t, s, 2)}
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() { change(t, s, accounts[i%2].ID, func(a *account.Account) { a.Staff = !a.Staff }) })
	}
	wg.Wait()
	for _, a := range accounts {
		if v := find(t, s, a.ID).Version; v != 21 {
			t.Errorf("%s is at version %d after 20 changes, want 21", a.ID, v)
		}
	}
	// Two creations and forty changes.
	last, err := s.LastChange(t.Context())
	if err != nil || last != 42 {
		t.Errorf("LastChange() = %d, %v, want 42", last, err)
	}
}

// pages checks that reading the accounts in pages yields each of them once, with its keys. Seven
// accounts in pages of three make the last page an incomplete one.
func pages(t *testing.T, open func() *alltest.Store) {
	s := open()
	for n := range 7 {
		a := create(t, s, n)
		if n%2 == 0 {
			change(t, s, a.ID, func(a *account.Account) { a.Keys = append(a.Keys, newKey("key_s"+a.ID, false, "s")) })
		}
	}
	var got []string
	after := ""
	for {
		list, err := s.Accounts(t.Context(), after, 3)
		if err != nil {
			t.Fatalf("Accounts(%q) = %v", after, err)
		}
		for _, a := range list {
			got = append(got, a.ID)
			if diff := cmp.Diff(find(t, s, a.ID), a); diff != "" {
				t.Errorf("Accounts and FindAccount differ: -found +listed\n%s", diff)
			}
		}
		if len(list) < 3 {
			break
		}
		after = list[len(list)-1].ID
	}
	want := []string{"acct_000", "acct_001", "acct_002", "acct_003", "acct_004", "acct_005", "acct_006"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("pages: -want +got\n%s", diff)
	}
	// More ids than one statement takes.
	asked := slices.Concat([]string{"acct_nobody"}, slices.Repeat(want, 30), []string{"acct_noone"})
	if missing, err := s.MissingAccounts(t.Context(), asked); err != nil || !slices.Equal(missing, []string{"acct_nobody", "acct_noone"}) {
		t.Errorf("MissingAccounts = %v, %v, want the two that do not exist", missing, err)
	}
}

// auditLog checks the order and the numbers of audit entries: newest first, numbered over all accounts.
func auditLog(t *testing.T, open func() *alltest.Store) {
	s := open()
	a := create(t, s, 1)
	create(t, s, 2)
	change(t, s, a.ID, func(a *account.Account) { a.Staff = true })
	got, err := s.AuditLog(t.Context(), a.ID, 0, 10)
	if err != nil {
		t.Fatal(err)
	}
	want := []account.Entry{entry(a.ID, "test.change"), entry(a.ID, "account.create")}
	want[0].Seq, want[1].Seq = 3, 1
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("AuditLog: -want +got\n%s", diff)
	}
	if got, _ := s.AuditLog(t.Context(), a.ID, 0, 1); len(got) != 1 || got[0].Seq != 3 {
		t.Errorf("AuditLog with limit 1 = %v, want the newest", got)
	}
	var plans []int64
	for _, e := range []account.Entry{
		{Action: "account.set_plan", Detail: "free to basic"}, {Action: "billing.started", Detail: "basic to scale"}, {Action: "billing.charged", Detail: "12"}, {Action: "account.note", Detail: "he wants to pay"},
	} {
		_, err := s.ChangeAccount(t.Context(), a.ID, func(*account.Account) (account.Entry, error) {
			made := entry(a.ID, e.Action)
			made.Detail = e.Detail
			return made, nil
		})
		must(t, err)
	}
	which := account.Actions{Of: []string{"account.set_plan", "billing.%"}, Not: []string{"billing.charged"}}
	for _, tt := range []struct {
		before int64
		limit  int
	}{{0, 10}, {0, 1}, {5, 10}} {
		changes, err := s.AuditLogOf(t.Context(), a.ID, which, tt.before, tt.limit)
		must(t, err)
		for _, e := range changes {
			plans = append(plans, e.Seq)
		}
	}
	if !slices.Equal(plans, []int64{5, 4, 5, 4}) {
		t.Errorf("AuditLogOf = %v, want the two about plans with the newest first, the newest, and the one before it", plans)
	}
}

// changedSince checks that a node finds the accounts that others have changed, each once.
func changedSince(t *testing.T, open func() *alltest.Store) {
	s := open()
	a, b := create(t, s, 1), create(t, s, 2)
	seen, err := s.LastChange(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if ids, newest, err := s.ChangedSince(t.Context(), seen); err != nil || len(ids) != 0 || newest != seen {
		t.Errorf("ChangedSince(%d) = %v, %d, %v, want nothing new", seen, ids, newest, err)
	}
	// Two changes of one account are one entry of the list.
	change(t, s, b.ID, func(a *account.Account) { a.Staff = true })
	change(t, s, b.ID, func(a *account.Account) { a.Staff = false })
	ids, newest, err := s.ChangedSince(t.Context(), seen)
	if err != nil || !cmp.Equal(ids, []string{b.ID}) || newest != seen+2 {
		t.Errorf("ChangedSince(%d) = %v, %d, %v, want [%s], %d (and not %s)", seen, ids, newest, err, b.ID, seen+2, a.ID)
	}
}

// keyUse checks that the last use of a key only moves forward and does not count as a change. Several
// nodes report it late and out of order, and a deleted key may be among the reports.
func keyUse(t *testing.T, open func() *alltest.Store) {
	s := open()
	a := create(t, s, 1)
	id := a.Keys[0].ID
	record := func(at time.Time) {
		t.Helper()
		if err := s.RecordKeyUse(t.Context(), map[string]time.Time{id: at, "key_gone": at}); err != nil {
			t.Fatalf("RecordKeyUse = %v", err)
		}
	}
	record(base.Add(time.Hour))
	record(base) // an older time changes nothing
	got := find(t, s, a.ID)
	if want := base.Add(time.Hour); !got.Keys[0].LastUsedAt.Equal(want) {
		t.Errorf("LastUsedAt = %v, want %v", got.Keys[0].LastUsedAt, want)
	}
	if got.Version != 1 {
		t.Errorf("using a key changed the account to version %d", got.Version)
	}
}

// reopen checks that a second process sees what the first has stored.
func reopen(t *testing.T, open func() *alltest.Store) {
	first := open()
	want := create(t, first, 1)
	if diff := cmp.Diff(want, find(t, open(), want.ID)); diff != "" {
		t.Errorf("a second opening sees: -want +got\n%s", diff)
	}
}

// canceledCallers checks that the change of a caller who has left is not stored. The caller would
// otherwise never learn of a key that was created.
func canceledCallers(t *testing.T, open func() *alltest.Store) {
	s := open()
	a := create(t, s, 1)
	// Canceled before the call, so that the outcome does not depend on timing.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.ChangeAccount(ctx, a.ID, func(a *account.Account) (account.Entry, error) {
		a.Staff = true
		return entry(a.ID, "test.change"), nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("ChangeAccount for a caller who left = %v, want context.Canceled", err)
	}
	if find(t, s, a.ID).Staff {
		t.Error("the change was made all the same")
	}
}

// answers checks Ping and Engine.
func answers(t *testing.T, open func() *alltest.Store) {
	s := open()
	if err := s.Ping(t.Context()); err != nil {
		t.Errorf("Ping() = %v", err)
	}
	if e := s.Engine(); e != sqlstore.SQLite && e != sqlstore.Postgres {
		t.Errorf("Engine() = %q", e)
	}
}
