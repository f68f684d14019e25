// Command sluice is an inference gateway: one binary that gives programs access to language
// models of many providers behind one OpenAI-compatible API.
//
// Each command is a method in the file of its noun. Commands parse flags, call package app or
// an admin operation, and print the result. Except for serve and the ones that repair a data
// folder, they talk to the running server through its admin socket, or run the same operation
// in process if no server is running; see program.call.
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

// program is one run of the command: its arguments, its environment and its output. Tests run
// it in process with their own.
type program struct {
	args    []string
	environ []string
	stdout  io.Writer
	stderr  io.Writer

	configPath string
	asJSON     bool
	overrides  map[string]string // configuration paths set by flags
}

// run executes one command line and returns the exit code: 0 for success, 1 for a refusal or
// failure, 2 for a mistake in the command line.
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
