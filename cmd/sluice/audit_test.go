package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/internal/account"
	"sluice/internal/ledger/price"
	"sluice/internal/ledger/usage"
	"sluice/internal/store/sqlstore/alltest"
)

// TestAuditBudgets puts calls into the journal that keep to a budget, and then one that does not.
func TestAuditBudgets(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	if err := alltest.Prepare(data); err != nil {
		t.Fatal(err)
	}
	environ := append(os.Environ(), "SLUICE_LISTEN=127.0.0.1:0", "SLUICE_METRICS_LISTEN=", "SLUICE_SHUTDOWN_DELAY=0s", "GORACE="+quickExit)
	if err := install(filepath.Dir(data), environ, data); err != nil {
		t.Fatal(err)
	}
	store, err := alltest.Open(t.Context(), "sqlite", data)
	if err != nil {
		t.Fatal(err)
	}
	owner, err := store.FindAccount(t.Context(), account.OwnerEmail)
	if err = errors.Join(err, store.Close()); err != nil {
		t.Fatal(err)
	}
	start := time.Now().Add(-time.Hour).UTC().Truncate(time.Second)
	audit := func(calls ...usage.Settlement) (int, string) {
		j, err := usage.OpenJournal(filepath.Join(data, "journal"), nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := range calls {
			err = errors.Join(err, j.Append(&calls[i]))
		}
		if err = errors.Join(err, j.Close()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		var out, failed bytes.Buffer
		code := run(ctx, &program{args: []string{"audit", "--data", data}, stdout: &out, stderr: &failed})
		return code, out.String() + failed.String()
	}
	// call returns a call of 10 seconds that has reserved some of two dollars.
	call := func(id string, after time.Duration, reserved, cost price.Nano) usage.Settlement {
		const dollar = 1_000_000_000
		cost *= dollar / 100
		return usage.Settlement{
			ID: id, At: start.Add(after), AccountID: owner.ID, Plan: "basic", ModelAsked: "m", ModelUsed: "m", Status: 200, End: usage.EndComplete, Latency: 10 * time.Second, Cost: &cost,
			Terms: usage.Terms{Budgets: []usage.Charge{{Count: "bud_1", Holder: "node/a/1/1", Reserved: reserved * dollar / 100, Amount: 2 * dollar, After: time.Millisecond}}},
		}
	}
	code, out := audit(call("req_1", 0, 150, 10), call("req_2", 5*time.Second, 50, 50), call("req_3", 20*time.Second, 140, 40))
	if code != 0 || !strings.Contains(out, "3 charges of budgets followed, 0 budgets overspent.") {
		t.Errorf("sluice audit = %d %s, want nothing to be found", code, out)
	}
	code, out = audit(call("req_4", 22*time.Second, 3, 1))
	want := start.Add(22*time.Second+time.Millisecond).Format("2006-01-02 15:04:05.000") + " budget bud_1: 1.43 USD reserved and 0.60 USD spent are 0.03 USD more than its 2.00 USD, as at 0 more instants; requests req_3 req_4\n"
	if code != 1 || !strings.Contains(out, want) || !strings.Contains(out, "4 charges of budgets followed, 1 budgets overspent.") {
		t.Errorf("sluice audit = %d %s, want it to exit with 1 and to say %s", code, out, want)
	}
}
