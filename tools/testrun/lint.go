package main

import (
	"bytes"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// lint runs the checks that need no test: vet, formatting, static analysis. All of them run even if one
// fails, so that one run shows everything.
func (s *session) lint() {
	// The versions of the tools are pinned in a module of their own, so that the product's go.mod
	// names only what the product uses.
	pinned := "-modfile=" + filepath.Join(s.root, "tools", "lint", "go.mod")
	// gofumpt has no exit code for files that are not formatted; it lists them.
	s.check("gofumpt", s.command(s.root, "go", "tool", pinned, "gofumpt", "-l", "."), func(out string) error {
		if out != "" {
			return errors.New("these files are not formatted: run make fmt")
		}
		return nil
	})
	for _, dir := range s.modules() {
		where := ""
		if dir != s.root {
			where = " in " + filepath.Base(dir)
		}
		s.check("go vet"+where, s.command(dir, "go", "vet", "./..."), nil)
		s.check("staticcheck"+where, s.command(dir, "go", "tool", pinned, "staticcheck", "./..."), nil)
	}
}

// check runs a command and reports it as one check. The check fails if the command does, or if verdict
// returns an error for what the command printed. A nil verdict accepts every output.
func (s *session) check(name string, cmd *exec.Cmd, verdict func(stdout string) error) (passed bool) {
	// After an interrupt every command would fail, and the report would name them all.
	if s.ctx.Err() != nil {
		return false
	}
	began := time.Now()
	// Kept apart: verdict judges what the tool prints as its result.
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	quiet := s.tell(name)
	err := cmd.Run()
	quiet()
	if err == nil && verdict != nil {
		err = verdict(stdout.String())
	}
	if err != nil {
		text := strings.TrimRight(stderr.String()+stdout.String(), "\n")
		s.report.failWith(name, text+"\n"+err.Error())
		return false
	}
	s.report.pass(name, time.Since(began))
	return true
}

// tell prints every 20 seconds that something is still running, until quiet is called. quiet waits for
// the goroutine, so that no line appears after it.
func (s *session) tell(name string) (quiet func()) {
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		began := time.Now()
		tick := time.NewTicker(silence)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case now := <-tick.C:
				fmt.Fprintf(s.out, "...   %s for %.0fs\n", name, now.Sub(began).Seconds())
			}
		}
	})
	return func() {
		close(stop)
		wg.Wait()
	}
}
