package demo

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"sluice/internal/ledger/refusal"
	"sluice/internal/ledger/usage"
	"sluice/internal/store/sqlstore/calls"
)

// toAll is the refusal that anybody may meet at any time.
const toAll = 1

// refusals are the ways in which a few calls of each key are refused, by how many of a thousand are.
var refusals = []struct {
	person  string // whose; empty: everybody's
	share   int
	status  int
	kind    string
	param   string
	message string // with a place for the limit of the plan, if it has one
}{
	{care, 30, http.StatusTooManyRequests, "rate_limit_error", "", "The limit of this key is 6 requests a minute; 6 are used and this call counts as 1. It would pass in 21 seconds."},
	{"", 5, http.StatusTooManyRequests, "rate_limit_error", "", "The limit is %[1]d requests a minute; %[1]d are used and this call counts as 1. It would pass in 4 seconds."},
	{"", 3, http.StatusBadRequest, "invalid_request_error", "messages[1].content", ""},
	{research, 12, http.StatusForbidden, "permission_error", "model", "The model \"claude-sonnet-5-5\" needs the Premium plan; this account has Basic. Upgrade, or use a model of a lower tier."},
}

// refuse stores the calls that were refused beside those that were answered.
func (t *traffic) refuse(ctx context.Context, store *calls.Store, answered []usage.Settlement) error {
	list := t.refused(answered)
	counts := map[refusal.Minute]int64{}
	for i := range list {
		counts[refusal.Minute{AccountID: list[i].AccountID, Start: list[i].At.Truncate(time.Minute), Status: list[i].Status}]++
	}
	minutes := make([]refusal.Minute, 0, len(counts))
	for m, n := range counts {
		m.Calls = n
		minutes = append(minutes, m)
	}
	slices.SortFunc(minutes, func(a, b refusal.Minute) int {
		return cmp.Or(cmp.Compare(a.AccountID, b.AccountID), a.Start.Compare(b.Start), cmp.Compare(a.Status, b.Status))
	})
	return store.RecordRefusals(ctx, list, minutes)
}

// refused returns the calls that were refused beside those that were answered, the oldest of each account first. The newest
// call of everybody is followed by one, so that the pages have something to show however few calls there are.
func (t *traffic) refused(answered []usage.Settlement) (list []refusal.Call) {
	names, newest := map[string]string{}, map[string]int{}
	for name, m := range t.accts {
		names[m.account.ID] = name
	}
	for i := range answered {
		newest[answered[i].AccountID] = i
	}
	for i := range answered {
		s := &answered[i]
		for j, r := range refusals {
			drawn := t.rng.IntN(1000) < r.share || j == toAll && newest[s.AccountID] == i
			if r.person != "" && r.person != names[s.AccountID] || !drawn || t.now.Sub(s.At) > refusal.KeepCalls {
				continue
			}
			message := r.message
			if j == toAll {
				message = fmt.Sprintf(message, t.plans[t.accts[names[s.AccountID]].planAt(s.At)].RequestsPerMinute)
			}
			at := s.At.Add(time.Duration(1+t.rng.IntN(20)) * time.Second)
			if at.After(t.now) {
				at = t.now
			}
			list = append(list, refusal.Call{
				ID: t.id(at), At: at, AccountID: s.AccountID, KeyID: s.KeyID, Status: r.status, Kind: r.kind, Param: r.param,
				Path: "/v1/chat/completions", Model: s.ModelAsked, Address: s.Trace.Address, Message: message,
			})
		}
	}
	slices.SortFunc(list, func(a, b refusal.Call) int { return cmp.Or(cmp.Compare(a.AccountID, b.AccountID), a.At.Compare(b.At)) })
	return list
}
