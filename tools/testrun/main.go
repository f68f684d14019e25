// Command testrun runs the project's checks: it provides what the tests need, starts a temporary
// PostgreSQL and Redis, runs everything in order, and prints a summary at the end.
//
// make test, soak, cover, bench and lint call it. A need that is missing is installed with
// apt-get, after a line that says so. Without apt-get or root the rest runs, and the report names
// what was skipped. With SLUICE_INSTALL=no nothing is installed, and a missing need fails the run.
// Which test needs what is not decided here: a test that misses something skips with a message that
// begins with "needs".
package main

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"sluice/internal/testkit/pgtest"
	"sluice/internal/testkit/redistest"
)

// mode is one way to run; its name is the command's argument. A new mode is a row in modes and a target
// in the Makefile.
type mode struct {
	name string
	plan []string // the steps, printed before the first one
	// takes is about how long the mode runs, as measured on a machine with two cores.
	takes string
	needy bool           // it needs the programs in the table of needs
	run   func(*session) // the steps; failures go to the session's report
	args  []string       // flags of go test
	race  bool           // run with the race detector, if gcc is found
	// durable makes PostgreSQL sync to disk, as in production. Measurements need it; tests are faster without.
	durable bool
}

// modes returns every mode. The plan is printed before the run, so that people know how long it takes
// and what it does before they wait for it.
func modes() []mode {
	return []mode{
		{
			name: "test", run: (*session).test, args: []string{"-timeout", "30m"}, race: true,
			takes: "24 minutes on two cores in a fresh clone, 16 after that", needy: true,
			plan: []string{"lint: go vet, gofumpt, staticcheck", "go test -race in the module, without it where packages only compute, then in oracles/ and tools/manifests/"},
		},
		{
			name: "soak", run: (*session).soak, args: []string{"-timeout", "60m", "-count", "1"}, race: true, durable: true,
			takes: "an hour on two cores", needy: true,
			plan: []string{"lint: go vet, gofumpt, staticcheck", "the same with SLUICE_SOAK=1", "the simulation of a thousand nodes, and the move of a million settlements to PostgreSQL", "beside them each fuzz target for 10 seconds, those of the lane for half an hour"},
		},
		{
			name: "fuzz", run: (*session).fuzz,
			takes: "7 hours on any machine",
			plan:  []string{"each fuzz target for 10 minutes, those of the lane for a quarter of an hour"},
		},
		{
			name: "cover", run: (*session).cover, args: []string{"-timeout", "8m"},
			takes: "10 minutes on two cores", needy: true,
			plan: []string{"go test ./... with coverage, in the module", "coverage by package, and a page to read it on"},
		},
		{
			name: "bench", run: (*session).bench, durable: true,
			takes: "20 minutes on two cores", needy: true,
			plan: []string{"the programs in bench/", "the benchmarks beside the code"},
		},
		{
			name: "lint", run: (*session).lint,
			takes: "2 minutes on two cores",
			plan:  []string{"go vet, gofumpt, staticcheck in the module, then in oracles/ and tools/manifests/"},
		},
	}
}

// main runs the mode that the first argument names and exits with its code.
func main() {
	// SIGHUP as well: a terminal that closes must not leave PostgreSQL running.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	code := start(ctx, os.Args[1:], os.Stdout)
	stop()
	os.Exit(code)
}

// start runs the mode that args name and returns the exit code: 0 if everything passed, 1 if something
// failed, 2 if nothing was run because of a mistake in the command line.
func start(ctx context.Context, args []string, out io.Writer) int {
	var names []string
	for _, m := range modes() {
		names = append(names, m.name)
		if len(args) != 1 || args[0] != m.name {
			continue
		}
		// The commands below need absolute paths, wherever testrun was started.
		root, err := moduleRoot()
		if err != nil {
			fmt.Fprintln(out, err)
			return 2
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		go watchParent(ctx, cancel)
		s := &session{ctx: ctx, mode: m, root: root, out: out, env: os.Environ(), report: newReport(out)}
		return s.start()
	}
	fmt.Fprintf(out, "usage: go run ./tools/testrun %s\n", strings.Join(names, "|"))
	return 2
}

// watchParent calls orphaned when the parent process has ended. A terminated `go run` does not signal
// its child, so the tests would keep running.
func watchParent(ctx context.Context, orphaned func()) {
	parent := os.Getppid()
	// There is no event for this, so it polls. An orphan gets another parent.
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if os.Getppid() != parent {
				orphaned()
				return
			}
		}
	}
}

// session is one run. Its steps run one after the other, so it needs no lock; commands of a step that run at once only
// read it, and write to the report and to out.
type session struct {
	ctx    context.Context
	mode   mode
	root   string // the folder of the main module
	out    io.Writer
	env    []string // of every command that it starts; later entries win
	report *report
	strict bool // every need is met, so a test that skips because of one has failed
}

// start prints the plan, runs the mode and prints the report. It returns the exit code.
func (s *session) start() int {
	fmt.Fprintf(s.out, "Plan: %s, about %s\n", s.mode.name, s.mode.takes)
	for _, line := range s.mode.plan {
		fmt.Fprintf(s.out, "  %s\n", line)
	}
	// Before anything runs: a run that will be incomplete must not take ten minutes to say so.
	if s.mode.needy && s.refuse(needs(s.root)) {
		return s.report.close()
	}
	s.mode.run(s)
	if s.ctx.Err() != nil {
		s.report.failWith("interrupted", "What had not ended by then was not checked.")
	}
	return s.report.close()
}

// test is the mode of make test: everything that must pass before a change is merged.
func (s *session) test() {
	done := s.provide()
	defer done()
	s.testAll()
}

// testAll lints and tests every module.
func (s *session) testAll() {
	s.lint()
	// A module that fails does not keep the next one from running.
	for _, dir := range s.modules() {
		s.goTest(dir, s.mode.args...)
		if dir == s.root && s.report.soaking {
			// These and the other modules leave a processor idle for most of their time.
			var beside sync.WaitGroup
			defer beside.Wait()
			beside.Go(s.large)
			beside.Go(s.withoutLane)
		}
	}
	if !s.report.soaking {
		s.withoutLane()
	}
}

// large runs the tests of a soak that have fewer nodes and accounts under the race detector once more without it.
func (s *session) large() {
	s.goTestPackages(s.root, false, append(slices.Clip(s.mode.args), "-run", "^(TestSimulation|TestMigrate)$"), "./internal/ledger/admission/redisledger", "./internal/app")
}

// soak runs the tests with long durations, and the fuzz targets beside them. Its random choices come from one seed,
// which it prints, so that SLUICE_SEED repeats a failed run.
func (s *session) soak() {
	if os.Getenv("SLUICE_SEED") == "" {
		var b [8]byte
		rand.Read(b[:])
		s.env = append(s.env, "SLUICE_SEED="+strconv.FormatUint(binary.LittleEndian.Uint64(b[:])>>1, 10))
	}
	// Tests read this variable and run for longer.
	s.env = append(s.env, "SLUICE_SOAK=1", "SLUICE_FAULTS_PAGE="+filepath.Join(s.root, "docs", "soak.md"))
	s.report.soaking = true
	// In the summary as well, where somebody looks for the cause of a failure.
	s.report.note("SLUICE_SEED=" + s.value("SLUICE_SEED"))
	fmt.Fprintf(s.out, "  SLUICE_SEED=%s\n", s.value("SLUICE_SEED"))
	fuzzed := s.fuzzBeside()
	done := s.provide()
	defer done()
	s.testAll()
	fuzzed()
}

// provide installs what is missing, where it may, and starts PostgreSQL and Redis. The caller must call
// done at the end, which stops them.
func (s *session) provide() (done func()) {
	var stops []func()
	done = func() {
		for _, stop := range stops {
			stop()
		}
	}
	found, missing := s.ensure(needs(s.root))
	// From here on a test that skips for lack of something has a bug, or the setup does.
	s.strict = len(missing) == 0
	for _, m := range missing {
		s.report.skip(m.need.name+", for "+m.need.purpose, m.reason)
	}
	// Without a C compiler the tests still run; the report names the detector as skipped.
	if s.mode.race && !found["gcc"] {
		s.mode.race = false
	}
	if found["Node.js"] {
		s.nodePackages()
		if s.report.soaking {
			s.agentPackages()
		}
	}
	// A server that the caller names is used as it is.
	if found["PostgreSQL"] && s.value(pgtest.Env) == "" {
		stops = append(stops, s.postgres())
	}
	if found["redis-server"] && s.value(redistest.Env) == "" {
		stops = append(stops, s.redis())
	}
	return done
}

// postgres starts a temporary server and puts its URL into the environment of the tests. Calling stop
// ends it and removes its data. A failure to start it is reported and does not end the run.
func (s *session) postgres() (stop func()) {
	// A new server for each run: leftovers of an earlier run must not matter.
	dir, err := os.MkdirTemp("", "sluice-postgres-")
	if err != nil {
		s.report.failWith("PostgreSQL", err.Error())
		return func() {}
	}
	// pgtest turns syncing off by default.
	var settings []string
	if s.mode.durable {
		settings = []string{"fsync=on", "full_page_writes=on"}
	}
	server, err := pgtest.Start(dir, settings...)
	if err != nil {
		s.report.failWith("PostgreSQL", err.Error())
		return func() { os.RemoveAll(dir) }
	}
	s.env = append(s.env, pgtest.Env+"="+server.URL())
	fmt.Fprintf(s.out, "  %s=%s\n", pgtest.Env, server.URL())
	return func() {
		if err := server.Stop(); err != nil {
			s.report.failWith("PostgreSQL", err.Error())
		}
		os.RemoveAll(dir)
	}
}

// redis starts a temporary server. Calling stop ends it and removes its data.
func (s *session) redis() (stop func()) {
	dir, err := os.MkdirTemp("", "sluice-redis-")
	if err != nil {
		s.report.failWith("redis-server", err.Error())
		return func() {}
	}
	server, err := redistest.Start(dir)
	if err != nil {
		s.report.failWith("redis-server", err.Error())
		return func() { os.RemoveAll(dir) }
	}
	s.env = append(s.env, redistest.Env+"="+server.URL())
	fmt.Fprintf(s.out, "  %s=%s\n", redistest.Env, server.URL())
	return func() {
		if err := server.Stop(); err != nil {
			s.report.failWith("redis-server", err.Error())
		}
		os.RemoveAll(dir)
	}
}

// modules returns the folders of the modules to check, the main one first. The others hold
// tests that compare with other people's code; a copy without them is checked all the same.
func (s *session) modules() []string {
	dirs := []string{s.root}
	for _, name := range []string{"oracles", "tools/manifests"} {
		dir := filepath.Join(s.root, filepath.FromSlash(name))
		if exists(dir, "go.mod") {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// command prepares a command in its own process group. Canceling the run interrupts the whole group,
// so that the test binaries that `go test` started end too.
func (s *session) command(dir, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(s.ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = s.env
	// With its own group, Ctrl-C reaches the children only through Cancel, once.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	// A child that ignores the signal, and keeps the output open, must not hang the run.
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// value returns an environment variable as the commands of this run see it. The last setting counts.
func (s *session) value(name string) string {
	for i := len(s.env) - 1; i >= 0; i-- {
		if v, ok := strings.CutPrefix(s.env[i], name+"="); ok {
			return v
		}
	}
	return ""
}

// moduleRoot returns the nearest folder with a go.mod, starting at the working directory and going up.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("no go.mod here or above: run testrun inside the repository")
		}
		dir = parent
	}
}
