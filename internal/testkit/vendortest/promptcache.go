package vendortest

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"
)

// PromptCache is the cache of a vendor or of a server: a trie of the prompts of each key. A prompt is found as far as its parts
// are those of an earlier one. A part is kept for TTL after its last use.
//
// The zero value with a TTL is ready for use. It is bounded: when it is full, a prompt is read without being kept.
type PromptCache struct {
	TTL time.Duration
	// Most is how many parts are kept at most; 0: a hundred thousand.
	Most int

	mu    sync.Mutex
	roots map[string]*cached // by key
	parts int
}

// cached is a part of prompts in the trie, with those that follow it.
type cached struct {
	until time.Time
	next  map[[sha256.Size]byte]*cached
}

// Read reads a prompt under a key, and keeps it. It returns how many parts were found, and how many bytes they have.
func (c *PromptCache) Read(key string, prompt []string, now time.Time) (parts, bytes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.roots == nil {
		c.roots = map[string]*cached{}
	}
	at := c.roots[key]
	if at == nil {
		at = &cached{next: map[[sha256.Size]byte]*cached{}}
		c.roots[key] = at
	}
	found := true
	for _, part := range prompt {
		sum := sha256.Sum256([]byte(part))
		next := at.next[sum]
		if found = found && next != nil && now.Before(next.until); found {
			parts, bytes = parts+1, bytes+len(part)
		}
		if next == nil {
			if next = c.add(now); next == nil {
				return parts, bytes
			}
			at.next[sum] = next
		}
		next.until = now.Add(c.TTL)
		at = next
	}
	return parts, bytes
}

// add returns a new part, or nil if there is no room.
func (c *PromptCache) add(now time.Time) *cached {
	most := cmp.Or(c.Most, 100_000)
	if c.parts >= most {
		for _, root := range c.roots {
			c.drop(root, now)
		}
	}
	if c.parts >= most {
		return nil
	}
	c.parts++
	return &cached{next: map[[sha256.Size]byte]*cached{}}
}

// drop removes the parts whose time is over. A part is never kept longer than the one before it.
func (c *PromptCache) drop(at *cached, now time.Time) {
	for sum, next := range at.next {
		c.drop(next, now)
		if !now.Before(next.until) && len(next.next) == 0 {
			delete(at.next, sum)
			c.parts--
		}
	}
}

// CachingVendor is a vendor of OpenAI's dialect with a cache of prompts. A token is four bytes. It implements http.Handler.
type CachingVendor struct {
	Cache PromptCache

	mu    sync.Mutex
	reads []CacheRead
	fails bool
}

// CacheRead is what one request found in the cache.
type CacheRead struct {
	Key           string
	Parts, Cached int // messages, and how many of them were cached
}

// Fail lets all requests fail from now on, or no more.
func (v *CachingVendor) Fail(yes bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.fails = yes
}

// Take returns what was read since the last call.
func (v *CachingVendor) Take() []CacheRead {
	v.mu.Lock()
	defer v.mu.Unlock()
	reads := v.reads
	v.reads = nil
	return reads
}

// ServeHTTP answers a chat completion that is not streamed.
func (v *CachingVendor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var req struct {
		Messages []json.RawMessage `json:"messages"`
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&req); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	v.mu.Lock()
	fails := v.fails
	v.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if fails {
		w.WriteHeader(http.StatusInternalServerError)
		fmt.Fprint(w, `{"error":{"message":"The server had an error while processing your request.","type":"server_error","param":null,"code":null}}`)
		return
	}
	key := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	prompt, size := make([]string, len(req.Messages)), 0
	for i, m := range req.Messages {
		prompt[i] = string(m)
		size += len(m)
	}
	parts, bytes := v.Cache.Read(key, prompt, time.Now())
	v.mu.Lock()
	v.reads = append(v.reads, CacheRead{Key: key, Parts: len(prompt), Cached: parts})
	v.mu.Unlock()
	fmt.Fprintf(w, `{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Yes."},"finish_reason":"stop"}],`+
		`"usage":{"prompt_tokens":%d,"completion_tokens":2,"total_tokens":%d,"prompt_tokens_details":{"cached_tokens":%d}}}`, size/4, size/4+2, bytes/4)
}
