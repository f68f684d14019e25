package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"

	"sluice/internal/account"
	"sluice/internal/app"
	"sluice/internal/app/config"
	"sluice/internal/kit/buildinfo"
	"sluice/internal/kit/telemetry"
)

// serveCmd starts the server. Its flags exist for quick tries; everything can be set in the
// configuration file as well. Only settings that people change to try something out have one.
func (p *program) serveCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "serve", Short: "Run the gateway", Args: args(),
		Long: `Run the gateway until it is interrupted.

On the first start, it creates the owner account and, on a
terminal, prints its master key once. SIGHUP or a change of the configuration
file reloads the configuration without dropping requests.`,
		RunE: func(c *cobra.Command, _ []string) error { return p.serve(c.Context()) },
	}
	// The texts name the defaults by hand, because the configuration owns them.
	p.override(cmd.Flags(), "listen", "listen", "`address` to serve the API on (default 127.0.0.1:8080)")
	p.override(cmd.Flags(), "metrics-listen", "metrics_listen", "`address` to serve metrics on; empty turns them off (default 127.0.0.1:9090)")
	p.override(cmd.Flags(), "database", "database", "\"sqlite\" or a postgres:// `URL` (default sqlite)")
	p.override(cmd.Flags(), "public-url", "public_url", "`origin` under which callers reach this server")
	return cmd
}

// serve runs the gateway until ctx is done, then drains and stops it. It returns nil after a
// shutdown that was asked for.
func (p *program) serve(ctx context.Context) error {
	// What is not named is here: only commands look for the installation of the machine.
	p.found = true
	cfg, err := p.load()
	if err != nil {
		return err
	}
	// A reload of the configuration can change the level.
	level := &slog.LevelVar{}
	// Only the server needs it: other commands end before it would matter.
	paceCollector()
	// A reader of our output that ends must not end us. Other commands keep the default: their output
	// is all that they do.
	signal.Ignore(syscall.SIGPIPE)
	to, err := logTo(cfg, p.stderr)
	if err != nil {
		return err
	}
	log := telemetry.OpenLog(to, logAsJSON(cfg, to), level)
	defer log.Close()
	// Start opens the database and the listeners, so a port that is taken fails here, before anything is
	// printed.
	a, err := app.Start(ctx, cfg, &app.Options{Log: log.Logger, Output: log, Level: level, Load: p.load, Alone: true})
	if err != nil && ctx.Err() != nil {
		return nil // stopped before there was anything to stop
	}
	if err != nil {
		return err
	}
	// Only the first start on a data folder creates the owner.
	if key := a.OwnerKey(); key != "" {
		p.welcome(a, cfg.Data, key)
	}
	// Before the line below: a signal that answers it must be counted.
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGHUP, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	// Scripts and tests wait for this line.
	log.Info("sluice is ready", "version", buildinfo.Version(), "url", a.Origin(), "data", cfg.Data, "database", databaseName(cfg), "metrics", a.MetricsAddr())
	// Run starts the rest; then the server is idle until it is called.
	settled := time.AfterFunc(settleTime, releasePages)
	defer settled.Stop()

	done := make(chan struct{})
	// Deferred functions run in reverse: done is closed first, then serve waits. So no reload runs
	// after Run.
	var listening sync.WaitGroup
	defer listening.Wait()
	defer close(done)
	listening.Go(func() { obey(a, signals, done) })
	return a.Run(ctx)
}

// settleTime is when a server has done what it does once after its start.
const settleTime = time.Second

// obey does what signals ask for until done is closed. SIGHUP reloads the configuration. The first
// signal to stop ends the context of the command and is only counted here; the second ends the delay
// of the stop. A further one, or a second one when the delay is over, has its default effect: it ends
// the process.
func obey(a *app.App, signals <-chan os.Signal, done <-chan struct{}) {
	stops := 0
	for {
		select {
		case <-done:
			return
		case s := <-signals:
			if s == syscall.SIGHUP {
				_ = a.Reload() // Reload logs its errors
				continue
			}
			if stops++; stops > 1 && !a.Hasten() {
				signal.Reset(s)
				endBy(s)
			}
		}
	}
}

// welcome prints the owner's key, but only to a terminal: output that is redirected usually
// ends in a log file. Without a terminal it prints the commands that give the key and a link.
func (p *program) welcome(a *app.App, data, key string) {
	// Services and containers end here. Their operator runs the commands where a terminal is.
	if !isTerminal(p.stdout) {
		here := thisProcess()
		telemetry.Tell(p.stdout, "Created the owner account. For its key, run:\n\n  "+p.hint(here, data, "key regenerate-master")+
			"\n\nFor a link that signs you in to the dashboard once, run:\n\n  "+p.hint(here, data, "signin-link "+account.OwnerEmail)+"\n\n")
		return
	}
	// Everything that a person needs to try the service, ready to paste.
	fmt.Fprintf(p.stdout, `Welcome to Sluice. This is the master key of the owner account. It is shown only once:

  %s

Try it:

  curl %s/v1/models -H "Authorization: Bearer %s"

To open the dashboard, use this link. It works once:

  %s

The guide is at %s/docs/guide. The API reference is at %s/docs.

`, key, a.Origin(), key, a.OwnerLink(), a.Origin(), a.Origin())
}

// databaseName returns the kind of database for the log. The URL itself may hold a password,
// so it must not be logged.
func databaseName(cfg *config.Config) string {
	if cfg.Database == "sqlite" {
		return "sqlite"
	}
	return "postgres"
}

// logAsJSON reports whether the log is written as JSON: as configured, or for "auto" if w is
// not a terminal. Programs read such a log, and people read the other.
func logAsJSON(cfg *config.Config, w io.Writer) bool {
	switch cfg.Log.Format {
	case "json":
		return true
	case "text":
		return false
	}
	return !isTerminal(w)
}

// logTo returns what the log is written to: the configured file, or stderr. The file is closed with
// the process: until then a line may come.
func logTo(cfg *config.Config, stderr io.Writer) (io.Writer, error) {
	if cfg.Log.File == "" {
		return stderr, nil
	}
	rules := telemetry.Rotation{MaxBytes: int64(cfg.Log.MaxMiB) << 20, MaxAge: cfg.Log.MaxAge, Keep: cfg.Log.Keep}
	file, err := telemetry.OpenLogFile(cfg.Log.File, rules, nil)
	if err != nil {
		return nil, fmt.Errorf("log.file: %w", err)
	}
	return file, nil
}

// isTerminal reports whether w is a terminal. In tests w is a buffer.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}
