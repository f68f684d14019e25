package signal

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"net/netip"
	"slices"
	"time"

	"sluice/internal/account"
	"sluice/internal/ledger/usage"
)

// growth compares the last day with the week before it.
func growth(hours []usage.Row, now time.Time) []Reason {
	var last, before int64
	first := now // of the earliest usage in the week: an account that is younger has a shorter one
	for i := range hours {
		h := &hours[i]
		if h.Start.After(now.Add(-window)) {
			last += h.Requests
		} else {
			before += h.Requests
			if h.Start.Before(first) {
				first = h.Start
			}
		}
	}
	if last < growthRequests {
		return nil
	}
	if before == 0 {
		return []Reason{{Kind: Growth, Text: fmt.Sprintf("%d requests in the last 24 hours, after a week without any.", last)}}
	}
	days := math.Max(1, now.Add(-window).Sub(first).Hours()/24)
	mean := float64(before) / days
	if float64(last) < growthTimes*mean {
		return nil
	}
	return []Reason{{Kind: Growth, Text: fmt.Sprintf("%d requests in the last 24 hours, %.0f times the daily average before that (%.0f).", last, float64(last)/mean, mean)}}
}

// throughput finds the longest row of hours of the last day that came near a limit of the plan.
func throughput(hours []usage.Row, limits account.Limits, now time.Time) (found []Reason) {
	for _, of := range []struct {
		what  string
		limit account.Limit
		used  func(*usage.Row) int64
	}{
		{"requests", limits.RequestsPerMinute, func(r *usage.Row) int64 { return r.RequestMilli / 1000 }},
		{"tokens", limits.TokensPerMinute, func(r *usage.Row) int64 { return r.Prompt + r.Completion }},
	} {
		if of.limit <= 0 {
			continue
		}
		longest, run := 0, 0
		var previous time.Time
		for i := range hours {
			h := &hours[i]
			if !h.Start.After(now.Add(-window)) || of.used(h)*100 < int64(of.limit)*60*throughputPercent {
				continue
			}
			if h.Start.Sub(previous) != time.Hour {
				run = 0
			}
			previous = h.Start
			run++
			longest = max(longest, run)
		}
		if longest >= throughputHours {
			found = append(found, Reason{Kind: Throughput, Text: fmt.Sprintf("%d hours in a row with at least %d%% of the %d %s per minute that the plan allows.", longest, throughputPercent, of.limit, of.what)})
		}
	}
	return found
}

// spread finds keys that were used from many networks.
func spread(calls []Call) (found []Reason) {
	byKey := map[string]map[string]bool{}
	for i := range calls {
		prefix := networkOf(calls[i].Address)
		if prefix == "" {
			continue
		}
		if byKey[calls[i].KeyID] == nil {
			byKey[calls[i].KeyID] = map[string]bool{}
		}
		byKey[calls[i].KeyID][prefix] = true
	}
	for _, key := range slices.Sorted(maps.Keys(byKey)) {
		if n := len(byKey[key]); n >= manyNetworks {
			found = append(found, Reason{Kind: Addresses, KeyID: key, Text: fmt.Sprintf("One key was used from %d networks within 24 hours.", n)})
		}
	}
	return found
}

// networkOf returns the network of an address, or "" if it is not one.
func networkOf(address string) string {
	a, err := netip.ParseAddr(address)
	if err != nil {
		return ""
	}
	bits := 48
	if a = a.Unmap().WithZone(""); a.Is4() {
		bits = 24
	}
	p, err := a.Prefix(bits)
	if err != nil {
		return ""
	}
	return p.String()
}

// networks counts calls by the network that they came from.
func networks(calls []Call) []Network {
	count, keys := map[string]int{}, map[string]map[string]bool{}
	for i := range calls {
		prefix := networkOf(calls[i].Address)
		if prefix == "" {
			continue
		}
		count[prefix]++
		if keys[prefix] == nil {
			keys[prefix] = map[string]bool{}
		}
		keys[prefix][calls[i].KeyID] = true
	}
	list := []Network{}
	for prefix, n := range count {
		list = append(list, Network{prefix, n, len(keys[prefix])})
	}
	slices.SortFunc(list, func(a, b Network) int { return cmp.Or(cmp.Compare(b.Calls, a.Calls), cmp.Compare(a.Prefix, b.Prefix)) })
	return list[:min(len(list), maxNetworks)]
}

// intervals returns the time between a call and the next one, for each key.
func intervals(calls []Call) map[string][]time.Duration {
	times := map[string][]time.Time{}
	for i := range calls {
		times[calls[i].KeyID] = append(times[calls[i].KeyID], calls[i].At)
	}
	all := map[string][]time.Duration{}
	for key, list := range times {
		slices.SortFunc(list, time.Time.Compare)
		for i := 1; i < len(list); i++ {
			all[key] = append(all[key], list[i].Sub(list[i-1]))
		}
	}
	return all
}

// even finds keys whose calls come at even intervals, as a program on a timer makes them. It compares with the
// median: a pause at night changes an average, but not that.
func even(calls []Call) (found []Reason) {
	byKey := intervals(calls)
	for _, key := range slices.Sorted(maps.Keys(byKey)) {
		list := byKey[key]
		if len(list)+1 < spacingCalls {
			continue
		}
		usual := median(list)
		off := make([]time.Duration, len(list))
		for i, d := range list {
			off[i] = (d - usual).Abs()
		}
		// Calls within a second of each other are those of a busy program; that says nothing about who uses it.
		if d := median(off); usual >= time.Second && d*100 <= usual*spacingPercent {
			found = append(found, Reason{Kind: Spacing, KeyID: key, Text: fmt.Sprintf("%d calls with one key, one every %s; most intervals differ by less than %s.", len(list)+1, brief(usual), brief(max(d, time.Millisecond)))})
		}
	}
	return found
}

// median sorts the list and returns its middle.
func median(list []time.Duration) time.Duration {
	slices.Sort(list)
	return list[len(list)/2]
}

// brief rounds a duration for reading.
func brief(d time.Duration) string {
	switch {
	case d >= time.Minute:
		return d.Round(time.Second).String()
	case d >= time.Second:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Millisecond).String()
}

// bounds are the intervals that gaps counts up to. The last one is longer than the window.
var bounds = [...]time.Duration{100 * time.Millisecond, 300 * time.Millisecond, time.Second, 3 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute, 5 * time.Minute, 30 * time.Minute, window}

// gaps counts intervals by their length.
func gaps(calls []Call) []Gap {
	list := make([]Gap, len(bounds))
	for i, b := range bounds {
		list[i].UpTo = b
	}
	for _, between := range intervals(calls) {
		for _, d := range between {
			i, _ := slices.BinarySearch(bounds[:], d)
			list[min(i, len(list)-1)].Calls++
		}
	}
	return list
}
