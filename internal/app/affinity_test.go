package app_test

import (
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/internal/testkit/vendortest"
)

// caches are three vendors with a cache, which both nodes call with two keys each.
type caches [3]*vendortest.CachingVendor

func newCaches(t *testing.T, more string) (all *caches, yaml string) {
	all = &caches{}
	var providers, targets strings.Builder
	for i := range all {
		all[i] = &vendortest.CachingVendor{Cache: vendortest.PromptCache{TTL: time.Hour}}
		s := httptest.NewServer(all[i])
		t.Cleanup(s.Close)
		fmt.Fprintf(&providers, "  - {name: lab%d, kind: openai, base_url: %q, api_keys: [lab-key-%d1111, lab-key-%d2222]}\n", i, s.URL, i, i)
		fmt.Fprintf(&targets, "      - {provider: lab%d}\n", i)
	}
	return all, "providers:\n" + providers.String() + "models:\n  - id: lab/m\n    plan: free\n    context_length: 100000\n    max_output: 100\n" + more + "    targets:\n" + targets.String()
}

// take returns what the vendors have read since the last call.
func (c *caches) take() (all []vendortest.CacheRead) {
	for _, v := range c {
		all = append(all, v.Take()...)
	}
	return all
}

// says makes a turn of a conversation, and returns what the vendor has read, and what the reply says of it.
func (c *caches) says(t *testing.T, n *node, key, name string, turns int) (vendortest.CacheRead, string) {
	t.Helper()
	c.take()
	body := `{"model":"lab/m","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"` + name + `"}` +
		strings.Repeat(`,{"role":"assistant","content":"Yes."},{"role":"user","content":"And now?"}`, turns) + `]}`
	r := n.request("POST", chatPath, key, body)
	read := c.take()
	if r.status != 200 || len(read) != 1 {
		t.Fatalf("turn %d of %s = %d %s, read %d times", turns, name, r.status, r.body, len(read))
	}
	return read[0], r.header.Get("X-Sluice-Affinity")
}

// Conversations find their prompts in the caches of vendors, whichever node takes their calls. Those of a vendor that fails
// move once, and both nodes know where to.
func TestAffinityOverNodes(t *testing.T) {
	t.Parallel()
	vendors, yaml := newCaches(t, "    pricing: {input: 10, output: 30, cached: 1}\n")
	one, two, _ := onOneDatabase(t, yaml, nil)
	key := one.OwnerKey()
	const conversations = 12
	name := func(i int) string { return fmt.Sprint("Conversation ", i) }
	agreed := func(turns int) {
		t.Helper()
		within(t, time.Minute, "both nodes knowing where conversations are", func() bool {
			same := true
			for i := range conversations {
				a, _ := vendors.says(t, one, key, name(i), turns)
				b, _ := vendors.says(t, two, key, name(i), turns)
				same = same && a.Key == b.Key
			}
			return same
		})
	}
	count := map[string]int{}
	for i := range conversations {
		read, header := vendors.says(t, one, key, name(i), 0)
		if count[read.Key]++; header != "new" {
			t.Errorf("the first call of %s is %q, want new", name(i), header)
		}
	}
	for target, n := range count {
		if n > 3 { // 1.15 times a sixth, and one more
			t.Errorf("%s has %d of %d conversations, want at most 3", target, n, conversations)
		}
	}
	agreed(1)
	for turns := 2; turns < 6; turns++ {
		for i := range conversations {
			read, header := vendors.says(t, []*node{one, two}[(turns+i)%2], key, name(i), turns)
			if header != "kept" || read.Cached != read.Parts-2 {
				t.Errorf("turn %d of %s is %q, and %d of its %d messages were cached; want it kept, and all but two", turns, name(i), header, read.Cached, read.Parts)
			}
		}
	}

	vendors[0].Fail(true)
	moved := 0
	for i := range conversations {
		switch read, header := vendors.says(t, one, key, name(i), 6); {
		case strings.HasPrefix(read.Key, "lab-key-0"):
			t.Errorf("%s was answered by a vendor that fails", name(i))
		case slices.Contains([]string{"moved (failed)", "moved (unhealthy)"}, header):
			moved++
		case header != "kept":
			t.Errorf("%s is %q, want it kept or moved", name(i), header)
		}
	}
	if moved == 0 {
		t.Error("no conversation was at the vendor that fails")
	}
	vendors[0].Fail(false)
	agreed(7)
	for i := range conversations {
		if read, header := vendors.says(t, two, key, name(i), 8); header != "kept" || read.Cached != read.Parts-2 {
			t.Errorf("then %s is %q, and %d of its %d messages were cached; want it kept, and all but two", name(i), header, read.Cached, read.Parts)
		}
	}
}

// Without affinity a reply says nothing of it, and calls are drawn.
func TestAffinityOff(t *testing.T) {
	t.Parallel()
	vendors, yaml := newCaches(t, "    affinity: off\n    pricing: {input: 10, output: 30, cached: 1}\n")
	n := newSite(t, yaml).start(t)
	keys := map[string]bool{}
	for turns := range 30 {
		read, header := vendors.says(t, n, n.OwnerKey(), "Hello", turns)
		if keys[read.Key] = true; header != "" {
			t.Errorf("turn %d has the header %q, want none", turns, header)
		}
	}
	if len(keys) < 2 {
		t.Errorf("thirty calls went to %v, want them drawn", keys)
	}
}
