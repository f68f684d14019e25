package faulttest

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"sluice/internal/app"
	"sluice/internal/app/config"
)

// serveEnv makes the test program a server with the configuration that it names.
const serveEnv = "SLUICE_FAULTTEST_SERVE"

func TestMain(m *testing.M) {
	if file := os.Getenv(serveEnv); file != "" {
		if err := serve(file); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	code := m.Run()
	if err := writeFigures(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// serve runs a server until a signal stops it. It is what "sluice serve" does, with less patience for upstreams that
// fail: each is tried once.
func serve(file string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	cfg, err := config.Load(config.Source{Path: file})
	if err != nil {
		return err
	}
	a, err := app.New(ctx, cfg, &app.Options{Log: slog.New(slog.NewTextHandler(os.Stderr, nil)), Patience: 1})
	if err != nil {
		return err
	}
	go func() { // a server does not outlive the test that has started it
		listenToTest(os.Stdin)
		os.Exit(1)
	}()
	fmt.Printf("ready %s %s %s\n", a.Addr(), a.MetricsAddr(), a.OwnerKey())
	return a.Run(ctx)
}
