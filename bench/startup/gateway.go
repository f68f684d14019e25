package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"sluice/bench/process"
)

// gateway is a running "sluice serve".
type gateway struct {
	*process.Process
	addr string
}

// start starts a gateway on the data folder, which it creates if necessary.
func start(ctx context.Context, bin, dir string) (*gateway, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	addr, err := process.FreeAddress()
	if err != nil {
		return nil, err
	}
	p, err := process.Start(ctx, &process.Options{Dir: dir}, bin, "serve", "--data", dir, "--listen", addr, "--metrics-listen", "")
	if err != nil {
		return nil, err
	}
	return &gateway{Process: p, addr: addr}, nil
}

// answers polls every millisecond until the path replies with 200, and returns the time since
// the start of the process.
func (g *gateway) answers(ctx context.Context, path, key string) (time.Duration, error) {
	ctx, cancel := context.WithDeadline(ctx, g.Began().Add(process.Patience))
	defer cancel()
	// Each attempt dials, like a new client would.
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	var last error
	for {
		status, err := ask(ctx, client, "http://"+g.addr+path, key)
		switch {
		case err == nil && status == http.StatusOK:
			return time.Since(g.Began()), nil
		case err == nil:
			last = fmt.Errorf("the last status was %d", status)
		default:
			last = err
		}
		select {
		case <-g.Exited():
			return 0, fmt.Errorf("sluice serve ended before %s answered 200: %w\n%s", path, last, g.Output())
		case <-ctx.Done():
			return 0, fmt.Errorf("%s did not answer 200 within %v: %w", path, process.Patience, last)
		case <-time.After(time.Millisecond):
		}
	}
}

// ask sends one request and returns its status.
func ask(ctx context.Context, client *http.Client, url, key string) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return 0, err
	}
	return resp.StatusCode, nil
}
