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

// lint runs the static checks: formatting, vet and staticcheck.
func (s *session) lint() {
	// The versions of the tools are pinned in their own module, so that the product's go.mod
	// lists only what the product uses.
	pinned := "-modfile=" + filepath.Join(s.root, "tools", "lint", "go.mod")
	// gofumpt -l succeeds even if files are not formatted, so its output decides.
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

// check runs a command as one check and reports the result. It fails if the command fails, or
// if verdict finds a problem in its output. verdict may be nil.
func (s *session) check(name string, cmd *exec.Cmd, verdict func(stdout string) error) (passed bool) {
	if s.ctx.Err() != nil {
		return false
	}
	began := time.Now()
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

// tell prints from time to time that something is still running, until quiet is called.
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
