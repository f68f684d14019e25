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

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"

	"sluice/internal/account"
	"sluice/internal/app"
	"sluice/internal/buildinfo"
	"sluice/internal/config"
	"sluice/internal/telemetry"
)

func (p *program) serveCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "serve", Short: "Run the gateway", Args: args(),
		Long: `Run the gateway until it is interrupted.

The first start on an empty data folder creates the owner account and, on a
terminal, shows its master key once. SIGHUP, or a change of the configuration
file, reloads the configuration without dropping a request.`,
		RunE: func(c *cobra.Command, _ []string) error { return p.serve(c.Context()) },
	}
	p.override(cmd.Flags(), "listen", "listen", "`address` to serve the API on (default 127.0.0.1:8080)")
	p.override(cmd.Flags(), "metrics-listen", "metrics_listen", "`address` to serve metrics on; empty: off (default 127.0.0.1:9090)")
	p.override(cmd.Flags(), "database", "database", "\"sqlite\" or a postgres:// `URL` (default sqlite)")
	p.override(cmd.Flags(), "public-url", "public_url", "`origin` under which callers reach this server")
	return cmd
}

func (p *program) serve(ctx context.Context) error {
	cfg, err := p.load()
	if err != nil {
		return err
	}
	level := &slog.LevelVar{}
	paceCollector()
	log, flush := telemetry.NewLogger(p.stderr, logAsJSON(cfg, p.stderr), level)
	defer flush()
	a, err := app.New(ctx, cfg, &app.Options{Log: log, Level: level, Load: p.load})
	if err != nil {
		return err
	}
	if key := a.OwnerKey(); key != "" {
		p.welcome(a, key)
	}
	log.Info("sluice is ready", "version", buildinfo.Version, "url", a.Origin(), "data", cfg.Data, "database", databaseName(cfg), "metrics", a.MetricsAddr())

	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	done := make(chan struct{})
	var reloading sync.WaitGroup
	defer reloading.Wait()
	defer close(done)
	reloading.Go(func() {
		for {
			select {
			case <-hangup:
				_ = a.Reload() // logged there
			case <-done:
				return
			}
		}
	})
	return a.Run(ctx)
}

// welcome shows the owner's key where a person, and nobody else, can read it.
func (p *program) welcome(a *app.App, key string) {
	if !isTerminal(p.stdout) {
		fmt.Fprintln(p.stdout, "The owner account has been created. Run \"sluice key regenerate-master\" on this machine to get a key,")
		fmt.Fprintf(p.stdout, "and \"sluice signin-link %s\" to sign in to the dashboard.\n", account.OwnerEmail)
		return
	}
	fmt.Fprintf(p.stdout, `Welcome to Sluice. This is the master key of the owner account, shown this once:

  %s

Try it:

  curl %s/v1/models -H "Authorization: Bearer %s"

Open the dashboard with this link, which is good once:

  %s

The API reference is at %s/docs.

`, key, a.Origin(), key, a.OwnerLink(), a.Origin())
}

func databaseName(cfg *config.Config) string {
	if cfg.Database == "sqlite" {
		return "sqlite"
	}
	return "postgres"
}

func logAsJSON(cfg *config.Config, w io.Writer) bool {
	switch cfg.Log.Format {
	case "json":
		return true
	case "text":
		return false
	}
	return !isTerminal(w)
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}
