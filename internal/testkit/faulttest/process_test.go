package faulttest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// back makes calls until one is complete, and returns how long that took since a moment.
func (s *server) back(t *testing.T, since time.Time) time.Duration {
	t.Helper()
	eventually(t, "a complete call", func() bool { return s.chat("m", "Go.").end == complete }, func() string { return "" })
	return time.Since(since)
}

// held is a call that an upstream holds in the middle.
type held struct {
	*seen
	nc net.Conn
	in *bufio.Reader
}

// hold makes a call of which the upstream sends so many words and no more, and reads them. Without words it waits until
// the upstream has the call.
func (s *server) hold(t *testing.T, u *ordinary, words int) *held {
	t.Helper()
	reached := u.reached.Load()
	h := &held{seen: &seen{end: cut}, nc: s.dial()}
	h.in = bufio.NewReader(h.nc)
	if _, err := io.WriteString(h.nc, s.request("m", fmt.Sprint("hold ", words))); err != nil {
		t.Fatal(err)
	}
	s.note(h.seen)
	if words == 0 {
		eventually(t, "the call of the upstream", func() bool { return u.reached.Load() > reached }, func() string { return "" })
		return h
	}
	resp, err := http.ReadResponse(h.in, nil)
	if err != nil {
		t.Fatal(err)
	}
	h.id = resp.Header.Get("X-Request-Id")
	for lines := bufio.NewReader(resp.Body); ; {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatalf("in the middle of the stream: %v", err)
		}
		if strings.Contains(line, fmt.Sprintf(`"w%d "`, words-1)) {
			return h
		}
	}
}

// TestKillAtEveryStep kills the server while calls are at a step of their way. After its restart every call that its caller
// saw end is in the books once, and the others at most once.
func TestKillAtEveryStep(t *testing.T) {
	t.Parallel()
	u := newOrdinary(t)
	s := configure(t, u.model())
	s.start()
	for _, step := range []struct {
		name string
		get  func(t *testing.T) net.Conn // brings a call there; nil: nothing is open any more
	}{
		{"before admission", func(t *testing.T) net.Conn {
			t.Helper()
			nc := s.dial()
			request := s.request("m", "Go.")
			_, _ = io.WriteString(nc, request[:len(request)-5])
			return nc
		}},
		{"asked", func(t *testing.T) net.Conn { t.Helper(); return s.hold(t, u, 0).nc }},
		{"first byte", func(t *testing.T) net.Conn { t.Helper(); return s.hold(t, u, 1).nc }},
		{"mid-stream", func(t *testing.T) net.Conn { t.Helper(); return s.hold(t, u, 5).nc }},
		{"last byte", func(t *testing.T) net.Conn { t.Helper(); return s.hold(t, u, 40).nc }},
		{"settled", func(t *testing.T) net.Conn { t.Helper(); s.chat("m", "Go."); return nil }},
		{"committed", func(t *testing.T) net.Conn {
			t.Helper()
			s.chat("m", "Go.")
			eventually(t, "the commit", func() bool { return s.gauge("sluice_journal_records") == 0 }, func() string { return "" })
			return nil
		}},
	} {
		t.Run(step.name, func(t *testing.T) {
			s.begin(t)
			var open []net.Conn
			for range scaled(3, 30) {
				if nc := step.get(t); nc != nil {
					open = append(open, nc)
				}
			}
			killed := time.Now()
			s.kill(syscall.SIGKILL)
			for _, nc := range open {
				_ = nc.Close()
			}
			s.start()
			recovery := s.back(t, killed)
			report(t, "process killed, calls at: "+step.name, s.balance(), recovery)
		})
	}
	s.t = t
	s.kill(syscall.SIGTERM)
}

// TestStopped stops the process for a while. Calls that were running go on.
func TestStopped(t *testing.T) {
	t.Parallel()
	u := newOrdinary(t)
	s := configure(t, u.model())
	s.start()
	s.begin(t)
	ends := make(chan string, 10)
	for range cap(ends) {
		go func() { ends <- s.chat("m", "gated").end }()
	}
	eventually(t, "the streams", func() bool { return s.gauge("sluice_streams_open") == 10 }, func() string { return "" })
	_ = s.cmd.Process.Signal(syscall.SIGSTOP)
	hurry := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 500 * time.Millisecond}
	answers := func() bool {
		resp, err := hurry.Get("http://" + s.addr + "/healthz")
		if err == nil {
			_ = resp.Body.Close()
		}
		return err == nil
	}
	eventually(t, "the stop", func() bool { return !answers() }, func() string { return "" })
	for range scaled(1, 59) { // for as long as nobody gets an answer
		if answers() {
			t.Error("a process that is stopped has answered")
		}
	}
	_ = s.cmd.Process.Signal(syscall.SIGCONT)
	close(u.gate)
	resumed := time.Now()
	for range cap(ends) {
		if end := <-ends; end != complete {
			t.Errorf("a call ended as %s, want complete", end)
		}
	}
	recovery := s.back(t, resumed)
	report(t, "process stopped and continued", s.balance(), recovery)
	s.kill(syscall.SIGTERM)
}

// TestOutOfDescriptors takes all descriptors of the process. Calls work again when some are free.
func TestOutOfDescriptors(t *testing.T) {
	t.Parallel()
	u := newOrdinary(t)
	s := configure(t, u.model())
	s.limits = "ulimit -n 100"
	s.start()
	s.begin(t)
	s.back(t, time.Now())
	var open []net.Conn
	for range 200 {
		nc, err := net.DialTimeout("tcp", s.addr, time.Second)
		if err != nil {
			break
		}
		open = append(open, nc)
	}
	hurry := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 500 * time.Millisecond}
	for range 5 { // whatever becomes of them
		if resp, err := hurry.Get("http://" + s.addr + "/healthz"); err == nil {
			_ = resp.Body.Close()
		}
	}
	for _, nc := range open {
		_ = nc.Close()
	}
	freed := time.Now()
	recovery := s.back(t, freed)
	report(t, "process out of descriptors", s.balance(), recovery)
	s.kill(syscall.SIGTERM)
}

// TestLittleMemory gives the process less memory than its calls would like. They are slower, and complete.
func TestLittleMemory(t *testing.T) {
	t.Parallel()
	u := newOrdinary(t)
	s := configure(t, u.model())
	s.limits = "export GOMEMLIMIT=40MiB"
	s.start()
	s.begin(t)
	prompt := strings.Repeat("word ", 100_000)
	together(scaled(10, 100), func(int) {
		if c := s.chat("m", prompt); c.end != complete && c.status != http.StatusServiceUnavailable {
			t.Errorf("a call ended as %s %d %.200s, want complete or 503", c.end, c.status, c.body)
		}
	})
	recovery := s.back(t, time.Now())
	report(t, "process with little memory", s.balance(), recovery)
	s.kill(syscall.SIGTERM)
}

// TestTwoProcesses starts a second process on the folder of a running one. It refuses, and the first goes on.
func TestTwoProcesses(t *testing.T) {
	t.Parallel()
	u := newOrdinary(t)
	s := configure(t, u.model())
	s.start()
	s.begin(t)
	second := &server{t: t, dir: s.dir, log: &text{}}
	if err := second.tryStart(); err == nil {
		second.kill(syscall.SIGKILL)
		t.Fatal("two servers run on one data folder")
	}
	if !strings.Contains(second.log.String(), "another") {
		t.Errorf("the second server says %q, want that another one is running", second.log)
	}
	recovery := s.back(t, time.Now())
	report(t, "process started twice on one folder", s.balance(), recovery)
	s.kill(syscall.SIGTERM)
}

// TestNothingToWriteTo starts a server whose data folder cannot be written. It says so and ends.
func TestNothingToWriteTo(t *testing.T) {
	t.Parallel()
	s := configure(t, "")
	// A file where the folder would be: also root cannot write into it.
	if err := errors.Join(os.RemoveAll(s.data()), os.WriteFile(s.data(), nil, 0o400)); err != nil {
		t.Fatal(err)
	}
	if err := s.tryStart(); err == nil {
		t.Fatal("a server started without a data folder")
	}
	if log := s.log.String(); !strings.Contains(log, s.data()) || strings.Contains(log, "panic") {
		t.Errorf("it says %q, want the folder's name and no panic", log)
	}
	report(t, "process without a folder to write to", tally{}, 0)
}
