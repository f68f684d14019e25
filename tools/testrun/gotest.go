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
	"time"
)

// silence is how long nothing may be printed before the reader is told what still runs.
const silence = 20 * time.Second

// goTest runs the tests of the module in dir and reports every package as it ends.
func (s *session) goTest(dir string, args ...string) {
	if s.ctx.Err() != nil {
		return
	}
	// Vet has had its turn.
	line := []string{"test", "-json", "-vet=off"}
	if s.mode.race {
		line = append(line, "-race")
	}
	line = append(line, args...)
	line = append(line, "./...")
	name := "go " + strings.Join(line, " ")
	if dir != s.root {
		name += " in " + filepath.Base(dir)
	}
	fmt.Fprintln(s.out, name)

	cmd := s.command(dir, "go", line...)
	if s.mode.race {
		cmd.Env = append(slices.Clip(s.env), "CGO_ENABLED=1")
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

	before := s.report.failed
	s.follow(stdout)
	if err := cmd.Wait(); err != nil && s.report.failed == before && s.ctx.Err() == nil {
		s.report.failWith(name, err.Error())
	}
}

// follow reads the events of go test until it closes its output.
func (s *session) follow(stdout io.Reader) {
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
				return
			}
			var e event
			if err := json.Unmarshal([]byte(text), &e); err != nil {
				fmt.Fprint(s.out, text) // not an event: something that go itself has to say
				continue
			}
			if o := t.add(e); o != nil {
				s.report.add(o)
				quiet.Reset(silence)
			}
		case <-quiet.C:
			fmt.Fprintf(s.out, "...   %s\n", t.stillRunning(time.Now()))
		}
	}
}

// stillRunning names the packages that have started and not ended, the oldest first.
func (t *tally) stillRunning(now time.Time) string {
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
