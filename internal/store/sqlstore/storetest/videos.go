package storetest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/account"
	"sluice/internal/kit/fault"
	"sluice/internal/ledger/price"
	"sluice/internal/ledger/usage"
	"sluice/internal/store/sqlstore/alltest"
	"sluice/internal/video"
)

// newVideo returns job n of an account, created n seconds after base.
func newVideo(accountID string, n int) *video.Job {
	at := base.Add(time.Duration(n) * time.Second)
	j := &video.Job{
		ID: fmt.Sprintf("job_%s%03d", accountID, n), AccountID: accountID, KeyID: "key_1", Plan: account.Basic, Tier: account.Free,
		Request: video.Request{Prompt: "a lighthouse at dusk · 灯台", Model: "video-default", Width: 1280, Height: 720, Seconds: 5}, CostMilli: 1500,
		Status: video.Queued, CreatedAt: at, ExpiresAt: at.Add(24 * time.Hour),
	}
	if n%2 == 1 { // it is of an account with budgets
		j.Most = new(price.Nano(2_250_000_000))
		j.Budgets = []usage.Charge{{Count: "bud_1", Period: 1_770_000_000_000, Holder: "job/" + j.ID, Reserved: *j.Most, Amount: 5_000_000_000, After: time.Millisecond}, {Count: "bud_2"}}
	}
	return j
}

// anyLoad accepts every job.
func anyLoad(video.Load) error { return nil }

// createVideo stores a new job and returns it.
func createVideo(t testing.TB, s *alltest.Store, accountID string, n int) *video.Job {
	t.Helper()
	j := newVideo(accountID, n)
	if first, err := s.CreateVideo(t.Context(), j, anyLoad); err != nil || first != nil {
		t.Fatalf("CreateVideo(%s) = %v, %v", j.ID, first, err)
	}
	return j
}

// findVideo returns a job by its id or generation, or nil.
func findVideo(t testing.TB, s *alltest.Store, id string) *video.Job {
	t.Helper()
	j, err := s.FindVideo(t.Context(), id)
	if err != nil {
		t.Fatalf("FindVideo(%s) = %v", id, err)
	}
	return j
}

// claim claims the next job for a node until the given time. It returns nil if none is waiting.
func claim(t testing.TB, s *alltest.Store, node string, now, until time.Time) *video.Job {
	t.Helper()
	j, err := s.ClaimVideo(t.Context(), now, func(j *video.Job) {
		j.Status, j.Node, j.Until = video.Running, node, until
		j.Attempts++
	})
	if err != nil {
		t.Fatalf("ClaimVideo = %v", err)
	}
	return j
}

// ids returns the ids of jobs.
func ids(jobs []video.Job) []string {
	var out []string
	for i := range jobs {
		out = append(out, jobs[i].ID)
	}
	return out
}

// videos checks how jobs are found and listed in pages, newest first.
func videos(t *testing.T, open func() *alltest.Store) {
	s := open()
	var want []string
	for n := range 5 {
		want = append(want, createVideo(t, s, "a", n).ID)
	}
	slices.Reverse(want)
	other := createVideo(t, s, "b", 9)
	if diff := cmp.Diff(newVideo("b", 9), findVideo(t, s, other.ID)); diff != "" {
		t.Errorf("FindVideo: -want +got\n%s", diff)
	}
	if j := findVideo(t, s, "job_none"); j != nil {
		t.Errorf("FindVideo of nothing = %+v, want nil", j)
	}
	var got []string
	// The page continues behind this job; nil is the start.
	var behind *video.Job
	for {
		page, err := s.Videos(t.Context(), "a", behind, 2)
		if err != nil {
			t.Fatalf("Videos = %v", err)
		}
		got = append(got, ids(page)...)
		if len(page) < 2 {
			break
		}
		behind = &page[1]
	}
	if !slices.Equal(got, want) {
		t.Errorf("Videos in pages = %q, want %q", got, want)
	}
	// A node that starts reads the jobs of the last minute, which count against the rate limits.
	since, err := s.VideosSince(t.Context(), base.Add(3*time.Second))
	if want := []string{"job_a003", "job_a004", "job_b009"}; err != nil || !slices.Equal(ids(since), want) {
		t.Errorf("VideosSince = %q, %v, want %q", ids(since), err, want)
	}
}

// videoChanges checks that every field of a job is stored together with its settlement, and that a
// refused change is not. A job that ends without its settlement would be free.
func videoChanges(t *testing.T, open func() *alltest.Store) {
	s := open()
	want := createVideo(t, s, "a", 1)
	end := base.Add(time.Minute)
	// Every field that changes after the creation.
	set := func(j *video.Job) {
		j.Status, j.Progress, j.Reason, j.StartedAt, j.FinishedAt, j.ExpiresAt = video.Succeeded, 100, video.Internal, base.Add(time.Second), end, end.Add(time.Hour)
		j.Attempts, j.Node, j.Until, j.Renderer, j.Credential, j.Upstream = 3, "node", end, "sora", "c", "up"
		j.Generation, j.Size, j.SHA256 = "gen_1", 1<<33, "abc"
	}
	settlement := usage.Settlement{
		ID: want.ID, At: want.CreatedAt, AccountID: "a", KeyID: "key_1", Plan: "basic", Tier: "free", Door: usage.DoorVideos, ModelAsked: "video-default", ModelUsed: "video-default",
		Provider: "sora", RequestMilli: 1500, UnitMilli: 1500, Status: 200, End: usage.EndComplete, Latency: time.Minute,
	}
	for range 2 { // the same settlement counts once
		got, err := s.ChangeVideo(t.Context(), want.ID, func(j *video.Job) (*usage.Settlement, error) {
			set(j)
			return &settlement, nil
		})
		if err != nil {
			t.Fatalf("ChangeVideo = %v", err)
		}
		set(want)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("ChangeVideo: -want +got\n%s", diff)
		}
	}
	for _, id := range []string{want.ID, "gen_1"} {
		if diff := cmp.Diff(want, findVideo(t, s, id)); diff != "" {
			t.Errorf("FindVideo(%s): -want +got\n%s", id, diff)
		}
	}
	rows, err := s.UsageByDay(t.Context(), "a", base.Add(-24*time.Hour))
	if err != nil || len(rows) != 1 || rows[0].Requests != 1 || rows[0].UnitMilli != 1500 || rows[0].RequestMilli != 1500 {
		t.Errorf("UsageByDay = %+v, %v, want one settlement of 1.5", rows, err)
	}

	no := errors.New("no")
	_, err = s.ChangeVideo(t.Context(), want.ID, func(j *video.Job) (*usage.Settlement, error) {
		j.Status = video.Failed
		return &usage.Settlement{ID: "x", At: base}, no
	})
	// An error of the change is not taken for a failure of the database.
	if !errors.Is(err, no) || fault.Is(err, fault.Unavailable) {
		t.Errorf("ChangeVideo = %v, want the change's own error", err)
	}
	if diff := cmp.Diff(want, findVideo(t, s, want.ID)); diff != "" {
		t.Errorf("a refused change left a trace: -want +got\n%s", diff)
	}
	if _, err := s.ChangeVideo(t.Context(), "job_none", nil); !errors.Is(err, video.ErrGone) {
		t.Errorf("ChangeVideo of nothing = %v, want ErrGone", err)
	}
}

// videoOnce checks that concurrent requests with the same idempotency key create one job
// (docs/api.md#idempotency).
func videoOnce(t *testing.T, open func() *alltest.Store) {
	s := open()
	var wg sync.WaitGroup
	var mu sync.Mutex
	made := map[string]int{} // by id of the job returned; "" for a new one
	for n := range 20 {
		wg.Go(func() {
			j := newVideo("a", n)
			j.Repeat, j.Body = []byte{1, 0, 2}, []byte{3}
			first, err := s.CreateVideo(t.Context(), j, anyLoad)
			if err != nil {
				t.Errorf("CreateVideo = %v", err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			if first == nil {
				made[""]++
			} else {
				made[first.ID]++
			}
		})
	}
	wg.Wait()
	if made[""] != 1 || len(made) != 2 {
		t.Errorf("20 jobs with one key came to %v, want one new and 19 times that", made)
	}
	// The job keeps the hash of its body, so that a repeated key with another body can be refused.
	first, err := s.FindRepeat(t.Context(), "a", []byte{1, 0, 2})
	if err != nil || first == nil || made[first.ID] != 19 || !slices.Equal(first.Body, []byte{3}) {
		t.Errorf("FindRepeat = %+v, %v, want the one there is", first, err)
	}
	if other, err := s.FindRepeat(t.Context(), "b", []byte{1, 0, 2}); err != nil || other != nil {
		t.Errorf("FindRepeat of another account = %+v, %v, want nil", other, err)
	}
}

// videoLoad checks the load that an account is judged by, and that its limit holds for concurrent
// requests.
func videoLoad(t *testing.T, open func() *alltest.Store) {
	s := open()
	full := errors.New("full")
	for n := range 4 {
		createVideo(t, s, "a", n)
	}
	createVideo(t, s, "b", 1)
	// Two of the four have ended and hold files.
	for n, size := range []int64{100, 50} {
		id := newVideo("a", n).ID
		_, err := s.ChangeVideo(t.Context(), id, func(j *video.Job) (*usage.Settlement, error) {
			j.Status, j.Size, j.ExpiresAt = video.Succeeded, size, base.Add(time.Duration(n+5)*time.Hour)
			return nil, nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err := s.CreateVideo(t.Context(), newVideo("a", 9), func(have video.Load) error {
		if want := (video.Load{Unfinished: 2, Bytes: 150, NextExpiry: base.Add(5 * time.Hour)}); have != want {
			t.Errorf("CreateVideo: the account has %+v, want %+v", have, want)
		}
		return full
	})
	if !errors.Is(err, full) || findVideo(t, s, newVideo("a", 9).ID) != nil {
		t.Errorf("CreateVideo = %v, want it refused", err)
	}
	// The limit holds for concurrent callers.
	var wg sync.WaitGroup
	for n := range 20 {
		wg.Go(func() {
			_, err := s.CreateVideo(t.Context(), newVideo("c", n), func(have video.Load) error {
				if have.Unfinished >= 5 {
					return fault.New(fault.RateLimited, "full")
				}
				return nil
			})
			if err != nil && !fault.Is(err, fault.RateLimited) {
				t.Errorf("CreateVideo = %v", err)
			}
		})
	}
	wg.Wait()
	if jobs, err := s.Videos(t.Context(), "c", nil, 100); err != nil || len(jobs) != 5 {
		t.Errorf("20 callers at once made %d jobs, %v, want 5", len(jobs), err)
	}
}

// videoTurns checks that accounts take turns: one with many jobs does not delay the others.
func videoTurns(t *testing.T, open func() *alltest.Store) {
	s := open()
	for n := range 4 {
		createVideo(t, s, "a", n)
	}
	createVideo(t, s, "b", 10)
	createVideo(t, s, "c", 11)
	createVideo(t, s, "b", 12)
	var got []string
	for {
		j := claim(t, s, "n", base.Add(time.Hour), base.Add(2*time.Hour))
		if j == nil {
			break
		}
		got = append(got, j.ID)
	}
	// Within an account the oldest job comes first.
	want := []string{"job_a000", "job_b010", "job_c011", "job_a001", "job_b012", "job_a002", "job_a003"}
	if !slices.Equal(got, want) {
		t.Errorf("jobs were claimed in the order %q, want %q", got, want)
	}
}

// videoClaims checks that every job is claimed once, by whichever node, and again after its claim
// lapsed or was released.
func videoClaims(t *testing.T, open func() *alltest.Store) {
	s := open()
	now := base.Add(time.Hour)
	const jobs = 40
	for n := range jobs {
		createVideo(t, s, fmt.Sprint("a", n%3, "_"), n)
	}
	// Two processes with four workers each: every job goes to exactly one.
	stores := []*alltest.Store{s, open()}
	var wg sync.WaitGroup
	var mu sync.Mutex
	got := map[string]int{}
	for i := range 8 {
		wg.Go(func() {
			for misses := 0; misses < 5; { // rows that others have locked are skipped
				j := claim(t, stores[i%2], fmt.Sprint("node", i%2), now, now.Add(time.Minute))
				if j == nil {
					misses++
					continue
				}
				mu.Lock()
				got[j.ID]++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	for id, n := range got {
		if n != 1 {
			t.Errorf("%s was claimed %d times", id, n)
		}
	}
	if len(got) != jobs {
		t.Errorf("%d jobs were claimed, want %d", len(got), jobs)
	}
	waiting := func(now time.Time, want int, since time.Time) {
		t.Helper()
		n, oldest, err := s.WaitingVideos(t.Context(), now)
		if err != nil || n != want || !oldest.Equal(since) {
			t.Errorf("WaitingVideos = %d since %s, %v, want %d since %s", n, oldest, err, want, since)
		}
	}
	waiting(now, 0, time.Time{})
	waiting(now.Add(time.Minute), jobs, base) // when their claims lapse
	// All claims are held now, so a claim before they lapse finds nothing.
	if j := claim(t, s, "x", now.Add(time.Minute-1), now); j != nil {
		t.Errorf("%s was claimed before its claim lapsed", j.ID)
	}
	// A node that stops releases its jobs, so that others need not wait until the claims lapse.
	if err := s.ReleaseVideos(t.Context(), "node0"); err != nil {
		t.Fatalf("ReleaseVideos = %v", err)
	}
	released := 0
	for j := claim(t, s, "x", now, now.Add(time.Hour)); j != nil; j = claim(t, s, "x", now, now.Add(time.Hour)) {
		if j.Attempts != 2 || j.Node != "x" {
			t.Errorf("a released job = %+v, want its second attempt", j)
		}
		released++
	}
	lapsed := 0
	for j := claim(t, s, "y", now.Add(time.Minute), now.Add(time.Hour)); j != nil; j = claim(t, s, "y", now.Add(time.Minute), now.Add(time.Hour)) {
		lapsed++
	}
	if released+lapsed != jobs {
		t.Errorf("%d jobs were released and %d had lapsed, want %d in all", released, lapsed, jobs)
	}
}

// videoExpiry checks that jobs with a file and expired jobs are found, and that jobs can be deleted. Deleting twice is no error, since
// two nodes may clean up at the same time.
func videoExpiry(t *testing.T, open func() *alltest.Store) {
	s := open()
	for n := range 3 {
		createVideo(t, s, "a", n)
	}
	for _, id := range []string{"job_a001", "job_a002"} {
		if _, err := s.ChangeVideo(t.Context(), id, func(j *video.Job) (*usage.Settlement, error) {
			j.Generation = "gen_of_" + id
			return nil, nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	for after, want := range map[string][]string{"": {"job_a001", "job_a002"}, "job_a001": {"job_a002"}, "job_a002": nil} {
		if jobs, err := s.FinishedVideos(t.Context(), after, 10); err != nil || !slices.Equal(ids(jobs), want) {
			t.Errorf("FinishedVideos after %q = %q, %v, want %q", after, ids(jobs), err, want)
		}
	}
	// The third job expires a second later.
	old, err := s.ExpiredVideos(t.Context(), base.Add(24*time.Hour+time.Second), 10)
	if want := []string{"job_a000", "job_a001"}; err != nil || !slices.Equal(ids(old), want) {
		t.Errorf("ExpiredVideos = %q, %v, want %q", ids(old), err, want)
	}
	for range 2 { // deleting again is not an error
		if err := s.DeleteVideo(t.Context(), "job_a000"); err != nil {
			t.Errorf("DeleteVideo = %v", err)
		}
	}
	if j := findVideo(t, s, "job_a000"); j != nil {
		t.Errorf("a deleted job is still there: %+v", j)
	}
}

// secrets checks that all processes get the secret that the first one stored. A link that one node has
// signed must work on the others.
func secrets(t *testing.T, open func() *alltest.Store) {
	one, two := open(), open()
	first, err := one.Secret(t.Context(), "links", []byte{1, 0, 255})
	if err != nil || !slices.Equal(first, []byte{1, 0, 255}) {
		t.Errorf("Secret = %v, %v, want the fresh one", first, err)
	}
	again, err := two.Secret(t.Context(), "links", []byte{2})
	if err != nil || !slices.Equal(again, first) {
		t.Errorf("Secret of another process = %v, %v, want %v", again, err, first)
	}
	if other, err := two.Secret(t.Context(), "other", []byte{2}); err != nil || !slices.Equal(other, []byte{2}) {
		t.Errorf("Secret of another name = %v, %v", other, err)
	}
}
