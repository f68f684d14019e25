package vendortest

import (
	"crypto/sha256"
	"sync"
	"time"
)

// Cache is the cache of prompts that Claude has (platform.claude.com/docs/en/build-with-claude/prompt-caching): a mark behind
// a block writes an entry for everything in front of it. A later request finds the longest entry that ends within 20 blocks
// before one of its marks, byte by byte. Every use begins its life anew. A token is four bytes.
type Cache struct {
	Now   func() time.Time // nil: time.Now
	Least int              // the tokens that a prompt must have to be kept

	mu      sync.Mutex
	total   Figures
	entries map[[sha256.Size]byte]*entry
}

// entry is a prompt in the cache.
type entry struct {
	until time.Time
	life  time.Duration
}

// Figures are what requests have read, written and read afresh, in tokens.
type Figures struct{ Read, Short, Long, Fresh int }

// part is a block of a prompt, and how long everything up to its end is to be kept; 0: it has no mark.
type part struct {
	text string
	life time.Duration
}

const lookBack = 20

// use returns the figures of a prompt. It reports false if a mark has a longer life than one before it, which the vendor
// refuses.
func (c *Cache) use(parts []part) (f Figures, ok bool) {
	now := time.Now()
	if c.Now != nil {
		now = c.Now()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	ends, tokens := make([][sha256.Size]byte, len(parts)), make([]int, len(parts))
	var chain [sha256.Size]byte
	bytes, least := 0, time.Duration(0)
	for i, p := range parts {
		if p.life > 0 && least > 0 && p.life > least {
			return f, false
		} else if p.life > 0 {
			least = p.life
		}
		chain = sha256.Sum256(append(chain[:], p.text...))
		bytes += len(p.text)
		ends[i], tokens[i] = chain, bytes/4
	}
	hit := c.find(now, parts, ends)
	have := 0
	if hit >= 0 {
		have = tokens[hit]
	}
	f.Read = have
	for i := hit + 1; i < len(parts); i++ {
		if parts[i].life == 0 || tokens[i] < c.Least {
			continue
		}
		if c.entries == nil {
			c.entries = map[[sha256.Size]byte]*entry{}
		}
		c.entries[ends[i]] = &entry{now.Add(parts[i].life), parts[i].life}
		if parts[i].life == time.Hour {
			f.Long += tokens[i] - have
		} else {
			f.Short += tokens[i] - have
		}
		have = tokens[i]
	}
	f.Fresh = bytes/4 - have
	t := &c.total
	t.Read, t.Short, t.Long, t.Fresh = t.Read+f.Read, t.Short+f.Short, t.Long+f.Long, t.Fresh+f.Fresh
	return f, true
}

// Take returns the figures of all requests since the last call.
func (c *Cache) Take() Figures {
	c.mu.Lock()
	defer c.mu.Unlock()
	total := c.total
	c.total = Figures{}
	return total
}

// find returns the last block of the longest prompt that is in the cache, or -1.
func (c *Cache) find(now time.Time, parts []part, ends [][sha256.Size]byte) int {
	hit := -1
	for i := range parts {
		for at := i; parts[i].life > 0 && at > hit && at >= i-lookBack; at-- {
			if e := c.entries[ends[at]]; e != nil && now.Before(e.until) {
				e.until, hit = now.Add(e.life), at
				break
			}
		}
	}
	return hit
}

// lifeOf returns the life that a mark asks for; 0: it is none.
func lifeOf(mark object) time.Duration {
	switch {
	case mark == nil:
		return 0
	case mark["ttl"] == "1h":
		return time.Hour
	}
	return 5 * time.Minute
}

// prompt appends the blocks of content, with the role in front. The marks are no part of them.
func prompt(all []part, role string, content any) []part {
	for _, p := range parts(content) {
		b := object{}
		for k, v := range member(p) {
			if k != "cache_control" {
				b[k] = v
			}
		}
		if point := member(b["cachePoint"]); point != nil { // of Converse: it marks the block before it
			if len(all) > 0 {
				all[len(all)-1].life = lifeOf(point)
			}
			continue
		}
		all = append(all, part{role + encode(b), lifeOf(member(member(p)["cache_control"]))})
	}
	return all
}

// consult fills in what the cache says of a request: its tools, its system prompt and its messages.
func (x *exchange) consult(a *asked, tools any) *refusal {
	if x.Cache == nil {
		return nil
	}
	all := prompt(nil, "tool", tools)
	all = prompt(all, "system", x.body["system"])
	for _, m := range list(x.body["messages"]) {
		all = prompt(all, text(member(m)["role"]), member(m)["content"])
	}
	marks := 0
	for _, p := range all {
		if p.life > 0 {
			marks++
		}
	}
	if marks > 4 {
		return refuse("", "", "A maximum of 4 blocks with cache_control may be provided. Found %d.", marks)
	}
	f, ok := x.Cache.use(all)
	if !ok {
		return refuse("", "", "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block.")
	}
	a.kept = &f
	return nil
}
