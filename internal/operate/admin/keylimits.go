package admin

import (
	"context"
	"strings"
	"time"

	"sluice/internal/account"
	"sluice/internal/kit/fault"
)

// KeyLimits is what narrows a sub-key. What is absent does not limit the key.
type KeyLimits struct {
	RequestsPerMinute *account.Limit `json:"requests_per_minute,omitempty"`
	TokensPerMinute   *account.Limit `json:"tokens_per_minute,omitempty"`
	UnitsPerMonth     *account.Limit `json:"units_per_month,omitempty"`
	// Models are ids of models that requests may name.
	Models []string `json:"models,omitempty"`
	// Addresses are networks or single addresses that requests may come from.
	Addresses []string   `json:"addresses,omitempty"`
	ExpiresAt *time.Time `json:"expires_at,omitempty"`
}

// KeyOrder is the argument of key.create and key.set-limits.
type KeyOrder struct {
	Target
	// Limits replace those of the key; absent: none.
	Limits *KeyLimits `json:"limits,omitempty"`
	// Tags are those of every call with the key, such as team=search. They replace those of the key; absent: those stay.
	Tags *[]string `json:"tags,omitempty"`
	// SessionCap is what each session of a new key may cost, in dollars. It makes a hard budget; absent: none.
	SessionCap *string `json:"session_cap,omitempty"`
}

// parse returns the limits as accounts have them.
func (l *KeyLimits) parse() (*account.KeyLimits, error) {
	if l == nil {
		return nil, nil
	}
	addresses, err := account.ParseAddresses(strings.Join(l.Addresses, " "))
	if err != nil {
		return nil, err
	}
	out := &account.KeyLimits{
		RequestsPerMinute: l.RequestsPerMinute, TokensPerMinute: l.TokensPerMinute, UnitsPerMonth: l.UnitsPerMonth,
		Models: l.Models, Addresses: addresses,
	}
	if l.ExpiresAt != nil {
		out.ExpiresAt = *l.ExpiresAt
	}
	return out, nil
}

// keyLimitsView is the inverse of parse.
func keyLimitsView(l *account.KeyLimits) *KeyLimits {
	if l == nil {
		return nil
	}
	v := &KeyLimits{
		RequestsPerMinute: l.RequestsPerMinute, TokensPerMinute: l.TokensPerMinute, UnitsPerMonth: l.UnitsPerMonth, Models: l.Models,
	}
	for _, p := range l.Addresses {
		v.Addresses = append(v.Addresses, account.AddressText(p))
	}
	if !l.ExpiresAt.IsZero() {
		v.ExpiresAt = &l.ExpiresAt
	}
	return v
}

// String returns the limits for people; empty if there are none.
func (l *KeyLimits) String() string {
	limits, err := l.parse()
	if err != nil {
		return ""
	}
	return limits.String()
}

// keySetLimits replaces the limits of a sub-key. Ref is the id of the key.
func (b *Backend) keySetLimits(ctx context.Context, in KeyOrder) (Key, error) {
	if in.SessionCap != nil {
		return Key{}, fault.New(fault.Invalid, "session_cap is for new keys. Make a budget of each session of the key instead.").At("session_cap")
	}
	limits, err := in.Limits.parse()
	if err != nil {
		return Key{}, err
	}
	k, err := b.under(in.Target).SetKey(ctx, in.Actor, in.Ref, limits, in.Tags)
	if err != nil {
		return Key{}, err
	}
	return keyView(k, "active"), nil
}
