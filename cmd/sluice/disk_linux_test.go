package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"
)

// disk is disk space that a test can take away from a running server and give back.
type disk struct {
	dir  string
	fill func(g *gateway)
	free func(g *gateway)
	// drains reports that the database can still store what is in the journal. That does not help: the journal gets
	// no space back.
	drains bool
}

// smallDisk returns a disk that is a small file system in memory.
func smallDisk(t *testing.T) disk {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64m"); err != nil {
		t.Skipf("a small file system cannot be mounted: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
	})
	filler := filepath.Join(dir, "filler")
	return disk{
		dir: dir,
		fill: func(*gateway) {
			f, err := os.Create(filler)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			for _, piece := range []int{1 << 20, 1} { // to the last byte
				for data := make([]byte, piece); err == nil; {
					_, err = f.Write(data)
				}
				if !errors.Is(err, syscall.ENOSPC) {
					t.Fatalf("filling the disk = %v, want that it is full", err)
				}
				err = nil
			}
		},
		free: func(*gateway) {
			if err := os.Remove(filler); err != nil {
				t.Fatal(err)
			}
		},
	}
}

// smallFiles limits the size of the server's files to one segment of the journal, so that no new segment can be
// created and the database cannot grow far.
func smallFiles(t *testing.T) disk {
	t.Helper()
	limit := func(g *gateway, most uint64) {
		const resource = syscall.RLIMIT_FSIZE
		var now syscall.Rlimit
		if err := prlimit(g.cmd.Process.Pid, resource, nil, &now); err != nil {
			t.Fatalf("prlimit: %v", err)
		}
		now.Cur = min(most, now.Max)
		if err := prlimit(g.cmd.Process.Pid, resource, &now, nil); err != nil {
			t.Fatalf("prlimit: %v", err)
		}
	}
	return disk{
		dir:    t.TempDir(),
		fill:   func(g *gateway) { limit(g, 4<<20-1) },
		free:   func(g *gateway) { limit(g, ^uint64(0)) },
		drains: true,
	}
}

// prlimit reads or changes a limit of another process.
func prlimit(pid, resource int, to, from *syscall.Rlimit) error {
	_, _, errno := syscall.RawSyscall6(syscall.SYS_PRLIMIT64, uintptr(pid), uintptr(resource), uintptr(unsafe.Pointer(to)), uintptr(unsafe.Pointer(from)), 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// The disk fills up. Calls that were admitted end and are settled in space that was reserved for them. Then calls
// are refused, with a reason, until there is space again. Nothing has to be restarted.
func TestSettledOnAFullDisk(t *testing.T) {
	t.Parallel()
	for name, newDisk := range map[string]func(*testing.T) disk{"no space": smallDisk, "no larger files": smallFiles} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDisk(t)
			provider := strings.Repeat("lab", 5000) // so long that few calls fill the journal
			g := newGateway(t, filepath.Join(d.dir, "data"), provider, "")
			g.start()
			l := &load{key: g.newKey(), seed: newSeed(t), kinds: []string{"send", "send", "slow", "refuse"}}
			stop, ended := make(chan struct{}), make(chan struct{})
			go func() { defer close(ended); l.run(g.url, 24, stop) }() // a call that an upstream refuses waits before its retry
			eventually(t, "some calls", func() bool { return l.count(complete) > 20 })

			d.fill(g)
			full := time.Now()
			eventually(t, "a refusal", func() bool { return refusedSince(l, full) > 0 })
			passed := len(l.during(full, time.Now())) - refusedSince(l, full)
			if !d.drains { // whatever the database took would make room
				eventually(t, "a database that takes nothing", func() bool { return strings.Contains(g.log.String(), "the database does not accept them") })
			}
			// A call that ends may make room for another one, but not forever.
			eventually(t, "nothing but refusals", func() bool { return l.lastRefused(50) })
			if passed < 200 {
				t.Errorf("%d calls passed on the full disk, want those there was room for", passed)
			}
			eventually(t, "that it is not ready", func() bool { // what it knows may be a second old
				status, body := g.get(g.url + "/readyz")
				return status == 503 && strings.Contains(body, `{"name":"journal","ok":false`)
			})
			if status, body := g.get(g.url + "/healthz"); status != 200 {
				t.Errorf("GET /healthz on a full disk = %d %s, want 200", status, body)
			}

			d.free(g)
			room := time.Now()
			eventually(t, "calls that pass", func() bool { return len(l.during(room, time.Now()))-refusedSince(l, room) > 20 })
			t.Logf("soak: full disk, %s: %d calls passed on it, %d were refused; calls passed again within %v", name, passed, refusedSince(l, full), time.Since(room).Round(time.Millisecond))
			eventually(t, "readiness", func() bool { status, _ := g.get(g.url + "/readyz"); return status == 200 })
			close(stop)
			<-ended
			var admitted []call
			for _, c := range l.calls {
				switch {
				case !c.refused():
					admitted = append(admitted, c)
				case c.status != 503 || c.header.Get("Retry-After") != "5" || !strings.Contains(c.body, "so none is let in. Try again shortly."):
					t.Fatalf("a refusal = %d %s %v, want 503, a clear message and when to try again", c.status, c.body, c.header)
				}
				if !c.refused() && c.how != "refuse" && c.end != complete {
					t.Errorf("a call that was let in (%s %d) came to %s %d %s", c.how, c.words, c.end, c.status, c.body)
				}
			}
			l.calls = admitted // there is nothing to settle of the others
			g.check(l, "sqlite", g.sqliteSource())
			g.stop()
			if strings.Contains(g.log.String(), "a settlement could not be written") {
				t.Errorf("the room that was taken before did not do:\n%s", g.log)
			}
		})
	}
}

// refused reports whether a call was not admitted.
func (c *call) refused() bool {
	return strings.Contains(c.body, "Calls cannot be accounted for at the moment")
}

// lastRefused reports whether the last n calls were not admitted.
func (l *load) lastRefused(n int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.calls) >= n && !slices.ContainsFunc(l.calls[len(l.calls)-n:], func(c call) bool { return !c.refused() })
}

// refusedSince returns how many calls that started after a time were not admitted.
func refusedSince(l *load, from time.Time) (n int) {
	for _, c := range l.during(from, time.Now()) {
		if c.refused() {
			n++
		}
	}
	return n
}

// The disk of the videos alone is full. Calls go on. A job waits for room and is rendered again; one that has been tried
// often enough fails, and its charge is given back. No part of a file is left.
func TestVideosOnAFullDisk(t *testing.T) {
	t.Parallel()
	d := smallDisk(t)
	const prompt, seconds = "a lighthouse at dusk", 1
	s := &studio{gateway: newGateway(t, filepath.Join(t.TempDir(), "data"), "lab", fmt.Sprintf("blob: {dir: %q}\n", d.dir)), asked: map[string]bool{}}
	s.start()
	s.key = s.newKey()
	calls := &load{key: s.key, seed: newSeed(t), kinds: []string{"send"}}
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() { defer close(ended); calls.run(s.url, 2, stop) }()
	d.fill(s.gateway)
	s.order(prompt, seconds)
	eventually(t, "a first attempt", func() bool { return strings.Contains(s.log.String(), "a video job is retried") })
	patient := os.Getenv("SLUICE_SOAK") != ""
	if patient { // five attempts take twenty seconds
		within(t, 2*time.Minute, "the end of the job", func() bool { return s.unfinished() == 0 })
		for id, c := range s.charges("sqlite", s.sqliteSource()) {
			if c.settled != 1 || c.units != 0 || c.ending != "failed" {
				t.Errorf("the job %s failed and is settled as %+v, want it given back", id, c)
			}
		}
	}
	if parts, err := os.ReadDir(filepath.Join(d.dir, "tmp")); err != nil || len(parts) > 1 { // one may be written just now
		t.Errorf("parts of files on the full disk: %v, %v", parts, err)
	}
	d.free(s.gateway)
	room := time.Now()
	if patient {
		s.asked = map[string]bool{}
		s.order(prompt, seconds)
	}
	within(t, 2*time.Minute, "the end of all jobs", func() bool { return s.unfinished() == 0 })
	recovery := time.Since(room).Round(time.Millisecond)
	close(stop)
	<-ended
	for id, j := range s.jobs() {
		if s.asked[id] && j.Status != "succeeded" {
			t.Errorf("the job %s is %s %s, want that it was rendered when there was room", id, j.Status, j.FailureReason)
		}
	}
	s.checkFolders(d.dir, 1)
	for _, c := range calls.calls {
		if c.end != complete {
			t.Errorf("a call while the disk of the videos was full came to %s %d %s", c.end, c.status, c.body)
		}
	}
	if code, out, text := s.command("audit"); code != 0 {
		t.Errorf("sluice audit = %d, want 0\n%s%s", code, out, text)
	}
	s.stop()
	t.Logf("soak: disk of the videos full: %d calls went on; the job was done %v after there was room", len(calls.calls), recovery)
}

// The disk of the log alone is full. Lines are dropped and counted, and nobody waits for them. When there is room, the log
// goes on and says how many are missing.
func TestLogOnAFullDisk(t *testing.T) {
	t.Parallel()
	d := smallDisk(t)
	file := filepath.Join(d.dir, "sluice.log")
	cmd := exec.Command("sluice", "serve", "--data", filepath.Join(t.TempDir(), "data"))
	cmd.Env = append(os.Environ(), "SLUICE_LISTEN=127.0.0.1:0", "SLUICE_METRICS_LISTEN=", "SLUICE_DISCOVER=false", "GORACE="+quickExit, "SLUICE_LOG_FILE="+file, "SLUICE_LOG_MAX_MIB=1")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	l := &logged{t: t, cmd: cmd}
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	})
	text := func() string { text, _ := os.ReadFile(file); return string(text) } // it may not be there yet
	eventually(t, "the start", func() bool { l.url = readyURL(text()); return l.url != "" })
	d.fill(nil)
	l.flood(2000) // so many that the file would be set aside, too; each must be answered
	l.wantNote()
	d.free(nil)
	room := time.Now()
	eventually(t, "a line about those that are missing", func() bool { l.flood(8); return strings.Contains(text(), "log lines were dropped") })
	t.Logf("soak: disk of the log full: lines again %v after there was room", time.Since(room).Round(time.Millisecond))
	l.end()
}
