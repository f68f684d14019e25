package app_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// Videos count against budgets through both APIs: what they may cost is reserved while they are made, and what they did cost is
// spent at the end, by whichever process.
func TestVideoBudget(t *testing.T) {
	t.Parallel()
	v := newVendor(t)
	site := newSite(t, fmt.Sprintf("video: {provider: films, providers: [{name: films, kind: openai, base_url: %q, api_key: %s, model: sora-2}]}\nprices: [{model: video-default, seconds: {1280x720: 0.1}}]\n", v.server.URL+"/v1", vendorKey))
	n := site.start(t)
	key := n.OwnerKey()
	n.recordIn(n.request("POST", "/v1/budgets", key, `{"name":"films","amount":"0.50","window":"total","scope":{"account":true},"hard":true}`))
	figures := func() string {
		b := n.listed(key)[0]
		return fmt.Sprint(*b.Spent, " ", *b.Reserved, " ", *b.Left)
	}
	const jobs, videos = `{"prompt":"x","width":1280,"height":720,"n_seconds":4%s}`, `{"prompt":"x","size":"1280x720","seconds":"4"%s}`
	refused := func(what string, r reply, want string) {
		t.Helper()
		var got struct {
			Error struct {
				Type   string
				Budget struct {
					Name                                  string
					Amount, Spent, Reserved, Left, Needed string
				}
			}
		}
		err := json.Unmarshal([]byte(r.body), &got)
		if b := fmt.Sprint(got.Error.Budget); err != nil || r.status != 402 || got.Error.Type != "budget_exceeded" || b != want || r.header.Get("X-Should-Retry") != "false" || r.header.Get("Retry-After-Ms") != "" {
			t.Errorf("%s = %d %v %s, want a 402 with the budget %s and no retry", what, r.status, r.header, r.body, want)
		}
	}
	for path, body := range map[string]string{videoJobs: jobs, "/v1/videos": videos} {
		refused("a low max_cost at "+path, n.request("POST", path, key, fmt.Sprintf(body, `,"max_cost":0.39`)), "{max_cost 0.39 0.00 0.00 0.39 0.40}")
		refused("a low header at "+path, n.answered(n.asking(key, path, fmt.Sprintf(body, `,"max_cost":0.5`), "X-Sluice-Max-Cost", "0.3")), "{max_cost 0.30 0.00 0.00 0.30 0.40}")
		if r := n.request("POST", path, key, fmt.Sprintf(body, `,"max_cost":"much"`)); r.status != 400 || !strings.Contains(r.body, "max_cost") {
			t.Errorf("a max_cost that is no number at %s = %d %s, want 400", path, r.status, r.body)
		}
	}
	id := readVideo(t, n.request("POST", videoJobs, key, fmt.Sprintf(jobs, ""))).ID
	if got := figures(); got != "0.00 0.40 0.10" {
		t.Errorf("while the video is made, the budget has %s, want 0.40 reserved", got)
	}
	for path, body := range map[string]string{videoJobs: jobs, "/v1/videos": videos} {
		refused("a second video at "+path, n.request("POST", path, key, fmt.Sprintf(body, "")), "{films 0.50 0.00 0.40 0.10 0.40}")
	}
	n.stop()
	n = site.start(t)
	if got := figures(); got != "0.00 0.40 0.10" {
		t.Errorf("after a restart, the budget has %s, want 0.40 reserved", got)
	}
	v.ready.Store(true)
	if job := n.await(key, id); job.Status != "succeeded" {
		t.Fatalf("the job ended as %+v", job)
	}
	if got := figures(); got != "0.40 0.00 0.10" {
		t.Errorf("after the video, the budget has %s, want 0.40 spent", got)
	}
}
