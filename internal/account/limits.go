package account

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"sluice/internal/kit/excerpt"
	"sluice/internal/kit/fault"
)

// KeyLimits narrows what a sub-key may do (docs/api.md#limits-of-a-key). The limits of the account hold
// beside them. Requests read it without a lock, so it is never changed once a key has it. A nil *KeyLimits
// limits nothing.
type KeyLimits struct {
	RequestsPerMinute *Limit `json:"requests_per_minute,omitempty"`
	TokensPerMinute   *Limit `json:"tokens_per_minute,omitempty"`
	UnitsPerMonth     *Limit `json:"units_per_month,omitempty"`
	// Models are the ids of the models that requests may name; empty: all.
	Models []string `json:"models,omitempty"`
	// Addresses are where requests may come from; empty: everywhere.
	Addresses []netip.Prefix `json:"addresses,omitempty"`
	// ExpiresAt is when the key stops working; zero: never.
	ExpiresAt time.Time `json:"expires_at,omitzero"`
}

// MaxKeyEntries is how many models a sub-key may be limited to, and how many addresses.
const MaxKeyEntries = 50

// maxModelID is how long the id of a model in a list may be, in bytes.
const maxModelID = 200

// Counted reports whether calls of the key are counted for it, beside its account. Most keys are not limited
// at all, so it costs a comparison.
func (l *KeyLimits) Counted() bool {
	return l != nil && (l.RequestsPerMinute != nil || l.TokensPerMinute != nil || l.UnitsPerMonth != nil)
}

// PerMinute returns the limits of the minute. A key has no limit of its own on concurrent calls.
func (l *KeyLimits) PerMinute() Limits {
	return Limits{RequestsPerMinute: orUnlimited(l.RequestsPerMinute), Concurrent: Unlimited, TokensPerMinute: orUnlimited(l.TokensPerMinute)}
}

func orUnlimited(l *Limit) Limit {
	if l == nil {
		return Unlimited
	}
	return *l
}

// Rate is one of the limits that are numbers.
type Rate struct {
	Name  string // of its field
	Text  string // what it counts
	Limit **Limit
}

// Rates returns the limits that are numbers, for reading and setting them.
func (l *KeyLimits) Rates() []Rate {
	return []Rate{
		{"requests_per_minute", "requests a minute", &l.RequestsPerMinute},
		{"tokens_per_minute", "tokens a minute", &l.TokensPerMinute},
		{"units_per_month", "units a month", &l.UnitsPerMonth},
	}
}

// Allows reports whether requests with the key may name a model, by its id.
func (l *KeyLimits) Allows(model string) bool {
	return l == nil || len(l.Models) == 0 || slices.Contains(l.Models, model)
}

// Reaches reports whether requests with the key may come from an address. Text that is no address is refused
// if the key is limited to some.
func (l *KeyLimits) Reaches(address string) bool {
	if l == nil || len(l.Addresses) == 0 {
		return true
	}
	a, err := netip.ParseAddr(address)
	if err != nil {
		return false
	}
	a = a.Unmap().WithZone("")
	return slices.ContainsFunc(l.Addresses, func(p netip.Prefix) bool { return p.Contains(a) })
}

// Expired reports whether the key has stopped working.
func (l *KeyLimits) Expired(now time.Time) bool {
	return l != nil && !l.ExpiresAt.IsZero() && !now.Before(l.ExpiresAt)
}

// ParseAddresses reads networks such as 10.0.0.0/8 and single addresses, separated by commas or spaces.
func ParseAddresses(text string) ([]netip.Prefix, error) {
	var list []netip.Prefix
	for _, word := range words(text) {
		p, err := netip.ParsePrefix(word)
		if err != nil {
			a, single := netip.ParseAddr(word)
			if single != nil || a.Zone() != "" {
				return nil, fault.New(fault.Invalid, "%q is not an address or a network; expected a form like 203.0.113.7 or 10.0.0.0/8", excerpt.Of(word, maxEcho)).At("addresses")
			}
			p = netip.PrefixFrom(a.Unmap(), a.Unmap().BitLen())
		}
		list = append(list, p)
	}
	return list, nil
}

// ParseModels reads ids of models, separated by commas or spaces.
func ParseModels(text string) []string { return words(text) }

// words splits text at commas and white space.
func words(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r <= ' ' })
}

// check returns the limits in the form in which they are stored, or a fault. Limits that limit nothing are nil.
func (l *KeyLimits) check() (*KeyLimits, error) {
	if l == nil {
		return nil, nil
	}
	c := *l
	for _, v := range c.Rates() {
		switch n := *v.Limit; {
		case n == nil:
		case *n == Unlimited:
			*v.Limit = nil
		case *n < 1 || *n > MostLimit:
			return nil, fault.New(fault.Invalid, "a limit of a key is a whole number from 1 to %d; leave it out for none", MostLimit).At(v.Name)
		}
	}
	if len(c.Models) > MaxKeyEntries || slices.ContainsFunc(c.Models, func(id string) bool { return id == "" || len(id) > maxModelID }) {
		return nil, fault.New(fault.Invalid, "a key can be limited to at most %d models, each named by its id", MaxKeyEntries).At("models")
	}
	if len(c.Addresses) > MaxKeyEntries {
		return nil, fault.New(fault.Invalid, "a key can be limited to at most %d addresses and networks", MaxKeyEntries).At("addresses")
	}
	c.Addresses = slices.Clone(c.Addresses)
	for i, p := range c.Addresses {
		if a := p.Addr(); a.Is4In6() && p.Bits() >= 96 { // callers over IPv4 are compared as such
			p = netip.PrefixFrom(a.Unmap(), p.Bits()-96)
		}
		if !p.IsValid() {
			return nil, fault.New(fault.Invalid, "an address of a key has a form like 203.0.113.7 or 10.0.0.0/8").At("addresses")
		}
		c.Addresses[i] = p.Masked()
	}
	c.Models = slices.Compact(slices.Sorted(slices.Values(c.Models)))
	slices.SortFunc(c.Addresses, netip.Prefix.Compare)
	c.Addresses = slices.Compact(c.Addresses)
	if !c.ExpiresAt.IsZero() {
		c.ExpiresAt = c.ExpiresAt.UTC().Truncate(time.Second)
	}
	if c.Text() == "" {
		return nil, nil
	}
	return &c, nil
}

// checkExpiry refuses a time that has passed. A key that has expired keeps its time when something else about it
// is changed.
func (l *KeyLimits) checkExpiry(was *KeyLimits, now time.Time) error {
	if l.Expired(now) && (was == nil || !was.ExpiresAt.Equal(l.ExpiresAt)) {
		return fault.New(fault.Invalid, "the key would have expired already; choose a time in the future").At("expires_at")
	}
	return nil
}

// Text returns the limits as they are stored: a JSON object, or "" if there are none.
func (l *KeyLimits) Text() string {
	if l == nil {
		return ""
	}
	b, err := json.Marshal(l)
	if err != nil || string(b) == "{}" {
		return ""
	}
	return string(b)
}

// KeyLimitsOf is the inverse of Text. A text that this version cannot read is an error: a key must not become
// one without limits.
func KeyLimitsOf(text string) (*KeyLimits, error) {
	if text == "" {
		return nil, nil
	}
	l := &KeyLimits{}
	if err := json.Unmarshal([]byte(text), l); err != nil {
		return nil, fmt.Errorf("limits of a key: %w", err)
	}
	return l, nil
}

// String returns the limits for people; empty if there are none.
func (l *KeyLimits) String() string {
	if l == nil {
		return ""
	}
	var parts []string
	for _, r := range l.Rates() {
		if *r.Limit != nil {
			parts = append(parts, humanize.Comma(int64(**r.Limit))+" "+r.Text)
		}
	}
	if len(l.Models) > 0 {
		parts = append(parts, "models "+strings.Join(l.Models, ", "))
	}
	if len(l.Addresses) > 0 {
		parts = append(parts, "addresses "+l.AddressList())
	}
	if !l.ExpiresAt.IsZero() {
		parts = append(parts, "expires "+l.ExpiresAt.Format("2006-01-02 15:04 UTC"))
	}
	return strings.Join(parts, "; ")
}

// AddressList returns Addresses as text, which ParseAddresses reads.
func (l *KeyLimits) AddressList() string {
	list := make([]string, len(l.Addresses))
	for i, p := range l.Addresses {
		list[i] = AddressText(p)
	}
	return strings.Join(list, ", ")
}

// AddressText writes a network, and a single address without the length of its prefix.
func AddressText(p netip.Prefix) string {
	if p.IsSingleIP() {
		return p.Addr().String()
	}
	return p.String()
}
