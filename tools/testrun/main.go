// Command testrun provides what the tests need, runs the steps that the Makefile gives it, and counts the results.
//
// A step is a shell command, which passes or fails. One that begins with & runs beside the steps after it. $GOTEST in a
// step is go test, run by gotestsum; each of its tests counts.
//
// What is missing is installed with apt-get and npm, after a line that says so; with SLUICE_INSTALL=no nothing is
// installed, and something missing fails the run. Which test needs what is not decided here: a test that misses something
// skips with a message that begins with "needs".
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// run is one run of the command.
type run struct {
	ctx     context.Context
	checks  bool   // provide what only make check and make soak need
	durable bool   // PostgreSQL syncs to disk, as in production: measurements need it, tests are faster without
	strict  bool   // nothing is missing, so a test that skips because of something missing has failed
	runner  string // the path of gotestsum

	mu      sync.Mutex          // of results
	results map[string][]string // what passed, failed, was skipped and was measured
}

// main runs the steps. It exits with 1 if something failed.
func main() {
	// SIGHUP as well: a terminal that closes must not leave PostgreSQL running.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	r := &run{ctx: ctx, results: map[string][]string{}}
	flag.BoolVar(&r.checks, "checks", false, "provide what the race detector and the checks of deploy/ need")
	flag.BoolVar(&r.durable, "durable", false, "let PostgreSQL sync to disk")
	flag.Parse()
	began := time.Now()
	fmt.Print(seed())
	if r.provide() {
		done := r.servers()
		r.steps(flag.Args())
		done()
	}
	if ctx.Err() != nil {
		r.note("failed", "interrupted: what had not ended by then was not checked")
	}
	os.Exit(r.close(began))
}

// steps runs the steps and returns when all have ended.
func (r *run) steps(steps []string) {
	var beside sync.WaitGroup
	defer beside.Wait()
	for i, step := range steps {
		step, parallel := strings.CutPrefix(step, "& ")
		do := func() { r.step(fmt.Sprintf("step %d of %d", i+1, len(steps)), step) }
		if parallel {
			beside.Go(do)
		} else {
			do()
		}
	}
}

// step runs one step. If it has tests, a line says every quarter of a minute what is running and how much is left.
func (r *run) step(title, step string) {
	fmt.Printf("\n=== %s: %s\n", title, excerpt(step))
	events, err := os.CreateTemp("", "sluice-events-")
	if err != nil {
		r.note("failed", step+": "+err.Error())
		return
	}
	defer os.Remove(events.Name())
	defer events.Close()
	cmd := r.start(".", step)
	// make lint runs vet. Most tests wait for a server more than they compute, so more tests of a package run at once than
	// there are cores, but no more packages: servers that wait for a processor miss their deadlines.
	parallel := fmt.Sprintf("-p=%d -parallel=6", runtime.NumCPU())
	cmd.Env = append(os.Environ(), "GOTEST="+r.runner+" --format=pkgname-and-test-fails --format-hide-empty-pkg"+
		" --format-icons=text --hide-summary=skipped,output --jsonfile="+events.Name()+" -- -vet=off -timeout=20m "+parallel)
	ended := make(chan error, 1)
	go func() { ended <- cmd.Run() }()

	t := newTally()
	tick := time.NewTicker(15 * time.Second)
	defer tick.Stop()
	for {
		select {
		case now := <-tick.C:
			t.read(events)
			fmt.Printf("... %s: %s\n", title, t.progress(now, strings.Count(step, " ./")))
		case err := <-ended:
			if r.ctx.Err() != nil {
				return // main reports it
			}
			t.read(events)
			failed := r.add(t)
			switch {
			case err != nil && !failed: // a command may also fail by itself, for example because of a flag
				r.note("failed", excerpt(step)+": "+err.Error())
			case !strings.Contains(step, "$GOTEST"):
				r.note("passed", step)
			}
			return
		}
	}
}

// start prepares a shell command in its own process group. Ending the run interrupts the whole group, so that test
// binaries and what they started end, too.
func (r *run) start(dir, line string) *exec.Cmd {
	cmd := exec.CommandContext(r.ctx, "sh", "-c", line)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	cmd.WaitDelay = 10 * time.Second // for a child that ignores the signal
	return cmd
}

// note adds results of a kind.
func (r *run) note(kind string, what ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.results[kind] = append(r.results[kind], what...)
}

// close prints what was measured, what was skipped, and last what failed and the counts. It returns the exit code.
func (r *run) close(began time.Time) int {
	for _, kind := range []string{"measured", "skipped", "failed"} {
		if lines := r.results[kind]; len(lines) > 0 {
			slices.Sort(lines)
			fmt.Printf("\n%s:\n  %s\n", kind, strings.Join(lines, "\n  "))
		}
	}
	fmt.Print(seed())
	fmt.Printf("\ntotal time: %s\n", time.Since(began).Round(time.Second))
	fmt.Printf("%d passed, %d failed, %d skipped\n", len(r.results["passed"]), len(r.results["failed"]), len(r.results["skipped"]))
	return min(1, len(r.results["failed"]))
}

// seed returns a line with what repeats a soak, at the beginning and where somebody looks for the cause of a failure.
func seed() string {
	if os.Getenv("SLUICE_SEED") == "" {
		return ""
	}
	return "\nSLUICE_SEED=" + os.Getenv("SLUICE_SEED") + "\n"
}

// excerpt returns a step without most of its packages.
func excerpt(step string) string {
	if len(step) > 150 {
		return step[:150] + "…"
	}
	return step
}

// absolute returns a path for commands in other folders.
func absolute(path string) string {
	path, _ = filepath.Abs(path) // fails only without a working directory
	return path
}
