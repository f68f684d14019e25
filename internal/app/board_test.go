package app_test

import (
	"testing"

	"sluice/internal/operate/admin"
	"sluice/internal/operate/overview"
	"sluice/internal/testkit/pgtest"
)

// Every node shows what all of them did: calls by minute, who made them, and at which upstreams.
func TestOverviewOverNodes(t *testing.T) {
	t.Parallel()
	yaml := "discover: false\ndatabase: " + pgtest.URL(t) + "\nsecret: one-secret-for-all-nodes-of-this-test\ncluster: approximate\n" +
		"plans: {scale: {requests_per_minute: unlimited, tokens_per_minute: unlimited, concurrent: unlimited}}\n"
	one := newSite(t, yaml).start(t)
	key := one.OwnerKey()
	two := newSite(t, yaml).start(t)
	two.within(key, 200)
	for _, n := range []*node{one, two} {
		if r := n.ask(key, "sandbox/small"); r.status != 200 {
			t.Fatalf("a call = %d %s", r.status, r.body)
		}
	}
	for _, n := range []*node{one, two} {
		eventually(t, "both calls in the overview", func() bool {
			r := must[overview.Report](n, "overview.show", admin.Empty{})
			return len(r.Busy) == 1 && r.Busy[0].Calls == 2 && r.Busy[0].Email == "owner@localhost" && r.Nodes == 2 && r.Accounts == 1
		})
		eventually(t, "both calls in the series of the upstream", func() bool {
			for _, u := range must[admin.List[overview.Upstream]](n, "upstream.series", admin.Cursor{}).Data {
				sum := int64(0)
				for _, part := range u.Series {
					sum += part.Answered
				}
				if u.Upstream == "small" {
					return sum == 2
				}
			}
			return false
		})
	}
}
