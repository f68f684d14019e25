// Command testrun runs the project's checks. It provides what the tests need, starts a
// temporary PostgreSQL, runs everything in order, and prints a report.
//
// make test, soak, cover, bench and lint call it. Missing programs are installed with apt-get
// if that is allowed. Otherwise the rest of the tests run, and the report lists what was
// skipped. This command does not decide what a test needs: a test says so itself, by skipping
// with a message that begins with "needs".
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
	"strconv"
	"strings"
	"syscall"
	"time"

	"sluice/internal/pgtest"
)

// mode is one way to run the command. Its name is the command-line argument.
type mode struct {
	name string
	// plan is printed before the run, one line for each step.
	plan []string
	run  func(*session)
	// args are passed to go test.
	args []string
	race bool
	// durable makes PostgreSQL sync its writes to disk. Timings without it would be too good.
	durable bool
}

// modes returns all modes.
func modes() []mode {
	return []mode{
		{
			name: "test", run: (*session).test, args: []string{"-timeout", "12m"}, race: true,
			plan: []string{"lint: go vet, gofumpt, staticcheck", "go test -race in the module, without it where packages only compute, then in oracles/"},
		},
		{
			name: "soak", run: (*session).soak, args: []string{"-timeout", "60m", "-count", "1"}, race: true, durable: true,
			plan: []string{"lint: go vet, gofumpt, staticcheck", "the same with SLUICE_SOAK=1", "each fuzz target for 10 seconds"},
		},
		{
			name: "cover", run: (*session).cover, args: []string{"-timeout", "8m"},
			plan: []string{"go test ./... with coverage, in the module", "coverage by package, and a page to read it on"},
		},
		{
			name: "bench", run: (*session).bench, durable: true,
			plan: []string{"the programs in bench/", "the benchmarks beside the code"},
		},
		{
			name: "lint", run: (*session).lint,
			plan: []string{"go vet, gofumpt, staticcheck in the module, then in oracles/"},
		},
	}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	code := start(ctx, os.Args[1:], os.Stdout)
	stop()
	os.Exit(code)
}

// start runs the mode that args name and returns the exit code: 0 for success, 1 for failed
// checks, 2 for a usage error.
func start(ctx context.Context, args []string, out io.Writer) int {
	var names []string
	for _, m := range modes() {
		names = append(names, m.name)
		if len(args) != 1 || args[0] != m.name {
			continue
		}
		root, err := moduleRoot()
		if err != nil {
			fmt.Fprintln(out, err)
			return 2
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		// cancel ends the run like an interrupt does.
		go watchParent(ctx, cancel)
		s := &session{ctx: ctx, mode: m, root: root, out: out, env: os.Environ(), report: newReport(out)}
		return s.start()
	}
	fmt.Fprintf(out, "usage: go run ./tools/testrun %s\n", strings.Join(names, "|"))
	return 2
}

// watchParent calls orphaned when the parent process has ended. A terminated "go run" does not
// signal its child, so the tests would go on without anybody waiting for them.
func watchParent(ctx context.Context, orphaned func()) {
	parent := os.Getppid()
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

// session is one run.
type session struct {
	ctx  context.Context
	mode mode
	root string
	out  io.Writer
	// env is the environment of every command that the session starts.
	env    []string
	report *report
	// strict reports that everything a test may need is there, so that none may skip.
	strict bool
}

// start prints the plan, runs the mode and returns the exit code.
func (s *session) start() int {
	fmt.Fprintf(s.out, "Plan: %s\n", s.mode.name)
	for _, line := range s.mode.plan {
		fmt.Fprintf(s.out, "  %s\n", line)
	}
	// The steps report to s.report; they return nothing.
	s.mode.run(s)
	if s.ctx.Err() != nil {
		s.report.fail("interrupted")
	}
	return s.report.close()
}

// test runs lint and the tests of all modules.
func (s *session) test() {
	done := s.provide()
	defer done()
	s.lint()
	for _, dir := range s.modules() {
		s.goTest(dir, s.mode.args...)
	}
}

// soak runs the tests with their long variants, then the fuzz targets. The seed is printed, so
// that a failed run can be repeated.
func (s *session) soak() {
	if os.Getenv("SLUICE_SEED") == "" {
		var b [8]byte
		rand.Read(b[:])
		s.env = append(s.env, "SLUICE_SEED="+strconv.FormatUint(binary.LittleEndian.Uint64(b[:])>>1, 10))
	}
	s.env = append(s.env, "SLUICE_SOAK=1")
	s.report.soaking = true
	s.report.note("SLUICE_SEED=" + s.value("SLUICE_SEED"))
	fmt.Fprintf(s.out, "  SLUICE_SEED=%s\n", s.value("SLUICE_SEED"))
	s.test()
	s.fuzz()
}

// provide looks for what the tests need, installs what is missing, and starts PostgreSQL. The
// returned function stops it again and must be called.
func (s *session) provide() (done func()) {
	done = func() {}
	found, missing := s.ensure(needs(s.root))
	s.strict = len(missing) == 0
	for _, m := range missing {
		s.report.skip(m.need.name+", for "+m.need.purpose, m.reason)
	}
	// Without a C compiler the tests still run, only without the race detector.
	if s.mode.race && !found["gcc"] {
		s.mode.race = false
	}
	if found["Node.js"] {
		s.nodePackages()
	}
	// A server that the caller provides is used instead of our own.
	if found["PostgreSQL"] && s.value(pgtest.Env) == "" {
		done = s.postgres()
	}
	return done
}

// postgres starts the server of this run. The returned function stops it and removes its data.
func (s *session) postgres() (stop func()) {
	dir, err := os.MkdirTemp("", "sluice-postgres-")
	if err != nil {
		s.report.failWith("PostgreSQL", err.Error())
		return func() {}
	}
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

// modules returns the directories of the modules to check, the main one first.
func (s *session) modules() []string {
	dirs := []string{s.root}
	oracles := filepath.Join(s.root, "oracles")
	if _, err := os.Stat(filepath.Join(oracles, "go.mod")); err == nil {
		dirs = append(dirs, oracles)
	}
	return dirs
}

// command prepares a program in its own process group. Canceling the run interrupts the whole
// group, so that the test binaries below "go test" end, too.
func (s *session) command(dir, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(s.ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = s.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	// After the interrupt, tests have 10 seconds to clean up before they are killed.
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// value returns an environment variable as the started commands will see it: the last entry
// wins.
func (s *session) value(name string) string {
	for i := len(s.env) - 1; i >= 0; i-- {
		if v, ok := strings.CutPrefix(s.env[i], name+"="); ok {
			return v
		}
	}
	return ""
}

// moduleRoot returns the nearest directory, from here upwards, with a go.mod.
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
