package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"sluice/bench/process"
)

// rival is another gateway that is compared with ours. Its version is that of bench/rivals/go.mod.
type rival struct {
	name, program string
	// lag is how long it defers work by default.
	lag time.Duration
	// environment is its configuration; it calls the upstream with this base URL.
	environment func(port, baseURL, key string) []string
}

// rivalsOf returns the other gateways. They keep their defaults, except for what would make them do work that ours does not do,
// or call a host that is not this machine.
func rivalsOf() []rival {
	return []rival{{
		name: "gomodel", program: "github.com/enterpilot/gomodel/cmd/gomodel", lag: 6 * time.Second,
		environment: func(port, baseURL, key string) []string {
			return []string{
				"PORT=" + port, "GOMODEL_MASTER_KEY=" + key, "OPENAI_API_KEY=upstream", "OPENAI_BASE_URL=" + baseURL,
				"OPENAI_MODELS=" + upstreamModel, "CONFIGURED_PROVIDER_MODELS_MODE=allowlist", // the fake upstream has no list
				"MODEL_LIST_URL=http://127.0.0.1:1/",                    // its default is a file at GitHub
				"LOGGING_LOG_BODIES=false", "LOGGING_LOG_HEADERS=false", // we log no prompts
			}
		},
	}}
}

// startAll starts what the function of this name starts, and with others nginx, where it is installed, and if asked for, the
// other gateways. They stand behind the upstream itself; the floor and the gateway are always the last two.
func (p plan) startAll(ctx context.Context, self, bin, scratch string, others bool, out io.Writer, more ...string) (targets []*target, stop func(), err error) {
	targets, stopOwn, err := startAll(ctx, self, bin, scratch, more...)
	var running []*target
	stop = func() {
		for _, t := range running {
			t.Stop()
		}
		stopOwn()
	}
	if err != nil {
		return targets, stop, err
	}
	// The gateway is the only one of ours that defers work.
	gateway := targets[len(targets)-1]
	gateway.lag, gateway.secure.lag = p.lag, p.lag
	if !others {
		return targets, stop, nil
	}
	add := func(t *target, err error) error {
		if t != nil && t.Process != nil {
			running = append(running, t)
		}
		if err != nil {
			return err
		}
		targets = slices.Insert(targets, len(targets)-2, t)
		return nil
	}
	if nginx, err := exec.LookPath("nginx"); err != nil {
		fmt.Fprintln(out, "nginx is not installed")
	} else if err := add(startNginx(ctx, nginx, targets[0].addr, filepath.Join(scratch, "nginx"))); err != nil {
		return targets, stop, err
	}
	if !p.rivals {
		return targets, stop, nil
	}
	for _, r := range rivalsOf() {
		if err := add(r.start(ctx, targets[0].addr, filepath.Join(scratch, r.name))); err != nil {
			return targets, stop, err
		}
	}
	return targets, stop, nil
}

// startNginx starts nginx in front of the upstream, as a proxy that reads and checks nothing.
func startNginx(ctx context.Context, program, upstream, folder string) (*target, error) {
	addr, err := process.FreeAddress()
	if err != nil {
		return nil, err
	}
	text := fmt.Sprintf(`daemon off; worker_processes 2; worker_rlimit_nofile 65536; pid %[1]s/pid; error_log %[1]s/error.log warn;
events { worker_connections 32768; }
http { access_log off; keepalive_requests 100000000; client_max_body_size 0; client_body_buffer_size 8m;
  client_body_temp_path %[1]s/b; proxy_temp_path %[1]s/p; fastcgi_temp_path %[1]s/f; uwsgi_temp_path %[1]s/u; scgi_temp_path %[1]s/s;
  upstream up { server %[2]s; keepalive 2048; keepalive_requests 100000000; }
  server { listen %[3]s backlog=4096;
    location / { proxy_pass http://up; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off; proxy_read_timeout 120s; } } }
`, folder, upstream, addr)
	file := filepath.Join(folder, "nginx.conf")
	// The folder is for the workers, too, which are another user.
	if err := errors.Join(os.MkdirAll(folder, 0o755), os.WriteFile(file, []byte(text), 0o600)); err != nil {
		return nil, err
	}
	t := &target{name: "nginx", addr: addr, model: upstreamModel, key: floorKey}
	return t, t.launch(ctx, &process.Options{Dir: folder}, program, "-e", "stderr", "-c", file)
}

// start builds and starts another gateway in front of the upstream.
func (r rival) start(ctx context.Context, upstream, folder string) (*target, error) {
	data := filepath.Join(folder, "data")
	if err := os.MkdirAll(data, 0o700); err != nil {
		return nil, err
	}
	bin := filepath.Join(folder, r.name)
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", bin, r.program)
	build.Dir, build.Env = filepath.Join("bench", "rivals"), append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	if text, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("building %s: %w\n%s", r.name, err, text)
	}
	addr, err := process.FreeAddress()
	if err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(addr) // it has a port
	t := &target{name: r.name, addr: addr, model: upstreamModel, key: rand.Text(), lag: r.lag}
	return t, t.launch(ctx, &process.Options{Dir: folder, Env: r.environment(port, "http://"+upstream+"/v1", t.key)}, bin)
}

// launch starts the target's program and waits until it replies.
func (t *target) launch(ctx context.Context, opts *process.Options, program string, args ...string) (err error) {
	log, err := os.Create(filepath.Join(opts.Dir, t.name+".log"))
	if err != nil {
		return err
	}
	defer log.Close() // the program has its own descriptor
	opts.Output = log
	if t.Process, err = process.Start(ctx, opts, program, args...); err != nil {
		return err
	}
	// A program may listen before it is ready.
	for deadline := t.Began().Add(process.Patience); ; {
		err := t.probe(ctx)
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) || wait(ctx, 100*time.Millisecond) != nil {
			text, _ := os.ReadFile(log.Name()) // a part of it is enough
			return fmt.Errorf("%w\n%s", err, text)
		}
	}
}

// gauge returns a value of the target's metrics, or 0 if it has none.
func (t *target) gauge(ctx context.Context, name string) float64 {
	if t.metrics == "" {
		return 0
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+t.metrics+"/metrics", nil)
	if err != nil {
		return 0
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), "\n"+name+" ")
	value, _, _ := strings.Cut(rest, "\n")
	n, _ := strconv.ParseFloat(value, 64) // 0 if there is none
	return n
}

// ledger stops the gateway, and compares the settlements in its database with the replies that its callers got. Each whole reply
// must have its row.
func ledger(ctx context.Context, gateway *target, data string, out io.Writer) error {
	answered := gateway.answered.Load()
	if gateway.secure != nil {
		answered += gateway.secure.answered.Load()
	}
	gateway.Stop()
	file := filepath.Join(data, "sluice.db")
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		fmt.Fprintln(out, "ledger: the program that was measured has none")
		return nil
	}
	db, err := sql.Open("sqlite", "file:"+file)
	if err != nil {
		return err
	}
	defer db.Close()
	var settled int64
	if err := db.QueryRowContext(ctx, `SELECT COUNT(*) FROM settlements`).Scan(&settled); err != nil {
		return err
	}
	fmt.Fprintf(out, "\nledger: %d calls of the gateway, %d settlements in its database\n", answered, settled)
	if settled != answered {
		return errors.New("the ledger and the calls differ")
	}
	return nil
}
