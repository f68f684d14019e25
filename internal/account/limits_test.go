package account_test

import (
	"net/netip"
	"reflect"
	"testing"
	"time"

	"sluice/internal/account"
	"sluice/internal/kit/fault"
)

func limit(n int64) *account.Limit {
	l := account.Limit(n)
	return &l
}

func TestKeyLimitsReach(t *testing.T) {
	t.Parallel()
	list, err := account.ParseAddresses("10.1.2.3/8, 203.0.113.7\n2001:db8::/32 ::ffff:198.51.100.1")
	if err != nil {
		t.Fatal(err)
	}
	l := &account.KeyLimits{Addresses: list, Models: []string{"a"}}
	for address, want := range map[string]bool{
		"10.255.0.1": true, "11.0.0.1": false, "203.0.113.7": true, "203.0.113.8": false, "::ffff:10.0.0.1": true, "2001:db8:1::1": true,
		"2001:db9::1": false, "fe80::1%eth0": false, "198.51.100.1": true, "": false, "in-process": false,
	} {
		if got := l.Reaches(address); got != want {
			t.Errorf("Reaches(%q) = %t, want %t", address, got, want)
		}
	}
	if !l.Allows("a") || l.Allows("b") {
		t.Error("a key limited to one model allows another, or not that one")
	}
	var none *account.KeyLimits
	if !none.Reaches("") || !none.Allows("b") || none.Counted() || none.Expired(time.Now()) || none.Text() != "" || none.String() != "" {
		t.Error("no limits limit something")
	}
	at := time.Date(2027, 1, 2, 3, 4, 5, 0, time.UTC)
	until := &account.KeyLimits{ExpiresAt: at}
	if until.Expired(at.Add(-1)) || !until.Expired(at) {
		t.Error("a key does not expire at its time")
	}
	for _, bad := range []string{"10.0.0.0/33", "nowhere", "1.2.3", "fe80::1%eth0", "1.2.3.4:80"} {
		if _, err := account.ParseAddresses(bad); !fault.Is(err, fault.Invalid) {
			t.Errorf("ParseAddresses(%q) = %v, want invalid", bad, err)
		}
	}
}

func TestKeyLimitsText(t *testing.T) {
	t.Parallel()
	for _, l := range []*account.KeyLimits{
		nil,
		{RequestsPerMinute: limit(1)},
		{UnitsPerMonth: limit(7), Models: []string{"x", "y"}},
		{Addresses: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, ExpiresAt: time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)},
	} {
		got, err := account.KeyLimitsOf(l.Text())
		if err != nil || !reflect.DeepEqual(got, l) {
			t.Errorf("KeyLimitsOf(%q) = %+v, %v, want %+v", l.Text(), got, err, l)
		}
	}
	if _, err := account.KeyLimitsOf("{"); err == nil {
		t.Error("limits that cannot be read are taken for none")
	}
}

func TestLimitKey(t *testing.T) {
	t.Parallel()
	as, seen := newAccounts(t)
	a, _ := create(t, as, account.Free)
	ctx := t.Context()
	k, _, err := as.CreateKey(ctx, "owner", a.ID, "laptop", &account.KeyLimits{Models: []string{"b", "a", "b"}, RequestsPerMinute: limit(-1), Addresses: []netip.Prefix{netip.MustParsePrefix("10.1.2.3/8")}})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := k.Limits.String(), "models a, b; addresses 10.0.0.0/8"; got != want || k.CreatedBy != "owner" {
		t.Errorf("the limits of the new key are %q, want %q; made by %q", got, want, k.CreatedBy)
	}
	soon := time.Now().Add(time.Hour)
	if _, err := as.LimitKey(ctx, "owner", k.ID, &account.KeyLimits{ExpiresAt: soon, TokensPerMinute: limit(10)}); err != nil {
		t.Fatal(err)
	}
	if got := seen[a.ID].Key(k.ID).Limits; !got.ExpiresAt.Equal(soon.UTC().Truncate(time.Second)) || !got.Counted() {
		t.Errorf("published limits = %+v", got)
	}
	many := make([]string, account.MaxKeyEntries+1)
	for i := range many {
		many[i] = string(rune('a' + i))
	}
	for name, tt := range map[string]struct {
		l     *account.KeyLimits
		field string
	}{
		"zero requests":   {&account.KeyLimits{RequestsPerMinute: limit(0)}, "requests_per_minute"},
		"negative tokens": {&account.KeyLimits{TokensPerMinute: limit(-2)}, "tokens_per_minute"},
		"huge units":      {&account.KeyLimits{UnitsPerMonth: limit(int64(account.MostLimit) + 1)}, "units_per_month"},
		"many models":     {&account.KeyLimits{Models: many}, "models"},
		"no address":      {&account.KeyLimits{Addresses: make([]netip.Prefix, 1)}, "addresses"},
		"many addresses":  {&account.KeyLimits{Addresses: make([]netip.Prefix, account.MaxKeyEntries+1)}, "addresses"},
		"the past":        {&account.KeyLimits{ExpiresAt: time.Now().Add(-time.Hour)}, "expires_at"},
	} {
		if _, err := as.LimitKey(ctx, "owner", k.ID, tt.l); !fault.Is(err, fault.Invalid) || fault.From(err).Param != tt.field {
			t.Errorf("%s: LimitKey = %v at %q, want invalid at %q", name, err, fault.From(err).Param, tt.field)
		}
		if _, _, err := as.CreateKey(ctx, "owner", a.ID, "other", tt.l); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: CreateKey = %v, want invalid", name, err)
		}
	}
	if _, err := as.LimitKey(ctx, "owner", seen[a.ID].Master().ID, nil); !fault.Is(err, fault.Invalid) {
		t.Errorf("LimitKey of the master key = %v, want invalid", err)
	}
	for _, name := range []string{"laptop", "LAPTOP", " laptop "} {
		if _, _, err := as.CreateKey(ctx, "owner", a.ID, name, nil); !fault.Is(err, fault.Conflict) || fault.From(err).Param != "name" {
			t.Errorf("CreateKey(%q) beside one with that name = %v, want a conflict", name, err)
		}
	}
	other, _, err := as.CreateKey(ctx, "owner", a.ID, "desk", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := as.RenameKey(ctx, "owner", other.ID, "Laptop"); !fault.Is(err, fault.Conflict) {
		t.Errorf("RenameKey to a name that another key has = %v, want a conflict", err)
	}
	if _, err := as.RenameKey(ctx, "owner", other.ID, "DESK"); err != nil {
		t.Errorf("RenameKey to the same name in capitals = %v, want it to pass", err)
	}
	if err := as.DeleteKey(ctx, "owner", k.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := as.RenameKey(ctx, "owner", other.ID, "laptop"); err != nil {
		t.Errorf("RenameKey to the name of a deleted key = %v, want it to pass", err)
	}
}
