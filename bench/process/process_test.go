package process_test

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"sluice/bench/process"
)

func needsLinux(t *testing.T) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("what a process uses is read the way Linux shows it")
	}
}

// A program that computes is seen to do so, and ends when it is told to.
func TestProcess(t *testing.T) {
	t.Parallel()
	needsLinux(t)
	p, err := process.Start(t.Context(), &process.Options{Dir: t.TempDir()}, "sh", "-c", "pwd; while :; do :; done")
	if err != nil {
		t.Fatalf("Start = %v", err)
	}
	defer p.Stop()
	for deadline := time.After(process.Patience); ; {
		cpu, err := p.CPU()
		if err != nil {
			t.Fatalf("CPU() = %v", err)
		}
		if cpu > 0 && cpu < process.Patience {
			break
		}
		select {
		case <-deadline:
			t.Fatalf("CPU() = %v of a program that computes without end", cpu)
		case <-p.Exited():
			t.Fatalf("the program ended and printed %q", p.Output())
		case <-time.After(time.Millisecond):
		}
	}
	if n, own, err := p.Memory(); own > n || err != nil || n < 100<<10 || n > 100<<20 {
		t.Errorf("Memory() = %d, %v, want that of a shell", n, err)
	}
	p.Stop()
	select {
	case <-p.Exited():
	default:
		t.Fatal("the program runs after Stop")
	}
	if !strings.HasPrefix(p.Output(), "/") {
		t.Errorf("Output() = %q, want the working folder", p.Output())
	}
	if _, err := p.CPU(); err == nil {
		t.Error("CPU() of a program that has ended = nil, want an error")
	}
	if _, _, err := p.Memory(); err == nil {
		t.Error("Memory() of a program that has ended = nil, want an error")
	}
}

// What children use is the program's.
func TestChildren(t *testing.T) {
	t.Parallel()
	needsLinux(t)
	p, err := process.Start(t.Context(), nil, "sh", "-c", "trap 'kill $!; exit' TERM; (while :; do :; done) & wait")
	if err != nil {
		t.Fatalf("Start = %v", err)
	}
	defer p.Stop()
	for deadline := time.After(process.Patience); ; {
		cpu, err := p.CPU()
		if err != nil {
			t.Fatalf("CPU() = %v", err)
		}
		if cpu >= 50*time.Millisecond { // more than a shell that waits
			break
		}
		select {
		case <-deadline:
			t.Fatalf("CPU() = %v of a program whose child computes without end", cpu)
		case <-time.After(time.Millisecond):
		}
	}
	if n, err := p.Files(); err != nil || n < 6 || n > 100 {
		t.Errorf("Files() = %d, %v, want those of two shells", n, err)
	}
}

func TestAllowFiles(t *testing.T) {
	t.Parallel()
	needsLinux(t)
	// As many as anybody has, and more than anybody may have.
	for _, n := range []int{1, 1 << 40} {
		if got, err := process.AllowFiles(n); err != nil || got < 1 || n == 1<<40 && got >= n {
			t.Errorf("AllowFiles(%d) = %d, %v", n, got, err)
		}
	}
}

func TestSleepUntil(t *testing.T) {
	t.Parallel()
	until := time.Now().Add(5 * time.Millisecond)
	process.SleepUntil(until)
	if time.Now().Before(until) {
		t.Errorf("SleepUntil(%v) returned early", until)
	}
}

func TestStartOfNothing(t *testing.T) {
	t.Parallel()
	if _, err := process.Start(t.Context(), nil, t.TempDir()); err == nil {
		t.Error("Start of a folder = nil, want an error")
	}
}

// A command that fails is told with what it printed.
func TestRun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	out, err := process.Run(t.Context(), "sh", dir, "-c", `echo "$0 $1"`)
	if got, want := string(out), "--data "+dir+"\n"; err != nil || got != want {
		t.Errorf("Run = %q, %v, want %q", got, err, want)
	}
	if _, err := process.Run(t.Context(), "sh", dir, "-c", "echo why >&2; exit 3"); err == nil || !strings.Contains(err.Error(), "why") {
		t.Errorf("Run of a failing command = %v, want what it printed", err)
	}
	if _, err := process.MasterKey(t.Context(), "true", dir); err == nil || !strings.Contains(err.Error(), "no key") {
		t.Errorf("MasterKey of a program that prints nothing = %v, want an error", err)
	}
}
