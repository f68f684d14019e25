package account_test

import (
	"testing"

	"sluice/internal/account"
	"sluice/internal/kit/fault"
)

func TestSetEmail(t *testing.T) {
	t.Parallel()
	as, seen := newAccounts(t)
	a, _ := create(t, as, account.Basic)
	if _, _, err := as.Create(t.Context(), "t", "bob@example.com", account.None, false); err != nil {
		t.Fatal(err)
	}
	if _, err := as.SetEmail(t.Context(), "t", a.ID, " Ana@New.example "); err != nil || seen[a.ID].Email != "ana@new.example" {
		t.Errorf("SetEmail = %v, published %s", err, seen[a.ID].Email)
	}
	if _, err := as.SetEmail(t.Context(), "t", a.ID, "no address"); !fault.Is(err, fault.Invalid) {
		t.Errorf("SetEmail to no address = %v, want invalid", err)
	}
	if _, err := as.SetEmail(t.Context(), "t", a.ID, "bob@example.com"); !fault.Is(err, fault.Conflict) {
		t.Errorf("SetEmail to a taken address = %v, want a conflict", err)
	}
	if got := seen[a.ID].Email; got != "ana@new.example" {
		t.Errorf("the address after refusals = %s", got)
	}
}

func TestClose(t *testing.T) {
	t.Parallel()
	as, seen := newAccounts(t)
	a, master := create(t, as, account.Premium)
	_, sub, err := as.CreateKey(t.Context(), "t", a.ID, "laptop", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := as.Close(t.Context(), "owner", a.ID); err != nil {
		t.Fatalf("Close = %v", err)
	}
	closed := seen[a.ID]
	if closed.Plan != account.None || closed.Granted || closed.Suspended == nil || closed.Email == a.Email || len(closed.Keys) != 1 {
		t.Errorf("the closed account = %+v, want no plan, suspended, without its address and its keys", closed)
	}
	for _, raw := range []string{master, sub} {
		if closed.Keys[0].Hash == account.HashKey(raw) {
			t.Error("a key outlived its account")
		}
	}
	if _, _, err := as.Create(t.Context(), "t", a.Email, account.None, false); err != nil {
		t.Errorf("Create with the address of a closed account = %v, want it free", err)
	}
	if _, err := as.Unsuspend(t.Context(), "staff", a.ID); !fault.Is(err, fault.Conflict) || seen[a.ID].Suspended == nil {
		t.Errorf("Unsuspend of a closed account = %v, want a conflict", err)
	}
	log, err := as.History(t.Context(), a.ID, 0, 1)
	if err != nil || log[0].Action != "account.close" || log[0].Actor != "owner" {
		t.Errorf("the audit log has %+v, %v", log, err)
	}
}
