package clustertest

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// testLimits: calls that arrive on all nodes at once get together what one node would give them.
func testLimits(t *testing.T, c *cluster) {
	t.Run("requests", func(t *testing.T) {
		c.t = t
		const allowed = 10
		c.undisturbed(func(try int) {
			calls := max(200>>try, allowed+2)
			account := c.newAccount("basic", `"concurrent":"unlimited"`)
			counts := c.atOnce(calls, func(i int) int { return c.chat(c.nodes[i%nodes].url, account.MasterKey, "sandbox/small").status })
			exact := counts[200] == allowed && counts[429] == calls-allowed
			if counts[200] > 2*allowed || !exact && c.unasked() == c.asked {
				t.Errorf("%d calls at once = %v, want %d × 200 and %d × 429", calls, counts, allowed, calls-allowed)
			}
		})
	})
	t.Run("slots", func(t *testing.T) {
		c.t = t
		const slots = 5
		c.undisturbed(func(try int) {
			calls := max(15-try, slots+2)
			account := c.newAccount("basic", `"requests_per_minute":"unlimited"`)
			// The streams last until all have been answered.
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			body := ask("sandbox/small", "[[sandbox:tokens=1000]] [[sandbox:chunk_delay=100ms]]", true)
			counts := c.atOnce(calls, func(i int) int {
				resp, err := c.request(ctx, http.MethodPost, c.nodes[i%nodes].url, account.MasterKey, chatPath, body)
				if err != nil {
					return 0
				}
				t.Cleanup(func() { resp.Body.Close() })
				return resp.StatusCode
			})
			exact := counts[200] == slots && counts[429] == calls-slots
			if counts[200] > 2*slots || !exact && c.unasked() == c.asked {
				t.Errorf("%d streams at once = %v, want %d × 200 and %d × 429", calls, counts, slots, calls-slots)
			}
			// Slots that are free on one node are free on all.
			cancel()
			c.eventually("a free slot", func() bool { return c.chat(c.nodes[2].url, account.MasterKey, "sandbox/small").status == 200 })
		})
	})
	t.Run("one slot", func(t *testing.T) {
		c.t = t
		// A caller that waits for each reply needs one slot, on whichever node its calls arrive.
		account := c.newAccount("basic", `"requests_per_minute":"unlimited","concurrent":1`)
		const calls, rounds = 300, 3
		refused, last := 0, ""
		for range rounds {
			refused = 0
			for i := range calls {
				if r := c.chat(c.nodes[i%nodes].url, account.MasterKey, "sandbox/small"); r.status != http.StatusOK {
					refused++
					last = fmt.Sprintf("call %d on node %d: %d %s", i, i%nodes, r.status, r.body)
				}
			}
			if refused == 0 {
				return
			}
			// If Redis cannot be told within its deadline that a call has ended, on a machine that is too busy, the
			// slot stays taken for a moment. A mistake would show in every round.
			t.Logf("%d of %d calls were refused", refused, calls)
		}
		t.Errorf("in each of %d rounds calls of an account with one slot, one after the other, were refused; the last one: %s", rounds, last)
	})
}

// undisturbed runs a part of a test, and again if this machine was too busy for Redis to answer in time, because
// limits are not exact then. Each further try should ask for less at once.
func (c *cluster) undisturbed(part func(try int)) {
	c.t.Helper()
	const tries = 8
	for try := range tries {
		c.asked = c.unasked()
		if part(try); c.t.Failed() || c.unasked() == c.asked {
			return
		}
	}
	c.t.Errorf("in each of %d tries Redis did not answer some call within its deadline", tries)
}

// atOnce makes requests at the same time and counts their statuses.
func (c *cluster) atOnce(n int, request func(i int) int) map[int]int {
	var mu sync.Mutex
	counts := map[int]int{}
	var all sync.WaitGroup
	begin := make(chan struct{})
	for i := range n {
		all.Go(func() {
			<-begin
			status := request(i)
			mu.Lock()
			defer mu.Unlock()
			counts[status]++
		})
	}
	close(begin)
	all.Wait()
	return counts
}

// testFiles: what one node has stored, every node serves.
func testFiles(t *testing.T, c *cluster) {
	account := c.newAccount("scale", "")
	made := c.send(http.MethodPost, c.nginx.url, account.MasterKey, "/v1/video/generations/jobs", `{"prompt":"a lighthouse","width":480,"height":480,"n_seconds":1}`)
	id, ok := between(made.body, `"id":"`, `"`)
	if made.status != http.StatusOK || !ok {
		t.Fatalf("POST of a video = %d %s %v", made.status, made.body, made.err)
	}
	generation := ""
	c.eventually("a video", func() bool {
		job := c.get(c.nginx.url, account.MasterKey, "/v1/video/generations/jobs/"+id)
		_, rest, found := strings.Cut(job.body, `"generations":[{`)
		generation, _ = between(rest, `"id":"`, `"`)
		return found
	})
	var first string
	for _, n := range c.nodes {
		video := c.get(n.url, account.MasterKey, "/v1/video/generations/"+generation+"/content/video")
		if first == "" {
			first = video.body
		}
		if video.status != http.StatusOK || len(video.body) < 1000 || video.body != first {
			t.Errorf("the video from node %s = %d, %d bytes, want 200 and the same as from the first one", n.name, video.status, len(video.body))
		}
	}
}

// between returns the text after one mark and before another.
func between(text, before, after string) (string, bool) {
	_, text, found := strings.Cut(text, before)
	text, _, ended := strings.Cut(text, after)
	return text, found && ended
}
