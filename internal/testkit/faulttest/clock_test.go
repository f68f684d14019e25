package faulttest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice/internal/operate/admin"
)

// listenToTest does what the test says on the standard input: "step N" puts the clock N seconds ahead of the machine's.
// It returns when the test has ended.
func listenToTest(in io.Reader) {
	for lines := bufio.NewScanner(in); lines.Scan(); {
		var seconds int64
		if _, err := fmt.Sscanf(lines.Text(), "step %d", &seconds); err == nil && stepped != nil {
			*stepped = seconds
		}
	}
}

// step puts the clock of the server ahead of the machine's, or behind it, and waits until it shows in replies.
func (s *server) step(by time.Duration) {
	s.t.Helper()
	if _, err := fmt.Fprintf(s.stdin, "step %d\n", int64(by.Seconds())); err != nil {
		s.t.Fatal(err)
	}
	eventually(s.t, "the step of the clock", func() bool {
		resp, err := client.Get("http://" + s.addr + "/healthz")
		if err != nil {
			return false
		}
		_ = resp.Body.Close()
		at, err := http.ParseTime(resp.Header.Get("Date"))
		return err == nil && time.Until(at).Round(10*time.Minute) == by
	}, func() string { return "" })
}

// unlocked makes a call every two seconds until one passes, and returns how long that took.
func (s *server) unlocked() time.Duration {
	s.t.Helper()
	began := time.Now()
	tick := time.NewTicker(2 * time.Second)
	defer tick.Stop()
	for s.chat("m", "Go.").end != complete {
		if <-tick.C; time.Since(began) > 2*patience {
			s.t.Fatalf("no call has passed for %v", 2*patience)
		}
	}
	return time.Since(began)
}

// TestClockStepped steps the clock of a running server by an hour, forward and back. The program reads the clock without
// the C library, so the standard library is changed instead: the test builds itself with a package time whose Now can be
// put ahead, and runs there.
func TestClockStepped(t *testing.T) {
	t.Parallel()
	if stepped != nil {
		stepBesides(t)
		stepClock(t)
		return
	}
	if !soaking() {
		t.Skip("soak tests run with make soak: everything is built again")
	}
	out, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(strings.TrimSpace(string(out)), "src", "time", "time.go")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	const reads = "	sec, nsec, mono := runtimeNow()\n"
	now := strings.Index(string(text), "func Now() Time {\n"+reads)
	if now < 0 {
		t.Fatalf("%s has no such function Now", file)
	}
	code := string(text[:now]) + strings.Replace(string(text[now:]), reads, reads+"	sec += Stepped\n", 1) + "\n// Stepped is how many seconds Now is ahead.\nvar Stepped int64\n"
	cmd := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-v", "-vet=off", "-overlay", overlay(t, file, code), "-tags", "sluice_steps_clock", "-run", "^TestClockStepped$", ".")
	cmd.Env = append(os.Environ(), figuresEnv+"=")
	said, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(said), "soak: ") {
		t.Fatalf("with a clock that can be stepped: %v\n%s", err, said)
	}
	_, row, _ := strings.Cut(string(said), "soak: ")
	row, _, _ = strings.Cut(row, "\n")
	keep(t, row)
}

// stepClock is the test in a program whose clock can be stepped.
func stepClock(t *testing.T) {
	const allowed = 20 // calls a minute
	u := newOrdinary(t)
	s := configure(t, u.model())
	text, err := os.ReadFile(s.file())
	if err == nil {
		limited := fmt.Sprintf("plans: {scale: {requests_per_minute: %d, concurrent: 10, tokens_per_minute: unlimited}}\n", allowed)
		err = os.WriteFile(s.file(), []byte(strings.Replace(string(text), unlimited, limited, 1)), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	s.start()
	s.begin(t)
	admitted := 0
	drain := func() (passed int) { // makes calls until one is refused
		t.Helper()
		for {
			switch c := s.chat("m", "Go."); {
			case c.end == complete:
				passed++
			case c.status == http.StatusTooManyRequests:
				admitted += passed
				return passed
			default:
				t.Fatalf("a call ended as %s %d %.200s", c.end, c.status, c.body)
			}
		}
	}
	minute := time.Now()
	ends := make(chan string, 2)
	for range cap(ends) { // they run through all steps
		go func() { ends <- s.chat("m", "gated").end }()
	}
	eventually(t, "the streams", func() bool { return s.gauge("sluice_streams_open") == float64(cap(ends)) }, func() string { return "" })
	if passed := drain(); passed != allowed-cap(ends) {
		t.Errorf("%d calls passed, want %d", passed, allowed-cap(ends))
	}
	for _, by := range []time.Duration{time.Hour, -time.Hour, 0} {
		s.step(by)
		// The minute of a limit is one of the monotonic clock, so a step makes no room.
		if passed := drain(); passed > 0 && time.Since(minute) < time.Minute {
			t.Errorf("%d calls passed at once after a step to %v, want none: the minute is not over", passed, by)
		}
	}
	close(u.gate)
	for range cap(ends) {
		if end := <-ends; end != complete {
			t.Errorf("a call that ran through the steps ended as %s, want complete", end)
		}
	}
	// Nor does a step lock anybody out: a minute later the next calls pass, whatever the clock says then.
	recovery := time.Duration(0)
	for _, by := range []time.Duration{time.Hour, -time.Hour} {
		s.step(by)
		recovery = max(recovery, s.unlocked())
		drain()
	}
	for _, c := range s.calls {
		if c.id == "" || c.end != complete {
			continue
		}
		if r := s.inBooks(c.id); r != nil && (r.LatencyMS < 0 || r.LatencyMS > patience.Milliseconds() || r.FirstTokenMS < 0 || r.FirstTokenMS > r.LatencyMS) {
			t.Errorf("the call %s took %d ms, %d ms to its first token; want what it took", r.ID, r.LatencyMS, r.FirstTokenMS)
		}
	}
	n := s.balance()
	// A process that starts again while the clock is an hour back, as this one does now, finds its books.
	s.step(time.Hour)
	s.kill(syscall.SIGKILL)
	s.start()
	if took := s.unlocked(); took > 70*time.Second {
		t.Errorf("the first call passed %v after the restart, want a minute at most", took)
	}
	s.balance()
	report(t, "process whose clock is stepped by an hour", n, recovery)
	s.kill(syscall.SIGTERM)
}

// stepBesides steps the clock while a video is rendered, whose claim lasts for seconds, and while somebody is signed in.
func stepBesides(t *testing.T) {
	s := configure(t, "")
	s.start()
	s.begin(t)
	ask := func(c *http.Client, method, address, kind, body string) (int, string) {
		t.Helper()
		req, err := http.NewRequest(method, address, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", kind)
		if req.Header.Set("Origin", "http://"+s.addr); c == client {
			req.Header.Set("Authorization", "Bearer "+s.key)
		}
		resp, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(text)
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{Jar: jar, Timeout: patience, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	var link admin.SignInLink
	s.call("signin-link", admin.Target{Actor: "t", Ref: "owner@localhost"}, &link)
	u, err := url.Parse(link.URL)
	if err != nil {
		t.Fatal(err)
	}
	site := "http://" + s.addr
	if status, text := ask(browser, http.MethodPost, site+u.Path, "application/x-www-form-urlencoded", u.RawQuery); status != http.StatusSeeOther {
		t.Fatalf("signing in = %d %.300s", status, text)
	}
	jobs := site + "/v1/video/generations/jobs"
	status, text := ask(client, http.MethodPost, jobs, "application/json", `{"prompt":"a lighthouse at dusk","width":1280,"height":720,"n_seconds":20}`)
	var job struct{ ID, Status string }
	if err := json.Unmarshal([]byte(text), &job); err != nil || status != http.StatusOK {
		t.Fatalf("a video = %d %s", status, text)
	}
	state := func() string {
		_, text := ask(client, http.MethodGet, jobs+"/"+job.ID, "", "")
		if err := json.Unmarshal([]byte(text), &job); err != nil {
			t.Fatalf("the video = %s", text)
		}
		return job.Status
	}
	eventually(t, "the work on a video", func() bool { return state() != "queued" }, state)
	for _, by := range []time.Duration{time.Hour, -time.Hour, 0} {
		s.step(by)
		t.Logf("the video is %s after a step to %v", state(), by)
		if status, text := ask(browser, http.MethodGet, site+"/dashboard", "", ""); status != http.StatusOK {
			t.Errorf("the dashboard after a step to %v = %d %.300s, want that the session lasts", by, status, text)
		}
	}
	eventually(t, "the video", func() bool { return state() == "succeeded" }, state)
	eventually(t, "an empty journal", func() bool { return s.gauge("sluice_journal_records") == 0 }, func() string { return "" })
	if n := s.requests() - s.from; n != 1 {
		t.Errorf("the video is in the books %d times, want once", n)
	}
	var audit admin.Audit
	if s.call("audit", admin.Empty{}, &audit); len(audit.Differences) != 0 {
		t.Errorf("the audit = %+v, want no difference", audit)
	}
	s.kill(syscall.SIGTERM)
}
