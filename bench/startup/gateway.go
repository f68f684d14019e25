package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
	"time"
)

// patience is how long a gateway may take to start or stop before we give up on it.
const patience = 30 * time.Second

// gateway is a running `sluice serve`.
type gateway struct {
	cmd    *exec.Cmd
	addr   string
	began  time.Time
	log    bytes.Buffer // read only once exited is closed
	exited chan struct{}
}

// start starts a gateway on the data folder, which it makes where there is none.
func start(ctx context.Context, bin, dir string) (*gateway, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	addr, err := freeAddress()
	if err != nil {
		return nil, err
	}
	g := &gateway{addr: addr, exited: make(chan struct{})}
	g.cmd = exec.CommandContext(ctx, bin, "serve", "--data", dir, "--listen", addr, "--metrics-listen", "")
	g.cmd.Dir = dir
	g.cmd.Env = environment(dir)
	g.cmd.Stdout, g.cmd.Stderr = &g.log, &g.log
	g.began = time.Now()
	if err := g.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		g.cmd.Wait()
		close(g.exited)
	}()
	return g, nil
}

// answers asks every millisecond until the path answers 200, and returns the time since the start.
func (g *gateway) answers(ctx context.Context, path, key string) (time.Duration, error) {
	ctx, cancel := context.WithDeadline(ctx, g.began.Add(patience))
	defer cancel()
	// Each try is a new client's: it dials.
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	var last error
	for {
		status, err := ask(ctx, client, "http://"+g.addr+path, key)
		switch {
		case err == nil && status == http.StatusOK:
			return time.Since(g.began), nil
		case err == nil:
			last = fmt.Errorf("the last status was %d", status)
		default:
			last = err
		}
		select {
		case <-g.exited:
			return 0, fmt.Errorf("sluice serve ended before %s answered 200: %w\n%s", path, last, g.log.Bytes())
		case <-ctx.Done():
			return 0, fmt.Errorf("%s did not answer 200 within %v: %w", path, patience, last)
		case <-time.After(time.Millisecond):
		}
	}
}

// ask makes one request and returns its status.
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

var residentSize = regexp.MustCompile(`(?m)^VmRSS:\s+(\d+) kB$`)

// memory is the process's resident set in bytes, as Linux counts it.
func (g *gateway) memory() (int64, error) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(g.cmd.Process.Pid), "status"))
	if err != nil {
		return 0, err
	}
	m := residentSize.FindSubmatch(text)
	if m == nil {
		return 0, errors.New("no VmRSS in the process's status")
	}
	kilobytes, err := strconv.ParseInt(string(m[1]), 10, 64)
	return kilobytes * 1024, err
}

// stop ends the process and waits for it.
func (g *gateway) stop() {
	for _, sig := range []os.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		g.cmd.Process.Signal(sig) // an error says that it is gone already
		select {
		case <-g.exited:
			return
		case <-time.After(patience):
		}
	}
}

// environment of the processes: nothing of the caller's own configuration reaches them.
func environment(dir string) []string {
	return []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir}
}

// stderrOf is what a failed command wrote to its standard error.
func stderrOf(err error) []byte {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.Stderr
	}
	return nil
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}
