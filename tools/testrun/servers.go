package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"

	"sluice/internal/testkit/pgtest"
	"sluice/internal/testkit/redistest"
)

// provide installs what is missing, and compiles the program meanwhile. It reports whether the tests can run.
func (r *run) provide() bool {
	line := "tools/testrun/provide"
	if r.checks {
		line += " checks"
	}
	var building sync.WaitGroup
	defer building.Wait()
	if os.Getenv("SLUICE_INSTALL") != "no" {
		fmt.Println("compiling the program: up to three minutes the first time")
		building.Go(func() { _ = r.start(".", "go build ./...").Run() }) // the tests report what does not build
	}
	err := r.start(".", line).Run()
	r.strict = err == nil
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 3) {
		r.note("failed", line+": "+err.Error())
		return false
	}
	if err != nil {
		r.note("skipped", "what needs packages that could not be installed: see the beginning")
	}
	if os.Getenv("SLUICE_SOAK") != "" {
		os.Setenv("SLUICE_TEST_AGENTS", absolute("oracles/agents"))
	}
	// The go command builds it and says where it keeps it. oracles/ is a workspace, in which go tool takes no other go.mod.
	var path bytes.Buffer
	find := r.start(".", "go tool -modfile=tools/lint/go.mod -n gotestsum")
	find.Stdout = &path
	if err := find.Run(); err != nil {
		r.note("failed", "building gotestsum: "+err.Error())
		return false
	}
	r.runner = strings.TrimSpace(path.String())
	return true
}

// servers starts PostgreSQL and Redis for the time of the run. done stops them.
func (r *run) servers() (done func()) {
	var settings []string
	if r.durable {
		settings = []string{"fsync=on", "full_page_writes=on"}
	}
	stopPostgres := r.serve(pgtest.Env, func(dir string) (server, error) {
		if _, err := pgtest.Find(); err != nil {
			return nil, nil
		}
		return pgtest.Start(dir, settings...)
	})
	stopRedis := r.serve(redistest.Env, func(dir string) (server, error) {
		if _, err := redistest.Find(); err != nil {
			return nil, nil
		}
		return redistest.Start(dir)
	})
	return func() {
		stopPostgres()
		stopRedis()
	}
}

// server is a running server.
type server interface {
	URL() string
	Stop() error
}

// serve starts a server in a new folder and puts its address into an environment variable, unless the caller named one.
func (r *run) serve(variable string, start func(dir string) (server, error)) (stop func()) {
	if os.Getenv(variable) != "" {
		return func() {}
	}
	dir, err := os.MkdirTemp("", "sluice-test-")
	if err != nil {
		r.note("failed", err.Error())
		return func() {}
	}
	s, err := start(dir)
	if err != nil {
		r.note("failed", err.Error())
	}
	if s == nil || err != nil {
		return func() { os.RemoveAll(dir) }
	}
	os.Setenv(variable, s.URL())
	fmt.Printf("%s=%s\n", variable, s.URL())
	return func() {
		if err := s.Stop(); err != nil {
			r.note("failed", err.Error())
		}
		os.RemoveAll(dir)
	}
}
