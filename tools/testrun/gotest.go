package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// silence is how long nothing is printed before testrun prints what is still running. A run that looks
// dead is interrupted by people and by CI systems.
const silence = 20 * time.Second

// parallel is how many tests of a package run at once. Most of them wait for a server more than they compute, so
// there are more than cores.
const parallel = "6"

// unraced lists the packages that are tested without the race detector: packages that compute, which it
// slows down tenfold, and the command and the cluster, whose parts run together under it in the tests of app. The module
// oracles is not tested with it either, because most of it is other people's code.
var unraced = []string{"./cmd/...", "./api/...", "./bench/...", "./tools/...", "./internal/testkit/archtest", "./internal/account/billing/...", "./internal/testkit/clustertest", "./internal/store/sqlstore/...", "./sandbox/clips/..."}

// unwatched lists the packages whose memory accesses the race detector does not watch in any test. Calls into them are
// still watched. SQLite and its libraries are C translated to Go: watching them takes two fifths of the time of all tests
// with a database, and what could be found there is not ours to mend. Package scene draws pictures, package tokens
// splits words; neither shares what it changes, and both take many times as long when they are watched.
var unwatched = []string{"modernc.org/libc", "modernc.org/memory", "modernc.org/sqlite/lib", "sluice/internal/prompt/tokens", "sluice/sandbox/clips/scene"}

// longest are packages that must not be the last ones of a soak: faulttest puts the server under load, with faults, for
// twenty minutes, and two nodes for another twenty; usage damages journals for four minutes on one processor.
var longest = []string{"sluice/internal/testkit/faulttest", "sluice/internal/ledger/usage"}

// goTest runs the tests of the module in dir and reports every package as it ends. args are flags of go
// test.
func (s *session) goTest(dir string, args ...string) {
	if !s.mode.race || dir != s.root {
		s.goTestPackages(dir, false, args, "./...")
		return
	}
	// Two commands, because -race applies to all packages of one.
	raced, err := s.packages(dir, unraced)
	if err != nil {
		s.report.failWith("go list", err.Error())
		return
	}
	if !s.report.soaking {
		s.goTestPackages(dir, true, args, raced...)
		s.goTestPackages(dir, false, args, unraced...)
		return
	}
	// go test starts packages in this order.
	raced = slices.Insert(slices.DeleteFunc(raced, func(p string) bool { return slices.Contains(longest, p) }), 0, longest...)
	// The longest tests of both wait for most of their time.
	var both sync.WaitGroup
	both.Go(func() { s.goTestPackages(dir, true, args, raced...) })
	both.Go(func() { s.goTestPackages(dir, false, args, unraced...) })
	both.Wait()
}

// served lists the packages whose tests send requests to the whole server.
var served = []string{"./internal/api/httpapi", "./internal/api/httpserver", "./internal/app", "./cmd/sluice"}

// withoutLane runs the tests of the server again with net/http for all requests: http1_lane: off must
// always be a way out. The rounds are short even in a soak.
func (s *session) withoutLane() {
	off := *s
	off.env = append(slices.Clip(s.env), "SLUICE_HTTP1_LANE=off", "SLUICE_SOAK=")
	off.goTestPackages(off.root, false, off.mode.args, served...)
}

// packages returns the packages of the module without those that the patterns in but match.
func (s *session) packages(dir string, but []string) ([]string, error) {
	list := func(patterns ...string) ([]string, error) {
		out, err := s.command(dir, "go", append([]string{"list"}, patterns...)...).Output()
		return strings.Fields(string(out)), err
	}
	all, err := list("./...")
	if err != nil {
		return nil, err
	}
	left, err := list(but...)
	return slices.DeleteFunc(all, func(p string) bool { return slices.Contains(left, p) }), err
}

// goTestPackages runs one "go test -json" and reports its packages. A command that fails without a
// failed package, for example because of a flag, is reported as a failure of its own.
func (s *session) goTestPackages(dir string, race bool, args []string, packages ...string) {
	if s.ctx.Err() != nil {
		return
	}
	// lint has already run vet.
	line := []string{"test", "-json", "-vet=off"}
	if race {
		line = append(line, "-race")
	}
	line = append(line, args...)
	// The tests of oracles share a server, and those of a soak keep the machine busy by themselves.
	if dir == s.root && !s.report.soaking {
		line = append(line, "-parallel", parallel)
	}
	shown := line
	if race {
		for _, p := range unwatched {
			line = append(line, "-gcflags="+p+"=-race=false")
		}
	}
	line = append(slices.Clip(line), packages...)
	name := fmt.Sprintf("go %s for %d packages", strings.Join(shown, " "), len(packages))
	// A long list of packages would hide the flags.
	if len(packages) < 10 {
		name = "go " + strings.Join(line, " ")
	}
	if dir != s.root {
		name += " in " + filepath.Base(dir)
	}
	fmt.Fprintln(s.out, name)

	cmd := s.command(dir, "go", line...)
	if race {
		// The race detector needs cgo, which the project otherwise turns off. It also waits for a second before a
		// process ends, for goroutines that are about to report a race; all tests wait for theirs. Clip, so that s.env
		// keeps its own array.
		cmd.Env = append(slices.Clip(s.env), "CGO_ENABLED=1", "GORACE=atexit_sleep_ms=10")
	}
	cmd.Stderr = s.out
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		s.report.failWith(name, err.Error())
		return
	}

	// To tell a command that failed because of a test from one that failed by itself.
	failed := s.follow(stdout)
	if err := cmd.Wait(); err != nil && !failed && s.ctx.Err() == nil {
		s.report.failWith(name, err.Error())
	}
}

// follow reads the events of go test until it closes its output, reports each package as it ends, and returns whether one
// has failed. A goroutine reads, so that follow can say what is running while nothing comes.
func (s *session) follow(stdout io.Reader) (failed bool) {
	// ReadString and not a Scanner: a test may print a line of any length.
	lines := make(chan string)
	go func() {
		defer close(lines)
		for r := bufio.NewReader(stdout); ; {
			text, err := r.ReadString('\n')
			if text != "" {
				lines <- text
			}
			if err != nil {
				return
			}
		}
	}()

	t := newTally(s.strict)
	quiet := time.NewTicker(silence)
	defer quiet.Stop()
	for {
		select {
		case text, ok := <-lines:
			if !ok {
				return failed
			}
			var e event
			if err := json.Unmarshal([]byte(text), &e); err != nil {
				fmt.Fprint(s.out, text) // not an event: output of the go command itself
				continue
			}
			if o := t.add(e); o != nil {
				s.report.add(o)
				failed = failed || o.failed
				quiet.Reset(silence)
			}
		case <-quiet.C:
			fmt.Fprintf(s.out, "...   %s\n", t.stillRunning(time.Now()))
		}
	}
}

// stillRunning names the packages whose tests are running, the one that started first at the beginning.
func (t *tally) stillRunning(now time.Time) string {
	// go test sends no events while it compiles.
	if len(t.running) == 0 {
		return "building"
	}
	paths := slices.SortedFunc(maps.Keys(t.running), func(a, b string) int {
		return t.running[a].began.Compare(t.running[b].began)
	})
	for i, path := range paths {
		paths[i] = fmt.Sprintf("%s for %.0fs", path, now.Sub(t.running[path].began).Seconds())
	}
	return "running " + strings.Join(paths, ", ")
}
