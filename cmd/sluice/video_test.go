package main

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/internal/testkit/pgtest"
	"sluice/sandbox/clips"
)

const videoJobsPath = "/v1/video/generations/jobs"

// studio is a gateway and the video jobs that were created on it.
type studio struct {
	*gateway
	key   string
	asked map[string]bool // the ids that were answered
}

// ask makes a request. The status is 0 if there was no reply.
func (s *studio) ask(method, path, body string) (status int, text []byte) {
	s.t.Helper()
	req, err := http.NewRequest(method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+s.key)
	client := &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return 0, nil
	}
	defer resp.Body.Close()
	if text, err = io.ReadAll(resp.Body); err != nil {
		return 0, nil
	}
	return resp.StatusCode, text
}

// order creates a job with a prompt.
func (s *studio) order(prompt string, seconds int) {
	s.t.Helper()
	status, text := s.ask("POST", videoJobsPath, fmt.Sprintf(`{"prompt":%q,"width":480,"height":480,"n_seconds":%d}`, prompt, seconds))
	if status == 0 {
		return // killed: the job may exist all the same
	}
	var job videoJob
	if err := json.Unmarshal(text, &job); err != nil || status != 200 {
		s.t.Fatalf("POST %s = %d %s", videoJobsPath, status, text)
	}
	s.asked[job.ID] = true
}

// jobs returns all jobs.
func (s *studio) jobs() map[string]videoJob {
	s.t.Helper()
	all := map[string]videoJob{}
	for after := ""; ; {
		status, text := s.ask("GET", videoJobsPath+"?limit=100"+after, "")
		var page struct {
			Data    []videoJob `json:"data"`
			HasMore bool       `json:"has_more"`
		}
		if err := json.Unmarshal(text, &page); err != nil || status != 200 {
			s.t.Fatalf("GET %s = %d %s", videoJobsPath, status, text)
		}
		for _, j := range page.Data {
			all[j.ID] = j
			after = "&after=" + j.ID
		}
		if !page.HasMore {
			return all
		}
	}
}

// unfinished counts jobs that have not ended.
func (s *studio) unfinished() (n int) {
	s.t.Helper()
	for _, j := range s.jobs() {
		if j.Status == "queued" || j.Status == "running" {
			n++
		}
	}
	return n
}

// begun returns how many jobs have started or ended.
func (s *studio) begun() (n int) {
	s.t.Helper()
	for _, j := range s.jobs() {
		if j.Status != "queued" {
			n++
		}
	}
	return n
}

// within waits longer for a condition than other tests do, because videos take time.
func within(t *testing.T, bound time.Duration, what string, holds func() bool) {
	t.Helper()
	for deadline := time.After(bound); !holds(); {
		select {
		case <-deadline:
			t.Fatalf("%s did not come within %v", what, bound)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// check compares every job with its file and its settlement.
func (s *studio) check(driver, source, files string, prompt string, seconds int) (succeeded, attempts int) {
	s.t.Helper()
	var want bytes.Buffer
	if err := clips.Render(s.t.Context(), &want, clips.Spec{Prompt: prompt, Width: 480, Height: 480, Seconds: seconds}, nil); err != nil {
		s.t.Fatal(err)
	}
	jobs := s.jobs()
	for id := range s.asked {
		if _, there := jobs[id]; !there {
			s.t.Errorf("the job %s was accepted and is gone", id)
		}
	}
	charged := s.charges(driver, source)
	for id, j := range jobs {
		c := charged[id]
		attempts += c.attempts
		switch {
		case j.Status == "succeeded":
			succeeded++
			if status, film := s.ask("GET", "/v1/video/generations/"+j.Generations[0].ID+"/content/video", ""); status != 200 || !bytes.Equal(film, want.Bytes()) {
				s.t.Errorf("the video of %s = %d with %d bytes, want the %d it has when nothing is killed", id, status, len(film), want.Len())
			}
			if c.settled != 1 || c.units != 1000 || c.ending != "complete" {
				s.t.Errorf("the job %s succeeded and is settled as %+v, want one charge", id, c)
			}
		case j.Status == "failed" && j.FailureReason == "interrupted":
			if c.settled != 1 || c.units != 0 || c.ending != "failed" {
				s.t.Errorf("the job %s was interrupted and is settled as %+v, want it given back", id, c)
			}
		default:
			s.t.Errorf("the job %s is %s %s", id, j.Status, j.FailureReason)
		}
	}
	s.checkFolders(files, succeeded)
	if code, out, text := s.command("audit"); code != 0 {
		s.t.Errorf("sluice audit = %d, want 0\n%s%s", code, out, text)
	}
	return succeeded, attempts
}

// checkFolders checks that there is one file for each video, and no unfinished file.
func (s *studio) checkFolders(files string, videos int) {
	s.t.Helper()
	for dir, want := range map[string]int{"tmp": 0, "videos": videos} {
		entries, err := os.ReadDir(filepath.Join(files, dir))
		if err != nil {
			s.t.Fatal(err)
		}
		if len(entries) != want {
			s.t.Errorf("%s holds %d files, want %d", dir, len(entries), want)
		}
	}
}

// charge is the cost of a job.
type charge struct {
	attempts, settled int
	units             int64
	ending            string
}

// charges returns the cost of each job in the database.
func (s *studio) charges(driver, source string) map[string]charge {
	s.t.Helper()
	db, err := sql.Open(driver, source)
	if err != nil {
		s.t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.Query(`SELECT j.id, j.attempts, COUNT(s.id), COALESCE(SUM(s.unit_milli), 0), COALESCE(MIN(s.ending), '')
		FROM video_jobs j LEFT JOIN settlements s ON s.id = j.id GROUP BY j.id, j.attempts`)
	if err != nil {
		s.t.Fatal(err)
	}
	defer rows.Close()
	all := map[string]charge{}
	for rows.Next() {
		var id string
		var c charge
		if err := rows.Scan(&id, &c.attempts, &c.settled, &c.units, &c.ending); err != nil {
			s.t.Fatal(err)
		}
		all[id] = c
	}
	if err := rows.Err(); err != nil {
		s.t.Fatal(err)
	}
	return all
}

// A server is killed at random moments while it makes videos. Every accepted job ends, is charged or refunded
// exactly once, and its file is complete. No unfinished file is left.
func TestVideoKill(t *testing.T) {
	t.Parallel()
	rounds, each, seconds := 3, 4, 1
	if os.Getenv("SLUICE_SOAK") != "" {
		rounds, each = 50, 10
	}
	seed := newSeed(t)
	random := rand.New(rand.NewPCG(seed, 1))
	s := &studio{gateway: newGateway(t, filepath.Join(t.TempDir(), "data"), "lab", ""), asked: map[string]bool{}}
	for round := range rounds {
		s.start()
		if round == 0 {
			s.key = s.newKey()
		}
		within(t, 2*time.Minute, "a shorter queue", func() bool { return s.unfinished() < 5*each })
		before := s.begun()
		for range each {
			s.order("a lighthouse at dusk", seconds)
		}
		begun := before + random.IntN(each+1)
		within(t, 2*time.Minute, "the work on new jobs", func() bool { return s.begun() >= begun })
		s.kill()
	}
	s.start()
	within(t, 5*time.Minute, "the end of all jobs", func() bool { return s.unfinished() == 0 })
	succeeded, attempts := s.check("sqlite", s.sqliteSource(), filepath.Join(s.dir, "files"), "a lighthouse at dusk", seconds)
	s.stop()
	t.Logf("soak: video jobs and kill -9: %d rounds, seed %d, %d jobs, %d succeeded, %d attempts", rounds, seed, len(s.asked), succeeded, attempts)
	if succeeded == 0 || len(s.asked) < rounds*each*9/10 { // an order may time out on a busy machine
		t.Errorf("%d jobs were accepted and %d succeeded, want nearly %d and most of them", len(s.asked), succeeded, rounds*each)
	}
}

// Two processes share a PostgreSQL database and a folder: each job is made once. When one of them is killed, its
// jobs are finished by the other within the lease.
func TestVideoTwoProcesses(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	const lease = 15 * time.Second // a busy machine renews claims in time
	files := filepath.Join(t.TempDir(), "files")
	more := fmt.Sprintf("database: %s\nsecret: one-secret-for-all-nodes-of-this-test\ncluster: approximate\nblob: {dir: %q}\nvideo: {lease: %s}\n", url, files, lease)
	one := &studio{gateway: newGateway(t, filepath.Join(t.TempDir(), "one"), "lab", more), asked: map[string]bool{}}
	two := &studio{gateway: newGateway(t, filepath.Join(t.TempDir(), "two"), "lab", more), asked: one.asked}
	// Together: one that comes later has no part of the limits at first.
	one.launch()
	two.launch()
	one.await()
	two.await()
	one.key = one.newKey()
	two.key = one.key
	eventually(t, "the key's arrival", func() bool { status, _ := two.ask("GET", "/v1/models", ""); return status == 200 })

	const prompt, seconds = "a lighthouse at dusk", 1
	for range 3 {
		one.order(prompt, seconds)
		two.order(prompt, seconds)
	}
	within(t, 5*time.Minute, "the end of all jobs", func() bool { return two.unfinished() == 0 })
	if _, attempts := two.check("pgx", url, files, prompt, seconds); attempts != 6 {
		t.Errorf("6 jobs took %d attempts, want each made once", attempts)
	}

	// A job can end between the look at its claim and the kill: then there is nothing to take over, and the
	// round is repeated.
	const rounds, workers = 10, 2
	for round := 1; ; round++ {
		eventually(t, "work at the one to be killed", func() bool {
			if one.unfinished() < 4*workers {
				one.order(prompt, seconds)
			}
			return one.holds("pgx", url) > 0
		})
		one.kill()
		killed := time.Now()
		eventually(t, "the end of the dead one's claims", func() bool { return one.holds("pgx", url) == 0 })
		t.Logf("the killed one had no job any more after %v; the lease is %v", time.Since(killed).Round(time.Millisecond), lease)
		within(t, 5*time.Minute, "the end of all jobs", func() bool { return two.unfinished() == 0 })
		succeeded, attempts := two.check("pgx", url, files, prompt, seconds)
		if succeeded != len(one.asked) || attempts > len(one.asked)+round*workers {
			t.Errorf("%d of %d jobs succeeded in %d attempts, want all, and one more attempt for each of the killed", succeeded, len(one.asked), attempts)
		}
		if attempts > len(one.asked) {
			break
		}
		if round == rounds {
			t.Fatalf("no job of the killed one was taken over in %d rounds", rounds)
		}
		one.start()
	}
	two.stop()
}

// holds returns how many jobs a process has claimed.
func (s *studio) holds(driver, source string) (n int) {
	s.t.Helper()
	node, err := os.ReadFile(filepath.Join(s.dir, "node"))
	if err != nil {
		s.t.Fatal(err)
	}
	db, err := sql.Open(driver, source)
	if err != nil {
		s.t.Fatal(err)
	}
	defer db.Close()
	if err := db.QueryRow(`SELECT COUNT(*) FROM video_jobs WHERE status = 'running' AND node = $1`, strings.TrimSpace(string(node))).Scan(&n); err != nil {
		s.t.Fatal(err)
	}
	return n
}

// A file whose bytes have changed since it was stored is never delivered as a whole: the download breaks off, and the next
// one says why. That goes for a flipped bit and for a file that has lost its end.
func TestVideoDamaged(t *testing.T) {
	t.Parallel()
	s := &studio{gateway: newGateway(t, filepath.Join(t.TempDir(), "data"), "lab", ""), asked: map[string]bool{}}
	s.start()
	s.key = s.newKey()
	damages := []func([]byte) []byte{
		func(film []byte) []byte { film[0] ^= 1; return film },
		func(film []byte) []byte { film[len(film)/2] ^= 0x10; return film },
		func(film []byte) []byte { film[len(film)-1] ^= 0x80; return film },
		func(film []byte) []byte { return film[:len(film)-1] },
		func(film []byte) []byte { return append(film, 0) },
		func([]byte) []byte { return nil },
	}
	for range damages {
		s.order("a lighthouse at dusk", 1)
	}
	within(t, 2*time.Minute, "the end of all jobs", func() bool { return s.unfinished() == 0 })
	files, err := filepath.Glob(filepath.Join(s.dir, "files", "videos", "*"))
	if err != nil || len(files) != len(damages) {
		t.Fatalf("files = %q, %v, want %d", files, err, len(damages))
	}
	path := func(j videoJob) string { return "/v1/video/generations/" + j.Generations[0].ID + "/content/video" }
	for _, j := range s.jobs() {
		if status, film := s.ask("GET", path(j), ""); status != 200 || len(film) == 0 {
			t.Fatalf("the video of %s = %d with %d bytes, want it whole at first", j.ID, status, len(film))
		}
	}
	for i, file := range files {
		film, err := os.ReadFile(file)
		if err == nil {
			err = os.WriteFile(file, damages[i](film), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, j := range s.jobs() {
		if status, film := s.ask("GET", path(j), ""); status == 200 {
			t.Errorf("a damaged video of %s = 200 with %d bytes, want a download that breaks off", j.ID, len(film))
		}
		if status, text := s.ask("GET", path(j), ""); status != 503 || !strings.Contains(string(text), "is damaged") {
			t.Errorf("the next download of %s = %d %s, want 503 and that it is damaged", j.ID, status, text)
		}
	}
	// Stopped, because the log comes through a pipe, which may be read later than a reply.
	s.stop()
	if n := strings.Count(s.log.String(), "the file of a video is damaged"); n != len(damages) {
		t.Errorf("the log tells of %d damaged files, want %d", n, len(damages))
	}
}
