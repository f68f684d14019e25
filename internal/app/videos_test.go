package app_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/operate/admin"
	"sluice/internal/video"
)

const videoJobs = "/v1/video/generations/jobs"

// clip is a request for the quickest video there is.
const clip = `{"prompt":"a lighthouse at dusk","width":480,"height":480,"n_seconds":1}`

// videoJob is a job as callers see it.
type videoJob struct {
	ID            string `json:"id"`
	Object        string `json:"object"`
	Status        string `json:"status"`
	CreatedAt     int64  `json:"created_at"`
	FinishedAt    int64  `json:"finished_at"`
	ExpiresAt     int64  `json:"expires_at"`
	Prompt        string `json:"prompt"`
	Progress      int    `json:"progress"`
	FailureReason string `json:"failure_reason"`
	Generations   []struct {
		ID     string `json:"id"`
		Output struct {
			VideoURL string `json:"video_url"`
		} `json:"output"`
	} `json:"generations"`
}

func readVideo(t *testing.T, r reply) videoJob {
	t.Helper()
	var j videoJob
	if err := json.Unmarshal([]byte(r.body), &j); err != nil || r.status != 200 {
		t.Fatalf("a reply = %d %s, %v, want a job", r.status, r.body, err)
	}
	return j
}

// film creates a job and waits for its end.
func (n *node) film(key, body string) videoJob {
	n.t.Helper()
	return n.await(key, readVideo(n.t, n.request("POST", videoJobs, key, body)).ID)
}

// await waits for the end of a job.
func (n *node) await(key, id string) (j videoJob) {
	n.t.Helper()
	eventually(n.t, "the end of "+id, func() bool {
		j = readVideo(n.t, n.get(videoJobs+"/"+id, key))
		return j.FinishedAt != 0
	})
	return j
}

// fetch asks for a file, with headers.
func (n *node) fetch(method, url, key string, header map[string]string) reply {
	n.t.Helper()
	req, err := http.NewRequest(method, url, nil)
	if err != nil {
		n.t.Fatal(err)
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	for name, value := range header {
		req.Header.Set(name, value)
	}
	resp, err := n.client.Do(req)
	if err != nil {
		n.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		n.t.Fatal(err)
	}
	return reply{resp.StatusCode, resp.Header, string(body), resp.TLS, resp.Proto}
}

// A video from a fresh start: create, poll, download.
func TestVideo(t *testing.T) {
	t.Parallel()
	n := newSite(t, "").start(t)
	key := n.OwnerKey()
	r := n.request("POST", videoJobs, key, clip)
	created := readVideo(t, r)
	if created.Status != "queued" || created.Object != "video.generation.job" || created.Progress != 0 || created.ExpiresAt-created.CreatedAt != 24*60*60 {
		t.Errorf("POST %s = %s", videoJobs, r.body)
	}
	for _, member := range []string{"finished_at", "failure_reason", "generations", "null"} {
		if strings.Contains(r.body, member) {
			t.Errorf("POST %s = %s, want no %s", videoJobs, r.body, member)
		}
	}
	if r.header.Get("x-ratelimit-remaining-requests") != "79" {
		t.Errorf("%s requests are left, want 79", r.header.Get("x-ratelimit-remaining-requests"))
	}
	job := n.await(key, created.ID)
	if job.Status != "succeeded" || job.Progress != 100 || len(job.Generations) != 1 || job.ExpiresAt-job.FinishedAt != 24*60*60 || job.Prompt != "a lighthouse at dusk" {
		t.Fatalf("the job ended as %+v", job)
	}
	content := n.scheme + n.Addr() + "/v1/video/generations/" + job.Generations[0].ID + "/content/video"
	link := job.Generations[0].Output.VideoURL
	whole := n.fetch("GET", content, key, nil)
	if !strings.HasPrefix(link, n.scheme+n.Addr()+"/files/") || len(whole.body) < 1000 || whole.body[4:8] != "ftyp" {
		t.Fatalf("the video at %s has %d bytes", link, len(whole.body))
	}
	n.checkFile(content, key, whole)
	n.checkFile(link, "", whole)
	n.checkLink(link, job.Generations[0].ID)

	must[any](n, "account.create", admin.NewAccount{Actor: "t", Email: "b@example.com", Plan: "free"})
	other := must[admin.RawKey](n, "key.regenerate-master", admin.Target{Actor: "t", Ref: "b@example.com"}).Key
	for _, tt := range [][2]string{
		{"GET", videoJobs + "/" + job.ID},
		{"DELETE", videoJobs + "/" + job.ID},
		{"GET", "/v1/video/generations/" + job.Generations[0].ID + "/content/video"},
		{"GET", "/v1/video/generations/" + job.ID + "/content/video"},
		{"GET", videoJobs + "/job_none"},
	} {
		if r := n.request(tt[0], tt[1], other, ""); r.status != 404 || !strings.Contains(r.body, "not_found_error") {
			t.Errorf("%s %s of another account = %d %s, want 404", tt[0], tt[1], r.status, r.body)
		}
	}
	if r := n.get(videoJobs, other); r.body != "{\"object\":\"list\",\"data\":[],\"has_more\":false}\n" {
		t.Errorf("the list of another account = %s", r.body)
	}
	if r := n.get("/v1/models", key); strings.Contains(r.body, "video") {
		t.Errorf("GET /v1/models = %s, want no video model", r.body)
	}
	used := must[admin.Usage](n, "usage", admin.UsageQuery{Ref: "owner@localhost", Days: 30, By: "model"})
	if len(used.Rows) != 1 || used.Rows[0].Model != "video-default" || used.Rows[0].Requests != 1 {
		t.Errorf("usage = %+v, want the video", used)
	}
}

// openVideo is a job in the form of OpenAI's /videos.
type openVideo struct {
	ID, Object, Status, Model, Size, Seconds, Prompt string
	Progress                                         int
	CreatedAt                                        int64  `json:"created_at"`
	CompletedAt                                      *int64 `json:"completed_at"`
	ExpiresAt                                        *int64 `json:"expires_at"`
	Error                                            *struct{ Code, Message string }
}

func readOpenVideo(t *testing.T, r reply) (j openVideo) {
	t.Helper()
	if err := json.Unmarshal([]byte(r.body), &j); err != nil || r.status != 200 || j.Object != "video" {
		t.Fatalf("a reply = %d %s, %v, want a video", r.status, r.body, err)
	}
	return j
}

// The operations of OpenAI's /videos are another form of the same jobs: they cost the same and belong to the same account.
func TestOpenVideos(t *testing.T) {
	t.Parallel()
	n := newSite(t, "").start(t)
	key := n.OwnerKey()
	const body = `{"prompt":"a lighthouse at dusk","size":"720x480","seconds":"1"}`
	r := n.request("POST", "/v1/videos", key, body)
	created := readOpenVideo(t, r)
	if created.Status != "queued" || created.Size != "720x480" || created.Seconds != "1" || created.Model != "video-default" || created.CompletedAt != nil || created.ExpiresAt != nil || created.Error != nil {
		t.Errorf("POST /v1/videos = %s", r.body)
	}
	// 720 counts as 1.5 requests.
	if left := r.header.Get("x-ratelimit-remaining-requests"); left != "78" {
		t.Errorf("%s requests are left, want 78", left)
	}
	if job := n.await(key, created.ID); job.Status != "succeeded" {
		t.Fatalf("the job ended as %+v", job)
	}
	r = n.get("/v1/videos/"+created.ID, key)
	done := readOpenVideo(t, r)
	if done.Status != "completed" || done.Progress != 100 || done.CompletedAt == nil || done.ExpiresAt == nil || *done.ExpiresAt-*done.CompletedAt != 24*60*60 || !strings.Contains(r.body, `"error":null`) {
		t.Errorf("GET /v1/videos/%s = %s", created.ID, r.body)
	}
	if r := n.get("/v1/videos", key); !strings.Contains(r.body, `"first_id":"`+created.ID+`","last_id":"`+created.ID+`","has_more":false`) {
		t.Errorf("GET /v1/videos = %s, want the one", r.body)
	}
	content := n.scheme + n.Addr() + "/v1/videos/" + created.ID + "/content"
	whole := n.fetch("GET", content, key, nil)
	if len(whole.body) < 1000 || whole.body[4:8] != "ftyp" {
		t.Fatalf("GET %s = %d with %d bytes", content, whole.status, len(whole.body))
	}
	n.checkFile(content, key, whole)

	must[any](n, "account.create", admin.NewAccount{Actor: "t", Email: "b@example.com", Plan: "free"})
	other := must[admin.RawKey](n, "key.regenerate-master", admin.Target{Actor: "t", Ref: "b@example.com"}).Key
	for _, tt := range []struct {
		method, path, key string
		status            int
		says              string
	}{
		{"GET", "/v1/videos/" + created.ID, other, 404, "no video job"},
		{"GET", "/v1/videos/" + created.ID + "/content", other, 404, "no video job"},
		{"DELETE", "/v1/videos/" + created.ID, other, 404, "no video job"},
		{"GET", "/v1/videos", other, 200, `"data":[],"first_id":null,"last_id":null,"has_more":false`},
		{"GET", "/v1/videos/" + created.ID + "/content?variant=thumbnail", key, 400, `"param":"variant"`},
		{"GET", "/v1/videos?order=asc", key, 400, `"param":"order"`},
		{"GET", "/v1/videos?limit=0", key, 400, `"param":"limit"`},
		{"DELETE", "/v1/videos/" + created.ID, key, 200, `{"id":"` + created.ID + `","object":"video.deleted","deleted":true}`},
		{"DELETE", "/v1/videos/" + created.ID, key, 404, "no video job"},
		{"GET", "/v1/videos/" + created.ID, key, 404, "no video job"},
		{"GET", "/v1/videos/" + created.ID + "/content", key, 404, "no video job"},
		{"GET", videoJobs + "/" + created.ID, key, 404, "no video job"},
		{"GET", videoJobs, key, 200, `"data":[]`},
	} {
		if r := n.request(tt.method, tt.path, tt.key, ""); r.status != tt.status || !strings.Contains(r.body, tt.says) {
			t.Errorf("%s %s = %d %s, want %d with %s", tt.method, tt.path, r.status, r.body, tt.status, tt.says)
		}
	}
	used := must[admin.Usage](n, "usage", admin.UsageQuery{Ref: "owner@localhost", Days: 30, By: "model"})
	if len(used.Rows) != 1 || used.Rows[0].Requests != 1 {
		t.Errorf("usage = %+v, want the deleted video, once", used)
	}
}

// Jobs that have no video say why in OpenAI's form, and a form that is sent again with its key is the same request.
func TestOpenVideosUnfinished(t *testing.T) {
	t.Parallel()
	site := newSite(t, "")
	site.renderer = refusingRenderer{}
	n := site.start(t)
	key := n.OwnerKey()
	send := func(boundary, idempotency string) reply {
		form := "--" + boundary + "\r\nContent-Disposition: form-data; name=\"prompt\"\r\n\r\na lighthouse\r\n--" + boundary + "--\r\n"
		req, err := http.NewRequest("POST", n.scheme+n.Addr()+"/v1/videos", strings.NewReader(form))
		if err != nil {
			t.Fatal(err)
		}
		req.Header = http.Header{"Authorization": {"Bearer " + key}, "Content-Type": {"multipart/form-data; boundary=" + boundary}, "Idempotency-Key": {idempotency}}
		return n.answered(req)
	}
	first := readOpenVideo(t, send("one", "k"))
	again := send("two", "k")
	if readOpenVideo(t, again).ID != first.ID || again.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("the same form again = %s %v, want the first reply", again.body, again.header)
	}
	n.await(key, first.ID)
	j := readOpenVideo(t, n.get("/v1/videos/"+first.ID, key))
	if j.Status != "failed" || j.Error == nil || j.Error.Code != "moderation" || !strings.Contains(j.Error.Message, "Change the prompt") {
		t.Errorf("a refused video = %+v %+v, want why", j, j.Error)
	}
	if r := n.get("/v1/videos/"+first.ID+"/content", key); r.status != 404 || !strings.Contains(r.body, "has failed") {
		t.Errorf("its content = %d %s, want 404", r.status, r.body)
	}
}

// refusingRenderer is a renderer that refuses every prompt.
type refusingRenderer struct{}

func (refusingRenderer) Render(context.Context, io.Writer, *video.Task) error {
	return video.Refuse(video.Moderated, "as always")
}

// checkFile asks for a file as browsers and players do.
func (n *node) checkFile(url, key string, whole reply) {
	n.t.Helper()
	size := len(whole.body)
	etag, changed := whole.header.Get("ETag"), whole.header.Get("Last-Modified")
	if whole.header.Get("Content-Type") != "video/mp4" || whole.header.Get("Content-Length") != fmt.Sprint(size) || len(etag) < 10 || changed == "" || whole.header.Get("Accept-Ranges") != "bytes" {
		n.t.Errorf("GET %s: headers %v", url, whole.header)
	}
	past := time.Now().Add(-48 * time.Hour).UTC().Format(http.TimeFormat)
	for name, tt := range map[string]struct {
		method string
		header map[string]string
		status int
		body   string
		sent   string // Content-Range
	}{
		"all":             {"GET", nil, 200, whole.body, ""},
		"HEAD":            {"HEAD", nil, 200, "", ""},
		"from the start":  {"GET", map[string]string{"Range": "bytes=0-"}, 206, whole.body, fmt.Sprintf("bytes 0-%d/%d", size-1, size)},
		"two bytes":       {"GET", map[string]string{"Range": "bytes=4-7"}, 206, "ftyp", fmt.Sprintf("bytes 4-7/%d", size)},
		"the end":         {"GET", map[string]string{"Range": "bytes=-3"}, 206, whole.body[size-3:], fmt.Sprintf("bytes %d-%d/%d", size-3, size-1, size)},
		"HEAD of a range": {"HEAD", map[string]string{"Range": "bytes=4-7"}, 206, "", fmt.Sprintf("bytes 4-7/%d", size)},
		"beyond":          {"GET", map[string]string{"Range": "bytes=99999999-"}, 416, "", fmt.Sprintf("bytes */%d", size)},
		"same":            {"GET", map[string]string{"If-None-Match": etag}, 304, "", ""},
		"same since":      {"GET", map[string]string{"If-Modified-Since": changed}, 304, "", ""},
		"changed since":   {"GET", map[string]string{"If-Modified-Since": past}, 200, whole.body, ""},
		"another":         {"GET", map[string]string{"If-None-Match": `"x"`}, 200, whole.body, ""},
		"if it is":        {"GET", map[string]string{"If-Match": etag}, 200, whole.body, ""},
		"if it is other":  {"GET", map[string]string{"If-Match": `"x"`}, 412, "", ""},
		"range of same":   {"GET", map[string]string{"Range": "bytes=4-7", "If-Range": etag}, 206, "ftyp", fmt.Sprintf("bytes 4-7/%d", size)},
		"range of other":  {"GET", map[string]string{"Range": "bytes=4-7", "If-Range": `"x"`}, 200, whole.body, ""},
	} {
		r := n.fetch(tt.method, url, key, tt.header)
		good := r.body == tt.body
		if tt.status >= 400 {
			good = r.header.Get("Content-Type") == "application/json" && strings.Contains(r.body, fmt.Sprintf(`"code":%d`, tt.status)) && r.header.Get("ETag") == ""
		}
		if r.status != tt.status || !good || r.header.Get("Content-Range") != tt.sent || r.header.Get("x-request-id") == "" {
			n.t.Errorf("%s %s (%s) = %d with %d bytes and %v, want %d with %d", tt.method, url, name, r.status, len(r.body), r.header, tt.status, len(tt.body))
		}
	}
	page := n.fetch("GET", url, key, map[string]string{"Origin": "https://page.example"})
	if page.header.Get("Access-Control-Allow-Origin") != "*" {
		n.t.Errorf("GET %s from a page: headers %v, want it allowed", url, page.header)
	}
}

// checkLink alters a link in every part.
func (n *node) checkLink(link, generation string) {
	n.t.Helper()
	last := "0"
	if strings.HasSuffix(generation, last) {
		last = "1"
	}
	for name, altered := range map[string]string{
		"another object":    strings.Replace(link, generation, generation[:len(generation)-1]+last, 1),
		"a longer life":     strings.Replace(link, "expires=1", "expires=2", 1),
		"an old expiry":     strings.Replace(link, "expires=1", "expires=0", 1),
		"a signature more":  link + "0",
		"a signature less":  link[:len(link)-1],
		"no signature":      link[:strings.Index(link, "&")],
		"no query":          link[:strings.Index(link, "?")],
		"another signature": link[:len(link)-4] + "0000",
	} {
		r := n.fetch("GET", altered, "", nil)
		if r.status != 403 || !strings.Contains(r.body, `"type":"permission_error","code":403`) || r.header.Get("Content-Type") != "application/json" {
			n.t.Errorf("a link with %s = %d %s, want 403", name, r.status, r.body)
		}
	}
	if r := n.get("/files/x", ""); r.status != 404 {
		n.t.Errorf("GET /files/x = %d %s, want 404", r.status, r.body)
	}
}

func TestVideoRefusals(t *testing.T) {
	t.Parallel()
	n := newSite(t, "").start(t)
	key := n.OwnerKey()
	for _, tt := range []struct{ body, param string }{
		{`{`, ""},
		{`{"width":480}`, "prompt"},
		{`{"prompt":"x","model":"sora"}`, "model"},
		{`{"prompt":"x","width":481}`, "width"},
		{`{"prompt":"x","height":"480"}`, "height"},
		{`{"prompt":"x","n_seconds":21}`, "n_seconds"},
	} {
		r := n.request("POST", videoJobs, key, tt.body)
		if r.status != 400 || !strings.Contains(r.body, `"invalid_request_error"`) || tt.param != "" && !strings.Contains(r.body, `"param":"`+tt.param+`"`) {
			t.Errorf("POST %s %s = %d %s, want 400 at %q", videoJobs, tt.body, r.status, r.body, tt.param)
		}
	}
	for _, query := range []string{"?limit=0", "?limit=101", "?limit=x", "?after=job_none"} {
		if r := n.get(videoJobs+query, key); r.status != 400 || !strings.Contains(r.body, `"param":"`+query[1:strings.Index(query, "=")]) {
			t.Errorf("GET %s = %d %s, want 400", videoJobs+query, r.status, r.body)
		}
	}
	if r := n.request("PUT", videoJobs, key, ""); r.status != 405 || r.header.Get("Allow") != "GET, HEAD, POST" {
		t.Errorf("PUT %s = %d %v, want 405", videoJobs, r.status, r.header)
	}
	if r := n.get("/v1/account", key); !strings.Contains(r.body, `"requests":{"left":80`) {
		t.Errorf("what was refused used something up: %s", r.body)
	}
}

// A job is created once for a key, waits for its turn, can be cancelled, and counts after a restart.
func TestVideoQueue(t *testing.T) {
	t.Parallel()
	site := newSite(t, "video: {workers: 1}\n")
	n := site.start(t)
	account := must[admin.CreatedAccount](n, "account.create", admin.NewAccount{Actor: "t", Email: "b@example.com", Plan: "basic"})
	key := account.MasterKey
	long := `{"prompt":"slow","width":1920,"height":1920,"n_seconds":20}`
	running := readVideo(t, n.request("POST", videoJobs, key, long))
	create := func(body string) reply {
		t.Helper()
		req, err := http.NewRequest("POST", n.scheme+n.Addr()+videoJobs, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+key)
		req.Header.Set("Idempotency-Key", "one")
		resp, err := n.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return reply{status: resp.StatusCode, header: resp.Header, body: string(text)}
	}
	first, again := create(clip), create(clip)
	if first.status != 200 || again.body != first.body || again.header.Get("idempotent-replayed") != "true" || first.header.Get("idempotent-replayed") != "" {
		t.Errorf("the same key twice = %s and %s, want the same", first.body, again.body)
	}
	if r := create(long); r.status != 400 || !strings.Contains(r.body, "Idempotency-Key") {
		t.Errorf("the same key with another body = %d %s, want 400", r.status, r.body)
	}
	waiting := readVideo(t, first)
	if r := n.get("/v1/account", key); !strings.Contains(r.body, `"requests":{"left":6`) {
		t.Errorf("two jobs of 2 and 1 requests and a repeat leave %s, want 6", r.body)
	}
	list := n.get(videoJobs+"?limit=1", key)
	if !strings.Contains(list.body, waiting.ID) || strings.Contains(list.body, running.ID) || !strings.Contains(list.body, `"has_more":true`) {
		t.Errorf("the newest job = %s, want %s and more", list.body, waiting.ID)
	}
	list = n.get(videoJobs+"?after="+waiting.ID, key)
	if !strings.Contains(list.body, running.ID) || !strings.Contains(list.body, `"has_more":false`) {
		t.Errorf("behind the newest job = %s, want %s and no more", list.body, running.ID)
	}
	// Cancelled before it ran: its request is used all the same.
	if j := readVideo(t, n.request("DELETE", videoJobs+"/"+waiting.ID, key, "")); j.Status != "cancelled" {
		t.Errorf("DELETE of a waiting job = %+v", j)
	}
	if r := n.get("/v1/account", key); !strings.Contains(r.body, `"requests":{"left":6`) {
		t.Errorf("what was cancelled before it ran leaves %s, want 6", r.body)
	}
	// A restart takes the running job up again, and its requests still count.
	eventually(t, "the job's beginning", func() bool { return readVideo(t, n.get(videoJobs+"/"+running.ID, key)).Status == "running" })
	n.stop()
	n = site.start(t)
	if r := n.get("/v1/account", key); !strings.Contains(r.body, `"requests":{"left":7`) { // a repeat leaves no record
		t.Errorf("behind a restart %s, want 7 left", r.body)
	}
	eventually(t, "the job's second beginning", func() bool { return readVideo(t, n.get(videoJobs+"/"+running.ID, key)).Status == "running" })
	if j := readVideo(t, n.request("DELETE", videoJobs+"/"+running.ID, key, "")); j.Status != "cancelled" || j.FinishedAt == 0 || j.Generations != nil {
		t.Errorf("DELETE of a running job = %+v", j)
	}
	quick := n.film(key, clip)
	if quick.Status != "succeeded" {
		t.Errorf("behind the cancelled one = %+v, want it made", quick)
	}
	if left := slices.DeleteFunc(n.files(), func(name string) bool { return strings.HasPrefix(name, quick.ID) }); len(left) > 0 {
		t.Errorf("files of jobs without a video are left: %q", left)
	}
}

// files are the names of all files of videos, unfinished ones included.
func (n *node) files() (names []string) {
	n.t.Helper()
	for _, dir := range []string{"tmp", "videos"} {
		entries, err := os.ReadDir(filepath.Join(n.site.data(), "files", dir))
		if err != nil && !os.IsNotExist(err) {
			n.t.Fatal(err)
		}
		for _, e := range entries {
			names = append(names, e.Name())
		}
	}
	return names
}

// The caps of plans answer 429 like any other limit.
func TestVideoLimits(t *testing.T) {
	t.Parallel()
	n := newSite(t, "video: {workers: 1}\nplans: {free: {requests_per_minute: unlimited}, basic: {unfinished_videos: 1}}\n").start(t)
	key := must[admin.CreatedAccount](n, "account.create", admin.NewAccount{Actor: "t", Email: "b@example.com", Plan: "free"}).MasterKey
	long := `{"prompt":"slow","width":1920,"height":1920,"n_seconds":20}`
	var ids []string
	for range 2 {
		ids = append(ids, readVideo(t, n.request("POST", videoJobs, key, long)).ID)
	}
	r := n.request("POST", videoJobs, key, clip)
	if r.status != 429 || !strings.Contains(r.body, "2 is the most") || r.header.Get("Retry-After") == "" || r.header.Get("x-ratelimit-limit-tokens") != "150000" {
		t.Errorf("a third job = %d %s %v, want 429", r.status, r.body, r.header)
	}
	for _, id := range ids {
		readVideo(t, n.request("DELETE", videoJobs+"/"+id, key, ""))
	}
	if r := n.request("POST", videoJobs, key, clip); r.status != 200 {
		t.Errorf("behind cancelled ones = %d %s, want 200", r.status, r.body)
	}
	none := must[admin.CreatedAccount](n, "account.create", admin.NewAccount{Actor: "t", Email: "c@example.com", Plan: "none"}).MasterKey
	for _, want := range []int{200, 429} { // two requests a minute, two of them for 1080
		r := n.request("POST", videoJobs, none, `{"prompt":"x","height":1080,"n_seconds":1}`)
		if r.status != want || r.header.Get("x-ratelimit-remaining-requests") != "0" {
			t.Errorf("a job of 2 requests = %d %s, want %d", r.status, r.body, want)
		}
	}
}

// describeFiles holds the replies of a finished video against the description.
func (n *node) describeFiles(d *description) {
	n.t.Helper()
	key := n.OwnerKey()
	job := n.film(key, clip)
	d.check(n.t, "GET", videoJobs+"/{id}", n.get(videoJobs+"/"+job.ID, key))
	d.check(n.t, "GET", videoJobs, n.get(videoJobs, key))
	d.check(n.t, "DELETE", videoJobs+"/{id}", n.request("DELETE", videoJobs+"/"+job.ID, key, ""))
	generation, link := job.Generations[0].ID, job.Generations[0].Output.VideoURL
	for path, url := range map[string]string{
		"/v1/video/generations/{id}/content/video": n.scheme + n.Addr() + "/v1/video/generations/" + generation + "/content/video",
		"/v1/videos/{id}/content":                  n.scheme + n.Addr() + "/v1/videos/" + job.ID + "/content",
		"/files/{file}":                            link,
	} {
		whole := n.fetch("GET", url, key, nil)
		d.check(n.t, "GET", path, whole)
		for _, header := range []map[string]string{
			{"Range": "bytes=0-9"}, {"Range": "bytes=99999999-"}, {"If-None-Match": whole.header.Get("ETag")}, {"If-Match": `"x"`},
		} {
			d.check(n.t, "GET", path, n.fetch("GET", url, key, header))
		}
	}
	d.check(n.t, "GET", "/v1/video/generations/{id}/content/video", n.get("/v1/video/generations/gen_none/content/video", key))
	d.check(n.t, "GET", "/files/{file}", n.fetch("GET", link+"0", "", nil))
	d.check(n.t, "GET", "/files/{file}", n.get("/files/none", ""))
	d.check(n.t, "GET", "/v1/videos/{id}", n.get("/v1/videos/"+job.ID, key))
	d.check(n.t, "GET", "/v1/videos", n.get("/v1/videos", key))
	d.check(n.t, "DELETE", "/v1/videos/{id}", n.request("DELETE", "/v1/videos/"+job.ID, key, ""))
}

// vendor is a service of OpenAI's form that finishes a video when it is told to.
type vendor struct {
	server *httptest.Server
	begun  atomic.Int32
	ready  atomic.Bool
}

const vendorKey = "vendor-key-canary"

func newVendor(t *testing.T) *vendor {
	t.Helper()
	v := &vendor{}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/videos", func(w http.ResponseWriter, _ *http.Request) {
		v.begun.Add(1)
		io.WriteString(w, `{"id":"video_1","status":"queued"}`)
	})
	mux.HandleFunc("GET /v1/videos/video_1", func(w http.ResponseWriter, _ *http.Request) {
		if v.ready.Load() {
			io.WriteString(w, `{"id":"video_1","status":"completed","progress":100}`)
			return
		}
		io.WriteString(w, `{"id":"video_1","status":"in_progress","progress":40}`)
	})
	mux.HandleFunc("GET /v1/videos/video_1/content", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "video/mp4")
		io.WriteString(w, "a film of the vendor's")
	})
	v.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+vendorKey {
			t.Errorf("%s %s came with %v, want the key the job was begun with", r.Method, r.URL, r.Header)
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(v.server.Close)
	return v
}

// A vendor's job is begun once, though the gateway starts again with another provider in its place; and the key is
// nowhere to be seen.
func TestVideoVendor(t *testing.T) {
	t.Parallel()
	v := newVendor(t)
	entry := fmt.Sprintf("{name: old, kind: openai, base_url: %q, api_key: %s, model: sora-2}", v.server.URL+"/v1", vendorKey)
	site := newSite(t, "video: {provider: old, providers: ["+entry+"]}\n")
	n := site.start(t)
	key := n.OwnerKey()
	id := readVideo(t, n.request("POST", videoJobs, key, clip)).ID
	eventually(t, "the vendor's progress", func() bool { return readVideo(t, n.get(videoJobs+"/"+id, key)).Progress == 40 })
	n.stop()
	log := n.log.String()
	site.write(t, "video: {provider: new, providers: ["+entry+", {name: new, kind: veo, base_url: \"http://127.0.0.1:1\", api_key: other, model: veo}]}\n")
	v.ready.Store(true)
	n = site.start(t)
	job := n.await(key, id)
	if job.Status != "succeeded" || v.begun.Load() != 1 {
		t.Fatalf("the job ended as %+v after %d beginnings, want it made, begun once", job, v.begun.Load())
	}
	if r := n.fetch("GET", job.Generations[0].Output.VideoURL, "", nil); r.body != "a film of the vendor's" {
		t.Errorf("the file is %q", r.body)
	}
	if log += n.log.String(); strings.Contains(log, vendorKey) {
		t.Errorf("the log tells the vendor's key:\n%s", log)
	}
}

// A video of OpenRouter's: the model's own lengths are asked for, and the file comes from its content endpoint.
func TestVideoOfOpenRouter(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/videos/models", func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, `{"data":[{"id":"alibaba/wan-2.7","supported_resolutions":["480p"],"supported_aspect_ratios":["16:9","1:1"],"supported_durations":[5,10]}]}`)
	})
	mux.HandleFunc("POST /api/v1/videos", func(w http.ResponseWriter, r *http.Request) {
		const want = `{"model":"alibaba/wan-2.7","prompt":"a lighthouse at dusk","duration":5,"resolution":"480p","aspect_ratio":"1:1"}`
		if body, _ := io.ReadAll(r.Body); string(body) != want {
			w.WriteHeader(http.StatusBadRequest)
			t.Errorf("POST /videos came with %s, want %s", body, want)
			return
		}
		w.WriteHeader(http.StatusAccepted)
		io.WriteString(w, `{"id":"job-1","polling_url":"/api/v1/videos/job-1","status":"pending"}`)
	})
	mux.HandleFunc("GET /api/v1/videos/job-1", func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, `{"id":"job-1","polling_url":"/api/v1/videos/job-1","status":"completed","unsigned_urls":["https://elsewhere.example/x"]}`)
	})
	mux.HandleFunc("GET /api/v1/videos/job-1/content", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "video/mp4")
		io.WriteString(w, "a film of the vendor's")
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	n := newSite(t, fmt.Sprintf("video: {provider: r, providers: [{name: r, kind: openrouter-video, base_url: %q, api_key: k, model: alibaba/wan-2.7}]}\n", server.URL+"/api/v1")).start(t)
	key := n.OwnerKey()
	job := n.film(key, clip)
	if job.Status != "succeeded" {
		t.Fatalf("the job ended as %+v, want it made", job)
	}
	if r := n.get("/v1/videos/"+job.ID+"/content", key); r.body != "a film of the vendor's" {
		t.Errorf("the file is %q", r.body)
	}
}

// sketcher is the renderer of apps in tests. It draws no picture: drawing has tests of its own, cmd/sluice has those of
// the whole program with it, and what is about jobs is the same. A size that only a patient person would ask for never
// gets ready.
type sketcher struct{}

func (sketcher) Render(ctx context.Context, w io.Writer, t *video.Task) error {
	if t.Width*t.Seconds > 10_000 {
		<-ctx.Done()
		return errors.Join(ctx.Err(), context.Cause(ctx))
	}
	t.Progress(50)
	_, err := io.WriteString(w, "\x00\x00\x00\x18ftyp"+strings.Repeat(t.Prompt, 100))
	return err
}
