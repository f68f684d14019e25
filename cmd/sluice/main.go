// Command sluice is an inference gateway: one binary that gives programs access to language
// models of many providers behind one OpenAI-compatible API.
//
// Each command is a method in the file of its noun. It parses flags, calls package app or an
// admin operation, and prints the result. Commands about accounts, keys, billing and usage
// talk to the running server through its admin socket. If no server is running, the same
// operation runs in process on the data folder; see program.call.
//
// Nothing here decides anything about accounts, money or requests: a rule that stood in a
// command would not hold for the dashboard or the API. Output for people goes to stdout in
// tables. With --json commands print one JSON value instead, for scripts. Errors go to stderr.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"

	"sluice/internal/kit/datadir"
	"sluice/internal/kit/telemetry"
	"sluice/internal/operate/admin"
)

// main runs one command with the arguments and the environment of the process.
func main() { start("") }

// start is main on a machine whose root folder is machine; tests have their own.
func start(machine string) {
	// Before anything is created: files of the data folder must be private.
	datadir.Umask()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal starts a graceful shutdown. After that signals have their default
	// effect, so a second one ends the process immediately; a server first leaves out the delay of
	// its stop, see obey.
	context.AfterFunc(ctx, stop)
	// os.Exit skips deferred functions, so nothing here is deferred.
	code := run(ctx, &program{args: os.Args[1:], environ: os.Environ(), stdout: os.Stdout, stderr: os.Stderr, machine: machine})
	stop()
	os.Exit(code)
}

// program is one run of the command: its arguments, its environment and its output. Tests run
// it in process with their own.
type program struct {
	// args is the command line without the name of the program. environ has the form KEY=VALUE and takes
	// the place of the process's environment everywhere in this package.
	args    []string
	environ []string
	stdout  io.Writer
	stderr  io.Writer

	// machine is the root folder of the machine, whose installation is used where there is no other.
	machine string

	ops *admin.Operations // what commands run; see root

	// The flags of every command; see root.
	configPath string
	asJSON     bool
	server     string // the address of another server; empty: the one on the data folder
	token      string // a staff token for that server
	// overrides holds the configuration paths that flags set, with their values. Flags come last,
	// after the file and the environment.
	overrides map[string]string
	// found says that find has decided which installation the command is about.
	found bool
}

// run executes one command line and returns the exit code; see exitCode. It never calls os.Exit, so
// deferred functions of commands always run.
func run(ctx context.Context, p *program) int {
	cmd := p.root()
	cmd.SetArgs(p.args)
	cmd.SetOut(p.stdout)
	cmd.SetErr(p.stderr)
	addCompletion(cmd)
	err := cmd.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	// The message may be empty; the exit code says enough then.
	code, message := p.explain(err)
	if message != "" {
		telemetry.Tell(p.stderr, message+"\n") // a server whose reader has stalled must still end
	}
	return code
}
