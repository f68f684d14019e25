// Command sluice is an inference gateway: one binary that gives programs access to language models
// of many providers behind one OpenAI-compatible API.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"sluice/internal/datadir"
)

func main() {
	datadir.Umask()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	code := run(ctx, &program{args: os.Args[1:], environ: os.Environ(), stdout: os.Stdout, stderr: os.Stderr})
	stop()
	os.Exit(code)
}

// program is what the outside world gives a run.
type program struct {
	args    []string
	environ []string
	stdout  io.Writer
	stderr  io.Writer

	configPath string
	asJSON     bool
	overrides  map[string]string // configuration paths set by flags
}

// run executes one command line and returns the exit code: 0 done, 1 refused or failed, 2 misused.
func run(ctx context.Context, p *program) int {
	cmd := p.root()
	cmd.SetArgs(p.args)
	cmd.SetOut(p.stdout)
	cmd.SetErr(p.stderr)
	err := cmd.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	code, message := p.explain(err)
	if message != "" {
		fmt.Fprintln(p.stderr, message)
	}
	return code
}
