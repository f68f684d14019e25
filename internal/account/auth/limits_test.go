package auth_test

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"sluice/internal/account"
	"sluice/internal/kit/fault"
)

// A key works until it expires and from its own addresses; a change of that holds for the next request.
func TestConfinedKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, _ := w.create(t)
	five := account.Limit(5)
	k, raw, err := w.accounts.CreateKey(t.Context(), "t", a.ID, "office", &account.KeyLimits{Addresses: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}, RequestsPerMinute: &five})
	if err != nil {
		t.Fatal(err)
	}
	header := []string{"Bearer " + raw}
	try := func(remote, want string) {
		t.Helper()
		c, err := w.auth.Authenticate(t.Context(), header, remote)
		switch {
		case want == "" && (err != nil || c.KeyID != k.ID):
			t.Errorf("from %s: %v, want the caller", remote, err)
		case want != "" && (!fault.Is(err, fault.Unauthenticated) || !strings.Contains(err.Error(), want)):
			t.Errorf("from %s: %v, want 401 with %q", remote, err, want)
		}
	}
	try("192.0.2.9", "")
	try("198.51.100.1", "may not be used from the address 198.51.100.1")
	try("", "may not be used")
	inside, err := w.auth.Authenticate(t.Context(), header, "192.0.2.9")
	if err != nil || inside.Limits == nil || *inside.Limits.RequestsPerMinute != 5 {
		t.Fatalf("the caller's limits = %+v, %v", inside.Limits, err)
	}
	soon := time.Now().Add(time.Hour)
	if _, err := w.accounts.LimitKey(t.Context(), "t", k.ID, &account.KeyLimits{ExpiresAt: soon}); err != nil {
		t.Fatal(err)
	}
	try("198.51.100.1", "")
	if c, err := w.auth.Again(inside); err != nil || c.Limits.ExpiresAt.IsZero() {
		t.Errorf("Again = %+v, %v, want the new limits", c.Limits, err)
	}
	// The clock of the accounts is not that of requests: a key that has expired meanwhile.
	past := *w.index.Account(a.ID)
	past.Version++
	past.Keys = append([]account.Key(nil), past.Keys...)
	for i := range past.Keys {
		if past.Keys[i].ID == k.ID {
			past.Keys[i].Limits = &account.KeyLimits{ExpiresAt: time.Date(2020, 1, 2, 3, 4, 0, 0, time.UTC)}
		}
	}
	w.index.Put(&past)
	try("192.0.2.9", "expired on 2 January 2020 at 03:04 UTC")
	if _, err := w.auth.Again(inside); !fault.Is(err, fault.Unauthenticated) {
		t.Errorf("Again with an expired key = %v, want 401", err)
	}
}
