// Package price knows what calls cost at their vendors: the prices of models by date, and the cost of a call to the
// nano-dollar.
//
// A call consumes disjoint counts, its buckets. An Entry has the prices of one model for a time; a Book finds the entry of a
// call. Entries never change: one with other prices is another entry, with another version, so a settlement that names its
// version can be explained at any time.
package price

import "sluice/internal/prompt/chat"

// Bucket is a kind of token that vendors price apart. The buckets of a call do not overlap.
type Bucket uint8

// The buckets, in the order in which they are stored. New ones go to the end.
const (
	Input        Bucket = iota // of the prompt, neither read from a cache nor written to one
	CacheRead                  // of the prompt, read from a cache
	CacheWrite5m               // of the prompt, written to a cache for five minutes
	CacheWrite1h               // for an hour
	CacheWrite                 // for as long as the vendor likes
	Output                     // of the reply
	Reasoning                  // of what the model thought
	AudioIn
	AudioOut
	ImageIn
	ImageOut
	Buckets int = iota // how many there are
)

// names are those of configurations, exports and replies.
var names = [Buckets]string{
	"input", "cache_read", "cache_write_5m", "cache_write_1h", "cache_write", "output", "reasoning",
	"audio_input", "audio_output", "image_input", "image_output",
}

// String returns the name of the bucket in configurations and exports.
func (b Bucket) String() string { return names[b] }

// Prompted says whether a bucket is a part of the prompt. Bands are chosen by the length of the prompt.
func (b Bucket) Prompted() bool { return b <= CacheWrite || b == AudioIn || b == ImageIn }

// Counts is what a call consumed.
type Counts struct {
	Tokens [Buckets]int64
	Used   []Use // what is not counted in tokens, sorted by name
}

// Use is something else that a vendor charges for: calls of its tools, or seconds of video.
type Use struct {
	Name  string // such as web_search, or video_1280x720
	Milli int64  // thousandths of a call or a second
}

// CountsOf returns the tokens of a call as disjoint counts.
func CountsOf(u chat.Usage) Counts {
	written := u.CacheWritten()
	return Counts{Tokens: [Buckets]int64{
		Input: int64(max(0, u.Prompt-written-u.AudioIn-u.ImageIn)), CacheRead: int64(u.Cached),
		CacheWrite5m: int64(u.CacheWrite5m), CacheWrite1h: int64(u.CacheWrite1h), CacheWrite: int64(u.CacheWrite),
		Output: int64(max(0, u.Completion-u.AudioOut-u.ImageOut)), Reasoning: int64(u.Reasoning),
		AudioIn: int64(u.AudioIn), AudioOut: int64(u.AudioOut), ImageIn: int64(u.ImageIn), ImageOut: int64(u.ImageOut),
	}}
}

// Prompt returns the length of the prompt in tokens: fresh, cached and written.
func (c *Counts) Prompt() int64 {
	var n int64
	for b, tokens := range c.Tokens {
		if Bucket(b).Prompted() {
			n += tokens
		}
	}
	return n
}

// Uncached returns the counts of the same call without a cache: all tokens that were read from one or written to one are plain
// input. It returns false if there are none.
func (c *Counts) Uncached() (plain Counts, changed bool) {
	plain = *c
	t := &plain.Tokens
	for _, b := range [...]Bucket{CacheRead, CacheWrite5m, CacheWrite1h, CacheWrite} {
		changed = changed || t[b] != 0
		t[Input], t[b] = t[Input]+t[b], 0
	}
	return plain, changed
}

// Empty says whether nothing was consumed.
func (c *Counts) Empty() bool { return c.Tokens == [Buckets]int64{} && len(c.Used) == 0 }

// Add adds what another turn consumed.
func (c *Counts) Add(more *Counts) {
	for b, n := range more.Tokens {
		c.Tokens[b] += n
	}
	for _, u := range more.Used {
		c.Use(u.Name, u.Milli)
	}
}

// Use adds thousandths of a call or of a second.
func (c *Counts) Use(name string, milli int64) {
	if milli == 0 {
		return
	}
	at := 0
	for ; at < len(c.Used) && c.Used[at].Name < name; at++ {
	}
	if at < len(c.Used) && c.Used[at].Name == name {
		c.Used[at].Milli += milli
		return
	}
	c.Used = append(c.Used, Use{})
	copy(c.Used[at+1:], c.Used[at:])
	c.Used[at] = Use{name, milli}
}

// Terms are the circumstances that a price depends on, as the vendor's reply names them.
type Terms struct {
	At     int64  // when the call began, in Unix seconds
	Tier   string // the service tier; empty, default, standard and auto are the vendor's list price
	Region string // where the call was served, if that is priced; empty is the vendor's list price
}
