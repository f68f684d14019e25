// Package signal looks at the calls of an account for patterns that its score does not show: sudden growth, a plan's
// limits used for hours, a key used from many networks, calls at even intervals. They hint at resale and at proxies.
//
// A signal is a reason for a person to look, and says so in words. Nothing is decided here, and nothing happens to an
// account because of it; see package abuse for what does.
package signal

import (
	"context"
	"slices"
	"time"

	"sluice/internal/account"
	"sluice/internal/ledger/usage"
)

// Kind names a signal.
type Kind string

const (
	Growth     Kind = "growth"
	Throughput Kind = "throughput"
	Addresses  Kind = "addresses"
	Spacing    Kind = "spacing"
)

// The thresholds. They are chosen so that a busy program of one customer shows none of them.
const (
	// Growth: this many requests in a day, and this many times the average of the week before.
	growthRequests = 1000
	growthTimes    = 5
	// Throughput: this many hours in a row with at least this many percent of the requests that the plan allows.
	throughputHours   = 4
	throughputPercent = 80
	// Addresses: calls with one key from this many networks within a day.
	manyNetworks = 10
	// Spacing: this many calls with one key whose intervals differ by at most this many percent of the usual one.
	spacingCalls   = 100
	spacingPercent = 5
)

const (
	// window is how far back single calls are looked at, and MaxCalls how many of them, the newest ones.
	window   = 24 * time.Hour
	MaxCalls = 2000
	// week is what the last day is compared with.
	week = 7 * 24 * time.Hour
	// maxNetworks is how many networks a report lists.
	maxNetworks = 20
)

// Reason is a signal that an account shows.
type Reason struct {
	Kind  Kind   `json:"kind"`
	KeyID string `json:"key,omitempty"` // empty: it is about the whole account
	Text  string `json:"text"`
}

// Report is what the signals of an account are read from, and those that it shows.
type Report struct {
	Reasons []Reason `json:"reasons"`
	// Calls is how many calls of the last day were looked at. At most MaxCalls are, the newest ones.
	Calls    int       `json:"calls"`
	Networks []Network `json:"networks"` // the busiest first
	Gaps     []Gap     `json:"gaps"`     // the shortest first
}

// Network is a network that calls came from: the first 24 bits of an IPv4 address, the first 48 of an IPv6 address.
type Network struct {
	Prefix string `json:"network"`
	Calls  int    `json:"calls"`
	Keys   int    `json:"keys"`
}

// Gap counts intervals between a call and the next one with the same key, from the interval above up to this one.
type Gap struct {
	UpTo  time.Duration `json:"up_to_ns"`
	Calls int           `json:"calls"`
}

// Call is what is known of a single call.
type Call struct {
	At      time.Time
	KeyID   string
	Address string // empty: not known
}

// Store reads usage.
type Store interface {
	// UsageBy returns an account's sums by hour.
	UsageBy(ctx context.Context, q usage.Query) ([]usage.Row, error)
	// CallsSince returns at most limit of an account's calls since a time, newest first.
	CallsSince(ctx context.Context, accountID string, since time.Time, limit int) ([]Call, error)
}

// Of returns the signals of an account at a time. Limits are those in force for it.
func Of(ctx context.Context, store Store, accountID string, limits account.Limits, now time.Time) (Report, error) {
	hours, err := store.UsageBy(ctx, usage.Query{AccountID: accountID, From: usage.HourOf(now.Add(-window - week)), By: usage.ByDay, Hours: true})
	if err != nil {
		return Report{}, err
	}
	calls, err := store.CallsSince(ctx, accountID, now.Add(-window), MaxCalls)
	if err != nil {
		return Report{}, err
	}
	return Read(hours, calls, limits, now), nil
}

// Read returns the signals in an account's sums by hour and its calls.
func Read(hours []usage.Row, calls []Call, limits account.Limits, now time.Time) Report {
	return Report{
		Reasons: slices.Concat([]Reason{}, growth(hours, now), throughput(hours, limits, now), spread(calls), even(calls)),
		Calls:   len(calls), Networks: networks(calls), Gaps: gaps(calls),
	}
}
