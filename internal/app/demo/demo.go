// Package demo is a demonstration of the product: the gateway of a small company that does not exist, with a month of
// calls.
//
// Start makes a folder, writes a history into it and starts two gateways on it: that of the company, and one whose sandbox
// models play the vendors. Run serves both, and lets the company's programs make a few calls a minute. The history is
// written by the services and stores of the product, with a clock that is set back; so whatever checks an installation
// finds nothing wrong with it. It is made up from a seed: the same seed at the same time gives the same figures.
//
// A folder that holds anything else is refused, and everything stays on this machine.
package demo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"sluice/internal/app"
	"sluice/internal/app/config"
	"sluice/internal/upstream/discovery"
)

// Options are the choices of Start; the zero value is the default.
type Options struct {
	// Dir is the folder. It is kept. If empty, a temporary one is made, and removed at the end.
	Dir string
	// Listen is the address of the company's gateway. Default 127.0.0.1:8080, or a free port if that is taken.
	Listen string
	// Seed is what the figures are made from. Default 1.
	Seed uint64
	// Size is the share of the usual calls to make up; for tests. Default 1.
	Size float64
	// Now is the present, at which the history ends; for tests. Default time.Now.
	Now func() time.Time
	// Quiet keeps the programs of the company from making calls; for tests.
	Quiet bool
	// Log gets what the company's gateway logs. Default: a file in the folder.
	Log *slog.Logger
}

// usualListen is where a gateway listens.
const usualListen = "127.0.0.1:8080"

// Demo is a demonstration. Start makes it, and Run ends it.
type Demo struct {
	opts      Options
	dir       string
	temporary bool
	note      *note
	logFile   *os.File
	vendors   *app.App
	site      *app.App

	mu       sync.Mutex
	sessions map[string][]*http.Cookie // by the name of the door
}

// Start makes the demonstration and takes its addresses. If it fails, nothing is left behind but a folder that was named.
// opts may be nil.
func Start(ctx context.Context, opts *Options) (_ *Demo, err error) {
	d := &Demo{}
	if opts != nil {
		d.opts = *opts
	}
	d.opts.Seed, d.opts.Size = cmp.Or(d.opts.Seed, 1), cmp.Or(d.opts.Size, 1)
	if d.opts.Now == nil {
		d.opts.Now = time.Now
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.close())
		}
	}()
	if err := d.makeFolder(); err != nil {
		return nil, err
	}
	if d.note, err = claim(d.dir, d.opts.Seed); err != nil {
		return nil, err
	}
	if err := d.openLog(); err != nil {
		return nil, err
	}
	if err := d.startVendors(ctx); err != nil {
		return nil, err
	}
	return d, d.startSite(ctx)
}

// makeFolder finds the folder, or makes a temporary one.
func (d *Demo) makeFolder() (err error) {
	if d.opts.Dir != "" {
		d.dir, err = filepath.Abs(d.opts.Dir)
		return err
	}
	d.dir, err = os.MkdirTemp("", "sluice-demo-")
	d.temporary = err == nil
	return err
}

// openLog opens the log in the folder.
func (d *Demo) openLog() (err error) {
	if d.opts.Log != nil {
		return nil
	}
	if d.logFile, err = os.OpenFile(filepath.Join(d.dir, "demo.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err != nil {
		return fmt.Errorf("open the log of the demonstration: %w", err)
	}
	d.opts.Log = slog.New(slog.NewTextHandler(d.logFile, nil))
	return nil
}

// startVendors starts the gateway that plays the vendors.
func (d *Demo) startVendors(ctx context.Context) error {
	cfg, err := vendorsConfig(d.dir)
	if err != nil {
		return err
	}
	// What the company's gateway logs about its calls is enough.
	if d.vendors, err = d.newApp(ctx, cfg, slog.New(slog.DiscardHandler), nil); err != nil {
		return err
	}
	if key := d.vendors.OwnerKey(); key != "" {
		d.note.Upstream = key
	}
	return nil
}

// newApp starts a gateway that looks for nothing on this machine.
func (d *Demo) newApp(ctx context.Context, cfg *config.Config, log *slog.Logger, pages map[string]http.Handler) (*app.App, error) {
	return app.New(ctx, cfg, &app.Options{Log: log, Servers: []discovery.Server{}, Pages: pages})
}

// startSite writes the history, unless the folder has one, and starts the company's gateway on it.
func (d *Demo) startSite(ctx context.Context) error {
	listen, err := freeAddress(ctx, d.opts.Listen)
	if err != nil {
		return err
	}
	cfg, err := siteConfig(d.dir, listen, d.vendors.Origin(), d.note.Upstream)
	if err != nil {
		return err
	}
	if !d.note.Written {
		if err := writeHistory(ctx, cfg, d.note, d.opts.Now(), d.opts.Size); err != nil {
			return fmt.Errorf("make up the history: %w", err)
		}
		d.note.Written = true
	}
	if err := d.note.write(d.dir); err != nil {
		return err
	}
	d.site, err = d.newApp(ctx, cfg, d.opts.Log, d.pages())
	return err
}

// freeAddress returns the address to listen on: the one that was asked for, the usual one, or a free port.
func freeAddress(ctx context.Context, asked string) (string, error) {
	for _, address := range []string{cmp.Or(asked, usualListen), "127.0.0.1:0"} {
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
		if err == nil {
			// Links of the history name the port, so it must be known before the gateway listens.
			return l.Addr().String(), l.Close()
		}
		if asked != "" {
			return "", err
		}
	}
	return "", errors.New("no port of 127.0.0.1 is free")
}

// Dir returns the folder, which is the data folder of the company's gateway, and whether it is removed at the end.
func (d *Demo) Dir() (path string, temporary bool) { return d.dir, d.temporary }

// Origin returns the URL of the company's gateway.
func (d *Demo) Origin() string { return d.site.Origin() }

// Key returns a key to call with.
func (d *Demo) Key() string { return d.note.Keys[engineering] }

// Run serves until ctx ends, and removes a temporary folder.
func (d *Demo) Run(ctx context.Context) error {
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var upstream sync.WaitGroup
	var vendorsErr error
	upstream.Go(func() { vendorsErr = d.vendors.Run(serving) })
	var calling sync.WaitGroup
	calls, end := context.WithCancel(ctx)
	defer end()
	if !d.opts.Quiet {
		calling.Go(func() { d.work(calls) })
	}
	err := d.site.Run(ctx)
	end()
	calling.Wait()
	d.site = nil
	stop() // after the last call has ended
	upstream.Wait()
	d.vendors = nil
	return errors.Join(err, vendorsErr, d.close())
}

// Abandon ends a demonstration that was never run.
func (d *Demo) Abandon() error { return d.close() }

// close ends what runs and removes a temporary folder.
func (d *Demo) close() error {
	var errs []error
	for _, a := range []*app.App{d.site, d.vendors} {
		if a != nil {
			errs = append(errs, a.Abandon())
		}
	}
	if d.logFile != nil {
		errs = append(errs, d.logFile.Close())
	}
	if d.temporary {
		errs = append(errs, os.RemoveAll(d.dir))
	}
	return errors.Join(errs...)
}
